"""Quantile of the untruncated log ratios of the step."""

from __future__ import annotations

from torch import Tensor

from asyncsim import checks, ratios
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.diagnostics._levels import Bound, checked, named, ratios_of
from asyncsim.step import Step


def _quantile(step: Step, q: float, level: str) -> Tensor:
    return ratios.quantile(*ratios_of(step, level), q)


def log_ratio_quantile(q: float = 0.5, level: str = "sequence") -> Metric:
    """Quantile of log ratios: l_q = min {x : E [log w <= x] >= q}, w = W_i or r_it = pi/mu untruncated, by mass.

    Quantiles of log w are logs of the quantiles of w; usual are q = 0.01, 0.05, 0.5, 0.95 and 0.99, each a metric.

    Arguments: `q` in [0, 1], a pure number; `level`, "sequence" or "token". Returns a metric of shape `[R]`, in nats,
    always a log ratio that occurs. Raises `InputError` for a q outside [0, 1] and an unknown level. Blind to how far
    beyond it ratios lie; with n samples quantiles below 1/n are the smallest one. Source: textbook.

    >>> log_ratio_quantile(0.99, level="token").name
    'log_ratio_quantile_0.99_token'
    """
    share = checks.real("q", q, "give the share of ratios that lie below", 0.0, 1.0)
    name = named("log_ratio_quantile", q=(share, 0.5), level=(checked(level), "sequence"))
    return Metric(name, Bound(_quantile, (share, level)), outputs=("log_prob",))
