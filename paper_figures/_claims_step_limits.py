"""Claims of staleness and learning rate (arXiv 2607.01083)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "2607.01083")
CLAIMS = (
    _claim(
        "Maximum rate flat in staleness, then 1/S",
        "mixed",
        "{step_limits:rule_inside} of {step_limits:rule_points} limits; GRPO on a proxy up {step_limits:tokens}",
        "step_limits",
        when="for linear gradients and graded tokens; on proxies it rises",
        stated="2607.01083/step-limit",
    ),
    _claim(
        "Collapse time × rate is constant",
        "under conditions",
        "time × rate {step_limits:time_little}, then {step_limits:time_much}",
        "collapse_times",
        when="staleness × rate up to about one",
        stated="2607.01083/collapse-time",
    ),
)
