"""A method on tensors that the caller has: weights, cotangents and a loss with exactly that gradient."""

from __future__ import annotations

import inspect
import math
from dataclasses import replace
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
    """What a method makes of given tensors, each shaped like the log-probs that were given.

    `cotangent` = a m c: the number by which grad log pi of each token is multiplied in the ascent direction;
    `score_weight` = c; `share` = a m; `advantage` A; `statistics` that the weight reports.
    """

    cotangent: Tensor
    score_weight: Tensor
    share: Tensor
    advantage: Tensor
    statistics: dict[str, Tensor]


class Received(NamedTuple):
    """Tensors that were checked once, for any number of methods.

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
    """The step of log-probs `[..., N, T]`, its tensors checked; see `Method.weigh`."""
    # Lift the tensors to `[R, G, N, T]`.
    shape = _shape("log_prob", log_prob)
    columns = {
        "log_prob": log_prob,
        "behavior_log_prob": behavior_log_prob,
        "proximal_log_prob": proximal_log_prob,
        "reference_log_prob": reference_log_prob,
    }
    lifted = {name: _lift(_like(name, x, shape), shape) for name, x in columns.items() if x is not None}
    present = torch.ones_like(lifted["log_prob"]) if mask is None else _lift(_sized("mask", mask, shape), shape)
    present = present.to(lifted["log_prob"].dtype)
    _check_mask(present)
    for name, values in lifted.items():
        _check_log_prob(name, values, present, len(shape), categorical)
    reward = _rewards(rewards, shape, present)
    age = None if staleness is None else _lift(_sized("staleness", staleness, shape), shape)
    if age is not None:
        _check_staleness(age, present)
    # Build the step, which has no method yet.
    current = {"log_prob": lifted["log_prob"]}
    if reference_log_prob is not None:
        current["reference"] = lifted["reference_log_prob"]
    start = None if proximal_log_prob is None else {"log_prob": lifted["proximal_log_prob"]}
    behavior = {"log_prob": lifted["behavior_log_prob"]}
    step = given(None, current, behavior, present, reward=reward, proximal=start, staleness=age)
    known = None if advantages is None else _advantages(advantages, shape, present)
    return Received(step, shape, rewards is not None, known)


def stepped(method: Weigher, tensors: Received) -> Step:
    """The step of a method on tensors that were checked, with its advantages."""
    mask = tensors.step.mask
    method = _bound(method, mask.shape[0] if len(tensors.shape) == 4 else 1, str(mask.device))
    _check_given(method, tensors)
    step = replace(tensors.step, method=method, statistics={})
    if tensors.advantages is not None:
        step.advantages = tensors.advantages
    else:
        method.advantage.check(step.mask.shape[2])
    return step


def weigh(method: Weigher, *arguments: Any, **settings: Any) -> Weighed:
    """Score weights and cotangents of a method for log-probs `[..., N, T]`; see `Method.weigh`."""
    known = inspect.signature(received).parameters
    remedy = "values of a critic belong to a run: hand over advantages that were made of them"
    for name in settings:
        checks.one_of("argument of weigh", name, known, remedy)
    tensors = received(*arguments, **settings)
    step = stepped(method, tensors)
    advantage = step.advantages if step.advantages.ndim == 4 else step.advantages.unsqueeze(-1)
    # Divide cotangents by shares.
    cotangent, share = step.cotangents["log_prob"], step.method.share(step)
    weight = torch.where(share > 0, cotangent / torch.where(share > 0, share, torch.ones_like(share)), 0.0)
    columns = [x.expand(step.mask.shape).reshape(tensors.shape) for x in (cotangent, weight, share, advantage)]
    return Weighed(columns[0], columns[1], columns[2], columns[3], dict(step.statistics))


def loss(method: Weigher, log_prob: Tensor, behavior_log_prob: Tensor, *arguments: Any, **settings: Any) -> Tensor:
    """A scalar whose value is -sum a m c and whose gradient descends along the method's direction."""
    checks.require(
        method.at == "current",
        "at",
        method.at,
        "current for a loss, which is differentiated at the parameters of log_prob",
        "use weigh, and pull its cotangent back at the behavior parameters",
    )
    weighed = weigh(method, log_prob, behavior_log_prob, *arguments, **settings)
    # Masked log-probs may be infinite: they are taken out before they meet a factor of 0. One that counts is that of a
    # token outside the nucleus, which has no gradient in a run either.
    live = torch.where((weighed.share > 0) & ~torch.isinf(log_prob), log_prob, torch.zeros_like(log_prob))
    return -(weighed.cotangent * (1.0 + live - live.detach())).sum()


def _bound(method: Weigher, replicates: int, device: str) -> Weigher:
    """The method with its knobs of one number per replicate bound to them, on a device."""
    for length in sorted(knobs.lengths(method)):
        checks.require(
            length == replicates,
            "log_prob replicates",
            replicates,
            f"{length}, as a knob has one number for each",
            "give a single number, or log-probs [R, G, N, T]",
        )
    with versions.on(device):
        bound: Weigher = knobs.bind(method, np.arange(replicates))
    return bound


def _check_given(method: Weigher, tensors: Received) -> None:
    """Refuse a method that reads what was not given."""
    known = tensors.step.known or {}
    checks.require(
        tensors.step.start is not None or not method.proximal,
        "proximal_log_prob",
        None,
        f"given for {method.name} with anchor {method.anchor}",
        "hand over log-probs of the weights at the start of the batch, or use anchor='behavior'",
    )
    missing = set(method.outputs) - set(known)
    checks.require(
        missing <= {"reference"},
        "method",
        method.name,
        "one that reads log-probs of tokens only",
        f"run it on a policy with the outputs {', '.join(sorted(missing))}",
    )
    remedy = "hand over log-probs of the reference policy"
    checks.require(not missing, "reference_log_prob", None, f"given for {method.name}", remedy)
    checks.require(
        tensors.rewarded or not (method.drop_equal or method.weight.rewarded),
        "rewards",
        None,
        "given for a method that drops groups of equal rewards, or weighs by rewards",
        "hand over one reward for each sequence beside the advantages",
    )
    remedy = "hand over one reward for each sequence"
    checks.require(tensors.rewarded or tensors.advantages is not None, "rewards", None, "given, or advantages", remedy)


def _shape(name: str, values: Tensor) -> tuple[int, ...]:
    checks.require(
        torch.is_tensor(values) and 2 <= values.ndim <= 4,
        name,
        tuple(values.shape) if torch.is_tensor(values) else type(values).__name__,
        "a tensor [N, T], [G, N, T] or [R, G, N, T]",
        "one row for each sequence; groups and replicates lead",
    )
    return tuple(values.shape)


def _like(name: str, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Log-probs of the given shape, in float32 at least: sums over a step need more digits than half precision has."""
    tensor = _sized(name, values, shape)
    checks.require(tensor.is_floating_point(), name, str(tensor.dtype), "of a floating type", "hand over log-probs")
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _sized(name: str, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    checks.require(
        torch.is_tensor(values) and tuple(values.shape) == shape,
        name,
        tuple(values.shape) if torch.is_tensor(values) else type(values).__name__,
        f"shaped like log_prob, {shape}",
        "pad with masked tokens",
    )
    return values.detach()


def _lift(values: Tensor, shape: tuple[int, ...]) -> Tensor:
    return values.reshape((1,) * (4 - len(shape)) + shape)


def _check_mask(mask: Tensor) -> None:
    odd = mask[(mask != 0) & (mask != 1)]
    first = odd[0].item() if len(odd) else None
    checks.require(len(odd) == 0, "mask", first, "0 or 1", "1 marks generated tokens")
    empty = (mask.sum((1, 2, 3)) == 0).nonzero()
    checks.require(
        len(empty) == 0,
        "mask",
        f"all zero in replicate {int(empty[0])}" if len(empty) else 0,
        "at least one generated token",
        "leave the step out: it has no gradient",
    )


def _check_log_prob(name: str, values: Tensor, mask: Tensor, axes: int, categorical: bool) -> None:
    """Refuse NaN and +inf where they count: no policy gives them, and one makes the sum over the step say nothing.

    -inf is that of an impossible token; what stands on masked tokens does not matter.
    """
    _refuse(name, values, (mask > 0) & (torch.isnan(values) | (values == math.inf)), axes, "mask what is no token")
    if not categorical:
        return
    largest = torch.where(mask > 0, values, torch.full_like(values, -math.inf)).max().item()
    checks.require(
        not largest > _ABOVE_ZERO,
        name,
        largest,
        "at most 0 for a categorical policy",
        "hand over log-probs, not logits or probabilities; for densities say categorical=False",
    )


def _check_staleness(staleness: Tensor, mask: Tensor) -> None:
    known = staleness[(mask > 0) & ~torch.isnan(staleness)]
    sound = bool(((known >= 0) & torch.isfinite(known)).all())
    checks.require(sound, "staleness", "negative or infinite", "versions >= 0", "say NaN where a version is unknown")


def _refuse(name: str, values: Tensor, wrong: Tensor, axes: int, remedy: str) -> None:
    """Raise for the first wrong entry of `[R, G, N, T or 1]`, named by the last `axes` of its axes."""
    if bool(wrong.any()):
        place = wrong.nonzero()[0].tolist()
        coordinates = [f"{axis} {k}" for axis, k in zip(("replicate", "group", "sample", "token"), place, strict=True)]
        where = ", ".join(coordinates[4 - axes :])
        raise checks.InputError(f"{name}[{where}]", values[tuple(place)].item(), "a number where the mask is 1", remedy)


def _rewards(rewards: Tensor | None, shape: tuple[int, ...], like: Tensor) -> Tensor:
    if rewards is None:
        return torch.zeros(like.shape[:3], dtype=like.dtype, device=like.device)
    checks.require(
        torch.is_tensor(rewards) and tuple(rewards.shape) == shape[:-1],
        "rewards",
        tuple(rewards.shape) if torch.is_tensor(rewards) else type(rewards).__name__,
        f"one for each sequence, {shape[:-1]}",
        "sum the rewards of a sequence's tokens",
    )
    bad = rewards[~torch.isfinite(rewards)]
    remedy = "mend the reward, or map failures to a number"
    checks.require(bad.numel() == 0, "rewards", bad[0].item() if bad.numel() else 0, "finite", remedy)
    return rewards.detach().to(like.dtype).reshape(like.shape[:3])


def _advantages(advantages: Tensor, shape: tuple[int, ...], like: Tensor) -> Tensor:
    fits = torch.is_tensor(advantages) and tuple(advantages.shape) in (shape, shape[:-1], (*shape[:-1], 1))
    checks.require(
        fits,
        "advantages",
        tuple(advantages.shape) if torch.is_tensor(advantages) else type(advantages).__name__,
        f"one for each sequence {shape[:-1]} or for each token {shape}",
        "detach and reshape them",
    )
    values = advantages.detach().to(like.dtype)
    tail = 1 if tuple(advantages.shape) != shape or shape[-1] == 1 else shape[-1]
    lifted = values.reshape(*like.shape[:3], tail)
    counted = like > 0 if tail > 1 else (like > 0).any(-1, keepdim=True)
    remedy = "mend the rewards, or mask what is no token"
    _refuse("advantages", lifted, counted & ~torch.isfinite(lifted), len(shape), remedy)
    return lifted if tail == 1 else torch.where(like > 0, lifted, torch.zeros_like(lifted))
