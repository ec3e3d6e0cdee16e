"""Claims of VCPO (arXiv 2602.17616)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim, Item

_item = partial(Item, "VCPO")
_claim = partial(Claim, "VCPO")
CLAIMS = (
    _claim(
        "Few samples dominate a stale batch",
        "reproduced",
        "one of {vcpo_ess:batch} samples holds {vcpo_ess:share_most} % of the weight",
        "vcpo_ess",
    ),
    _claim(
        "… because ratios are heavy-tailed",
        "under conditions",
        "Hill's index {vcpo_tail:last}; below 1 from staleness {vcpo_tail:below_mean}",
        "vcpo_tail",
        when="on the sampled range; bounded in law",
    ),
    _claim(
        "Truncated IS collapses at high staleness",
        "under conditions",
        "{vcpo_training:truncated_late_collapsed} of runs collapse",
        "vcpo_training",
        when="graded rewards and a bold learning rate",
    ),
    _claim(
        "VCPO stays stable at staleness 128",
        "under conditions",
        "return {vcpo_training:vcpo_late}, best 1, after {vcpo_training:long} updates",
        "vcpo_training",
        when="stable, and slow",
    ),
    _claim(
        "Its step rule must read the batch",
        "not reproduced",
        "return {vcpo_timing:late_learning} over a constant rate",
        "vcpo_timing",
    ),
    _claim(
        "Prior stabilizers fail where VCPO does not",
        "under conditions",
        "{vcpo_controls:high_vcpo_tuned} against {vcpo_controls:high_tis_tuned}, later equal",
        "vcpo_controls",
        when="truncated IS in short runs; its baseline suffices",
    ),
    _claim(
        "… at one bold rate for all",
        "reproduced",
        "{one_rate:vcpo_bold} of runs fall; M2PO {one_rate:m2po_bold}, PPO {one_rate:ppo_bold}",
        "one_rate",
    ),
    _claim(
        "It beats a broad suite of stabilizers",
        "under conditions",
        "{rivals:vcpo_worse} of {rivals:vcpo_judged} worse, {rivals:vcpo_better} better",
        "rivals",
        when="bandit, sequence ratios; token ratios win on graded sequences",
    ),
    _claim(
        "Its baseline has the least variance",
        "under conditions",
        "{vcpo_baselines:many_opob_variance} % of a batch mean's variance",
        "vcpo_baselines",
        when="truncated ratios or much data; in small batches part of it is bias",
        stated="2602.17616/baseline",
    ),
    _claim(
        "Low ESS reliably predicts collapse",
        "under conditions",
        "AUC at best {vcpo_collapse:chain_ess_far} on chains",
        "vcpo_collapse",
        when="better than chance, not reliable",
        stated="2602.17616/ess-predicts-collapse",
    ),
    _claim("… by sharp drops", "not reproduced", "AUC {vcpo_collapse:chain_drop_far}", "vcpo_collapse"),
    _claim(
        "2.5 times faster than synchronous at staleness 2",
        "under conditions",
        "{vcpo_hours:vcpo_paper_speed} times",
        "vcpo_hours",
        when="long-tailed responses; most of it is the system's gain",
    ),
)
ITEMS: tuple[Item, ...] = ()
"""Figures, tables and headline statements of the paper that a toy can show, in its order."""
