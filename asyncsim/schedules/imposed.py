"""Imposed schedules: staleness is fixed, drawn, that of a sawtooth or of a frozen generator."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from asyncsim.base import checks, laws, rng
from asyncsim.schedules._imposed import Imposed, Request


def fixed(staleness: int, *, groups_per_batch: int = 1, batches_per_publish: int = 1) -> Imposed:
    """Staleness min(version, L) for every token: the first L versions are trained on version 0.

    A run that ends before version L warns (`checks.ShortRunWarning`).

    Arguments: `staleness` L in versions, an integer >= 0; `groups_per_batch` and `batches_per_publish`, counts >= 1.
    Returns an imposed schedule, versions `[M, B, G, N, 1]`. Raises `InputError` for integers outside these ranges.
    Assumes that a batch is generated under one version. Source: textbook (constant delay).

    >>> fixed(2).schedule(5, 1, 1, 1, seed=0).staleness().ravel().tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0]
    """
    staleness = checks.integer("staleness", staleness, 0, "give a number of versions", checks.LARGEST)
    return Imposed(
        "fixed",
        {"staleness": staleness},
        partial(_behind, staleness),
        groups_per_batch=groups_per_batch,
        batches_per_publish=batches_per_publish,
        reached=staleness,
    )


def sawtooth(batches: int, *, groups_per_batch: int = 1) -> Imposed:
    """Staleness 0 and update staleness 0, 1, ..., n - 1 in turn, for n batches of one update each.

    Arguments: `batches` n between publishes; `groups_per_batch`, a count >= 1. Returns an imposed schedule, versions
    `[M, B, G, N, 1]`. Raises `InputError` for counts below one. Source: OAPL (2602.19362), buffer cleared at every
    synchronization.

    >>> law = sawtooth(4)
    >>> law.batches_per_publish, float(law.schedule(8, 1, 1, 1, seed=0).staleness().max())
    (4, 0.0)
    """
    every = checks.integer("batches", batches, 1, "count the batches between two publishes", checks.LARGEST)
    return Imposed(
        "sawtooth", {"batches": every}, _current, groups_per_batch=groups_per_batch, batches_per_publish=every
    )


def frozen(*, groups_per_batch: int = 1, batches_per_publish: int = 1) -> Imposed:
    """Version 0 throughout: staleness grows by one with every publish.

    Arguments: `groups_per_batch` and `batches_per_publish`, counts >= 1. Returns an imposed schedule, versions `[M, B,
    G, N, 1]`. Raises `InputError` for counts below one. Source: textbook (a fixed behavior policy, as in 2506.20520).

    >>> frozen().schedule(3, 1, 1, 1, seed=0).staleness().ravel().tolist()
    [0.0, 1.0, 2.0]
    """
    return Imposed("frozen", {}, _first, groups_per_batch=groups_per_batch, batches_per_publish=batches_per_publish)


def _current(request: Request) -> np.ndarray:
    return request.train_version[:, None, None]


def _first(request: Request) -> np.ndarray:
    return np.zeros_like(request.train_version)[:, None, None]


def _behind(staleness: int, request: Request) -> np.ndarray:
    return np.maximum(request.train_version - staleness, 0)[:, None, None]


def random(
    law: Sequence[float] | str, per: str = "update", *, groups_per_batch: int = 1, batches_per_publish: int = 1
) -> Imposed:
    """Staleness min(version, s) with independent s of law P(s = k) = p_k.

    A run that ends before the version of the largest s warns (`checks.ShortRunWarning`).

    Arguments: `law`, probabilities p_0, p_1, ... of the integers, in versions (`asyncsim.base.laws.uniform(0, 4)`, or
    the text "uniform:0:4", for equal ones), or the text "@staleness.csv:column" for the shares in a column of observed
    integers, one for each trajectory; `per`, what shares a draw: "update" (all of a batch), "group" or "trajectory";
    `groups_per_batch` and `batches_per_publish`, counts >= 1. Returns an imposed schedule, versions `[M, B, G, N, 1]`,
    whose realizations are independent. Raises `InputError` for a law that is not one of probabilities, an unknown
    `per`, or counts below one. Source: textbook (independent random delays).

    >>> random([0.0, 0.5, 0.5]).schedule(6, 1, 1, 1, seed=3).staleness().ravel().tolist()
    [0.0, 1.0, 2.0, 1.0, 1.0, 1.0]
    """
    weights = laws.as_probabilities("law", law)
    checks.one_of("per", per, ("update", "group", "trajectory"), "say what shares a draw")
    return Imposed(
        "random",
        {"law": weights.tolist(), "per": per},
        partial(_drawn, tuple(weights), per),
        random=True,
        groups_per_batch=groups_per_batch,
        batches_per_publish=batches_per_publish,
        reached=int(np.flatnonzero(weights)[-1]),
    )


def _drawn(law: tuple[float, ...], per: str, request: Request) -> np.ndarray:
    groups = 1 if per == "update" else request.groups
    samples = request.samples if per == "trajectory" else 1
    # Rounding may leave the last sum below one, or a uniform above it: the last possible value takes the rest.
    support = np.flatnonzero(law)
    cumulative = np.cumsum(np.take(law, support))[:-1]
    stream = rng.Stream(request.seed, f"staleness per {per}")
    realization = np.arange(request.realizations)[:, None, None]
    unit = np.arange(groups * samples).reshape(groups, samples)
    version = np.empty((request.realizations, request.train_version.size, groups, samples), dtype=np.int32)
    for batch, current in enumerate(request.train_version):
        uniform = stream.uniform(realization, batch * unit.size + unit)
        staleness = support[np.searchsorted(cumulative, uniform, side="right")]
        version[:, batch] = np.maximum(current - staleness, 0)
    return version
