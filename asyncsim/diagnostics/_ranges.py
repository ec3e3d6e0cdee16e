"""The range of every number that a trace may hold: those of diagnostics, and what links and methods report.

An interval of a bounded number ends at its bound, and its axis shows the whole range. What stands nowhere here (nor in
the `range` of its own `Metric`) is taken to be unbounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fnmatch import fnmatchcase

from asyncsim.diagnostics._diagnostic import Metric

Range = tuple[float, float]

SHARE: Range = (0.0, 1.0)
COSINE: Range = (-1.0, 1.0)
POSITIVE: Range = (0.0, math.inf)
ANY: Range = (-math.inf, math.inf)

RANGES: dict[str, Range] = {
    # Effective sample sizes over their number, and shares; a metric with settings has them behind its name.
    **dict.fromkeys(
        (
            "ess",
            "ess_applied",
            "ess_frames",
            "ess_mismatch",
            "ess_staleness",
            "ess_token",
            "ess_token_clamped*",
            "ess_within",
            "max_applied_share",
            "max_weight_share",
            "clip_active",
            "clip_dual",
            "clip_outside*",
            "gradient_cosine_valid",
            "masked_sequences",
            "masked_tokens",
            "mixed_versions",
            "ratio_above*",
            "ratio_below*",
            "zero_loss_sequences",
        ),
        SHARE,
    ),
    **dict.fromkeys(("exact_cosine", "gradient_cosine"), COSINE),
    **dict.fromkeys(
        (
            "applied_mean",
            "bias",
            "episodes",
            "exact_gradient_norm",
            "gradient_norm",
            "kl",
            "kl_k2",
            "log_ratio_variance",
            "m2_all",
            "m2_harmful",
            "mean_weight",
            "mismatch_variance",
            "ratio_sd*",
            "staleness",
            "staleness_*",
            "tail_index",
            "token_ratio_mean",
            "update_staleness",
            "variance",
        ),
        POSITIVE,
    ),
    **dict.fromkeys(("chi_square", "chi_square_token"), (-1.0, math.inf)),
    # A divergence estimated in a batch may be negative, and so may the entropy of a density.
    **dict.fromkeys(
        (
            "batch_return",
            "entropy",
            "episode_return",
            "exact_return",
            "kl_k1",
            "kl_reverse",
            "log_ratio_max*",
            "log_ratio_mean",
            "log_ratio_min*",
            "log_ratio_quantile*",
        ),
        ANY,
    ),
    # What links report.
    **dict.fromkeys(
        (
            "align_invalid",
            "align_projected",
            "align_skipped",
            "ess_step_broken",
            "ess_step_ess",
            "gono_beta1",
            "skip_nonfinite_skipped",
        ),
        SHARE,
    ),
    **dict.fromkeys(("align_cosine", "gono_cosine"), COSINE),
    **dict.fromkeys(
        ("ess_step_scale", "lr_by_lag_scale", "norm_before_clip", "random_scale", "scale", "staleness_step_scale"),
        POSITIVE,
    ),
    "ess_step_log_mean": ANY,
    # What methods, factors and penalties report.
    **dict.fromkeys(
        (
            "*_dropped",
            "bapo_share",
            "kept_sequences",
            "kept_tokens",
            "normalization_broken",
            "p3o_ess",
            "unknown_staleness",
        ),
        SHARE,
    ),
    **dict.fromkeys(("*_nonfinite", "bapo_high", "bapo_low", "sat_gate", "weight_before_normalization"), POSITIVE),
    **dict.fromkeys(("*_penalty", "*_theta"), ANY),
}


def of(name: str) -> Range | None:
    """The range of a metric or reported number by its name in a trace; None where none is declared.

    >>> of("ess"), of("ratio_above_8.0"), of("my_metric")
    ((0.0, 1.0), (0.0, 1.0), None)
    """
    exact = RANGES.get(name)
    return exact or next((value for pattern, value in RANGES.items() if fnmatchcase(name, pattern)), None)


def declared(names: Iterable[str], metrics: Iterable[Metric] = ()) -> dict[str, Range]:
    """Ranges of those names that are bounded; what a metric says of itself goes first."""
    own = {metric.name: metric.range for metric in metrics}
    found = {name: own.get(name) or of(name) or ANY for name in names}
    return {name: value for name, value in found.items() if value != ANY}
