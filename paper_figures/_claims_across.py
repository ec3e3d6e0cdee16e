"""Claims that several papers share, judged on the same runs."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import OWN, Claim

_alarm = partial(Claim, "several papers", subject="alarms")
_method = partial(Claim, subject="stabilizers")
CLAIMS = (
    _alarm(
        "Low ESS predicts collapse better than chance (VCPO)",
        "reproduced",
        "the AUC is {alarms:ess} for sequence ESS and {alarms:token_ess} for token ESS; {alarms:ess_announced} and "
        "{alarms:token_ess_announced} of falls are caught",
        "alarms",
        when="falls instead of collapses",
        held="ess",
        test="its AUC is above 0.5",
    ),
    _alarm(
        "Gradient alignment predicts collapse better than chance (GAC)",
        "under conditions",
        "the AUC of the cosine is {alarms:cosine_range}, depending on the setting",
        "alarms",
        when="chains of bits, 10 updates before falls",
        held="cosine",
        test="its AUC is above 0.5",
    ),
    _alarm(
        "With GAC, fewer of RLOO's runs fall at the 4× rate",
        "mixed",
        "on the chain, {one_rate:gac_chain} of runs fall with GAC, and {one_rate:rloo_chain} without",
        "one_rate",
        when="on the chain; on two other tasks, no run falls anyway",
        held="fewer",
        test="the share of runs that fall is lower with GAC",
    ),
    _method(
        "several papers",
        "Stabilizers beat plain RLOO when all are tuned",
        "mostly not",
        "stabilizers win {league:better} of {league:judged} comparisons, and lose {league:worse}",
        "league",
        when="all wins are on graded sequences at staleness 32",
        held="better",
        test="a stabilizer's mean return is better than RLOO's",
    ),
    _method(
        "several papers",
        "Stabilizers beat RLOO on long sequences",
        "mostly not",
        "at one rate, stabilizers win {league_long:better_one} of {league_long:judged_one} comparisons, and lose "
        "{league_long:worse_one}; tuned, {league_long:better_own} of {league_long:judged_own}, and "
        "{league_long:worse_own}",
        "league_long",
        when="16 to 512 tokens; most comparisons at one rate are lost",
        held="better",
        test="a stabilizer's mean return is higher than RLOO's",
    ),
    _method(
        OWN,
        "Token ratios beat sequence ratios on stale data",
        "mixed",
        "sequence ratios lose {token_ratios:worse} of {token_ratios:judged} comparisons, and win {token_ratios:better}",
        "token_ratios",
        when="token ratios never lose; on mostly fresh data, both are equal",
        held="tokens",
        test="mean return with token ratios is better",
    ),
)
