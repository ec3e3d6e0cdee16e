"""Claims of papers that share a claim, judged on the same runs."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "Across papers")
CLAIMS = (
    _claim(
        "Low ESS announces collapse (VCPO)",
        "under conditions",
        "AUC {alarms:ess}; token ESS {alarms:token_ess}",
        "alarms",
        when="better than chance at all places; few announced",
    ),
    _claim("Gradient alignment announces it (GAC)", "mixed", "AUC {alarms:cosine_range} over places", "alarms"),
    _claim(
        "Weights lift the limit that staleness sets",
        "under conditions",
        "rate {phase_diagram:bandit_weighted} and {phase_diagram:graded_weighted}; "
        "without weights {phase_diagram:bandit_plain}",
        "phase_diagram",
        when="ratios of one token; their noise takes part of it back",
    ),
    _claim(
        "ESS counts what stale samples are worth",
        "not reproduced",
        "ESS / worth: {ess_five:sequence_bandit}, {ess_five:sequence_graded} and {ess_five:sequence_sparse}",
        "ess_five",
    ),
)
