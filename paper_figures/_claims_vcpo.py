"""Claims of VCPO (arXiv 2602.17616)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim, Item

_item = partial(Item, "VCPO")
_claim = partial(Claim, "VCPO")
CLAIMS = (
    _claim(
        "On stale data, a few samples carry most of a batch's importance weight",
        "under conditions",
        "at staleness {vcpo_ess:staleness}, one of {vcpo_ess:batch} samples of {vcpo_ess:longest} tokens carries "
        "{vcpo_ess:share_most} % of the weight",
        "vcpo_ess",
        when="where theory predicts an ESS of at most a tenth: 64 tokens at staleness 64, or 16 at 128",
        held="few",
        test="at that staleness, ESS is at most a tenth of the batch size",
    ),
    _claim(
        "Importance ratios of very stale data are heavy-tailed",
        "mostly",
        "Hill's index decreases to {vcpo_tail:last} as staleness grows, and is below 1 from staleness "
        "{vcpo_tail:below_mean}",
        "vcpo_tail",
        when="over the sampled range only, as the ratios are bounded",
        held="heavy",
        test="at that staleness (32 or more), Hill's index is below 2 (infinite variance)",
    ),
    _claim(
        "Truncated importance sampling (IS) collapses at high staleness",
        "not reproduced",
        "with noisy graded rewards, {vcpo_training:truncated_late_collapsed} of runs collapse at staleness "
        "{vcpo_training:largest}",
        "vcpo_training",
        when="without a penalty, a minority of runs collapses",
        held="truncated",
        test="at that rate (in best synchronous ones), most runs collapse",
    ),
    _claim(
        "With a KL penalty, truncated IS collapses at staleness 12",
        "mostly not",
        "at the 4× rate, {vcpo_steps:tis_fell} of runs fall, and the return ends at {vcpo_steps:tis_end}",
        "vcpo_steps",
        when="at the 4× rate and constant staleness, the return ends as low as it began",
        held="truncated",
        test="most runs fall, and the final return is below half of that of synchronous training",
    ),
    _claim(
        "VCPO trains stably up to staleness 128",
        "mostly",
        "with noisy graded rewards, the final return is {vcpo_training:vcpo_late} of at most 1; at the 4× rate, "
        "{vcpo_rates:bold_vcpo_collapsed} of runs collapse",
        "vcpo_training",
        when="stable but slow at the best synchronous rate; undecided at higher rates with noisy graded rewards",
        held="stable",
        test="at that rate (in best synchronous ones), fewer than a tenth of runs collapse",
    ),
    _claim(
        "VCPO as in the authors' code trains stably at staleness 12",
        "mixed",
        "with standardized advantages, {vcpo_suite:release_fell} of runs fall at the 4× rate",
        "vcpo_suite",
        when="at the best synchronous rate, no run falls",
        held="released",
        test="fewer than a tenth of runs fall",
    ),
    _claim(
        "The learning rate must follow the ESS of each batch",
        "not reproduced",
        "compared with VCPO's mean factor while learning, the ESS rule changes the final return by "
        "{vcpo_timing:late_learning}",
        "vcpo_timing",
        when="a constant factor chosen afterwards does as well",
        held="rule",
        test="the ESS rule ends more than 0.02 above every other choice of factors",
    ),
    _claim(
        "Prior stabilizers fail at high staleness, and VCPO does not",
        "mixed",
        "at tuned rates, VCPO reaches {vcpo_controls:high_vcpo_tuned} and truncated IS {vcpo_controls:high_tis_tuned} "
        "in {vcpo_controls:short} updates; later, both are nearly equal",
        "vcpo_controls",
        when="against truncated IS only; at one shared rate in two of three settings, at tuned rates in none",
        held="prior",
        test="VCPO's final return exceeds 0.9 and truncated IS's does not, at staleness 32 or more",
    ),
    _claim(
        "At the 4× rate, prior stabilizers fail, and VCPO does not",
        "mostly not",
        "up to staleness {one_rate:oldest}, {one_rate:vcpo_bold} of VCPO's runs and {one_rate:ppo_bold} of PPO's fall",
        "one_rate",
        when="no run of VCPO falls; most runs of three rivals fall on the chain, and of two on tokens",
        held="prior",
        test="most runs of the rival fall, and fewer than a tenth of VCPO's",
    ),
    _claim(
        "At staleness 12, masking and clipping collapse, and VCPO does not",
        "mostly not",
        "at the 4× rate, most runs of {vcpo_suite:fallen} fall; {vcpo_suite:bold_more} of {vcpo_suite:arms} rivals "
        "returns more than VCPO",
        "vcpo_suite",
        when="at the best synchronous rate, only CISPO's runs fall",
        held="prior",
        test="most runs of the rival fall, and fewer than a tenth of VCPO's",
    ),
    _claim(
        "VCPO outperforms a broad suite of stabilizers",
        "mixed",
        "at tuned rates, rivals are worse than VCPO in {rivals:vcpo_old_worse} of {rivals:vcpo_old} comparisons at "
        "constant staleness, and better in {rivals:vcpo_old_better}",
        "rivals",
        when="constant staleness; with heavy-tailed staleness, all comparisons are equal or undecided",
        held="vcpo",
        test="the rival's mean return is worse, both at tuned rates",
    ),
    _claim(
        "VCPO's off-policy baseline minimizes the gradient's variance",
        "mostly",
        "at staleness {vcpo_baselines:late}, the variance is {vcpo_baselines:many_opob_variance} % of that with a "
        "batch-mean baseline; with the best constant, {vcpo_baselines:many_constant_variance} %",
        "vcpo_baselines",
        when="undecided against the best constant on some stale data; part of the reduction is bias",
        held="least",
        test="at that staleness, the variance is lower than with every other baseline",
        stated="2602.17616/baseline",
    ),
    _claim(
        "A low ESS reliably predicts collapse",
        "not reproduced",
        "at {vcpo_collapse:rate} % false alarms, low ESS catches {vcpo_collapse:chain_ess_announced} of collapses on a "
        "chain and {vcpo_collapse:tokens_ess_announced} on token sequences",
        "vcpo_collapse",
        when="a low ESS ranks runs better than chance (AUC in other settings: {alarms:ess_range})",
        held="caught",
        test="so many updates ahead, at 10 % false alarms, low ESS catches most collapses",
        stated="2602.17616/ess-predicts-collapse",
    ),
    _claim(
        "Sharp drops of ESS precede collapse",
        "mixed",
        "with truncated IS, ESS drops from {vcpo_fall:ess_before} to {vcpo_fall:ess_near}",
        "vcpo_fall",
        when="with truncated IS and sequence masked IS; mostly undecided with other methods",
        held="drop",
        test="from 32 to 8 updates before falls, median ESS drops by more than its intervals",
    ),
    _claim(
        "A drop of ESS predicts collapse",
        "not reproduced",
        "80 updates before collapse, a drop of ESS has an AUC of {vcpo_collapse:chain_drop_far} on a chain",
        "vcpo_collapse",
        when="drops do not rank runs",
        held="ess_drop",
        test="so many updates ahead, the AUC of a drop is above 0.7",
    ),
    _claim(
        "Spikes of the gradient norm precede collapse",
        "mixed",
        "a large gradient has an AUC of {vcpo_collapse:tokens_norm_near} on token sequences and "
        "{vcpo_collapse:chain_norm_near} on a chain",
        "vcpo_collapse",
        when="on token sequences only; on another chain, the norm [peaks after falls](#vcpo_fall)",
        held="norm",
        test="so many updates ahead, the AUC of a large gradient is above 0.7",
    ),
    _claim(
        "A mask on the geometric-mean ratio removes every sequence",
        "not reproduced",
        "the mask removes {vcpo_masks:geometric_removed} of the tokens",
        "vcpo_masks",
        when="the mask removes most tokens, and training on the rest still learns",
        held="every",
        test="the mask removes at least 99 % of the tokens",
    ),
    _claim(
        "Sequence ratios stay reliable as staleness, batch and horizon grow; token ratios do not",
        "mixed",
        "at staleness {vcpo_prefix:lag_most}, sequence ratios reach a return of {vcpo_prefix:lag_sequence_most}, "
        "token ratios {vcpo_prefix:lag_token_most}",
        "vcpo_prefix",
        when="the claim holds for staleness and batch size, through the KL penalty only, but not for horizon",
        held="sequence",
        test="sequence ratios lose at most 0.05 of return, and token ratios more",
    ),
    _claim(
        "At staleness 2, VCPO matches synchronous accuracy 2.5 times faster",
        "mostly not",
        "VCPO is {vcpo_hours:vcpo_paper_speed} times as fast as synchronous training",
        "vcpo_hours",
        when="only if lengths vary much and training is quick",
        held="faster",
        test="with that training time, VCPO is at least 2.5 times as fast",
    ),
)
ITEMS: tuple[Item, ...] = (
    _item(
        "Accuracy over steps: truncated IS, VCPO, synchronous",
        "repo",
        "figure",
        "32 tokens",
        "vcpo_training",
        "mostly",
        "final return: truncated IS {vcpo_training:truncated_shown}, VCPO {vcpo_training:vcpo_shown}, "
        "synchronous {vcpo_training:sync}",
        "MATH-500: VCPO at staleness 10 71.6 %, synchronous 72.0 %",
    ),
    _item(
        "Staleness 16 to 128",
        "repo",
        "figure",
        "constant staleness",
        "vcpo_training",
        "",
        "runs that collapse: VCPO {vcpo_training:vcpo_late_collapsed}, truncated IS "
        "{vcpo_training:truncated_late_collapsed}",
        "stable to at least 128",
        claim="VCPO trains stably up to staleness 128",
    ),
    _item(
        "Truncated IS with VCPO's baseline alone",
        "notes",
        "figure",
        "staleness 128",
        "vcpo_controls",
        "mixed",
        "return: baseline alone {vcpo_controls:high_baseline}, VCPO {vcpo_controls:high_vcpo}; at tuned "
        "rates, {vcpo_controls:high_baseline_tuned} and {vcpo_controls:high_vcpo_tuned}",
    ),
    _item(
        "Formula and variance of the baseline",
        "notes",
        "figure",
        "imposed drift; truncated ratios",
        "vcpo_baselines",
        "",
        "the variance is {vcpo_baselines:many_opob_variance} % of that with a batch-mean baseline",
        claim="VCPO's off-policy baseline minimizes the gradient's variance",
    ),
    _item(
        "Step scaled by the root of ESS",
        "notes",
        "figure",
        "our own controls",
        "vcpo_timing",
        "",
        "compared with a constant factor, the ESS rule changes the final return by {vcpo_timing:late_learning}",
        claim="The learning rate must follow the ESS of each batch",
    ),
    _item(
        "Accuracy over hours",
        "abstract",
        "figure",
        "our own spread of lengths",
        "vcpo_clock",
        "",
        "return after {vcpo_clock:hour} h: VCPO {vcpo_clock:vcpo_return}, synchronous "
        "{vcpo_clock:sync_return}, truncated IS {vcpo_clock:tis_return}",
        "about 42 h against 105 h, 2.5 times",
        claim="At staleness 2, VCPO matches synchronous accuracy 2.5 times faster",
    ),
    _item(
        "Gradient norm spikes before collapse",
        "abstract",
        "figure",
        "medians around falls",
        "vcpo_fall",
        "",
        "the norm peaks at {vcpo_fall:peak_fell} times its earlier median, {vcpo_fall:when} updates after the fall",
        claim="Spikes of the gradient norm precede collapse",
    ),
    _item(
        "ESS over steps",
        "notes",
        "figure",
        "KL penalty; batches of 32",
        "vcpo_steps",
        "mixed",
        "mean ESS: truncated IS {vcpo_steps:tis_ess}, VCPO {vcpo_steps:vcpo_ess}; ESS drops before falls",
    ),
    _item(
        "Suite of baselines at staleness 12",
        "notes",
        "figure",
        "KL penalty; batches of 32",
        "vcpo_suite",
        "mostly not",
        "rivals with a lower return: {vcpo_suite:bold_less} of {vcpo_suite:arms} at one rate, "
        "{vcpo_suite:own_less} at tuned rates",
        "most baselines collapse",
    ),
    _item(
        "KL over steps",
        "notes",
        "figure",
        "4× rate; KL from initial policy",
        "vcpo_steps",
        "mixed",
        "KL: truncated IS {vcpo_steps:tis_kl} nats, VCPO {vcpo_steps:vcpo_kl} nats",
    ),
    _item(
        "Geometric masks remove everything",
        "notes",
        "figure",
        "verl's band; no crash",
        "vcpo_masks",
        "not reproduced",
        "the mask removes {vcpo_masks:geometric_removed} of the tokens",
        "masks all sequences, no loss",
    ),
    _item(
        "Trusted share of M2PO under mixed staleness",
        "notes",
        "figure",
        "paper's curve not readable",
        "vcpo_masks",
        "not tested here",
        "trusted share: {vcpo_masks:trusted_mixed} with mixed staleness, {vcpo_masks:trusted_constant} with "
        "constant staleness",
    ),
    _item(
        "Sweep of the cap",
        "notes",
        "figure",
        "4× rate; KL penalty",
        "vcpo_caps",
        "not reproduced",
        "the median run falls at update {vcpo_masks:eight_when} with cap 8, and at {vcpo_masks:sequence_when} with cap "
        "{vcpo_masks:sequence_longest}",
        "cap 8 survives longest",
    ),
    _item(
        "First author's chains",
        "notes",
        "figure",
        "KL penalty; single sweeps",
        "vcpo_prefix",
        "",
        "return at staleness {vcpo_prefix:lag_most}: sequence ratios {vcpo_prefix:lag_sequence_most}, token "
        "ratios {vcpo_prefix:lag_token_most}, geometric ratios {vcpo_prefix:lag_geometric_most}; not "
        "reproduced for horizon",
        "sequence ratios robust",
        claim="Sequence ratios stay reliable as staleness, batch and horizon grow; token ratios do not",
    ),
    _item(
        "Seconds per step against length",
        "notes",
        "figure",
        "simulated; 16 slots",
        "vcpo_clock",
        "reproduced",
        "asynchrony shortens steps by a factor of {vcpo_clock:short_speed} with short responses, and of "
        "{vcpo_clock:long_speed} with long ones",
    ),
)
"""Figures, tables and headline statements of the paper that a toy can show, in its order."""
