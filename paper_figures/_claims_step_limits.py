"""Claims of staleness and learning rate (arXiv 2607.01083)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "2607.01083")
CLAIMS = (
    _claim(
        "The maximum stable rate is flat at small staleness S, then decreases as 1/S",
        "under conditions",
        "with linear gradients, {step_limits:rule_inside} of {step_limits:rule_points} rates agree with the "
        "claim; on a flawed reward, GRPO's "
        "rate at staleness {step_limits:stale} is {step_limits:tokens} that on fresh data",
        "step_limits",
        when="linear gradients; GRPO's rate rises on flawed rewards; on true rewards it falls, then is flat",
        stated="2607.01083/step-limit",
    ),
    _claim(
        "Collapse time × learning rate is constant",
        "under conditions",
        "for GRPO, time × rate is {step_limits:time_little} at small staleness × rate, and "
        "{step_limits:time_middle} at medium staleness × rate",
        "collapse_times",
        when="linear gradients below the limit; GRPO, roughly, while the rate and staleness × rate are small",
        stated="2607.01083/collapse-time",
    ),
)
