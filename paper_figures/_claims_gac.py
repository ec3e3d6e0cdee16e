"""Claims of GAC (arXiv 2603.01501); our reconstruction is judged unless said otherwise."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim, Item

_item = partial(Item, "GAC")
_claim = partial(Claim, "GAC", rebuilt=True)
CLAIMS = (
    _claim(
        "Consecutive stale gradients align; synchronous ones are nearly orthogonal",
        "under conditions",
        "over the first half of training, the mean cosine is {gac_cosine:early_16} at staleness {gac_cosine:middle} "
        "and {gac_cosine:early_0} in synchronous training",
        "gac_cosine",
        when="on the chain of bits at the best synchronous rate",
        rebuilt=False,
        held="aligned",
        test="at that staleness, the mean cosine exceeds 0.2, but not in synchronous training",
    ),
    _claim(
        "High alignment is the signature of stale training",
        "mostly not",
        "the correlation reaches {gac_causes:far_batch_256_0} in synchronous training",
        "gac_causes",
        when="alignment reveals staleness only near the maximum stable rate of constant staleness",
        rebuilt=False,
        stated="2603.01501/alignment",
        held="signature",
        test="the correlation exceeds 0.2 on stale data, but not in synchronous training",
    ),
    _claim(
        "High alignment warns of instability",
        "mixed",
        "{gac_cosine:lead} updates before falls, the AUC of the cosine is {gac_cosine:area_cosine}; across other "
        "settings, {alarms:cosine_range}",
        "gac_warning",
        when="10 updates before falls on a chain of bits",
        rebuilt=False,
        stated="2603.01501/early-warning",
        held="warns",
        test="that many updates before falls, the cosine's AUC is above 0.7",
    ),
    _claim(
        "Controlling alignment keeps training stable",
        "mixed",
        "{gac_steps:grpo_usual} of GRPO's runs fall, and {gac_steps:gac_usual} with GAC",
        "gac_steps",
        when="on the chain at staleness 16, but not at 32",
        stated="2603.01501/projection",
        held="usual",
        test="at least a tenth of runs fall without GAC, and fewer than a tenth with GAC",
    ),
    _claim(
        "Controlling alignment keeps training stable at the 4× rate",
        "mostly not",
        "at GRPO's 4× rate, {gac_steps:rloo_bold} of RLOO's runs fall, and {gac_steps:gac_on_rloo_bold} with GAC; of "
        "GRPO's runs, {gac_steps:grpo_bold} and {gac_steps:gac_bold}",
        "gac_steps",
        when="at RLOO's [lower 4× rate](#one_rate), GAC prevents most falls on the chain",
        held="bold",
        test="at least a tenth of runs fall without GAC, and fewer than a tenth with GAC",
    ),
    _claim(
        "Projecting or skipping aligned gradients keeps training stable",
        "mixed",
        "at staleness {gac_cosine:late}, {gac_cosine:bare} of GRPO's runs fall; with projection, at least "
        "{gac_cosine:projected}, with skips {gac_cosine:skipped}",
        "gac_thresholds",
        when="at staleness 16; at 32, only with skips above a cosine of 0.5 or 0.7",
        held="stable",
        test="fewer than a tenth of GRPO's runs on the chain fall",
    ),
    _claim(
        "GAC matches synchronous training at staleness 8 to 32",
        "mixed",
        "GAC reaches the final return of synchronous training in {gac_steps:even} of {gac_steps:places} settings "
        "(GRPO: {gac_steps:base_even}), and its mean return in {gac_steps:even_mean}",
        "gac_steps",
        when="GRPO without GAC matches it in more settings",
        held="even",
        test="at that staleness, the final return is less than 0.02 below synchronous GRPO's",
    ),
    _claim(
        "GAC outperforms GRPO, M2PO and BAPO on stale data",
        "mostly not",
        "at the 4× rate, wins/ties/losses are {gac_steps:all_bold}",
        "gac_steps",
        when="GAC never beats M2PO or BAPO",
        held="wins",
        test="at that staleness, the mean return is higher than GRPO's, M2PO's and BAPO's",
    ),
    _claim(
        "GAC on RLOO outperforms GRPO, M2PO and BAPO on stale data",
        "mixed",
        "at the 4× rate, wins/ties/losses are {gac_steps:rloo_all_bold}",
        "gac_steps",
        when="RLOO without GAC mostly does, too",
        held="rloo_wins",
        test="at that staleness, the mean return is higher than GRPO's, M2PO's and BAPO's",
    ),
    _claim(
        "GAC on RLOO also outperforms tuned stabilizers",
        "mixed",
        "GAC is better in {rivals:gac_old_worse} of {rivals:gac_old} comparisons, and worse in {rivals:gac_old_better}",
        "rivals",
        when="RLOO without GAC performs as well; constant staleness only",
        held="gac",
        test="at tuned rates of both methods, the rival's mean return is lower",
    ),
    _claim(
        "With skips, GAC on RLOO outperforms RLOO on stale data",
        "mostly not",
        "tuned GAC that skips above a cosine of 0.3 beats RLOO in {league:gac_count}",
        "league",
        when="worse than RLOO on graded tokens",
        held="gac",
        test="at tuned rates of both methods, the mean return of batches is higher than RLOO's",
    ),
    _claim(
        "GAC converges under bounded staleness",
        "not tested here",
        "we do not know the constants of GAC's own bound",
        "gac_bound",
        when="our own bound holds for plain SGD only",
        rebuilt=False,
    ),
)
ITEMS: tuple[Item, ...] = (
    _item(
        "Cosine of consecutive gradients over training",
        "abstract",
        "figure",
        "chain of bits",
        "gac_cosine",
        "",
        "cosine, first half: {gac_cosine:early_0} in synchronous training, {gac_cosine:early_16} at staleness 16",
        claim="Consecutive stale gradients align; synchronous ones are nearly orthogonal",
    ),
    _item(
        "Cosine as early warning",
        "abstract",
        "figure",
        "RLOO",
        "gac_warning",
        "",
        "AUC: cosine {gac_cosine:area_cosine}, staleness alone {gac_cosine:area_staleness}",
        claim="High alignment warns of instability",
    ),
    _item(
        "Accuracy over staleness",
        "abstract",
        "proxy",
        "three tasks",
        "gac_steps",
        "",
        "mean return: GAC {gac_steps:gac_return}, GRPO {gac_steps:grpo_return}, synchronous {gac_steps:fresh}",
        claim="GAC matches synchronous training at staleness 8 to 32",
    ),
    _item(
        "Comparison with GRPO, M2PO and BAPO",
        "notes",
        "figure",
        "three tasks; 4× rate",
        "gac_steps",
        "",
        "wins/ties/losses: {gac_steps:all_bold}",
        claim="GAC outperforms GRPO, M2PO and BAPO on stale data",
    ),
    _item(
        "Thresholds of the cosine",
        "notes",
        "figure",
        "chain of bits; staleness 32",
        "gac_thresholds",
        "",
        "runs that fall: {gac_cosine:bare} without GAC, {gac_cosine:skipped} with skipping; final return: "
        "{gac_cosine:bare_end} and {gac_cosine:skipped_end}",
        claim="Projecting or skipping aligned gradients keeps training stable",
    ),
    _item(
        "Return over steps at s = 8, 16, 32",
        "notes",
        "figure",
        "three tasks",
        "gac_steps",
        "mostly not",
        "wins/ties/losses against GRPO: {gac_steps:base_usual} at the best synchronous rate, "
        "{gac_steps:base_bold} at the 4× rate",
    ),
    _item(
        "Convergence under bounded staleness",
        "abstract",
        "proxy",
        "our own bound; plain SGD",
        "gac_bound",
        "",
        "{gac_bound:exceeding} of {gac_bound:points} settings exceed the bound",
        claim="GAC converges under bounded staleness",
    ),
)
"""Figures, tables and headline statements of the paper that a toy can show, in its order."""
