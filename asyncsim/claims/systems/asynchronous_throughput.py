r"""An open loop trains groups at the rate of the slower of its generator and its trainer.

unless both sides are equally fast, an open loop trains `min(C/T, P/t_T)` groups per second, less losses at each sync

Seconds for a group = max(T/C, t_T/P) + t_sync/M where a synchronization stops both, max(T/C, t_T/P + t_sync/M) where
the generators go on: C slots, T = E[max of N works], P groups a batch, M = S P a publish. Derivation: no permit limits
admission, so slots are busy unless stopped or blocked, and renewals give C/T groups per second. The trainer takes t_T
a batch and, once in S batches, t_sync. The slower of the two never waits, in the limit of a large buffer. A
synchronization that stops both is outside the maximum, as both clocks stop. Domain: away from the knee, the two rates a
factor 1.25 apart or more (at equality a buffer of two batches loses about 5 percent). The buffer holds the groups that
arrive while the trainer is away. There it is exact for a generator that never meets a full buffer and for a trainer
that never lacks a batch. With room for two batches the error is at most 0.5 percent. The trainer waits for installs,
samples in flight go on (mode keep or pin), works of finite mean. Second route: events at constant times, staggered.
"""

import itertools
import math

from asyncsim.claims import _engines, _events, _openloop, lab
from asyncsim.claims._claim import Choice, Estimate, Plant, Point, replaced, sampled

_APART = 1.25
"""Ratio of the two rates outside of which chance no longer matters; inside it the law is too high."""
_TOLERANCE = 0.003
"""A buffer of two batches is empty or full by chance for as large a share of the time, at most."""
_POINT = {
    "places": 64, "samples_per_group": 4, "groups_per_batch": 16, "batches_per_publish": 1, "capacity": 64,
    "length": "lognormal:1.0:0.8", "train_time": 0.25, "sync_time": 0.2, "generator_pauses": True, "overflow": "block",
}  # fmt: skip
_TRAINER = _POINT | {"train_time": 1.0}


class AsynchronousThroughput(_engines.Engines):
    kind, status = "expectation", "asymptotic"
    source = "derived: renewals of the generator slots, and a trainer that never waits"

    places = _engines.places(typical=(1, 9), example=12)
    samples_per_group = _engines.samples(typical=(1, 6), example=4)
    groups_per_batch = _engines.groups(typical=(1, 6), example=4)
    batches_per_publish = _engines.batches(typical=(1, 3), example=2)
    length = _engines.work(example="exponential:1")
    train_time = _engines.some_train_time(example=0.5)
    sync_time = _engines.sync_time(typical=(0.0, 0.3), example=0.25)
    generator_pauses = _engines.generator_pauses(example=True)
    capacity = _engines.capacity(example=24)
    overflow = Choice("block", "drop_oldest", example="drop_oldest", doc="treatment of a full buffer")

    def joint(self) -> None:
        group, absence = self.group, 0.0 if self.generator_pauses else self.sync_time
        ratio = (group / self.places) / (self.train_time / self.groups_per_batch + absence / self.publish)
        bound = f"such that generating and training a group differ by a factor {_APART:g} or more, not by {ratio:.4g}"
        remedy = "near the knee the buffer runs empty and full by chance; make one side faster"
        self.require(not 1.0 / _APART < ratio < _APART, "train_time", bound, remedy)
        # Size the buffer for the synchronization.
        burst = math.ceil(absence * self.places / group) if ratio > 1.0 else 0
        least = max(2 * self.groups_per_batch + burst, self.publish if absence and ratio < 1.0 else 0)
        bound = f"at least {least}, two batches and what arrives during a synchronization"
        enough = self.capacity >= least
        self.require(enough, "capacity", bound, "a smaller buffer blocks or drops what the trainer needs; enlarge it")
        _openloop.refuse_chance(1.0 / ratio, self.groups_per_batch, self.capacity)

    def rate(self, group: float) -> dict[str, float]:
        """Throughput when each trained group takes `group` seconds of a slot."""
        stop = self.sync_time / self.publish
        writing, training = group / self.places, self.train_time / self.groups_per_batch
        seconds = max(writing, training) + stop if self.generator_pauses else max(writing, training + stop)
        return {"groups_per_second": 1.0 / seconds}

    def predict(s) -> dict[str, float]:
        return s.rate(s.group)

    def check(s) -> dict[str, float]:
        """Simulate constant times, with which all events repeat after `places` publishes."""
        group = s.group_by_quantiles
        sizes = s.places, s.groups_per_batch, s.batches_per_publish, s.sync_time, s.generator_pauses
        staggered = itertools.chain((group * (k + 1) / s.places for k in range(s.places)), itertools.repeat(group))
        period = s.places * s.batches_per_publish
        warm = period * math.ceil(4 + 2 * s.capacity / (period * s.groups_per_batch))
        training, drops = itertools.repeat(s.train_time), s.overflow == "drop_oldest"
        ends = _events.Loop(staggered, training, *sizes, capacity=s.capacity, drop=drops).run(warm + period)
        return {"groups_per_second": period * s.groups_per_batch / float(ends[-1] - ends[-1 - period])}

    wrong = {"mean sample instead of the longest of a group": lambda s: s.rate(s.length.mean())}

    points = (_POINT, _TRAINER, _POINT | {"train_time": 0.15, "generator_pauses": False, "overflow": "drop_oldest"})
    more = (
        _POINT | {"train_time": 0.3, "sync_time": 0.4, "batches_per_publish": 4},
        _TRAINER | {"length": "exponential:1", "samples_per_group": 1, "overflow": "drop_oldest"},
    )

    def reach(self, point: Point) -> str | None:
        limits = {"places": 1024, "groups_per_batch": 1024, "samples_per_group": 64, "batches_per_publish": 64}
        return sampled("length", "train_time", **limits)(point) or lab.overproduced(point)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        batches, samples = point["batches_per_publish"], point["samples_per_group"]
        system = plant(lab.staggered(lab.engine(point), samples))
        publishes = lab.publishes_for(point["places"], batches * point["groups_per_batch"])
        count = lab.realizations_for(0.009, effect, _TOLERANCE, comparisons=5)
        size = publishes * batches, samples, publishes // 10, count
        return lab.groups_per_second(system, *size, seed, _TOLERANCE)

    defects = {
        "generators go on during a synchronization": lambda: replaced(generator_pauses=False),
        "the trainer does not wait for the install": lambda: (replaced(trainer_waits=False), _TRAINER),
        "eight generator slots freed twice": lambda: lab.kernel_defects.eight_places_freed_twice,
    }
