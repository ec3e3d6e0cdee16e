r"""An open loop trains groups at the rate of the slower of its generator and its trainer.

Seconds for a group = max(T/C, t_T/P) + t_sync/M where a synchronization stops both, max(T/C, t_T/P + t_sync/M) where
the generators go on: C places, T = E[max of N works], P groups a batch, M = S P a publish. Derivation: no ticket
limits admission, so places are busy unless stopped or blocked, and renewals give C/T groups a second; the trainer
takes t_T a batch and, once in S batches, t_sync. The slower of the two is never waiting, in the limit of a large
buffer; a synchronization that stops both stands outside the maximum, as a clock that stops for everyone. Domain: away
from the knee, the two rates a factor 1.25 apart or more (at equality a buffer of two batches loses about 5 percent),
and a buffer that holds what arrives while the trainer is away. There it is exact for a generator that never finds the
buffer full and for a trainer that never finds it short; groups of two batches' room leave at most 0.5 percent. The
trainer waits for installs, samples in flight go on (mode keep or pin), works of finite mean. Second route: event
simulation with constant times, starts staggered. Source: derived.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

from asyncsim import checks
from asyncsim.laws import Law
from asyncsim.records import Claim, Point
from asyncsim.theory import _events, _openloop, _points, _work

_APART = 1.25
"""Ratio of the two rates outside of which chance no longer matters; inside it the law is too high."""


class _Setting(NamedTuple):
    places: int
    samples: int
    groups: int
    publish: int
    length: Law
    train: float
    sync: float
    pauses: bool
    capacity: int
    overflow: str

    def seconds(self, group: float) -> float:
        """Seconds for one trained group where each takes `group` seconds of a place."""
        stop = self.sync / (self.groups * self.publish)
        writing, training = group / self.places, self.train / self.groups
        return max(writing, training) + stop if self.pauses else max(writing, training + stop)


def _read(point: Point) -> _Setting:
    places, samples, groups, publish, length, train, sync, pauses, capacity, overflow = _points.select(
        point,
        "places samples_per_group groups_per_batch batches_per_publish length train_time sync_time generator_pauses "
        "capacity overflow",
    )
    s = _Setting(
        checks.integer("places", places, 1, "count the groups in generation"),
        checks.integer("samples_per_group", samples, 1, "count the samples of a group"),
        checks.integer("groups_per_batch", groups, 1, "count the groups of a batch"),
        checks.integer("batches_per_publish", publish, 1, "count the batches of a publish"),
        _work.law_of("length", length),
        _points.positive("train_time", _work.seconds("train_time", train)),
        checks.real("sync_time", sync, "give the seconds of a synchronization", 0.0),
        checks.boolean("generator_pauses", pauses, "say whether a synchronization stops the generators"),
        checks.integer("capacity", capacity, 1, "count the finished groups that the buffer holds"),
        checks.one_of("overflow", overflow, ("block", "drop_oldest"), "say what a full buffer does"),
    )
    _refuse(s)
    return s


def _refuse(s: _Setting) -> None:
    """Near the knee, and with a buffer too small for what comes while the trainer is away."""
    group = _work.longest(s.length, s.samples)
    away = 0.0 if s.pauses else s.sync
    ratio = (group / s.places) / (s.train / s.groups + away / (s.groups * s.publish))
    checks.require(
        not 1.0 / _APART < ratio < _APART,
        "train_time",
        s.train,
        f"such that generating and training a group differ by a factor {_APART:g} or more, not by {ratio:.4g}",
        "near the knee the buffer runs empty and full by chance; make one side faster",
    )
    burst = math.ceil(away * s.places / group) if ratio > 1.0 else 0
    most = s.groups * s.publish if away and ratio < 1.0 else 0
    need = max(2 * s.groups + burst, most)
    checks.require(
        s.capacity >= need,
        "capacity",
        s.capacity,
        f"at least {need}, two batches and what arrives during a synchronization",
        "a smaller buffer blocks or drops what the trainer needs; enlarge it",
    )
    _openloop.refuse_chance(1.0 / ratio, s.groups, s.capacity)


def _predict(point: Point) -> dict[str, float]:
    s = _read(point)
    return {"groups_per_second": 1.0 / s.seconds(_work.longest(s.length, s.samples))}


def _cross_check(point: Point) -> dict[str, float]:
    """Constant times: after one rotation of all places everything repeats after `places` publishes."""
    s = _read(point)
    group = _work.longest_by_quantiles(s.length, s.samples)
    settings = _events.Settings(
        s.places, s.groups, s.publish, s.sync, s.pauses, capacity=s.capacity, drop=s.overflow == "drop_oldest"
    )
    staggered = itertools.chain((group * (k + 1) / s.places for k in range(s.places)), itertools.repeat(group))
    period = s.places * s.publish
    warm = period * math.ceil(4 + 2 * s.capacity / (period * s.groups))
    ends = _events.Loop(settings, staggered, itertools.repeat(s.train)).run(warm + period)
    return {"groups_per_second": period * s.groups / float(ends[-1] - ends[-1 - period])}


def _defect(seconds: Callable[[_Setting, float], float]) -> Callable[[Point], dict[str, float]]:
    def wrong(point: Point) -> dict[str, float]:
        s = _read(point)
        return {"groups_per_second": 1.0 / seconds(s, _work.longest(s.length, s.samples))}

    return wrong


claim = Claim(
    id="systems/asynchronous-throughput",
    statement="away from the knee an open loop trains min(C/T, P/t_T) groups a second, less what synchronizing stops",
    kind="expectation",
    status="asymptotic",
    point=_read,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: renewals of the places, and a trainer that never waits",
    formula_defects={
        "generation and training in turn": _defect(lambda s, t: s.seconds(t) + min(t / s.places, s.train / s.groups)),
        "mean sample instead of the longest of a group": _defect(lambda s, t: s.seconds(s.length.mean())),
        "synchronization taken to stop the other side only": _defect(
            lambda s, t: s._replace(pauses=not s.pauses).seconds(t)
        ),
    },
)
