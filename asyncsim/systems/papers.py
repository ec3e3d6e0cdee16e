"""Harnesses of papers that are no trainers: M2PO, OAPL, TBA, and a trainer known from its report, MiniMax's Forge."""

from __future__ import annotations

import math
from typing import Any

from asyncsim.base import checks
from asyncsim.systems._knobs import PLACES, ahead, count, given, preset, settings, share, source


@source("Infini-AI-Lab/M2PO@af54a3e", "2025-10-08", "verl/trainer/ppo/ray_trainer.py")
@preset("M2PO (2510.01161)", "stale_iteration")
def m2po(
    train_batch_size: int = count("P in groups"), stale_iteration: int = count("k in batches", 64, "count batches", 0)
) -> dict[str, Any]:
    """The stale harness of M2PO: every batch is a fixed number of updates stale.

    K = (k + 1) P tickets back at the publish, strictly in order: staleness min(version, k), exactly k batches.

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
    train_batch_size: int = count("P in groups"),
    generation_batch_size: int = given("N >= P in groups"),
    window_fraction: float = share("w in 0 .. 1, W / N", 0.3, "give a share of the queue", 0.0, 1.0, open_low=True),
) -> dict[str, Any]:
    """MiniMax's Forge: a queue of generation tasks, consumed out of order only within a window at its head.

    Forge, reconstructed: N tasks are queued or running, and the trainer takes what is done among the first W.

    K = N tickets back at the dequeue, window W: mean N / P where generation is ahead, 1 + floor((N + W - 2) / P) hard.

    Laws `systems/cap-binds` and `systems/hard-bounds`. W = max(1, floor(w N)); only what stands less than W behind the
    oldest task not yet consumed may be taken. The report counts a lag in tasks, N + W - 2 at most. Its code is not
    public: what a task is, when weights are published and what running tasks do then are choices made here.

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
    groups_per_batch: int = count("P"), period: int = count("L in batches", remedy="count batches")
) -> dict[str, Any]:
    """OAPL: a period of batches from one version, then weights and buffer begin anew.

    K = M = L P tickets back at the publish, S = L, drain: staleness 0, in updates a sawtooth 0 .. L - 1.

    All groups of a period are generated under its first weights, and none is left at its end. Law `systems/cap-binds`
    at K = M. Batch i of a period is i U updates old when it starts to train.

    >>> oapl(2, 3, length=1.0, train_time=1.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    groups = groups_per_batch * period
    return settings(groups, groups_per_batch, batches_per_publish=period, tickets=groups, mode="drain")


@source("bbartoldson/TBA@c6075e2", "2025-04-09", "src/tba_trainer_gsm8k.py")
@preset("TBA (2503.18929)", "n_searchers")
def tba(
    groups_per_batch: int = count("P"),
    sync_interval: int = count("k in batches", 2, "count batches"),
    on_policy_prob: float = share("p", 0.95, "give a probability", 0.0, 1.0),
    n_searchers: int = count("C in groups", 1, "count searchers"),
) -> dict[str, Any]:
    """TBA: searchers fill a replay buffer, the trainer draws from what came last or from everything.

    Weights and samples change hands every k batches: what came last is 1 publish old, the rest older.

    Recent groups are k U .. 2 k U - 1 updates old. With probability p a group is drawn from the last exchange, else
    from all since the start. Groups may be used without limit, so replay has a long tail of weight 1 - p. Searchers
    finish what they run before an exchange (drain), so nothing straddles it. The trainer never waits for data once the
    first P groups are there (`initial_fill`). Counted in updates by TBA, which stamps nothing; law
    `systems/mean-staleness-identity` does not hold for what is used twice.

    >>> tba(2, 2, 1.0, 4, length=1.0, train_time=1.0).staleness(8, 1, 0)[0].max(axis=1).tolist()
    [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    return settings(
        n_searchers,
        groups_per_batch,
        batches_per_publish=sync_interval,
        visible="publish",
        initial_fill=groups_per_batch,
        max_uses=None,
        order="random",
        recent=float(on_policy_prob),
        mode="drain",
    )
