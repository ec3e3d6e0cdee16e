"""Harnesses of papers that are no trainers: M2PO, OAPL, TBA."""

from __future__ import annotations

from typing import Unpack

from asyncsim.base import checks
from asyncsim.base.laws import as_law
from asyncsim.systems._knobs import Length, Times, alike, count, preset
from asyncsim.systems._system import System


@preset
def m2po(train_batch_size: int, stale_iteration: int = 64, *, length: Length, **times: Unpack[Times]) -> System:
    """The stale harness of M2PO: every batch is a fixed number of updates stale.

    K = (k + 1) P tickets back at the publish, strictly in order: staleness min(version, k), exactly k batches.

    Law `systems/hard-bounds`, in publishes of one batch each. The recommended 4 minibatches of a batch are 4 k + j
    updates behind. The first k + 1 batches all come from version 0.

    Arguments: `train_batch_size` P in groups; `stale_iteration` k in batches. Source: M2PO (2510.01161).

    >>> m2po(2, 3, length="lognormal:1.0:0.8", load=1.5).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 3.0, 3.0, 3.0]
    """
    batch = count("train_batch_size", train_batch_size)
    batches_behind = count("stale_iteration", stale_iteration, 0, "count batches")
    tickets = (batches_behind + 1) * batch
    return System(
        "m2po",
        {},
        as_law("length", length),
        alike("stale_iteration", batches_behind, tickets),
        groups_per_batch=batch,
        tickets=tickets,
        release="publish",
        order="oldest_start",
        window=1,
        mode="keep",
        **times,
        recommended={"minibatches": 4, "cut": "samples"},
    )


@preset
def oapl(groups_per_batch: int, period: int, *, length: Length, **times: Unpack[Times]) -> System:
    """OAPL: a period of batches from one version, then weights and buffer begin anew.

    K = M = L P tickets back at the publish, S = L, drain: staleness 0, in updates a sawtooth 0 .. L - 1.

    All groups of a period are generated under its first weights, and none is left at its end. Law `systems/cap-binds`
    at K = M. Batch i of a period is i U updates old when it starts to train.

    Arguments: `groups_per_batch` P; `period` L in batches. Source: OAPL (2602.19362).

    >>> oapl(2, 3, length=1.0, train_time=1.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    batch = count("groups_per_batch", groups_per_batch)
    every = count("period", period, 1, "count batches")
    return System(
        "oapl",
        {},
        as_law("length", length),
        alike("period", every, batch * every),
        groups_per_batch=batch,
        batches_per_publish=every,
        tickets=batch * every,
        release="publish",
        order="done",
        mode="drain",
        **times,
    )


@preset
def tba(
    groups_per_batch: int,
    sync_interval: int = 2,
    on_policy_prob: float = 0.95,
    n_searchers: int = 1,
    *,
    length: Length,
    **times: Unpack[Times],
) -> System:
    """TBA: searchers fill a replay buffer, the trainer draws from what came last or from everything.

    Weights and samples change hands every k batches: what came last is 1 publish old, the rest older.

    Recent groups are k U .. 2 k U - 1 updates old. With probability p a group is drawn from the last exchange, else
    from all since the start. Groups may be used without limit, so replay has a long tail of weight 1 - p. Searchers
    finish what they run before an exchange (drain), so nothing straddles it. The trainer never waits for data once the
    first P groups are there (`initial_fill`). Counted in updates by TBA, which stamps nothing; law
    `systems/mean-staleness-identity` does not hold for what is used twice.

    Arguments: `groups_per_batch` P; `sync_interval` k in batches; `on_policy_prob` p; `n_searchers` C in groups.
    Source: TBA (2503.18929).

    >>> tba(2, 2, 1.0, 4, length=1.0, train_time=1.0).staleness(8, 1, 0)[0].max(axis=1).tolist()
    [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    batch = count("groups_per_batch", groups_per_batch)
    every = count("sync_interval", sync_interval, 1, "count batches")
    recent = checks.real("on_policy_prob", on_policy_prob, "give a probability", 0.0, 1.0)
    searchers = count("n_searchers", n_searchers, 1, "count searchers")
    return System(
        "tba",
        {},
        as_law("length", length),
        alike("n_searchers", searchers, searchers),
        groups_per_batch=batch,
        batches_per_publish=every,
        visible="publish",
        initial_fill=batch,
        max_uses=None,
        order="random",
        recent=recent,
        mode="drain",
        **times,
    )
