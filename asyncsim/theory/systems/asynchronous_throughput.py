r"""An open loop trains groups at the rate of the slower of its generator and its trainer.

Seconds for a group = max(T/C, t_T/P) + t_sync/M where a synchronization stops both, max(T/C, t_T/P + t_sync/M) where
the generators go on: C places, T = E[max of N works], P groups a batch, M = S P a publish. Derivation: no ticket limits
admission, so places are busy unless stopped or blocked, and renewals give C/T groups a second. The trainer takes t_T a
batch and, once in S batches, t_sync. The slower of the two never waits, in the limit of a large buffer. A
synchronization that stops both is outside the maximum, as both clocks stop. Domain: away from the knee, the two rates a
factor 1.25 apart or more (at equality a buffer of two batches loses about 5 percent). The buffer holds the groups that
arrive while the trainer is away. There it is exact for a generator that never meets a full buffer and for a trainer
that never lacks a batch. With room for two batches the error is at most 0.5 percent. The trainer waits for installs,
samples in flight go on (mode keep or pin), works of finite mean. Second route: event simulation with constant times,
starts staggered. Source: derived.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from asyncsim.base import checks
from asyncsim.theory import _engines, _events, _openloop, _work
from asyncsim.theory._declared import Choice, Draw, Flag, Real
from asyncsim.theory._stated import stated

_APART = 1.25
"""Ratio of the two rates outside of which chance no longer matters; inside it the law is too high."""


class _Setting(_engines.Engines):
    places = _engines.places(typical=(1, 9), example=12)
    samples_per_group = _engines.samples(typical=(1, 6), example=4)
    groups_per_batch = _engines.groups(typical=(1, 6), example=4)
    batches_per_publish = _engines.batches(typical=(1, 3), example=2)
    length = _engines.work(example="exponential:1")
    train_time = _engines.train_time("> 0", example=0.5)
    sync_time = _engines.sync_time(typical=(0.0, 0.3), example=0.25)
    generator_pauses = _engines.generator_pauses(example=True)
    capacity = _engines.capacity(example=24)
    overflow = Choice(
        "block",
        "drop_oldest",
        example="drop_oldest",
        doc="what a full buffer does",
        remedy="say what a full buffer does",
    )

    def joint(self) -> None:
        """Near the knee, and with a buffer too small for what comes while the trainer is away, chance decides."""
        # Compare the rates of both sides.
        group = self.group
        absence = 0.0 if self.generator_pauses else self.sync_time
        publish = self.groups_per_batch * self.batches_per_publish
        ratio = (group / self.places) / (self.train_time / self.groups_per_batch + absence / publish)
        checks.require(
            not 1.0 / _APART < ratio < _APART,
            "train_time",
            self.train_time,
            f"such that generating and training a group differ by a factor {_APART:g} or more, not by {ratio:.4g}",
            "near the knee the buffer runs empty and full by chance; make one side faster",
        )
        # Size the buffer for the synchronization.
        burst = math.ceil(absence * self.places / group) if ratio > 1.0 else 0
        reserve = publish if absence and ratio < 1.0 else 0
        least = max(2 * self.groups_per_batch + burst, reserve)
        checks.require(
            self.capacity >= least,
            "capacity",
            self.capacity,
            f"at least {least}, two batches and what arrives during a synchronization",
            "a smaller buffer blocks or drops what the trainer needs; enlarge it",
        )
        # Limit a buffer empty or full by chance.
        _openloop.refuse_chance(1.0 / ratio, self.groups_per_batch, self.capacity)

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """The ratio of the two sides stays away from the knee, and the buffer is large enough for chance."""
        point = super().drawn(draw)
        ratio = draw(Real(typical=(0.2, 0.7) if draw(Flag()) else (1.4, 4.0)))
        groups, sync = point["groups_per_batch"], point["sync_time"]
        work = _work.longest(_work.law_of("length", point["length"]), point["samples_per_group"])
        train = ratio * groups * work / point["places"]
        absence = 0.0 if point["generator_pauses"] or ratio > 1.0 else 0.1 * sync
        return point | {
            "train_time": train,
            "sync_time": min(sync, train) if absence == 0.0 else min(absence, 0.1 * train),
            "capacity": 4 * groups * point["batches_per_publish"] + 40,
        }

    def seconds(self, group: float, pauses: bool) -> float:
        """Seconds for one trained group where each takes `group` seconds of a place; `pauses`: installs stop both."""
        stop = self.sync_time / (self.groups_per_batch * self.batches_per_publish)
        writing, training = group / self.places, self.train_time / self.groups_per_batch
        return max(writing, training) + stop if pauses else max(writing, training + stop)


def _at(seconds: float) -> dict[str, float]:
    """The rate at so many seconds for each trained group."""
    return {"groups_per_second": 1.0 / seconds}


def _predict(s: _Setting) -> dict[str, float]:
    return _at(s.seconds(s.group, s.generator_pauses))


def _cross_check(s: _Setting) -> dict[str, float]:
    """Constant times: after one rotation of all places everything repeats after `places` publishes."""
    group = s.group_by_quantiles
    settings = _events.Settings(
        s.places,
        s.groups_per_batch,
        s.batches_per_publish,
        s.sync_time,
        s.generator_pauses,
        capacity=s.capacity,
        drop=s.overflow == "drop_oldest",
    )
    staggered = itertools.chain((group * (k + 1) / s.places for k in range(s.places)), itertools.repeat(group))
    period = s.places * s.batches_per_publish
    warm = period * math.ceil(4 + 2 * s.capacity / (period * s.groups_per_batch))
    ends = _events.Loop(settings, staggered, itertools.repeat(s.train_time)).run(warm + period)
    return {"groups_per_second": period * s.groups_per_batch / float(ends[-1] - ends[-1 - period])}


claim = stated(
    id="systems/asynchronous-throughput",
    statement="away from the knee an open loop trains `min(C/T, P/t_T)` groups a second, less what synchronizing stops",
    kind="expectation",
    status="asymptotic",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: renewals of the generator slots, and a trainer that never waits",
    formula_defects={
        "generation and training in turn": lambda s: _at(
            s.seconds(s.group, s.generator_pauses) + min(s.group / s.places, s.train_time / s.groups_per_batch)
        ),
        "mean sample instead of the longest of a group": lambda s: _at(s.seconds(s.length.mean(), s.generator_pauses)),
        "synchronization taken to stop the other side only": lambda s: _at(s.seconds(s.group, not s.generator_pauses)),
    },
)
