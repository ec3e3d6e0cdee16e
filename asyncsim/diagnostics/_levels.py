"""Log ratios of tokens or of sequences with their masses, and metrics with settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from asyncsim import checks
from asyncsim.diagnostics._diagnostic import samples
from asyncsim.step import Step

LEVELS = ("sequence", "token")


@dataclass(frozen=True)
class Bound:
    """A function of a step with its settings filled in; equal where both are."""

    function: Callable[..., Tensor]
    settings: tuple[Any, ...]

    def __call__(self, step: Step) -> Tensor:
        """The number of each replicate, `[R]`."""
        return self.function(step, *self.settings)


def named(name: str, **changed: tuple[Any, Any]) -> str:
    """The metric's name in a trace: that of its file, and every setting (value, default) that is not the default.

    >>> named("log_ratio_quantile", level=("token", "sequence"), q=(0.5, 0.5))
    'log_ratio_quantile_token'
    """
    return "_".join([name, *(str(value) for value, default in changed.values() if value != default)])


def checked(level: str) -> str:
    """ "sequence" or "token"."""
    return checks.one_of("level", level, LEVELS, "say whether ratios of tokens or of sequences are meant")


def token_share(step: Step) -> Tensor:
    """Mass of each generated token in the step, float64 `[R, G, N, T]`, total 1."""
    weight = (step.mass.unsqueeze(-1) * step.batch.mask).double()
    total = weight.sum((1, 2, 3), keepdim=True)
    return weight / torch.where(total > 0, total, torch.ones_like(total))


def sample_share(step: Step) -> Tensor:
    """Mass of each sample that has a token, float64 `[R, G, N]`, total 1."""
    weight = step.step_mass.double() * (step.batch.lengths > 0)
    total = weight.sum((1, 2), keepdim=True)
    return weight / torch.where(total > 0, total, torch.ones_like(total))


def token_count(step: Step) -> Tensor:
    """Tokens of the whole step that the masses stand for, `[R]`; infinity for a population."""
    return samples(step) * (step.step_mass * step.batch.lengths).double().sum((1, 2))


def ratios_of(step: Step, level: str) -> tuple[Tensor, Tensor]:
    """Untruncated log ratios pi/mu, and masses: of sequences `[R, G, N]` or of tokens `[R, G, N, T]`."""
    if level == "sequence":
        return step.sequence_log_ratio, step.step_mass.double()
    return step.log_ratio, token_share(step)
