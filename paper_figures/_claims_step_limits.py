"""Claims of staleness and learning rate (arXiv 2607.01083)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "2607.01083")
CLAIMS = (
    _claim(
        "The maximum stable rate is flat at small staleness S, then decreases as 1/S",
        "mixed",
        "with linear gradients, {step_limits:rule_inside} of {step_limits:rule_points} rates agree with the "
        "claim; on a flawed reward, GRPO's "
        "rate at staleness {step_limits:stale} is {step_limits:tokens} that on fresh data",
        "step_limits",
        when="the claim holds for linear gradients; for GRPO on true rewards, no limit is found at small staleness",
        stated="2607.01083/step-limit",
    ),
    _claim(
        "Collapse time × learning rate is constant",
        "under conditions",
        "for GRPO, time × rate is {step_limits:time_little} at small staleness × rate, and "
        "{step_limits:time_middle} at medium staleness × rate",
        "collapse_times",
        when="linear gradients below the limit; GRPO only while staleness × rate is at most 0.1",
        stated="2607.01083/collapse-time",
    ),
)
