"""Ranges of numbers that a trace may hold: words for those of metrics, and those of what links and methods report.

An interval of a bounded number ends at its bound, and its axis shows the whole range. A metric states its own (`range`
of `Metric`); what stands nowhere is taken to be unbounded.
"""

import math
from collections.abc import Iterable
from fnmatch import fnmatchcase

from asyncsim.base.notation import RETURNS
from asyncsim.diagnostics._diagnostic import Metric

Range = tuple[float, float]
SHARE: Range = (0.0, 1.0)
COSINE: Range = (-1.0, 1.0)
POSITIVE: Range = (0.0, math.inf)
ANY: Range = (-math.inf, math.inf)

_LINKS = {
    "align_invalid align_projected align_skipped ess_step_broken ess_step_ess gono_beta1 skip_nonfinite_skipped": SHARE,
    "align_cosine gono_cosine": COSINE,
    "ess_step_scale lr_by_lag_scale norm_before_clip random_scale scale staleness_step_scale": POSITIVE,
    "lr_schedule_scale": SHARE,
    "ess_step_log_mean": ANY,
}
_METHODS = {
    "*_dropped bapo_share kept_sequences kept_tokens normalization_broken p3o_ess unknown_staleness": SHARE,
    "outside_nucleus": SHARE,
    "*_nonfinite bapo_high bapo_low group_mass sat_gate weight_before_normalization": POSITIVE,
    "*_penalty *_theta": ANY,
}
"""What methods, factors and penalties report, and links."""
RANGES = {name: value for reported in (_LINKS, _METHODS) for names, value in reported.items() for name in names.split()}


def of(name: str) -> Range | None:
    """The range of a reported number by its name in a trace; None where none is declared.

    >>> of("align_cosine"), of("mine_dropped"), of("my_number")
    ((-1.0, 1.0), (0.0, 1.0), None)
    """
    exact = RANGES.get(name)
    return exact or next((value for pattern, value in RANGES.items() if fnmatchcase(name, pattern)), None)


def declared(names: Iterable[str], metrics: Iterable[Metric], earnings: Range) -> dict[str, Range]:
    """Ranges of those names that are bounded; what a metric says of itself goes first."""
    by_metric = {metric.name: metric.range for metric in metrics} | dict.fromkeys(RETURNS, earnings)
    ranges = {name: by_metric.get(name) or of(name) or ANY for name in names}
    return {name: value for name, value in ranges.items() if value != ANY}
