"""Sums over the generated tokens of an episode, backward from its end; tokens written by others are skipped."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.base.knobs import per_sample
from asyncsim.step.batch import Batch
from asyncsim.step.step import Step


class Tokens(NamedTuple):
    """Rewards, critic values, bootstrap values and continuation of each token, `[R, G, N, T]`, 0 on masked tokens.
    `beyond` is nonzero only where a trajectory was cut off; `going` is 1 where the episode goes on, else 0.

    `mask`: which tokens were generated; None where all were.
    """

    reward: Tensor
    value: Tensor
    beyond: Tensor
    going: Tensor
    mask: Tensor | None


def recorded_value(batch: Batch, name: str) -> Tensor:
    """Critic values recorded at sampling; raises `InputError` for an advantage `name` without a critic."""
    bound = "one that needs no critic, for a policy without the output value"
    remedy = "use a policy with a critic, or advantages.returns_to_go()"
    checks.require("value" in batch.behavior, "advantage", name, bound, remedy)
    return batch.behavior["value"]


def state_value(step: Step) -> Tensor:
    """V = sum_a pi(a|s) Q(s, a) of the current policy, `[R, G, N, T]`, 0 on masked tokens."""
    prob = step.current["log_probs"].exp()
    return mask_out((prob * step.current["action_values"]).sum(-1), step.mask)


def tokens(step: Step, value: Tensor | None) -> Tokens:
    """Inputs of a backward sum over a step; without critic values all values are 0, even after a truncation."""
    batch = step.batch
    mask, reward = batch.mask, step.token_reward
    going = goes_on(batch)
    nothing, holes = torch.zeros_like(mask), None if batch.full else mask
    if value is None:
        return Tokens(mask_out(reward, mask), nothing, nothing, going, holes)
    beyond = batch.behavior.get("successor_value")
    beyond = nothing if beyond is None else mask_out(beyond, mask * (1.0 - going))
    return Tokens(mask_out(reward, mask), mask_out(value, mask), beyond, going, holes)


def goes_on(batch: Batch) -> Tensor:
    """1 for each generated token that another generated token of its episode follows, else 0, `[R, G, N, T]`."""
    mask = batch.mask
    lasting = torch.ones_like(mask) if batch.ended is None else (~batch.ended).to(mask.dtype)
    if batch.full:
        return torch.nn.functional.pad(mask[..., 1:], (0, 1)) * lasting
    # A token that was not generated hands on what is behind it, unless the episode ended there.
    return mask * lasting * next_generated(torch.ones_like(mask), mask, lasting)


def next_generated(each: Tensor, mask: Tensor, lasting: Tensor | None = None) -> Tensor:
    """Value of the next generated token, for each token; 0 if none follows, or if `lasting` is 0 in between."""
    out, last = torch.empty_like(each), torch.zeros_like(each[..., 0])
    for t in range(each.shape[-1] - 1, -1, -1):
        out[..., t] = last
        kept = last if lasting is None else last * lasting[..., t]
        last = torch.where(mask[..., t] > 0, each[..., t], kept)
    return out


def traced(trajectory: Tokens, discount: Any, trace: Any) -> Tensor:
    """A_t = delta_t + discount trace A_(t+1) inside an episode, delta_t = r_t + discount V_(t+1) - V_t."""
    discount, trace = per_sample(discount), per_sample(trace)
    delta = trajectory.reward + discount * following(trajectory, trajectory.value) - trajectory.value
    return _backward(delta, discount * trace * trajectory.going, trajectory.mask)


def behind(trajectory: Tokens, each: Tensor) -> Tensor:
    """Value of the next generated token, for each token, `[R, G, N, T]`; 0 at the last generated token."""
    if trajectory.mask is None:
        return torch.nn.functional.pad(each[..., 1:], (0, 1))
    return next_generated(each, trajectory.mask)


def following(trajectory: Tokens, each: Tensor) -> Tensor:
    """Value of the next token in the episode, for each token; the bootstrap value where the trajectory ends."""
    return behind(trajectory, each) * trajectory.going + trajectory.beyond


def corrected(trajectory: Tokens, discount: Any, weight: Tensor, keep: Tensor) -> Tensor:
    """Correction of V: x_t = weight_t delta_t + discount keep_t x_(t+1) inside an episode, `[R, G, N, T]`.

    A product of traces begins with the token's own `keep`, but the error of each token has only its own `weight`.
    `discount` is a number or `[R, 1, 1, 1]`.
    """
    delta = weight * (trajectory.reward + discount * following(trajectory, trajectory.value) - trajectory.value)
    return _backward(delta, discount * keep * trajectory.going, trajectory.mask)


def backed_up(trajectory: Tokens, action_value: Tensor, discount: Any, keep: Tensor) -> Tensor:
    """Q_t + x_t with x_t = r_t + discount V_(t+1) - Q_t + discount keep_(t+1) x_(t+1) inside an episode.

    `found.value` is V of the state, `taken` Q of the action, each `[R, G, N, T]`; the product of traces begins with the
    next token.
    """
    delta = trajectory.reward + discount * following(trajectory, trajectory.value) - action_value
    return action_value + _backward(delta, discount * behind(trajectory, keep) * trajectory.going, trajectory.mask)


def _backward(delta: Tensor, carried: Tensor, mask: Tensor | None) -> Tensor:
    """Backward recursion x_t = delta_t + carried_t x_n, with n the next generated token, `[R, G, N, T]`."""
    out, last = torch.empty_like(delta), torch.zeros_like(delta[..., 0])
    for t in range(delta.shape[-1] - 1, -1, -1):
        here = delta[..., t] + carried[..., t] * last
        out[..., t] = here
        last = here if mask is None else torch.where(mask[..., t] > 0, here, last)
    return out


def moments(step: Step, each: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and unbiased standard deviation of values over the generated tokens of a step, each `[R, 1, 1, 1]`."""
    batch = step.batch
    weight = batch.mask * step.mass.unsqueeze(-1)
    total = weight.sum((1, 2, 3), keepdim=True)
    share = weight / torch.where(total > 0, total, torch.ones_like(total))
    mean = (share * each).sum((1, 2, 3), keepdim=True)
    variance = (share * (each - mean) ** 2).sum((1, 2, 3), keepdim=True)
    number = (weight * batch.size).sum((1, 2, 3), keepdim=True)
    unbiased = torch.where(torch.isfinite(number) & (number > 1.0), number / (number - 1.0), torch.ones_like(number))
    return mean, (variance * unbiased).sqrt()


def mask_out(each: Tensor, mask: Tensor) -> Tensor:
    """Values with 0 on masked tokens, even where the masked value is infinite or NaN."""
    return torch.where(mask > 0, each.to(mask.dtype), torch.zeros((), dtype=mask.dtype, device=mask.device))
