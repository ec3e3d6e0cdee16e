"""Losses as authors of trainers might write them: right ones, and others with one mistake each.

All take (log_prob, behavior_log_prob, proximal_log_prob, advantages, mask), tensors `[B, T]`. The same settings give
the same function, so that one check of it serves several tests.
"""

from functools import cache, lru_cache
from unittest import mock

import torch

from asyncsim.conformance import check_loss
from asyncsim.conformance._loss_subject import Subject


def checked(loss, like=None, **settings):
    """The report, which is a function of these; what a loss answered to one question serves the next, too."""
    shared = not settings and (like is None or isinstance(like, str))
    return _first_check(loss, like) if shared else _checked(loss, like, **settings)


@cache
def _first_check(loss, like):
    return _checked(loss, like)


def _checked(loss, like, **settings):
    with mock.patch("asyncsim.conformance._loss_case.Subject", _subject):
        return check_loss(loss, like, **{"bias": False, **settings})


@lru_cache(64)
def _subject(loss):
    return Subject(loss)


def loss_of(method):
    """The loss of a method of this package, which takes what the method reads."""

    def loss(log_prob, behavior_log_prob, proximal_log_prob, advantages, mask):
        given = {"advantages": advantages, "rewards": advantages[:, 0], "mask": mask}
        return method.loss(log_prob, behavior_log_prob, proximal_log_prob, **given)

    def anchored(log_prob, behavior_log_prob, advantages, mask):
        return loss(log_prob, behavior_log_prob, None, advantages, mask)

    return loss if method.proximal else anchored


def mean_of(values, mask, how):
    """Tokens to a scalar, by the names of asyncsim's aggregators."""
    values = torch.where(mask > 0, values, 0.0)
    if how == "token_mean":
        return values.sum() / mask.sum()
    if how == "sequence_sum":
        return values.sum(-1).mean()
    if how == "sequence_mean":
        return (values.sum(-1) / mask.sum(-1).clamp(min=1)).mean()
    return values.sum() / mask.numel()


def log_ratio(above, below, mask):
    return torch.where(mask > 0, above - below, 0.0).clamp(-20, 20)


def surrogate(ratio, advantages, low, high):
    return torch.min(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)


@cache
def ppo(low=0.2, high=0.2, how="token_mean", proximal=False, dual=None):
    def loss(log_prob, behavior, snapshot, advantages, mask):
        ratio = log_ratio(log_prob, snapshot if proximal else behavior, mask).exp()
        objective = surrogate(ratio, advantages, low, high)
        if dual is not None:
            objective = torch.where(advantages < 0, torch.max(objective, dual * advantages), objective)
        return -mean_of(objective, mask, how)

    return loss


@cache
def wrong_side(low=0.2, high=0.2, proximal=False):
    """The maximum of objectives: closed where PPO is open."""

    def loss(log_prob, behavior, snapshot, advantages, mask):
        ratio = log_ratio(log_prob, snapshot if proximal else behavior, mask).exp()
        objective = torch.max(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)
        return -mean_of(objective, mask, "token_mean")

    return loss


def differentiated(log_prob, behavior, snapshot, advantages, mask):
    """A weight that falls above 1, neither detached nor multiplied by log_prob."""
    ratio = log_ratio(log_prob, behavior, mask).exp()
    weight = torch.where(advantages > 0, 1 / (1 + 5 * (ratio - 1).relu()), ratio.clamp(max=1.2))
    return -mean_of(weight * advantages, mask, "token_mean")


@cache
def gspo(low=0.01, high=0.02):
    def loss(log_prob, behavior, snapshot, advantages, mask):
        mean = log_ratio(log_prob, behavior, mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)
        return -mean_of(surrogate(mean.exp(), advantages, low, high), mask, "sequence_mean")

    return loss


@cache
def cispo(high=3.0):
    def loss(log_prob, behavior, snapshot, advantages, mask):
        weight = log_ratio(log_prob, snapshot, mask).detach().exp().clamp(max=1 + high)
        return -mean_of(weight * advantages * log_prob, mask, "token_mean")

    return loss


@cache
def truncated(cap=2.5, level="token", how="token_mean"):
    def loss(log_prob, behavior, snapshot, advantages, mask):
        ratio = log_ratio(log_prob, behavior, mask)
        ratio = ratio.sum(-1, keepdim=True) if level == "sequence" else ratio
        return -mean_of(ratio.detach().exp().clamp(max=cap) * advantages * log_prob, mask, how)

    return loss


@cache
def banded(low, high, how="token_mean", inverse=False, local=""):
    """A token mask around the ratio; `local` counts only what it keeps."""

    def loss(log_prob, behavior, snapshot, advantages, mask):
        ratio = log_ratio(log_prob, behavior, mask).exp()
        statistic = (1.0 / ratio if inverse else ratio).detach()
        keep = mask * ((statistic >= low) & (statistic <= high))
        values = torch.where(keep > 0, ratio * advantages, 0.0)
        if local == "tokens":
            return -values.sum() / keep.sum().clamp(min=1)
        if local == "sequence":
            return -(values.sum(-1) / keep.sum(-1).clamp(min=1)).mean()
        return -mean_of(values, mask, how)

    return loss


@cache
def decoupled(cap=5.0, applied=True):
    def loss(log_prob, behavior, snapshot, advantages, mask):
        weight = log_ratio(snapshot, behavior, mask).exp().clamp(max=cap).detach() if applied else 1.0
        ratio = log_ratio(log_prob, snapshot, mask).exp()
        return -mean_of(weight * surrogate(ratio, advantages, 0.2, 0.2), mask, "token_mean")

    return loss


def ratio_of_itself(log_prob, behavior, snapshot, advantages, mask):
    ratio = (log_prob - log_prob.detach()).exp()
    return -mean_of(surrogate(ratio, advantages, 0.2, 0.2), mask, "token_mean")


def live_truncation(log_prob, behavior, snapshot, advantages, mask):
    return -mean_of(log_ratio(log_prob, behavior, mask).exp().clamp(max=2.0) * advantages, mask, "token_mean")


def infinities_first(log_prob, behavior, snapshot, advantages, mask):
    ratio = torch.where(mask > 0, log_prob - behavior, 0.0).detach().exp()
    weight = ratio.nan_to_num(nan=0.0, posinf=0.0).clamp(max=2.0)
    return -mean_of(weight * advantages * log_prob, mask, "token_mean")


def multiplied_mask(log_prob, behavior, snapshot, advantages, mask):
    ratio = (log_prob - behavior).exp()
    return -(surrogate(ratio, advantages, 0.2, 0.2) * mask).sum() / mask.sum()


def unmasked_sequence_ratio(log_prob, behavior, snapshot, advantages, mask):
    weight = (log_prob - behavior).clamp(-20, 20).sum(-1, keepdim=True).exp().clamp(max=8.0).detach()
    return -mean_of(weight * advantages * log_prob, mask, "sequence_mean")


def empty_left_out(log_prob, behavior, snapshot, advantages, mask):
    ratio = log_ratio(log_prob, behavior, mask).exp()
    values = torch.where(mask > 0, surrogate(ratio, advantages, 0.2, 0.2), 0.0).sum(-1) / mask.sum(-1).clamp(min=1)
    return -values.sum() / (mask.sum(-1) > 0).sum()


def empty_not_finite(log_prob, behavior, snapshot, advantages, mask):
    ratio = log_ratio(log_prob, behavior, mask).exp()
    values = torch.where(mask > 0, surrogate(ratio, advantages, 0.2, 0.2), 0.0).sum(-1) / mask.sum(-1)
    return -values.mean()


def corrected_twice(log_prob, behavior, snapshot, advantages, mask):
    """Anchored at behavior, and weighted by the rollout correction."""
    ratio = log_ratio(log_prob, behavior, mask).exp()
    weight = log_ratio(snapshot, behavior, mask).exp().clamp(max=2.0).detach()
    return -mean_of(weight * surrogate(ratio, advantages, 0.2, 0.2), mask, "token_mean")


def corrected_twice_clipped(log_prob, behavior, snapshot, advantages, mask):
    """A clipped weight and a truncated one, both of pi to behavior."""
    weight = log_ratio(log_prob, behavior, mask).detach().exp()
    return -mean_of(weight.clamp(max=5.0) * weight.clamp(max=2.0) * advantages * log_prob, mask, "token_mean")


def unsqueezed(log_prob, behavior, snapshot, advantages, mask):
    """TRL's own line, for advantages `[B]`, on advantages `[B, T]`."""
    ratio = log_ratio(log_prob, behavior, mask).exp()
    return -((surrogate(ratio, advantages.unsqueeze(1), 0.2, 0.2) * mask).sum() / mask.sum())


def summed(log_prob, behavior, snapshot, advantages, mask):
    ratio = log_ratio(log_prob, behavior, mask).exp()
    values = torch.where(mask > 0, surrogate(ratio, advantages, 0.2, 0.2), 0.0)
    return -(values.sum(-1) / mask.sum(-1).clamp(min=1)).sum()


def divided_twice(log_prob, behavior, snapshot, advantages, mask):
    return ppo()(log_prob, behavior, snapshot, advantages, mask) / len(mask)


def local_threshold(log_prob, behavior, snapshot, advantages, mask):
    """Drops the tokens of this call whose squared log ratio is above its mean."""
    ratio = log_ratio(log_prob, behavior, mask)
    square = ratio.detach() ** 2
    keep = square <= 2.0 * square.sum() / mask.sum()
    return -mean_of(torch.where(keep, ratio.exp() * advantages, 0.0), mask, "token_mean")


def mutating(log_prob, behavior, snapshot, advantages, mask):
    advantages /= 2.0
    return ppo()(log_prob, behavior, snapshot, advantages, mask)


def standardizing(log_prob, behavior, snapshot, advantages, mask, correction=1):
    kept = advantages[mask > 0]
    scaled = (advantages - kept.mean()) / (kept.std(correction=correction) + 1e-8)
    return ppo()(log_prob, behavior, snapshot, scaled, mask)


def by_position(log_prob, behavior, snapshot, advantages, mask):
    weight = 1.0 / (1.0 + torch.arange(len(mask), dtype=torch.float64)).unsqueeze(-1)
    return ppo()(log_prob, behavior, snapshot, advantages * weight / weight.mean(), mask)


def detached(log_prob, behavior, snapshot, advantages, mask):
    """Detaches whatever does not belong to the gradient."""
    return ppo()(log_prob, behavior.detach(), snapshot.detach(), advantages.detach(), mask)


def overflowing(log_prob, behavior, snapshot, advantages, mask):
    ratio = torch.where(mask > 0, log_prob - behavior, 0.0).exp()
    return -mean_of(surrogate(ratio, advantages, 0.2, 0.2), mask, "token_mean")


@cache
def penalized(kind, coefficient=0.1, low=0.2, high=0.2):
    def loss(log_prob, behavior, snapshot, advantages, mask):
        gap = log_ratio(log_prob, behavior, mask)
        term = {"k1": gap, "k2": gap**2 / 2, "k3": (-gap).exp() - 1 + gap}[kind]
        base = ppo(low, high)(log_prob, behavior, snapshot, advantages, mask)
        return base + coefficient * mean_of(term, mask, "token_mean")

    return loss


def unclipped(log_prob, behavior, snapshot, advantages, mask):
    return -mean_of(log_ratio(log_prob, behavior, mask).exp() * advantages, mask, "token_mean")
