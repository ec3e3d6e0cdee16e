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
        "claim; on tokens, GRPO's "
        "rate at staleness {step_limits:stale} is {step_limits:tokens} that on fresh data",
        "step_limits",
        when="linear gradients; on flawed rewards, GRPO's rate rises",
        stated="2607.01083/step-limit",
        held="limit",
        test="after this many updates, limits are flat, then fall as 1/S",
    ),
    _claim(
        "Collapse time × learning rate is constant",
        "under conditions",
        "for GRPO, time × rate is {step_limits:time_little} at small staleness × rate, and "
        "{step_limits:time_middle} at medium staleness × rate",
        "collapse_times",
        when="linear gradients below the limit; GRPO only while the rate and staleness × rate are small",
        stated="2607.01083/collapse-time",
        held="constant",
        test="at this staleness, the product is within 25 % of that at the smallest rate",
    ),
)
