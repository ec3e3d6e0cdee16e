"""Old key-value caches under new weights: how much is sampled with them, and how far that is from rereading."""

from __future__ import annotations

import torch
from torch import Tensor

from asyncsim.diagnostics._diagnostic import READS, metric
from asyncsim.diagnostics._ranges import ANY, POSITIVE, SHARE
from asyncsim.step import ratios
from asyncsim.step.step import Step


def _gap(step: Step) -> Tensor:
    """log mu - log mu_reread of each token, `[R, G, N, T]`, exactly 0 where it saw no old entry."""
    sampled = step.behavior["log_prob"]
    return ratios.log_ratio(sampled, step.behavior.get("reread_log_prob", sampled), step.mask)


@metric("a pure number in [0, 1]; 0 where caches are read again", SHARE, "this package", READS)
def cache_stale(step: Step) -> Tensor:
    """Share of tokens that were sampled with cache entries of older weights.

    share = E 1[token t read an entry that other weights wrote], over tokens by mass. Blind to how far apart the weights
    are (`cache_gap`).
    """
    sampled = step.behavior["log_prob"]
    return (step.share * step.behavior.get("stale_cache", torch.zeros_like(sampled))).sum((1, 2, 3))


@metric("in nats, exactly 0 where no entry is old", POSITIVE, "this package", READS)
def cache_gap(step: Step) -> Tensor:
    """Mean size of the log-prob gap between sampling with old cache entries and rereading.

    gap = E |log mu(y_t) - log mu_reread(y_t)| over tokens by mass, both in the sampler's numerics at the weights of the
    token's version. In bfloat16 the rounding of the second pass counts too. Blind to its sign (`cache_kl`).
    """
    return (step.share * _gap(step).abs()).sum((1, 2, 3))


@metric("in nats per sequence", ANY, "this package", READS)
def cache_kl(step: Step) -> Tensor:
    """Divergence of what was sampled with old cache entries from what rereading would say, k1 estimate.

    KL(mu || mu_reread) = E sum_t (log mu - log mu_reread)(y_t), the part of `kl_mismatch` that is due to old entries.
    Unbiased, and negative in unlucky batches. Blind to staleness of the version itself (`kl_staleness`).
    """
    return step.mean(_gap(step).sum(-1))
