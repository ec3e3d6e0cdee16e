r"""Seconds a batch of a pool of (a + 1) batches on k slots: mean load, a share of the straggler, and training.

batch_seconds <= Q mu/k + E[max of (a+1) Q works]/(a+1) + t_T, Q = P N samples a batch, (a + 1) P tickets that return
at the publish, a place for each. Heuristic: the slots see (a + 1) batches as one list, whose straggler is paid once in
a + 1 batches. At a = 0 it follows from list scheduling; for a > 0 there is no proof, hence open. The form with a
maximum in place of the sum, max(Q mu/k + E[max]/(a+1), t_T), is no bound: it fails at a = 0, where training adds, and
by a few percent at a = 1 (three slots, batches of four unit works). Each term is attained where it is all there is:
many samples on few slots, training much longer than generation, a slot for every sample. With random works of a wide
spread a pool is much faster than the bound (0.46 of it for exponential works at a = 1). Domain: one server, speed
independent of the number active, no synchronization time, rewards at once, nothing dropped. Second route: the maximum
by its quantile function. Source: derived.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from asyncsim import checks
from asyncsim.laws import Law
from asyncsim.records import Claim, Point
from asyncsim.theory import _points, _work


class _Setting(NamedTuple):
    slots: int
    samples: int
    ahead: int
    length: Law
    train: float

    def sum(self, mean: float, longest: float) -> dict[str, float]:
        """The bound from the mean work and the mean of the pool's longest."""
        return {"batch_seconds": math.fsum(self.parts(mean, longest).values())}

    def parts(self, mean: float, longest: float) -> dict[str, float]:
        """Terms of the bound, under names of their own where several batches are out."""
        found = {
            "load": self.samples * mean / self.slots,
            "random straggler" if longest > mean else "straggler": longest / (self.ahead + 1),
            "training": self.train,
        }
        return {f"{name} of a pool" if self.ahead else name: value for name, value in found.items()}


def _read(point: Point) -> _Setting:
    slots, groups, samples, ahead, length, train = _points.select(
        point, "slots groups_per_batch samples_per_group ahead length train_time"
    )
    groups = checks.integer("groups_per_batch", groups, 1, "count the groups of a batch")
    samples = checks.integer("samples_per_group", samples, 1, "count the samples of a group")
    return _Setting(
        checks.integer("slots", slots, 1, "count the samples decoded at once"),
        groups * samples,
        checks.integer("ahead", ahead, 0, "count the batches out besides the one that is needed next"),
        _work.law_of("length", length),
        _work.seconds("train_time", train),
    )


def _parts(point: Point) -> dict[str, float]:
    s = _read(point)
    return s.parts(s.length.mean(), _work.longest(s.length, s.samples * (s.ahead + 1)))


def _predict(point: Point) -> dict[str, float]:
    return {"batch_seconds": math.fsum(_parts(point).values())}


def _scaled(term: str) -> Callable[[Point, float], dict[str, float]]:
    """The bound with one term multiplied by a factor."""

    def bound(point: Point, factor: float) -> dict[str, float]:
        parts = _parts(point)
        return {"batch_seconds": math.fsum(x * (factor if name == term else 1.0) for name, x in parts.items())}

    return bound


def _cross_check(point: Point) -> dict[str, float]:
    s = _read(point)
    longest = _work.longest_by_quantiles(s.length, s.samples * (s.ahead + 1))
    return s.sum(_work.longest_by_quantiles(s.length, 1), longest)


def _maximum(point: Point) -> dict[str, float]:
    s = _read(point)
    return {"batch_seconds": max(_predict(point)["batch_seconds"] - s.train, s.train)}


def _no_straggler(point: Point) -> dict[str, float]:
    s = _read(point)
    return s.sum(s.length.mean(), 0.0)


claim = Claim(
    id="systems/list-scheduling-pool",
    statement="a pool of a+1 batches on k slots takes at most Q mu/k + E[longest of the pool]/(a+1) + t_T a batch",
    kind="bound",
    status="open",
    point=_read,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived at a = 0; a conjecture beyond",
    formula_defects={"training hidden behind generation": _maximum, "perfect balance, no straggler": _no_straggler},
    terms={
        name: _scaled(name)
        for part in ("load", "straggler", "random straggler", "training")
        for name in (part, f"{part} of a pool")
    },
)
