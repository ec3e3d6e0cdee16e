"""A clipped loss with dual clip as trainers run it, and what goes wrong beyond short rows of one small advantage."""

from functools import cache

import torch

from tests.conformance.trainers import log_ratio, mean_of, surrogate

DUAL = 3.0


def values_of(ratio, advantages, side=None):
    """min(r A, clip(r) A), for A < 0 at least 3 A; `side` decides in the place of A's sign where the dual clip is."""
    side = advantages if side is None else side
    objective = surrogate(ratio, advantages, 0.2, 0.28)
    return torch.where(side < 0, torch.max(objective, DUAL * advantages), objective)


@cache
def clipped(read=lambda advantages, mask: advantages, keep=lambda mask: mask, limit=20.0):
    """The loss with advantages as `read`, a mask as `keep` says, and the log ratio stopped at `limit`."""

    def loss(log_prob, behavior_log_prob, proximal_log_prob, advantages, mask):
        kept = keep(mask)
        ratio = torch.where(kept > 0, log_prob - behavior_log_prob, 0.0).clamp(-limit, limit).exp()
        return -mean_of(values_of(ratio, read(advantages, kept)), kept, "token_mean")

    return loss


def without(rule):
    """The loss without what a rule of (log ratio, log-prob, advantages, mask) leaves out, over the same count."""

    def loss(log_prob, behavior_log_prob, proximal_log_prob, advantages, mask):
        gap = log_ratio(log_prob, behavior_log_prob, mask)
        keep = rule(gap.detach(), log_prob.detach(), advantages, mask)
        return -mean_of(values_of(gap.exp(), advantages) * keep, mask, "token_mean")

    return loss


def longest_row(log_prob, behavior_log_prob, proximal_log_prob, advantages, mask):
    """Divided by the longest row of the batch in the place of the width."""
    values = values_of(log_ratio(log_prob, behavior_log_prob, mask).exp(), advantages) * mask
    return -(values.sum(-1) / mask.sum(-1).max()).mean()


def even_rows(gap, log_prob, advantages, mask):
    rows = len(mask)
    return (torch.arange(rows) < (rows // 2 * 2 or 1))[:, None]


def bound_as_offset(log_prob, behavior_log_prob, proximal_log_prob, advantages, mask):
    """.28 where 1.28 was meant: both bounds are below 1."""
    ratio = log_ratio(log_prob, behavior_log_prob, mask).exp()
    return -mean_of(torch.min(ratio * advantages, ratio.clamp(0.8, 0.28) * advantages), mask, "token_mean")


def row_mean(advantages, mask):
    return ((advantages * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)).expand_as(advantages)


def last_of_row(advantages, mask):
    at = (mask * torch.arange(1, mask.shape[1] + 1)).argmax(-1, keepdim=True)
    return advantages.gather(-1, at).expand_as(advantages)


def side_of_the_first(log_prob, behavior_log_prob, proximal_log_prob, advantages, mask):
    """Which clip closes is decided by the first token of the row."""
    first = advantages[:, :1]
    ratio = log_ratio(log_prob, behavior_log_prob, mask).exp()
    keep = torch.where(first > 0, ratio <= 1.28, (ratio >= 0.8) & (ratio <= DUAL))
    return -mean_of(torch.where(keep, ratio * advantages, 0.0), mask, "token_mean")


def dual_of_the_first(log_prob, behavior_log_prob, proximal_log_prob, advantages, mask):
    """The dual clip alone is decided so."""
    ratio = log_ratio(log_prob, behavior_log_prob, mask).exp()
    return -mean_of(values_of(ratio, advantages, advantages[:, :1].expand_as(advantages)), mask, "token_mean")


def narrower_for_large(log_prob, behavior_log_prob, proximal_log_prob, advantages, mask):
    """Half the band for large advantages."""
    ratio = log_ratio(log_prob, behavior_log_prob, mask).exp()
    wide, narrow = surrogate(ratio, advantages, 0.2, 0.28), surrogate(ratio, advantages, 0.1, 0.14)
    return -mean_of(torch.where(advantages.abs() > 5.0, narrow, wide), mask, "token_mean")


def length_of_sixteen(log_prob, behavior_log_prob, proximal_log_prob, advantages, mask):
    """Every row is divided by its length, but by no more than 16."""
    values = values_of(log_ratio(log_prob, behavior_log_prob, mask).exp(), advantages) * mask
    return -(values.sum(-1) / mask.sum(-1).clamp(min=1, max=16)).mean()


def shifted(log_prob, behavior_log_prob, proximal_log_prob, advantages, mask, first=1, last=None):
    """Rows without their first column, or without their last."""
    whole = log_prob, behavior_log_prob, proximal_log_prob, advantages, mask
    return clipped()(*(x[:, first:last] for x in whole))


def without_the_last(log_prob, behavior_log_prob, proximal_log_prob, advantages, mask):
    return shifted(log_prob, behavior_log_prob, proximal_log_prob, advantages, mask, 0, -1)


def first_sixteen(mask):
    return mask * (torch.arange(mask.shape[1]) < 16)


def behind_the_first(mask):
    return mask * (mask.cumsum(-1) > 1)
