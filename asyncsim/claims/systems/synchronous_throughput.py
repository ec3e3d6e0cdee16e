r"""A synchronous update waits for the longest of its samples, then trains, then synchronizes.

Seconds of a step = E[max of P N works]/rate + t_T + t_sync, P groups of N samples. Derivation: all samples start
together on engines that hold them all, none is admitted before the install, and training starts with the last end.
Steps are independent, so batches a second are the inverse of the mean step (renewal reward), not the mean of inverses.
Closed forms of the maximum: exponential mu H_n; Pareto x Gamma(n+1) Gamma(1-1/a) / Gamma(n+1-1/a); else the integral of
1 - F^n. Domain: every sample decodes from the start (places for all groups, no limit of slots, speed independent of the
number active). Rewards come at once; lengths have a finite mean. Second route: quadrature of the quantile function.
Source: derived.
"""

from __future__ import annotations

from asyncsim.base import checks
from asyncsim.base.declared import Positive
from asyncsim.claims import _engines, _work, lab
from asyncsim.claims._claim import Claim
from asyncsim.claims._trial import Defect, Estimate, Plant, Point, replaced, within


def _step(s: SynchronousThroughput, work: float) -> dict[str, float]:
    return {"step_seconds": work / s.rate + s.train_time + s.sync_time}


def _overlapped(s: SynchronousThroughput) -> dict[str, float]:
    work = _work.longest(s.length, s.groups_per_batch * s.samples_per_group) / s.rate
    return {"step_seconds": max(work, s.train_time) + s.sync_time}


_STEPS = 400
_SPREAD = 0.03
"""Relative standard deviation of one realization's mean at the points below (measured, rounded up)."""
_POINT = {
    "groups_per_batch": 8,
    "samples_per_group": 4,
    "length": "exponential:1",
    "rate": 1.0,
    "train_time": 1.0,
    "sync_time": 0.25,
}


class SynchronousThroughput(_engines.Engines, Claim):
    """a synchronous update lasts `E[longest of all its samples]/rate + training + synchronization`"""

    kind, source = "expectation", "derived: expectation of a maximum, renewal reward"
    through = "kernel"

    groups_per_batch = _engines.groups(high=checks.LARGEST, typical=(1, 6), example=8)
    samples_per_group = _engines.samples(checks.LARGEST, typical=(1, 6), example=4)
    length = _engines.work(example="lognormal:1.0:0.8")
    rate = Positive(typical=(0.5, 2.0), example=2.0, unit="work per second", doc="speed of a generator slot")
    train_time = _engines.train_time(typical=(0.5, "exponential:1.5"), example="exponential:1.5")
    sync_time = _engines.sync_time(typical=(0.0, 1.0), example=0.25)

    def predict(s) -> dict[str, float]:
        return _step(s, _work.longest(s.length, s.groups_per_batch * s.samples_per_group))

    def check(s) -> dict[str, float]:
        return _step(s, _work.longest_by_quantiles(s.length, s.groups_per_batch * s.samples_per_group))

    wrong = {
        "mean sample instead of the longest": lambda s: _step(s, s.length.mean()),
        "longest of one group instead of the batch": lambda s: _step(s, s.group),
        "training hidden behind generation": _overlapped,
    }

    points = (
        _POINT,
        _POINT
        | {"groups_per_batch": 4, "samples_per_group": 8, "length": "lognormal:1.0:0.8", "rate": 2.0}
        | {"train_time": "exponential:1.5", "sync_time": 0.0},
    )
    more = (
        _POINT
        | {"groups_per_batch": 16, "samples_per_group": 2, "length": "pareto:1:3", "train_time": 0.5, "sync_time": 0.5},
        _POINT | {"groups_per_batch": 1, "samples_per_group": 1, "length": "constant:2", "rate": 0.5},
    )

    @staticmethod
    def reach(point: Point) -> str | None:
        return lab.windows.heavy(point, "length", "train_time") or within(groups_per_batch=1024, samples_per_group=64)(
            point
        )

    @staticmethod
    def measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        system = lab.windows.synchronous(point, rates=(float(point["rate"]),) * point["groups_per_batch"])
        count = lab.windows.realizations_for(_SPREAD, effect, 0.0, comparisons=4)
        records = lab.windows.timelines(plant(system), _STEPS, point["samples_per_group"], count, seed)
        # Every step begins like the first, with nothing out, so there is no warm-up.
        return {
            "step_seconds": lab.windows.mean_of(float(record.publishes["t_install"][-1]) / _STEPS for record in records)
        }

    @staticmethod
    def defects() -> dict[str, Defect]:
        return {
            "the next batch begins before the install": Defect(
                lambda system: system.replace(tickets=2 * system.groups_per_batch, mode="keep"), _POINT
            ),
            "slots for half of the samples": Defect(
                lambda system: system.replace(slots=2 * system.groups_per_batch), _POINT
            ),
            "synchronization not waited for": Defect(replaced(sync_time=0.0), _POINT),
        }
