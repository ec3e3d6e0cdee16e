"""Claims of papers that share a claim, judged on the same runs."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "Across papers")
CLAIMS = (
    _claim(
        "Low ESS announces collapse (VCPO)",
        "mixed",
        "the AUC is {alarms:ess} for ESS and {alarms:token_ess} for token ESS",
        "alarms",
        when="ESS ranks runs better than chance in all settings, but on average no better than low return",
    ),
    _claim(
        "Gradient alignment announces collapse (GAC)",
        "mostly not",
        "the AUC of the cosine is {alarms:cosine_range}, depending on the setting",
        "alarms",
        when="the cosine beats chance only on chains of bits",
    ),
    _claim(
        "Importance weights raise the maximum learning rate on stale data",
        "reproduced",
        "the maximum rate × curvature is {phase_diagram:bandit_weighted} (bandit) and "
        "{phase_diagram:graded_weighted} (graded) with weights, and {phase_diagram:bandit_plain} without",
        "phase_diagram",
        when="tested with token ratios and plain SGD",
    ),
    _claim(
        "ESS measures what stale samples are worth",
        "mostly not",
        "ESS divided by worth is {ess_five:sequence_bandit}, {ess_five:sequence_graded} and {ess_five:sequence_sparse} "
        "on three tasks",
        "ess_five",
        when="ESS is nearly right only at staleness 1",
    ),
    _claim(
        "Stabilizers beat RLOO on long sequences",
        "mostly not",
        "stabilizers win {league_long:better_one} of {league_long:judged_one} comparisons, "
        "and lose {league_long:worse_one}",
        "league_long",
        when="the initial policy favors wrong tokens; learning rates are shared or tuned",
    ),
)
