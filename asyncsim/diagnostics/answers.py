"""Returns of a batch and answers of a language model: entropy, lengths, solved groups, samples of the texts."""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.base.parts import real
from asyncsim.diagnostics._diagnostic import ANY, POSITIVE, READS, SHARE, finished, metric
from asyncsim.step.step import Step

_AT = real(1.0, "reward from which on a sample is solved", remedy="give a reward")


@metric("in tokens", POSITIVE, "textbook", subject="batch")
def response_length(step: Step) -> Tensor:
    """Mean number of tokens in the responses of the batch.

    L = E_i of the tokens that the policy chose, the token that ends a response among them. Groups that the method drops
    count too. Blind to what was cut off; see `truncated`.
    """
    return step.batch_mean(step.batch.lengths)


@metric("a pure number in [0, 1]", SHARE, "textbook", subject="batch")
def truncated(step: Step) -> Tensor:
    """Fraction of responses that had not ended at the horizon.

    share = E_i [no stop within T tokens], for language tasks; 0 for others, whose trajectories end at the horizon.
    Groups that the method drops count too. Blind to how much longer the responses would have been.
    """
    batch = step.batch
    if not hasattr(step.task, "read"):
        return torch.zeros(len(batch.action), dtype=torch.float64)
    cut = [not answer.ended for answer in step.task.read(batch.action, batch.mask)]
    return step.batch_mean(torch.tensor(cut, dtype=batch.mask.dtype).reshape(batch.reward.shape))


def _groups(step: Step, at: float | None) -> tuple[Tensor, Tensor]:
    """Groups `[R, G]` in which all samples are solved, and in which none is; without `at`, those of unequal rewards."""
    batch = step.batch.generated
    there, reward = (batch.mass > 0).expand_as(batch.reward), batch.reward
    if at is None:
        high = torch.where(there, reward, -torch.inf).amax(-1)
        return (high > torch.where(there, reward, torch.inf).amin(-1)).double(), high
    solved = reward >= at
    return (solved | ~there).all(-1).double(), (~solved | ~there).all(-1).double()


@metric("a pure number in [0, 1]", SHARE, "textbook", subject="batch")
def solved_groups(step: Step, at: Any = _AT) -> Tensor:
    """Fraction of groups in the batch whose samples are all solved.

    share = mean over groups of [r_i >= at for every sample i]. Such a group has no advantage under a baseline of its
    mean. Groups that the method drops count too. Blind to prompts whose share of solved samples is high but not 1.
    """
    return _groups(step, at)[0].mean(-1)


@metric("a pure number in [0, 1]", SHARE, "textbook", subject="batch")
def unsolved_groups(step: Step, at: Any = _AT) -> Tensor:
    """Fraction of groups in the batch without a solved sample.

    share = mean over groups of [r_i < at for every sample i]. Groups that the method drops count too. Blind to partial
    rewards below `at`.
    """
    return _groups(step, at)[1].mean(-1)


@metric("a pure number in [0, 1]", SHARE, "textbook", subject="batch")
def mixed_groups(step: Step) -> Tensor:
    """Fraction of groups in the batch whose samples have different rewards.

    share = mean over groups of [max_i r_i > min_i r_i]: the groups that a baseline of the group's mean learns from.
    Groups that the method drops count too. Blind to how different the rewards are.
    """
    return _groups(step, None)[0].mean(-1)


COLUMNS = ("prompt", "response", "reward", "staleness", "ended")
"""What is kept of a sample."""


@dataclass
class Texts:
    """Samples of a run's prompts and answers; see `texts`."""

    samples: int
    every: int
    update: list[int] = field(default_factory=list, repr=False)
    rows: dict[str, list[np.ndarray]] = field(default_factory=dict, repr=False)

    name = "texts"
    outputs = ()
    axes: ClassVar[dict[str, tuple[str, ...]]] = {f"texts/{name}": ("row", "sample") for name in ("update", *COLUMNS)}

    def fresh(self) -> "Texts":
        """An empty accumulator with the same settings."""
        return dataclasses.replace(self, update=[], rows={})

    def observe(self, step: Step) -> None:
        """Keep the first samples of a batch: one per group, then a second one per group, and so on."""
        if step.update % self.every:
            return
        batch = step.batch
        R, G, N, T = batch.action.shape[:4]
        chosen = torch.arange(min(self.samples, G * N))
        group, sample = chosen % G, chosen // G
        state, action, mask = (x.expand(R, G, N, *x.shape[3:])[:, group, sample].cpu() for x in
                               (batch.state, batch.action, batch.mask))  # fmt: skip
        age = (batch.staleness.expand(R, G, N, T)[:, group, sample].cpu() * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)
        if hasattr(step.task, "read"):
            answers = step.task.read(action.unsqueeze(1), mask.unsqueeze(1))
            asked = state[:, :, 0].flatten(0, 1).tolist()
            prompts = [step.task.tokenizer.decode([i for i in row if i >= 0]) for row in asked]
            responses, ended = [answer.text for answer in answers], [answer.ended for answer in answers]
        else:
            prompts = [_listed(row[:1]) for row in state.flatten(0, 1)]
            rows = zip(action.flatten(0, 1), mask.flatten(0, 1), strict=True)
            responses, ended = [_listed(row[m > 0]) for row, m in rows], [True] * len(prompts)
        reward = batch.reward[:, group, sample].double().cpu().numpy()
        found = {"prompt": np.array(prompts), "response": np.array(responses), "ended": np.array(ended, dtype=float)}
        columns = {name: values.reshape(R, -1).T for name, values in found.items()}
        columns |= {"reward": reward.T, "staleness": age.double().numpy().T}
        self.update.append(step.update)
        for name in COLUMNS:
            self.rows.setdefault(name, []).append(columns[name])

    def result(self) -> dict[str, np.ndarray]:
        """Arrays `texts/prompt` and so on, and `texts/update`, `[rows, samples, R]` each."""
        if not self.update:
            raise checks.InputError("every", self.every, "small enough for a row", "keep texts more often")
        arrays = {f"texts/{name}": np.stack(rows) for name, rows in self.rows.items()}
        like = arrays["texts/reward"]
        number = np.array(self.update, dtype=float).reshape(-1, 1, 1)
        return arrays | {"texts/update": np.broadcast_to(number, like.shape).copy()}


def _listed(numbers: Tensor) -> str:
    """Format the numbers of a task without text, separated by blanks."""
    return " ".join(f"{x:.4g}" for x in numbers.flatten().tolist())


def texts(samples: Any = 4, every: Any = 1) -> Texts:
    """Samples of prompts and answers, each with its reward and staleness; `trace.texts()` returns them as a table.

    rows = the first samples of a batch, one of each group, then a second one of each. Prompts are what the model read,
    without special tokens; of tasks without text states and actions stand there as numbers. Blind to all other samples.

    Each row has numbers of shape `[R]`, in units of their own.

    Arguments: `samples` >= 1 per kept update and replicate; `every` >= 1, kept updates, whose number it divides.
    Returns an accumulator whose results "texts/prompt", "texts/response" (texts), "texts/reward" (units of reward),
    "texts/staleness" (versions, mean over tokens), "texts/ended" (0 or 1) and "texts/update" have shape `[rows,
    samples, R]`. Raises `InputError` for other values. Source: this package.

    >>> texts(samples=2).samples
    2
    """
    samples = checks.integer("samples", samples, 1, "keep at least one sample")
    return Texts(samples, checks.integer("every", every, 1, "keep each so many updates"))


@metric("in units of reward", ANY, "this package", default=True, subject="policy")
def trained_return(step: Step) -> Tensor:
    """Expected reward of the policy in training; the default metric of `compare`, `sweep` and `boundary`.

    J(theta) = E_pi r at the weights before the update, less the penalty of a task, averaged over prompts. Where the
    task has a formula or a short list, as all but the longest tables do, it is `exact_return` at a few percent of an
    update. Else it is the mean of fresh samples of these weights, as many as a batch has. They are drawn at an eighth
    of the batches, 4 to 32 times a run, and it is NaN in between. The header says how many; the default diagnostics
    leave such a metric out. Segments are judged by whole episodes. Blind to the sampler's numerics, and to how the
    reward is spread over prompts.
    """
    return step.expected


@metric("in units of reward", ANY, "textbook", READS, default=True, subject="batch")
def batch_return(step: Step) -> Tensor:
    """Mean reward of the batch, which the behavior policy generated.

    J_batch = E r_i over the batch's samples by mass, with the penalty of a task as the advantage sees it. Groups that
    the method drops count too: they are dropped by their reward, and the rest would be biased. Late rewards count as
    they are paid in the end. On minibatches, of the samples of one. Blind to the policy being trained, since it lags
    behind it by the staleness; see `trained_return`.
    """
    batch = step.batch.generated
    mean = step.batch_mean(step.task.reward(batch, step.current), batch)
    if batch.kept is None:
        return mean
    # A minibatch may hold reinjected samples alone.
    return torch.where(batch.kept.sum((1, 2)) > 0, mean, torch.full_like(mean, math.nan))


@metric("a pure number in [0, 1], 0 without late rewards", SHARE, "this package")
def late_share(step: Step) -> Tensor:
    """Fraction of the step's samples that are trained late or with a substitute reward.

    share = E_i [i was reinjected, or its reward had not arrived], over the step's samples by mass. Blind to how late
    they are; see `staleness`.
    """
    late = step.batch.arrivals.get("late")
    return torch.zeros(step.mask.shape[0], dtype=torch.float64) if late is None else step.mean(late)


@metric("a pure number in [0, 1], 0 without late rewards", SHARE, "this package", subject="batch")
def lost_share(step: Step) -> Tensor:
    """Fraction of the samples generated for the batch whose reward is never used for training.

    share = mean over the batch's own samples of [the reward is late and not reinjected]. On minibatches, of the whole
    batch. Blind to which rewards those are: a loss that depends on the reward biases the gradient.
    """
    batch = step.drawn
    if batch.kept is None:
        return torch.zeros(step.mask.shape[0], dtype=torch.float64)
    return step.batch_mean(batch.arrivals["lost"], batch.generated)


@metric("in units of reward, NaN where none ended", ANY, "textbook", subject="batch")
def episode_return(step: Step) -> Tensor:
    """Mean return of the episodes that ended in the batch.

    R = mean over episodes of sum_t r_t, from reset to end, for the episodes that ended in the batch. Segments count an
    episode in the batch that holds its last token. Blind to episodes that are still running, so early batches favor
    short ones.
    """
    return finished(step)[1]


@metric("a pure number", POSITIVE, "this package", subject="batch")
def episodes(step: Step) -> Tensor:
    """Number of episodes that ended in the batch.

    n = number of episode ends inside the batch's trajectories, the weight of `episode_return`. Blind to how long they
    were.
    """
    return finished(step)[0]


@metric("a pure number, 1 without tools", POSITIVE, "this package", subject="batch")
def turns(step: Step) -> Tensor:
    """Mean number of the policy's turns in a sample.

    n = E_i of the runs of own tokens, between which the environment wrote (a tool's reply, say). Groups that the method
    drops count too. Blind to a reply in front of the first turn or behind the last, and to how long replies are.
    """
    mask = step.mask
    fresh = mask[..., 1:] * (1.0 - mask[..., :-1])
    return step.batch_mean(mask[..., 0] + fresh.sum(-1))


@metric("in nats per token", ANY, "textbook", outputs=("entropy",), default=True)
def entropy(step: Step) -> Tensor:
    """Mean entropy of the current policy at the batch's states.

    H = E mean_t (-sum_a pi(a|s_it) log pi(a|s_it)), over the tokens of each sample, then over samples by mass. Blind to
    the states that the current policy would visit, since these are the behavior policy's.
    """
    batch, values = step.batch, step.current["entropy"]
    sums = torch.where(batch.mask > 0, values, torch.zeros((), dtype=values.dtype)).sum(-1)
    return step.mean(sums / batch.lengths.clamp(min=1.0))
