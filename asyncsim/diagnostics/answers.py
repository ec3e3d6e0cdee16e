"""What a language model answers: lengths, truncation, how many groups are solved, and samples of the texts."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.base.parts import real
from asyncsim.diagnostics._diagnostic import POSITIVE, SHARE, metric
from asyncsim.step.step import Step

_AT = real(1.0, "reward from which on a sample is solved", remedy="give a reward")


@metric("in tokens", POSITIVE, "textbook", subject="batch")
def response_length(step: Step) -> Tensor:
    """Mean length of the responses of the batch.

    L = E_i of the tokens that the policy chose, the token that ends a response among them. Groups that the method drops
    count too. Blind to what was cut off; see `truncated`.
    """
    return step.batch_mean(step.batch.lengths)


@metric("a pure number in [0, 1]", SHARE, "textbook", subject="batch")
def truncated(step: Step) -> Tensor:
    """Share of the responses that had not ended at the horizon.

    share = E_i [no stop within T tokens], for language tasks; 0 for others, whose trajectories end at the horizon.
    Groups that the method drops count too. Blind to how much longer the responses would have been.
    """
    batch = step.batch
    if not hasattr(step.task, "read"):
        return torch.zeros(len(batch.action), dtype=torch.float64)
    cut = [not answer.ended for answer in step.task.read(batch.action, batch.mask)]
    return step.batch_mean(torch.tensor(cut, dtype=batch.mask.dtype).reshape(batch.reward.shape))


def _groups(step: Step, at: float | None) -> tuple[Tensor, Tensor]:
    """Which groups `[R, G]` have only solved samples, and which have none; without `at` only equal rewards, and NaN."""
    batch = step.batch.generated
    there, reward = (batch.mass > 0).expand_as(batch.reward), batch.reward
    if at is None:
        high = torch.where(there, reward, -torch.inf).amax(-1)
        return (high > torch.where(there, reward, torch.inf).amin(-1)).double(), high
    solved = reward >= at
    return (solved | ~there).all(-1).double(), (~solved | ~there).all(-1).double()


@metric("a pure number in [0, 1]", SHARE, "textbook", subject="batch")
def solved_groups(step: Step, at: Any = _AT) -> Tensor:
    """Share of the groups of the batch all of whose samples are solved.

    share = mean over groups of [r_i >= at for every sample i]. Such a group has no advantage under a baseline of its
    mean. Groups that the method drops count too. Blind to prompts whose share of solved samples is high but not 1.
    """
    return _groups(step, at)[0].mean(-1)


@metric("a pure number in [0, 1]", SHARE, "textbook", subject="batch")
def unsolved_groups(step: Step, at: Any = _AT) -> Tensor:
    """Share of the groups of the batch none of whose samples is solved.

    share = mean over groups of [r_i < at for every sample i]. Groups that the method drops count too. Blind to partial
    rewards below `at`.
    """
    return _groups(step, at)[1].mean(-1)


@metric("a pure number in [0, 1]", SHARE, "textbook", subject="batch")
def mixed_groups(step: Step) -> Tensor:
    """Share of the groups of the batch whose samples have different rewards.

    share = mean over groups of [max_i r_i > min_i r_i]: the groups that a baseline of the group's mean learns from.
    Groups that the method drops count too. Blind to how different the rewards are.
    """
    return _groups(step, None)[0].mean(-1)


COLUMNS = ("prompt", "response", "reward", "staleness", "ended")
"""What is kept of a sample."""


@dataclass
class Texts:
    """Samples of the texts of a run; see `texts`."""

    samples: int
    every: int
    update: list[int] = field(default_factory=list, repr=False)
    rows: dict[str, list[np.ndarray]] = field(default_factory=dict, repr=False)

    name = "texts"
    outputs = ()
    axes: ClassVar[dict[str, tuple[str, ...]]] = {f"texts/{name}": ("row", "sample") for name in ("update", *COLUMNS)}

    def fresh(self) -> "Texts":
        """An empty copy."""
        return dataclasses.replace(self, update=[], rows={})

    def observe(self, step: Step) -> None:
        """Keep the first samples of a batch: one of each group, then a second one of each, and so on."""
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
            prompts = [
                step.task.tokenizer.decode([i for i in row if i >= 0]) for row in state[:, :, 0].flatten(0, 1).tolist()
            ]
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
        """`texts/prompt` and so on, `[rows, samples, R]`; `texts/update` `[rows, samples, R]`."""
        if not self.update:
            raise checks.InputError("every", self.every, "small enough for a row", "keep texts more often")
        arrays = {f"texts/{name}": np.stack(rows) for name, rows in self.rows.items()}
        like = arrays["texts/reward"]
        number = np.array(self.update, dtype=float).reshape(-1, 1, 1)
        return arrays | {"texts/update": np.broadcast_to(number, like.shape).copy()}


def _listed(numbers: Tensor) -> str:
    """Numbers of a task without text, separated by blanks."""
    return " ".join(f"{x:.4g}" for x in numbers.flatten().tolist())


def texts(samples: Any = 4, every: Any = 1) -> Texts:
    """Samples of what was asked and answered, each with its reward and staleness: `trace.texts()` has them as a table.

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
