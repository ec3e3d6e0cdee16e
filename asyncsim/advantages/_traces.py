"""Sums over the tokens of an episode, backward from its end."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from asyncsim import checks
from asyncsim.advantages._advantage import Samples
from asyncsim.batch import Batch
from asyncsim.knobs import per_sample


class Tokens(NamedTuple):
    """Rewards, values, value behind the token where the trajectory does not go on (0 unless it was cut off), and
    whether it goes on inside its episode (1 or 0), each `[R, G, N, T]` and 0 on masked tokens."""

    reward: Tensor
    value: Tensor
    beyond: Tensor
    going: Tensor


def batch_of(samples: Samples) -> Batch:
    """The tokens behind the samples."""
    if samples.batch is None:
        raise checks.InputError("samples.batch", None, "the batch", "hand the batch on to an advantage of tokens")
    return samples.batch


def tokens(samples: Samples, value: Tensor | None) -> Tokens:
    """What a backward sum needs; without values all of them are 0, behind a cut too."""
    batch = batch_of(samples)
    mask, reward = batch.mask, samples.token_rewards()
    going = torch.nn.functional.pad(mask[..., 1:], (0, 1)) * mask
    if batch.ended is not None:
        going = going * (~batch.ended).to(mask.dtype)
    nothing = torch.zeros_like(mask)
    if value is None:
        return Tokens(_kept(reward, mask), nothing, nothing, going)
    beyond = batch.behavior.get("successor_value")
    beyond = nothing if beyond is None else _kept(beyond, mask * (1.0 - going))
    return Tokens(_kept(reward, mask), _kept(value, mask), beyond, going)


def traced(found: Tokens, discount: Any, trace: Any) -> Tensor:
    """A_t = delta_t + discount trace A_(t+1) inside an episode, delta_t = r_t + discount V_(t+1) - V_t."""
    discount, trace = (x if isinstance(x, float) else per_sample(x)[..., 0] for x in (discount, trace))
    going = found.going
    after = torch.nn.functional.pad(found.value[..., 1:], (0, 1)) * going + found.beyond
    rate = discount if isinstance(discount, float) else discount.unsqueeze(-1)
    delta = found.reward + rate * after - found.value
    out, last = torch.empty_like(delta), torch.zeros_like(delta[..., 0])
    for t in range(delta.shape[-1] - 1, -1, -1):
        last = delta[..., t] + discount * trace * going[..., t] * last
        out[..., t] = last
    return out


def moments(batch: Batch, each: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and unbiased standard deviation over the generated tokens of the step, each `[R, 1, 1, 1]`.

    Tokens count with the mass of their sample. One token, or a population, has no factor n / (n - 1).
    """
    weight = batch.mask * batch.mass.unsqueeze(-1)
    share = weight / weight.sum((1, 2, 3), keepdim=True)
    mean = (share * each).sum((1, 2, 3), keepdim=True)
    variance = (share * (each - mean) ** 2).sum((1, 2, 3), keepdim=True)
    number = (weight * batch.size).sum((1, 2, 3), keepdim=True)
    unbiased = torch.where(torch.isfinite(number) & (number > 1.0), number / (number - 1.0), torch.ones_like(number))
    return mean, (variance * unbiased).sqrt()


def _kept(each: Tensor, mask: Tensor) -> Tensor:
    """Numbers of generated tokens, 0 elsewhere: what stands on masked tokens may be anything."""
    return torch.where(mask > 0, each.to(mask.dtype), torch.zeros((), dtype=mask.dtype, device=mask.device))
