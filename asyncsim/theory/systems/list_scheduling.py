r"""Q samples taken in any order by k slots end between the mean load and the mean load plus one straggler.

For works L of one batch and its generation time T: max(sum L/k, max L) <= T <= sum L/k + (1 - 1/k) max L, for every
instance. Derivation: below, slots do no more than one unit a second each; above, while the last sample to end has not
started all k slots are busy, so it starts at (sum L - its own)/k at the latest. As upper bounds, k slots:
  excess = (T - sum L/k)/max L <= 1 - 1/k;   floor = max(sum L/k, max L)/T <= 1;
  step_seconds = E[step] <= Q mu/k + (1 - 1/k) E[max of Q] + t_T + t_sync (expectation of the above, Q = P N).
The first is attained by equal works with Q = n k + 1, the second whenever one slot decides. Both are statements about
the extremes: measure the largest excess and floor of many batches. Domain: one server whose speed does not depend on
the number active, all samples of a batch waiting from the start (synchronous: P tickets, quantum P, drain), rewards at
once. Second route: scheduled instances, extremal and random. Source: Graham, SIAM J. Appl. Math. 17 (1969).
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from asyncsim import checks
from asyncsim.laws import Law
from asyncsim.records import Claim, Point
from asyncsim.theory import _points, _work


class _Setting(NamedTuple):
    slots: int
    samples: int
    length: Law
    others: float

    def bounds(self, share: float, longest: float, floor: float = 1.0) -> dict[str, float]:
        """The three bounds with that share of the longest sample on top of the mean load."""
        load = self.samples * self.length.mean() / self.slots
        return {"excess": share, "floor": floor, "step_seconds": load + share * longest + self.others}


def _read(point: Point) -> _Setting:
    slots, groups, samples, length, train, sync = _points.select(
        point, "slots groups_per_batch samples_per_group length train_time sync_time"
    )
    groups = checks.integer("groups_per_batch", groups, 1, "count the groups of a batch")
    samples = checks.integer("samples_per_group", samples, 1, "count the samples of a group")
    return _Setting(
        checks.integer("slots", slots, 2, "one slot leaves nothing to schedule; give at least two"),
        groups * samples,
        _work.law_of("length", length),
        _work.seconds("train_time", train) + checks.real("sync_time", sync, "give seconds", 0.0),
    )


def _predict(point: Point) -> dict[str, float]:
    s = _read(point)
    return s.bounds(1.0 - 1.0 / s.slots, _work.longest(s.length, s.samples))


def _scheduled(works: np.ndarray, slots: int) -> float:
    """Second at which the last work ends when each is taken, in order, by the slot that is free first."""
    free = [0.0] * slots
    for work in works:
        heapq.heapreplace(free, free[0] + float(work))
    return max(free)


def _cross_check(point: Point) -> dict[str, float]:
    """The largest ratios over instances that attain them, and over random ones, which must not exceed them."""
    s = _read(point)
    generator, k = np.random.default_rng(0), s.slots
    instances = [np.ones(n * k + 1) for n in (1, 3)] + [np.append(np.ones(k * (k - 1)), k), np.ones(2 * k)]
    instances += [_work.draws(s.length, generator, (int(generator.integers(1, 4 * k)),)) for _ in range(20)]
    excess = floor = 0.0
    for works in instances:
        seconds, load, longest = _scheduled(works, k), float(works.sum()) / k, float(works.max())
        excess = max(excess, (seconds - load) / longest)
        floor = max(floor, max(load, longest) / seconds)
    longest = _work.longest_by_quantiles(s.length, s.samples)
    mean = _work.longest_by_quantiles(s.length, 1)
    step = (s.samples - 1) * mean / k + longest + (mean - longest) / k + s.others
    return {"excess": excess, "floor": floor, "step_seconds": step}


def _no_straggler(point: Point) -> dict[str, float]:
    s = _read(point)
    return s.bounds(0.0, 0.0)


def _half_way(point: Point) -> dict[str, float]:
    s = _read(point)
    return s.bounds((1.0 - 1.0 / s.slots) / 2.0, _work.longest(s.length, s.samples))


def _idle_slots(point: Point) -> dict[str, float]:
    s = _read(point)
    return s.bounds(1.0 - 1.0 / s.slots, _work.longest(s.length, s.samples), 1.0 - 1.0 / s.slots)


claim = Claim(
    id="systems/list-scheduling",
    statement="samples on k slots end between max(sum/k, longest) and sum/k + (1-1/k) longest",
    kind="bound",
    status="exact",
    domain=_points.domain_of(_read),
    predict=_predict,
    cross_check=_cross_check,
    reference="Graham, SIAM J. Appl. Math. 17 (1969)",
    formula_defects={
        "perfect balance, no straggler": _no_straggler,
        "the longest starts half way before the end": _half_way,
        "one slot taken to be always idle": _idle_slots,
    },
)
