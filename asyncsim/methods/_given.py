"""A method on tensors that the caller has: weights, cotangents and a loss with exactly that gradient."""

import copy
import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks, knobs
from asyncsim.step import versions
from asyncsim.step.step import Step, given

_ABOVE_ZERO = 1e-5
"""Log-probs of a categorical distribution may exceed 0 by rounding of float32, not by more."""
Weigher = Any
"""A `Method`, whose module imports this one."""


class Weighed(NamedTuple):
    """Score weights, cotangents, shares and advantages of a method, each shaped like the given log-probs.

    `cotangent` = a m c: the number by which grad log pi of each token is multiplied in the ascent direction;
    `score_weight` = c; `share` = a m; `advantage` A; `statistics` that the weight reports.
    """

    cotangent: Tensor
    score_weight: Tensor
    share: Tensor
    advantage: Tensor
    statistics: dict[str, Tensor]


class Received(NamedTuple):
    """Checked tensors of log-probs, advantages or rewards, for use with any number of methods.

    `step` has them as `[R, G, N, T]`, with no method yet; `shape` is that of the given log-probs; `rewarded`: rewards
    are among them. `advantages` are those that were given.
    """

    step: Step
    shape: tuple[int, ...]
    rewarded: bool
    advantages: Tensor | None


def received(
    log_prob: Tensor,
    behavior_log_prob: Tensor,
    proximal_log_prob: Tensor | None = None,
    *,
    rewards: Tensor | None = None,
    advantages: Tensor | None = None,
    mask: Tensor | None = None,
    staleness: Tensor | None = None,
    reference_log_prob: Tensor | None = None,
    categorical: bool = True,
) -> Received:
    """Check tensors with log-probs `[..., N, T]`, and make a step from them; see `Method.weigh`."""
    bound = "a tensor [N, T], [G, N, T] or [R, G, N, T]"
    remedy = "one row for each sequence; groups and replicates lead"
    shape = tuple(_sized("log_prob", log_prob, lambda axes: 2 <= len(axes) <= 4, bound, remedy).shape)

    def lift(name: str, values: Tensor) -> Tensor:
        bound = f"shaped like log_prob, {shape}"
        tensor = _sized(name, values, lambda axes: axes == shape, bound, "pad with masked tokens")
        return tensor.reshape((1,) * (4 - len(shape)) + shape)

    names = "log_prob", "behavior_log_prob", "proximal_log_prob", "reference_log_prob"
    pairs = zip(names, (log_prob, behavior_log_prob, proximal_log_prob, reference_log_prob), strict=True)
    lifted = {name: lift(name, x) for name, x in pairs if x is not None}
    for name, x in lifted.items():
        checks.require(x.is_floating_point(), name, str(x.dtype), "of a floating type", "hand over log-probs")
        # Sums over a step need more digits than half precision has.
        lifted[name] = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    present = torch.ones_like(lifted["log_prob"]) if mask is None else lift("mask", mask)
    present = present.to(lifted["log_prob"].dtype)
    odd = present[(present != 0) & (present != 1)]
    checks.require(len(odd) == 0, "mask", odd[0].item() if len(odd) else None, "0 or 1", "1 marks generated tokens")
    empty = (present.sum((1, 2, 3)) == 0).nonzero()
    where = f"all zero in replicate {int(empty[0])}" if len(empty) else 0
    remedy = "leave the step out: it has no gradient"
    checks.require(len(empty) == 0, "mask", where, "at least one generated token", remedy)
    for name, values in lifted.items():
        _check_log_prob(name, values, present, len(shape), categorical)
    reward = _rewards(rewards, shape, present)
    age = None if staleness is None else lift("staleness", staleness)
    if age is not None:
        known = age[(present > 0) & ~torch.isnan(age)]
        sound = bool(((known >= 0) & torch.isfinite(known)).all())
        remedy = "say NaN where a version is unknown"
        checks.require(sound, "staleness", "negative or infinite", "versions >= 0", remedy)
    current = {"log_prob": lifted["log_prob"]}
    if reference_log_prob is not None:
        current["reference"] = lifted["reference_log_prob"]
    start = None if proximal_log_prob is None else {"log_prob": lifted["proximal_log_prob"]}
    behavior = {"log_prob": lifted["behavior_log_prob"]}
    step = given(None, current, behavior, present, reward=reward, proximal=start, staleness=age)
    own = None if advantages is None else _advantages(advantages, shape, present)
    return Received(step, shape, rewards is not None, own)


_RECEIVED = inspect.signature(received).parameters


def stepped(method: Weigher, tensors: Received) -> Step:
    """Step of a method with its advantages, computed on checked tensors."""
    mask = tensors.step.mask
    replicates = mask.shape[0] if len(tensors.shape) == 4 else 1
    lengths = knobs.lengths(method)
    for length in sorted(lengths):
        bound = f"{length}, as a knob has one number for each"
        remedy = "give a single number, or log-probs [R, G, N, T]"
        checks.require(length == replicates, "log_prob replicates", replicates, bound, remedy)
    if lengths:
        with versions.on(str(mask.device)):
            method = knobs.bind(method, np.arange(replicates))
    given_start, rewarded = tensors.step.start is not None, tensors.rewarded
    missing = set(method.outputs) - set(tensors.step.known or {})
    bound = f"given for {method.name} with anchor {method.anchor}"
    remedy = "hand over log-probs of the weights at the start of the batch, or use anchor='behavior'"
    checks.require(given_start or not method.proximal, "proximal_log_prob", None, bound, remedy)
    remedy = f"run it on a policy with the outputs {', '.join(sorted(missing))}"
    bound = "one that reads log-probs of tokens only"
    checks.require(missing <= {"reference"}, "method", method.name, bound, remedy)
    remedy = "hand over log-probs of the reference policy"
    checks.require(not missing, "reference_log_prob", None, f"given for {method.name}", remedy)
    bound = "given for a method that drops groups of equal rewards, or weighs by rewards"
    remedy = "hand over one reward for each sequence beside the advantages"
    reads = method.drop_equal or method.weight.rewarded
    checks.require(rewarded or not reads, "rewards", None, bound, remedy)
    remedy = "hand over one reward for each sequence"
    checks.require(rewarded or tensors.advantages is not None, "rewards", None, "given, or advantages", remedy)
    step = copy.copy(tensors.step)  # with what no method changes, such as log ratios
    step.method, step.statistics = method, {}
    if tensors.advantages is not None:
        step.advantages = tensors.advantages
    else:
        method.advantage.check(step.mask.shape[2])
    return step


def weigh(method: Weigher, *arguments: Any, **settings: Any) -> Weighed:
    """Score weights and cotangents of a method for log-probs `[..., N, T]`; see `Method.weigh`."""
    remedy = "values of a critic belong to a run: hand over advantages that were made of them"
    checks.each_of("argument of weigh", settings, _RECEIVED, remedy)
    tensors = received(*arguments, **settings)
    step = stepped(method, tensors)
    advantage = step.advantages if step.advantages.ndim == 4 else step.advantages.unsqueeze(-1)
    cotangent, share = step.cotangents["log_prob"], step.method.share(step)
    weight = torch.where(share > 0, cotangent / torch.where(share > 0, share, torch.ones_like(share)), 0.0)
    columns = [x.expand(step.mask.shape).reshape(tensors.shape) for x in (cotangent, weight, share, advantage)]
    return Weighed(columns[0], columns[1], columns[2], columns[3], dict(step.statistics))


def loss(method: Weigher, log_prob: Tensor, behavior_log_prob: Tensor, *arguments: Any, **settings: Any) -> Tensor:
    """A scalar whose value is -sum a m c and whose gradient descends along the method's direction."""
    bound = "current for a loss, which is differentiated at the parameters of log_prob"
    remedy = "use weigh, and pull its cotangent back at the behavior parameters"
    checks.require(method.at == "current", "at", method.at, bound, remedy)
    weighed = weigh(method, log_prob, behavior_log_prob, *arguments, **settings)
    # Masked log-probs may be infinite: they are taken out before they meet a factor of 0. One that counts is that of a
    # token outside the nucleus, which has no gradient in a run either.
    live = torch.where((weighed.share > 0) & ~torch.isinf(log_prob), log_prob, torch.zeros_like(log_prob))
    return -(weighed.cotangent * (1.0 + live - live.detach())).sum()


def _sized(name: str, values: Tensor, fits: Callable[[tuple[int, ...]], bool], bound: str, remedy: str) -> Tensor:
    """Return a tensor, detached; refuse one whose shape does not fit."""
    known = torch.is_tensor(values)
    shown = tuple(values.shape) if known else type(values).__name__
    checks.require(known and fits(tuple(values.shape)), name, shown, bound, remedy)
    return values.detach()


def _check_log_prob(name: str, values: Tensor, mask: Tensor, axes: int, categorical: bool) -> None:
    """Refuse NaN and +inf on unmasked tokens: no policy gives them, and one makes the sum over the step NaN.

    -inf is that of an impossible token; what stands on masked tokens does not matter.
    """
    if values.numel() and values.max().item() <= (_ABOVE_ZERO if categorical else 1e300):
        return  # most often no entry at all is too large, and none is NaN
    _refuse(name, values, (mask > 0) & (torch.isnan(values) | (values == math.inf)), axes, "mask what is no token")
    if not categorical:
        return
    largest = torch.where(mask > 0, values, torch.full_like(values, -math.inf)).max().item()
    remedy = "hand over log-probs, not logits or probabilities; for densities say categorical=False"
    checks.require(not largest > _ABOVE_ZERO, name, largest, "at most 0 for a categorical policy", remedy)


def _refuse(name: str, values: Tensor, wrong: Tensor, axes: int, remedy: str) -> None:
    """Raise for the first wrong entry of `[R, G, N, T or 1]`, naming its position on the last `axes` axes."""
    if bool(wrong.any()):
        place = wrong.nonzero()[0].tolist()
        coordinates = [f"{axis} {k}" for axis, k in zip(("replicate", "group", "sample", "token"), place, strict=True)]
        where = ", ".join(coordinates[4 - axes :])
        raise checks.InputError(f"{name}[{where}]", values[tuple(place)].item(), "a number where the mask is 1", remedy)


def _rewards(rewards: Tensor | None, shape: tuple[int, ...], like: Tensor) -> Tensor:
    if rewards is None:
        return torch.zeros(like.shape[:3], dtype=like.dtype, device=like.device)
    bound = f"one for each sequence, {shape[:-1]}"
    remedy = "sum the rewards of a sequence's tokens"
    rewards = _sized("rewards", rewards, lambda axes: axes == shape[:-1], bound, remedy)
    bad = rewards[~torch.isfinite(rewards)]
    remedy = "fix the reward, or map failures to a number"
    checks.require(bad.numel() == 0, "rewards", bad[0].item() if bad.numel() else 0, "finite", remedy)
    return rewards.to(like.dtype).reshape(like.shape[:3])


def _advantages(advantages: Tensor, shape: tuple[int, ...], like: Tensor) -> Tensor:
    bound = f"one for each sequence {shape[:-1]} or for each token {shape}"
    allowed = (shape, shape[:-1], (*shape[:-1], 1))
    values = _sized("advantages", advantages, lambda axes: axes in allowed, bound, "detach and reshape them")
    values = values.to(like.dtype)
    tail = 1 if tuple(advantages.shape) != shape or shape[-1] == 1 else shape[-1]
    lifted = values.reshape(*like.shape[:3], tail)
    counted = like > 0 if tail > 1 else (like > 0).any(-1, keepdim=True)
    remedy = "fix the rewards, or mask what is no token"
    _refuse("advantages", lifted, counted & ~torch.isfinite(lifted), len(shape), remedy)
    return lifted if tail == 1 else torch.where(like > 0, lifted, torch.zeros_like(lifted))
