"""Claims of staleness and learning rate (arXiv 2607.01083)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "2607.01083")
CLAIMS = (
    _claim(
        "The largest stable rate is flat in staleness, then falls as 1/S",
        "under conditions",
        "{step_limits:rule_inside} of {step_limits:rule_points} limits on the rule; GRPO on a proxy: "
        "{step_limits:tokens_grpo} as large at S = 64",
        "step_limits",
        when="linear gradients; on proxies the limit rises, on honest tasks nothing is flat",
        stated="2607.01083/step-limit",
    ),
    _claim(
        "Collapse time times rate is constant where drift binds",
        "under conditions",
        "GRPO on a proxy: {step_limits:time_little} at S × rate to 0.1, {step_limits:time_much} at 1.5 to 3",
        "step_limits",
        when="little staleness times rate",
        stated="2607.01083/collapse-time",
    ),
)
