"""Weights of a sampler in fewer bits than those of its trainer."""

from __future__ import annotations

import torch
from torch import Tensor

from asyncsim.base import checks

SAMPLERS = ("bfloat16", "int8")
"""Formats that the weights of a network's sampler may be rounded to."""


def levels(weight: Tensor, along: int | tuple[int, ...]) -> Tensor:
    """Weights on 255 levels, symmetric about 0; those along these axes share a scale, largest size / 127.

    >>> levels(torch.tensor([[127.0, 1.4], [0.0, 0.5]]), 1).tolist()
    [[127.0, 1.0], [0.0, 0.5]]
    """
    scale = weight.abs().amax(along, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny) / 127.0
    return (weight / scale).round() * scale


def rounded(weight: Tensor, form: str, along: int | tuple[int, ...] | None) -> Tensor:
    """Weights in a format, computed with in the trainer's: int8 leaves those without rows (`along` None) alone."""
    if form == "bfloat16":
        return weight.to(torch.bfloat16).to(weight.dtype)
    return weight if along is None else levels(weight, along)


def checked(sampler: str | None) -> str | None:
    """One of the formats, or None for the trainer's own weights."""
    if sampler is not None:
        checks.one_of("sampler", sampler, SAMPLERS, "leave it out for the trainer's own weights")
    return sampler
