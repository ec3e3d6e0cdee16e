"""Claims of papers that share a claim, judged on the same runs."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "Across papers")
CLAIMS = (
    _claim(
        "Low ESS announces collapse (VCPO)",
        "mixed",
        "AUC of ESS {alarms:ess}, of token ESS {alarms:token_ess}",
        "alarms",
        when="ESS ranks runs better than chance in all settings, but announces few falls",
    ),
    _claim(
        "Gradient alignment announces collapse (GAC)",
        "mostly not",
        "AUC of {alarms:cosine_range}, depending on the setting",
        "alarms",
        when="alignment beats chance only on chains of bits",
    ),
    _claim(
        "Importance weights lift the limit that staleness sets on the learning rate",
        "reproduced",
        "maximum rate × curvature {phase_diagram:bandit_weighted} and {phase_diagram:graded_weighted}; "
        "without weights {phase_diagram:bandit_plain}",
        "phase_diagram",
        when="for ratios of one token, with plain SGD",
    ),
    _claim(
        "ESS measures what stale samples are worth",
        "mostly not",
        "ESS divided by worth: {ess_five:sequence_bandit}, {ess_five:sequence_graded} and {ess_five:sequence_sparse}",
        "ess_five",
        when="ESS is nearly right at staleness 1",
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
