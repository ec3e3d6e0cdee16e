"""Claims of staleness and learning rate (arXiv 2607.01083)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "2607.01083")
CLAIMS = (
    _claim(
        "The maximum rate is flat in staleness S, then decreases as 1/S",
        "mixed",
        "{step_limits:rule_inside} of {step_limits:rule_points} limits agree; "
        "GRPO's limit on a proxy rises {step_limits:tokens}",
        "step_limits",
        when="the claim holds for linear gradients and graded tokens; on proxies, the rate rises",
        stated="2607.01083/step-limit",
    ),
    _claim(
        "Collapse time × learning rate is constant",
        "under conditions",
        "time × rate is {step_limits:time_little}, then {step_limits:time_much}",
        "collapse_times",
        when="staleness × rate is at most about one",
        stated="2607.01083/collapse-time",
    ),
)
