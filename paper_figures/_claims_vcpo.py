"""Claims of VCPO (arXiv 2602.17616)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim, Item

_item = partial(Item, "VCPO")
_claim = partial(Claim, "VCPO")
CLAIMS = (
    _claim(
        "On stale data, a few samples carry most of a batch's importance weight",
        "reproduced",
        "at staleness {vcpo_ess:staleness}, one of {vcpo_ess:batch} samples of {vcpo_ess:longest} tokens carries "
        "{vcpo_ess:share_most} % of the weight",
        "vcpo_ess",
    ),
    _claim(
        "A few samples dominate because importance ratios are heavy-tailed",
        "mostly",
        "Hill's index decreases to {vcpo_tail:last} as staleness grows, and is below 1 from staleness "
        "{vcpo_tail:below_mean}",
        "vcpo_tail",
        when="the tail is heavy over the sampled range, but the ratios are bounded",
    ),
    _claim(
        "Truncated importance sampling (IS) collapses at high staleness",
        "mixed",
        "{vcpo_training:truncated_late_collapsed} of runs collapse at staleness {vcpo_training:largest}",
        "vcpo_training",
        when="some runs collapse with noisy graded rewards, on token sequences and on penalized chains, but not "
        "at tuned rates",
    ),
    _claim(
        "VCPO trains stably up to staleness 128",
        "mostly",
        "with noisy graded rewards, the final return is {vcpo_training:vcpo_late} of at most 1; at the 4× rate, "
        "{vcpo_rates:bold_vcpo_collapsed} of runs collapse",
        "vcpo_training",
        when="VCPO is stable but slow at the best synchronous rate, and not stable at the 4× rate",
    ),
    _claim(
        "The learning rate must follow the ESS of each batch",
        "not reproduced",
        "compared with VCPO's mean factor while learning, the ESS rule changes the final return by "
        "{vcpo_timing:late_learning}",
        "vcpo_timing",
        when="a constant factor chosen afterwards does as well, although other constants do worse",
    ),
    _claim(
        "Prior stabilizers fail at high staleness, and VCPO does not",
        "mixed",
        "at tuned rates, after {vcpo_controls:short} updates, VCPO reaches a return of "
        "{vcpo_controls:high_vcpo_tuned}, and truncated IS {vcpo_controls:high_tis_tuned}; later, both are nearly "
        "equal",
        "vcpo_controls",
        when="VCPO leads at one rate for all; at tuned rates, only in short runs, and its baseline alone suffices",
    ),
    _claim(
        "At the 4× rate, prior stabilizers fail, and VCPO does not",
        "mixed",
        "up to staleness {one_rate:oldest}, {one_rate:vcpo_bold} of VCPO's runs and {one_rate:ppo_bold} of PPO's fall",
        "one_rate",
        when="no run of VCPO falls at this rate, but about half of the other methods reach higher mean returns",
    ),
    _claim(
        "At staleness 12, masking and clipping collapse, and VCPO does not",
        "mixed",
        "at the 4× rate, {vcpo_suite:bold_less} of {vcpo_suite:arms} rivals reach a lower mean return than VCPO, "
        "and {vcpo_suite:bold_more} reaches a higher return",
        "vcpo_suite",
        when="most runs of a few rivals fall, and PPO is as good as VCPO; the authors' variant of VCPO falls, too",
    ),
    _claim(
        "VCPO outperforms a broad suite of stabilizers",
        "mixed",
        "at tuned rates, rivals are worse than VCPO in {rivals:vcpo_old_worse} of {rivals:vcpo_old} comparisons at "
        "constant staleness, and better in {rivals:vcpo_old_better}",
        "rivals",
        when="with heavy-tailed staleness, all comparisons are equal or undecided",
    ),
    _claim(
        "VCPO's off-policy baseline minimizes the gradient's variance",
        "mostly",
        "at staleness {vcpo_baselines:late}, the variance is {vcpo_baselines:many_opob_variance} % of that with a "
        "batch-mean baseline; with the best constant, {vcpo_baselines:many_constant_variance} %",
        "vcpo_baselines",
        when="it lowers the variance on very stale data, but part of the reduction comes from bias",
        stated="2602.17616/baseline",
    ),
    _claim(
        "A low ESS reliably predicts collapse",
        "mixed",
        "the AUC of low ESS is {vcpo_collapse:chain_ess_far} on a chain, {vcpo_collapse:tokens_ess_near} on token "
        "sequences, and {alarms:ess_range} in other settings",
        "vcpo_collapse",
        when="a low ESS predicts collapse better than chance, but not reliably",
        stated="2602.17616/ess-predicts-collapse",
    ),
    _claim(
        "Sharp drops of ESS precede collapse",
        "mixed",
        "ESS drops from {vcpo_fall:ess_before} to {vcpo_fall:ess_fell}; on another chain, drops have an AUC of "
        "{vcpo_collapse:chain_drop_far}",
        "vcpo_fall",
        when="drops precede falls if the initial policy prefers correct bits, but not on another chain or on tokens",
    ),
    _claim(
        "Spikes of the gradient norm precede collapse",
        "mixed",
        "the norm peaks {vcpo_fall:when} updates after falls; on token sequences, a large gradient has an AUC of "
        "{vcpo_collapse:tokens_norm_near}",
        "vcpo_fall",
        when="on chains, the norm rises with the drop of the return; on token sequences, it predicts collapse",
    ),
    _claim(
        "A mask on the geometric-mean ratio removes every sequence",
        "mostly",
        "the mask removes {vcpo_masks:geometric_removed} of the tokens",
        "vcpo_masks",
        when="it removes nearly all tokens, and training on the rest still learns",
    ),
    _claim(
        "Sequence ratios stay reliable as staleness, batch and horizon grow; token ratios do not",
        "mixed",
        "at staleness {vcpo_prefix:lag_most}, sequence ratios reach a return of {vcpo_prefix:lag_sequence_most}, "
        "token ratios {vcpo_prefix:lag_token_most}",
        "vcpo_prefix",
        when="the claim holds for staleness and batch size, through the KL penalty only, but not for horizon",
    ),
    _claim(
        "At staleness 2, VCPO matches synchronous accuracy 2.5 times faster",
        "under conditions",
        "VCPO is {vcpo_hours:vcpo_paper_speed} times as fast as synchronous training",
        "vcpo_hours",
        when="lengths have a spread of at least 1, and training takes at most 2 mean responses; most of the speed-up "
        "comes from asynchrony",
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
        "mixed",
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
        "under conditions",
        "KL: truncated IS {vcpo_steps:tis_kl} nats, VCPO {vcpo_steps:vcpo_kl} nats",
    ),
    _item(
        "Geometric masks remove everything",
        "notes",
        "figure",
        "verl's band; no crash",
        "vcpo_masks",
        "mostly",
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
