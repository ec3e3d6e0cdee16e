"""Claims of papers that share a claim, judged on the same runs."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "Across papers")
CLAIMS = (
    _claim(
        "Low ESS announces collapse (VCPO)",
        "mixed",
        "AUC {alarms:ess}; token ESS {alarms:token_ess}",
        "alarms",
        when="it ranks runs in all settings, and announces few falls",
    ),
    _claim(
        "Gradient alignment announces it (GAC)",
        "mostly not",
        "AUC {alarms:cosine_range} over settings",
        "alarms",
        when="above chance on chains alone",
    ),
    _claim(
        "Weights lift the limit that staleness sets",
        "reproduced",
        "rate {phase_diagram:bandit_weighted} and {phase_diagram:graded_weighted}; "
        "without weights {phase_diagram:bandit_plain}",
        "phase_diagram",
        when="ratios of one token, plain steps",
    ),
    _claim(
        "ESS counts what stale samples are worth",
        "mostly not",
        "ESS divided by worth: {ess_five:sequence_bandit}, {ess_five:sequence_graded} and {ess_five:sequence_sparse}",
        "ess_five",
        when="at staleness 1 nearly",
    ),
    _claim(
        "Stabilizers beat RLOO at length",
        "mostly not",
        "{league_long:better_one} of {league_long:judged_one} better, {league_long:worse_one} worse",
        "league_long",
        when="a peaked start; one rate for all, and each tuned",
    ),
)
