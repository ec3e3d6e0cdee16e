"""Effective sample size of clamped ratios over tokens: the one that cannot fall below its floor."""

from __future__ import annotations

from torch import Tensor

from asyncsim import checks, ratios
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.diagnostics._levels import Bound, checked, named, token_share
from asyncsim.step import Step


def _clamped(step: Step, high: float, low: float, level: str) -> Tensor:
    log_ratio = step.log_ratio
    # One sequence ratio on each of its tokens: long sequences count more.
    found = log_ratio if level == "token" else step.sequence_log_ratio.unsqueeze(-1).expand(log_ratio.shape)
    return ratios.ess(found, token_share(step), high, low)


def ess_token_clamped(high: float = 2.0, low: float | None = None, level: str = "token") -> Metric:
    """Effective sample size over tokens of clamped ratios: ESS = 1 / mean_it (w_it / mean w)^2, w = clip(r, low, high).

    With low = 1/high it cannot fall below 4/(C + 1/C)^2, C = high: 0.64 for 2, 0.36 for 3, 0.148 for 5, whatever the
    truth, so that an alarm below the floor never fires; with low = 0 it can, down to 1/n. With level "sequence" the
    ratio of a sequence stands on each of its tokens, which weighs sequences by their lengths.

    Arguments: `high` >= 1 and `low` in [0, 1] (default 1/high; 0 in newer releases), pure numbers; `level`, "token" or
    "sequence". Returns a metric of shape `[R]`, a pure number in (0, 1], named ess_token_clamped and every setting that
    is not the default. Raises `InputError` for values outside these ranges. Blind to everything beyond the bounds, to a
    common factor between them, and to products of token ratios. Source: as in verl.

    >>> ess_token_clamped(8.0, low=0.0).name
    'ess_token_clamped_8.0_0.0'
    """
    upper = checks.real("high", high, "the upper bound of the clamp", 1.0)
    lower = None if low is None else checks.real("low", low, "the lower bound of the clamp", 0.0, 1.0)
    name = named("ess_token_clamped", high=(upper, 2.0), low=(lower, None), level=(checked(level), "token"))
    least = 1.0 / upper if lower is None else lower
    return Metric(name, Bound(_clamped, (upper, least, level)), outputs=("log_prob",))
