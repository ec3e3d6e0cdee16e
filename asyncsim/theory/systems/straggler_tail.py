r"""Where the oldest ready group goes first, a straggler is as stale as it is late: P(s >= k) = P(T > (k - 1) tau).

K tickets, a place for each, P groups a batch, one batch a publish. The trainer never waits and so publishes every tau
seconds (constant train time); T is the generation time of a group. For k >= K/P where tickets return at the publish, k
>= K/P + 1 at the dequeue. Derivation: a group starts right after a publish, and batches form every tau seconds. All
groups ahead of a late one have trained before it ends. So it joins the first batch after its end, ceil(T/tau) publishes
on. Groups in time have s < K/P. The mean stays that of `systems/cap-binds`. Exact as P grows at fixed K/P. For finite P
a straggler waits when P others become ready in one period, and the trainer by chance. Domain: P >= 16 and c = K/P (K/P
+ 1 at the dequeue) >= 2 + E[T]/tau. Then c - 1 - sum_j P(T > j tau) batches are ready at a publish, about one and a
half or more. Second route: versions as masses that flow, oldest first. Source: derived.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from asyncsim.base import checks
from asyncsim.theory import _engines
from asyncsim.theory._declared import Counts, Draw, Integer, Parsed, Positive
from asyncsim.theory._stated import stated

_GROUPS = 16
_DEEPEST = 256


def _levels(field: str, value: Any) -> list[int]:
    is_list = isinstance(value, tuple | list) and len(value) > 0
    checks.require(is_list, field, value, "a tuple of integers", "name levels k")
    return [checks.integer(field, k, 1, "count versions", _DEEPEST) for k in value]


class _Setting(_engines.Engines):
    tickets = _engines.tickets(example=128)
    groups_per_batch = _engines.groups(
        _GROUPS, typical=(16, 48), example=32, remedy="stragglers wait for each other in small batches"
    )
    release = _engines.release(example="publish")
    samples_per_group = _engines.samples(typical=(1, 4), example=1)
    length = _engines.smooth_length(example="pareto:0.5:1.5")
    period = Positive(
        typical=(0.5, 4.0), example=1.0, unit="seconds", doc="time from publish to publish, the training of a batch"
    )
    levels = Parsed(
        _levels, f"whole numbers up to {_DEEPEST}", example=(4, 5, 6, 8), unit="versions", doc="levels k of P(s >= k)"
    )

    def joint(self) -> None:
        """Tickets that let the trainer never wait, and levels beyond those of groups in time."""
        reason = "give at least one group permit for each group of a batch"
        checks.integer("tickets", self.tickets, self.groups_per_batch, reason)
        early = self.release == "dequeue"
        self.cover = self.tickets / self.groups_per_batch + early
        needed = 2.0 + self.length.expected_max(self.samples_per_group) / self.period
        reason = "with fewer the trainer waits; raise the tickets or the period"
        checks.require(self.cover >= needed, "tickets", self.tickets, f">= {needed - early:.4g} batches", reason)
        reason = "below K/P it is the order and not the length that decides"
        for level in self.levels:
            checks.integer("levels", level, math.ceil(self.cover), reason, _DEEPEST)

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """Three to thirteen batches of tickets, and levels behind them."""
        point = super().drawn(draw)
        groups = point["groups_per_batch"]
        tickets = groups * draw(Integer(3, typical=(3, 12))) + draw(Integer(0, typical=(0, 15)))
        levels = sorted(draw(Counts(0, least=1, typical=(0, 12))))
        return point | {"tickets": tickets, "levels": tuple(tickets // groups + 2 + k for k in levels)}

    def survival(self, seconds: np.ndarray) -> np.ndarray:
        """P(T > seconds): a group is as long as the longest of its samples."""
        with np.errstate(divide="ignore"):
            return np.asarray(-np.expm1(self.samples_per_group * np.log1p(-self.length.survival(seconds))))


def _quantities(s: _Setting, tails: np.ndarray) -> dict[str, float]:
    return {f"tail[{k}]": float(tail) for k, tail in zip(s.levels, tails, strict=True)}


def _predict(s: _Setting) -> dict[str, float]:
    return _quantities(s, s.survival((np.array(s.levels) - 1.0) * s.period))


def _cross_check(s: _Setting) -> dict[str, float]:
    """Mass 1 a version, admitted behind the batch of its publish; each batch takes mass 1 of what is ready, old first.

    Outstanding and not in training is K/P - 1, all of it version 0 at the start. One version behind the start-up is
    followed until the last level.
    """
    tagged = 2 * math.ceil(s.cover) + 8
    last = tagged + max(s.levels)
    finished_share = 1.0 - s.survival(np.arange(last + 1) * s.period)
    size, trained_mass = np.zeros(last + 1), np.zeros(last + 1)
    size[0] = s.cover - 1.0
    untrained_share = {}
    for now in range(1, last + 1):
        # Batch `now` forms at the publish of version `now`, whose groups are admitted behind it.
        room = 1.0
        for version in range(now):
            ready = size[version] * finished_share[now - version] - trained_mass[version]
            amount = min(room, max(ready, 0.0))
            trained_mass[version] += amount
            room -= amount
        size[now] = 1.0 - room
        untrained_share[now] = 1.0 - trained_mass[tagged] / size[tagged] if now > tagged else 1.0
    return _quantities(s, np.array([untrained_share[tagged + k - 1] for k in s.levels]))


def _any_phase(s: _Setting) -> dict[str, float]:
    """Starts spread over the period, as in an open loop."""
    phases = (np.arange(200) + 0.5) / 200.0
    ages = (np.array(s.levels)[:, None] - phases) * s.period
    return _quantities(s, s.survival(ages).mean(axis=1))


def _queue_added(s: _Setting) -> dict[str, float]:
    """A straggler taken to queue behind what was ready before it, K/P - 2 publishes more."""
    return _quantities(s, s.survival(np.maximum(np.array(s.levels) - 1.0 - (s.cover - 2.0), 0.0) * s.period))


claim = stated(
    id="systems/straggler-tail",
    statement="with the oldest first and a trainer that never waits, `P(s >= k) = P(T > (k-1) tau)` for `k >= K/P`",
    kind="distribution",
    status="asymptotic",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: stragglers join the first batch after their end",
    formula_defects={
        "a level early": lambda s: _quantities(s, s.survival(np.array(s.levels) * s.period)),
        "starts spread over the period": _any_phase,
        "the queue added": _queue_added,
    },
    relative_to="norm",
)
