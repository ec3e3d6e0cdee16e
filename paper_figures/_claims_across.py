"""Claims that several papers share, judged on the same runs."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import OWN, Claim

_alarm = partial(Claim, "several papers", subject="alarms")
_method = partial(Claim, subject="stabilizers")
CLAIMS = (
    _alarm(
        "Low ESS announces collapse (VCPO)",
        "mixed",
        "the AUC is {alarms:ess} for sequence ESS and {alarms:token_ess} for token ESS; {alarms:ess_announced} and "
        "{alarms:token_ess_announced} of falls are caught",
        "alarms",
        when="both rank runs better than chance in all settings; only token ESS is better than low return",
    ),
    _alarm(
        "Gradient alignment announces collapse (GAC)",
        "under conditions",
        "the AUC of the cosine is {alarms:cosine_range}, depending on the setting",
        "alarms",
        when="the cosine beats chance on chains of bits only",
    ),
    _method(
        "several papers",
        "Stabilizers beat plain RLOO when all are tuned",
        "mostly not",
        "stabilizers win {league:better} of {league:judged} comparisons, and lose {league:worse}",
        "league",
    ),
    _method(
        "several papers",
        "Stabilizers beat RLOO on long sequences",
        "mostly not",
        "at one rate, stabilizers win {league_long:better_one} of {league_long:judged_one} comparisons, and lose "
        "{league_long:worse_one}; tuned, {league_long:better_own} of {league_long:judged_own}, and "
        "{league_long:worse_own}",
        "league_long",
        when="16 to 512 tokens; the initial policy favors wrong tokens",
    ),
    _method(
        OWN,
        "Token ratios beat sequence ratios on stale data",
        "mostly",
        "sequence ratios lose {token_ratios:worse} of {token_ratios:judged} comparisons, and win {token_ratios:better}",
        "token_ratios",
        when="on mostly fresh data, both are equal",
    ),
)
