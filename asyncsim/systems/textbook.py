"""Textbook systems, and systems of papers without a trainer: M2PO, OAPL, TBA, MiniMax's Forge (from its report)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from asyncsim.base import checks
from asyncsim.base.laws import Law, as_law
from asyncsim.systems._knobs import ALONE, PLACES, ahead, count, flag, given, preset, settings, share, source


@source(kind="textbook")
@preset("textbook", "groups_per_batch", ALONE)
def synchronous(groups_per_batch: int = count("P, groups per batch", 1)) -> dict[str, Any]:
    """Synchronous training: generation and training alternate and never overlap.

    Every batch is generated under the version that it trains, so staleness is 0 and update staleness 0 .. U - 1.

    All P groups of a batch are admitted together and all finish before it trains. K = q = P permits return at the
    publish, with drain; every batch is published. With several batches to a publish the shortest groups would be
    trained first, while others are still generated: that is another system. Law `systems/cap-binds` at K = M, for every
    group.

    >>> float(synchronous(4).schedule(6, 2, 1, 1, seed=0).staleness().max())
    0.0
    """
    return ahead(groups_per_batch, 0, quantum=groups_per_batch, mode="drain")


@source(kind="textbook")
@preset("textbook", "groups_per_batch")
def colocated(
    groups_per_batch: int = count("P, groups per batch"),
    ahead: float = share("groups that run beside a batch, as a share of it", 0.0, "give a share of a batch"),
    partial_rollout: bool = flag("running samples go on after the batch", True),
) -> dict[str, Any]:
    """Colocated: generation and training alternate on the same machines; samples in flight continue after training.

    Colocated trainer with partial rollouts: generation stops when a batch is complete, and continues after training.

    K = int((1 + ahead) P) permits return at each publish. Groups are trained as they finish; mean staleness: K / P - 1.

    Law `systems/cap-binds`, unless groups end at the same instant. Where nothing runs ahead the batch waits for its
    longest sample, as in `synchronous`. Without partial rollouts running samples are discarded, and begin again under
    the new weights. A sample that goes on reads again what it has: give `prompt` and `prefill_speedup` for the cost.

    >>> colocated(2, 1.0, length="lognormal:1.0:0.8", train_time=1.0).staleness(6, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 0.5, 1.0, 0.5, 0.5, 2.0]
    """
    tickets, mode = int((1 + ahead) * groups_per_batch), "reprefill" if partial_rollout else "restart"
    return settings(tickets, groups_per_batch, tickets=tickets, mode=mode, colocated=True)


@source(kind="textbook")
@preset("textbook", "lag")
def fixed_lag(
    lag: int = count("L, staleness in versions", remedy="give a number of versions", low=0),
    groups_per_batch: int = count("P, groups per batch", 1),
) -> dict[str, Any]:
    """Fixed staleness: every batch is stale by the same number of versions.

    The head of every sample has staleness min(version, L): K = (L + 1) P^pub permits with a slot each, and strict order
    (W = 1). Law `systems/hard-bounds`: nobody overtakes and the cap always binds, so batch b was admitted with version
    b - L. Where no clock is wanted, `schedules.fixed` imposes the same staleness.

    >>> fixed_lag(2, 3, length="lognormal:1.0:0.8", load=0.7).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    return ahead(groups_per_batch, lag, order="oldest_start", window=1)


_SERVICE = given("distribution of a worker's work between updates, however many samples they have", "exponential:1.0")
_RATES = given("work per second of each worker, 1 unless given", None)
_STAGGER = flag("worker w starts at w E[service] / N seconds instead of 0", False)


@source(kind="textbook")
@preset("Mnih et al. (1602.01783)", "workers", {})
def update_on_arrival(
    workers: int = count("N, workers", remedy="give a number of workers"),
    service: Law | float | str = _SERVICE,
    rates: Sequence[float] | None = _RATES,
    stagger: bool = _STAGGER,
) -> dict[str, Any]:
    """Update on arrival (A3C, asynchronous SGD, parameter server): every worker's result is applied at once.

    N workers restart at once with the newest weights. Mean staleness: N - 1 for every distribution of service times.

    K = C = N, P = S = 1, training takes no time, a worker finishes under the weights that it started with (pin). Law
    `systems/arrivals-per-update` with P = 1, in updates, of which each is a publish. A worker's result is a group, and
    all of its samples take the one service time.

    >>> update_on_arrival(3, 1.0).schedule(6, 1, 1, 1, seed=0).staleness().ravel().tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    return _arrivals(workers, service, rates, stagger) | {"tickets": workers}


@source(kind="textbook")
@preset("FedBuff (2106.06639)", "workers", {})
def buffered(
    workers: int = count("N, workers", remedy="give a number of workers"),
    buffer_size: int = count("P, results per update", remedy="count results per update"),
    service: Law | float | str = _SERVICE,
    rates: Sequence[float] | None = _RATES,
    stagger: bool = _STAGGER,
) -> dict[str, Any]:
    """Buffered asynchronous training (FedBuff style): one update per `buffer_size` results that arrive.

    N workers restart at once, and P arrivals make an update. Mean staleness: (N - 1) / P for every distribution of
    service times. An open loop of C = N places, training takes no time, a worker finishes under the weights that it
    started with (pin). Law `systems/arrivals-per-update`, in server updates: s = floor((r + J) / P) with r uniform on 0
    .. P - 1 and, for exponential service, J geometric of parameter 1 / N. A result is a group, and all of its samples
    take the one service time.

    >>> buffered(5, 2, 1.0).staleness(8, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    """
    return _arrivals(workers, service, rates, stagger) | {"groups_per_batch": buffer_size}


def _arrivals(number: int, service: Law | float | str, rates: Sequence[float] | None, stagger: bool) -> dict[str, Any]:
    """N workers that restart at once, with instant training; a sample ends under the weights it began with."""
    law = as_law("service", service)
    rates = [1.0] * number if rates is None else rates
    speeds = checks.finite_array("rates", rates, (number,), "give each worker its rate")
    offsets = tuple(w * law.mean() / number for w in range(number)) if stagger else None
    times: dict[str, Any] = {"work_by": "group", "offsets": offsets, "mode": "pin", "train_time": 0.0}
    return {"knobs": {"service": str(law)}, "length": law, "rates": tuple(speeds.tolist()), **times}


@source("Infini-AI-Lab/M2PO@af54a3e", "2025-10-08", "verl/trainer/ppo/ray_trainer.py")
@preset("M2PO (2510.01161)", "stale_iteration")
def m2po(
    train_batch_size: int = count("P, groups per batch"),
    stale_iteration: int = count("k, staleness in batches", 64, "count batches", 0),
) -> dict[str, Any]:
    """M2PO's setting for stale data: every batch is a fixed number of updates stale.

    K = (k + 1) P permits return at each publish, strictly in order. Staleness is min(version, k): exactly k batches.

    Law `systems/hard-bounds`, in publishes of one batch each. The recommended 4 minibatches of a batch are 4 k + j
    updates behind. The first k + 1 batches all come from version 0.

    >>> m2po(2, 3, length="lognormal:1.0:0.8", load=1.5).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 3.0, 3.0, 3.0]
    """
    recommended = {"minibatches": 4, "cut": "samples"}
    return ahead(train_batch_size, stale_iteration, order="oldest_start", window=1, recommended=recommended)


@source("arXiv 2605.26494", "2026-05-26", "section 6.2.4", "reconstruction from a paper")
@preset("MiniMax-M2 (2605.26494), section 6.2.4; a reconstruction", "generation_batch_size")
def minimax_forge(
    train_batch_size: int = count("P, groups per batch"),
    generation_batch_size: int = given("N, groups queued or running, P or more"),
    window_fraction: float = share("w in 0 .. 1, W / N", 0.3, "give a share of the queue", 0.0, 1.0, open_low=True),
) -> dict[str, Any]:
    """MiniMax's Forge: the trainer takes finished tasks out of order, but only from a window at the queue's head.

    Forge, reconstructed: N tasks are queued or running, and the trainer takes finished tasks among the first W.

    K = N permits return at the dequeue. Mean staleness: N / P if generation is ahead, at most 1 + floor((N + W - 2) /
    P) per sample. Laws `systems/cap-binds` and `systems/hard-bounds`. W = max(1, floor(w N)); only what stands less
    than W behind the oldest task not yet consumed may be taken. The report counts a lag in tasks, N + W - 2 at most.
    Its code is not public: what a task is, when weights are published and what running tasks do then are choices made
    here.

    >>> minimax_forge(4, 8, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    batch = train_batch_size
    remedy = f"queue a batch of {batch} at least"
    tasks = checks.integer("generation_batch_size", generation_batch_size, batch, remedy, PLACES)
    window = max(1, math.floor(window_fraction * tasks))
    return settings(tasks, batch, tickets=tasks, release="dequeue", order="oldest_start", window=window)


@source("arXiv 2602.19362", "2026-02", "", "reconstruction from a paper")
@preset("OAPL (2602.19362)", "period")
def oapl(
    groups_per_batch: int = count("P, groups per batch"),
    period: int = count("L, batches per publish", remedy="count batches"),
) -> dict[str, Any]:
    """OAPL: all batches of a period come from one version; then weights and buffer are renewed.

    K = M = L P permits return at each publish, with S = L and a drain. Staleness is 0; in updates, it is a sawtooth 0
    .. L - 1. All groups of a period are generated under its first weights, and none is left at its end. Law
    `systems/cap-binds` at K = M. Batch i of a period is i U updates old when it starts to train.

    >>> oapl(2, 3, length=1.0, train_time=1.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    groups = groups_per_batch * period
    return settings(groups, groups_per_batch, batches_per_publish=period, tickets=groups, mode="drain")


@source("bbartoldson/TBA@c6075e2", "2025-04-09", "src/tba_trainer_gsm8k.py")
@preset("TBA (2503.18929)", "n_searchers")
def tba(
    groups_per_batch: int = count("P, groups per batch"),
    sync_interval: int = count("k, staleness in batches", 2, "count batches"),
    on_policy_prob: float = share("p", 0.95, "give a probability", 0.0, 1.0),
    n_searchers: int = count("C, groups running at once", 1, "count searchers"),
) -> dict[str, Any]:
    """TBA: searchers fill a replay buffer, and the trainer samples recent data or the full buffer.

    Weights and samples are exchanged every k batches. The samples that arrived last are 1 publish old, the others
    older. Recent groups are k U .. 2 k U - 1 updates old. With probability p a group is drawn from the last exchange,
    else from all since the start. Groups may be used without limit, so replay has a long tail of weight 1 - p.
    Searchers finish what they run before an exchange (drain), so nothing straddles it. The trainer never waits for data
    once the first P groups are there (`initial_fill`). Counted in updates by TBA, which stamps nothing; law
    `systems/mean-staleness-identity` does not hold for what is used twice.

    >>> tba(2, 2, 1.0, 4, length=1.0, train_time=1.0).staleness(8, 1, 0)[0].max(axis=1).tolist()
    [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    buffer: dict[str, Any] = {"visible": "publish", "initial_fill": groups_per_batch, "max_uses": None}
    drawn: dict[str, Any] = {"order": "random", "recent": float(on_policy_prob)}
    return settings(n_searchers, groups_per_batch, batches_per_publish=sync_interval, mode="drain", **buffer, **drawn)
