"""Adam's running moments and its step, and the direction that later ones are compared with."""

from __future__ import annotations

import torch
from torch import Tensor

from asyncsim.updates._link import LARGE, PIECE


def moments(g: Tensor, first: Tensor, second: Tensor, beta1: Tensor, beta2: Tensor) -> tuple[Tensor, Tensor]:
    """First and second moment `[R, P]` after the gradient `g`; factors `[R, 1]` in float64.

    Factors are worked out in float64 for each replicate, in the same operations whether there is one number or one for
    each. The arrays `[R, P]` stay in the type of the parameters.
    """
    first = first * beta1.to(g.dtype) + g * (1.0 - beta1).to(g.dtype)
    return first, (g * g).mul_((1.0 - beta2).to(g.dtype)).add_(second * beta2.to(g.dtype))


def moved(
    g: Tensor, first: Tensor, second: Tensor, beta1: Tensor, beta2: Tensor, size: Tensor, scale: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The step of `adam_step` and the moments it is made of; of large models piece by piece, with the same bits."""
    if g.shape[1] <= LARGE:
        first, second = moments(g, first, second, beta1, beta2)
        return adam_step(first, second, size, scale, eps), first, second
    whole = torch.empty_like(g), torch.empty_like(g), torch.empty_like(g)
    for begin in range(0, g.shape[1], PIECE):
        part = slice(begin, begin + PIECE)
        made = moved(g[:, part], first[:, part], second[:, part], beta1, beta2, size, scale, eps)
        for array, numbers in zip(whole, made, strict=True):
            array[:, part] = numbers
    return whole


def adam_step(first: Tensor, second: Tensor, size: Tensor, scale: Tensor, eps: float) -> Tensor:
    """size first / (sqrt(scale second) + eps): the corrected step size, and the correction of `second`, `[R, 1]`."""
    root = (second * scale.to(second.dtype)).sqrt_().add_(eps)
    step = (first * size.to(first.dtype)).div_(root)
    # Without eps a gradient that was always 0 gives 0 / 0, which is no step.
    return step if eps > 0.0 else torch.where(root > 0.0, step, torch.zeros_like(step))


def cosine(g: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and inner product of two directions `[R, P]`, float64 `[R, 1]`; the cosine is NaN where one is unusable.

    Unusable: zero, as a reference is where there is none, or not finite.
    """
    g, reference = g.double(), reference.double()
    inner = (g * reference).sum(-1, keepdim=True)
    # Rounding may carry the cosine of parallel vectors beyond 1.
    lengths = g.norm(dim=-1, keepdim=True) * reference.norm(dim=-1, keepdim=True)
    return (inner / lengths).clamp(-1.0, 1.0), inner


def forgotten(reference: Tensor, lost: Tensor) -> Tensor:
    """The reference `[R, P]` without those of replicates whose direction was lost, bool `[R]`."""
    return torch.where(lost.unsqueeze(-1), torch.zeros_like(reference), reference)


def remembered(direction: Tensor) -> Tensor:
    """The direction as a later reference: zero, which is none, where it is not finite."""
    usable = torch.isfinite(direction).all(-1, keepdim=True)
    return torch.where(usable, direction, torch.zeros_like(direction))
