"""What the batch earned, and how much the policy still explores."""

import math

import torch
from torch import Tensor

from asyncsim.diagnostics._diagnostic import ANY, POSITIVE, READS, SHARE, finished, metric
from asyncsim.step.step import Step


@metric("in units of reward", ANY, "this package", default=True, subject="policy")
def trained_return(step: Step) -> Tensor:
    """Expected reward of the policy that is trained: what `compare`, `sweep` and `boundary` read by default.

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
    """Mean reward of the batch, under the behavior policy.

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
    """Share of the step that is trained late, or on a stand-in for its reward.

    share = E_i [i was reinjected, or its reward had not arrived], over the step's samples by mass. Blind to how late
    they are; see `staleness`.
    """
    late = step.batch.arrivals.get("late")
    return torch.zeros(step.mask.shape[0], dtype=torch.float64) if late is None else step.mean(late)


@metric("a pure number in [0, 1], 0 without late rewards", SHARE, "this package", subject="batch")
def lost_share(step: Step) -> Tensor:
    """Share of the samples generated for the batch whose reward is never trained on.

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
    """Episodes that ended in the batch.

    n = number of episode ends inside the batch's trajectories, the weight of `episode_return`. Blind to how long they
    were.
    """
    return finished(step)[0]


@metric("a pure number, 1 without tools", POSITIVE, "this package", subject="batch")
def turns(step: Step) -> Tensor:
    """Mean number of turns in which a sample was written.

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
