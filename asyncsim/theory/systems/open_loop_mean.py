r"""Mean staleness of an open loop with a buffer of q batches that drops its oldest group.

C places, batches of P groups, T = E[max of N works], training t_T seconds, rho = C t_T/(P T), q = capacity/P.
Generator-bound (rho <= 0.6): mean = C/P + rho. Trainer-bound (rho >= 1.5): mean = 1 + E floor(a + t), in_queue = 1 + E
floor(a), t = group seconds / t_T, a uniform on ((q-1)/rho, q/rho).
Derivation, in periods t_T: batches begin and versions are installed at whole times; a full buffer just before a
dequeue holds ages 0..q/rho and the oldest P are taken, ages a; a group begun a + t before a whole time has seen 1 +
floor(a + t) installs when it trains. Below rho = 1: places are always busy, so C are in flight at a publish, and the
groups finished during training, rho P, wait; divide by P (mean-staleness identity). Replacing E floor(x) by E[x] - 1/2
gives the closed form C/(P rho) + (2q + rho - 1)/(2 rho), which errs where a + t is not spread over whole periods:
constant works (rho = 2.5, q = 4, C = P: 2.3 instead of 2.0), and in_queue at q = 1 (less than 1, which no group can
have).
Conditional: ages are those of a steady stream. Arrivals by chance blur them by sqrt(age/(rho P)) periods, hence P >= 8,
C >= 4 P unless works are constant, and edges a quarter away from whole periods for in_queue; high by about 0.14 / P
(measured: 1.4 percent at P = 8, 0.7 at 16, 0.2 at 64). Below rho = 1 the part rho is too high by up to a share 1/C,
since the place that completes a batch has just begun again, so it is no quantity of its own. Between the two domains
the buffer runs empty and full by chance. One batch a publish, no synchronization time, mode keep or pin, order done,
constant training time; below rho = 1 works that vary, since places in step deliver in a pattern. Second route: the mean
over a in closed form, then the density of t; below rho = 1 a start uniform in the period, and Poisson counts. Source:
Applied Compute (2026) for the closed form, not read; the form with floors is derived.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import poisson

from asyncsim import checks
from asyncsim.laws import Law
from asyncsim.records import Claim, Point
from asyncsim.theory import _openloop, _points, _work

_SLOW, _FAST = 0.6, 1.5
_CLEAR = 0.25
"""Distance of the edges of the ages from whole periods within which chance moves groups across."""


class _Setting(NamedTuple):
    places: int
    samples: int
    groups: int
    length: Law
    train: float
    capacity: int
    ratio: float

    @property
    def ages(self) -> tuple[float, float]:
        """Smallest and largest age at the dequeue, in periods."""
        return (self.capacity / self.groups - 1.0) / self.ratio, self.capacity / self.groups / self.ratio


def _read(point: Point) -> _Setting:
    places, samples, groups, length, train, capacity = _points.select(
        point, "places samples_per_group groups_per_batch length train_time capacity"
    )
    places = checks.integer("places", places, 1, "count the groups in generation")
    samples = checks.integer("samples_per_group", samples, 1, "count the samples of a group")
    groups = checks.integer("groups_per_batch", groups, 8, "ages in small batches are blurred by chance")
    law, train = _work.law_of("length", length), _points.positive("train_time", train)
    capacity = checks.integer("capacity", capacity, groups, "give the buffer room for a batch")
    ratio = places * train / (groups * _work.longest(law, samples))
    checks.require(
        ratio <= _SLOW or ratio >= _FAST,
        "train_time",
        train,
        f"such that groups generated for each one trained are at most {_SLOW:g} or at least {_FAST:g}, not {ratio:.4g}",
        "in between the buffer runs empty and full by chance; make one side faster",
    )
    _openloop.refuse_chance(ratio, groups, capacity)
    _openloop.refuse_far(law, samples, train)
    s = _Setting(places, samples, groups, law, train, capacity, ratio)
    _refuse(s)
    return s


def _refuse(s: _Setting) -> None:
    """Works in step below rho = 1, and ages that end near whole periods above."""
    checks.require(
        s.places >= 4 * s.groups or not s.length.random,
        "places",
        s.places,
        f"at least {4 * s.groups}, four times the groups of a batch",
        "few places deliver in bursts of their own long and short works; add places",
    )
    if s.ratio < 1.0:
        checks.require(
            s.length.random, "length", str(s.length), "a law that varies", "works in step deliver in a pattern"
        )
        return
    near = min(abs(edge - round(edge)) if edge >= 0.5 else 1.0 for edge in s.ages)
    checks.require(
        near >= _CLEAR,
        "capacity",
        s.capacity,
        f"such that ages of {s.ages[0]:.3g} to {s.ages[1]:.3g} periods end {_CLEAR:g} or more away from whole ones",
        "chance moves groups across whole periods; change capacity or train_time",
    )


def _predict(point: Point) -> dict[str, float]:
    s = _read(point)
    if s.ratio < 1.0:
        return {"mean": s.places / s.groups + s.ratio}
    total = _openloop.mean_floor_by_thresholds(s.length, s.samples, s.train, *s.ages)
    low, high = s.ages
    k = np.arange(1, int(high) + 2)
    waited = float(np.clip((high - k) / (high - low), 0.0, 1.0).sum())
    return {"mean": 1.0 + total, "in_queue": 1.0 + waited}


def _cross_check(point: Point) -> dict[str, float]:
    s = _read(point)
    if s.ratio < 1.0:
        group = _work.longest_by_quantiles(s.length, s.samples)
        period = s.groups * group / s.places
        flying = _openloop.mean_floor_by_density(s.length, s.samples, period, 0.0, 1.0)
        arrivals = s.train / group * s.places
        j = np.arange(int(arrivals + 40.0 * np.sqrt(arrivals) + 60.0))
        waiting = float(j @ poisson.pmf(j, arrivals)) / s.groups
        return {"mean": flying + waiting}
    total = _openloop.mean_floor_by_density(s.length, s.samples, s.train, *s.ages)
    low, high = s.ages
    edges = np.unique(np.clip([low, *range(int(high) + 2), high], low, high))
    middle = (edges[:-1] + edges[1:]) / 2.0
    waited = float((np.diff(edges) * np.floor(middle)).sum()) / (high - low)
    return {"mean": 1.0 + total, "in_queue": 1.0 + waited}


def _closed(point: Point) -> dict[str, float]:
    s = _read(point)
    if s.ratio < 1.0:
        return _predict(point)
    waiting = (2.0 * s.capacity / s.groups + s.ratio - 1.0) / (2.0 * s.ratio)
    return {"mean": s.places / (s.groups * s.ratio) + waiting, "in_queue": waiting}


def _own_publish(point: Point) -> dict[str, float]:
    return {name: value - 1.0 for name, value in _predict(point).items()}


def _not_dropped(point: Point) -> dict[str, float]:
    s = _read(point)
    if s.ratio < 1.0:
        return _predict(point)
    waiting = s.capacity / s.groups
    return {"mean": s.places / (s.groups * s.ratio) + waiting, "in_queue": waiting}


claim = Claim(
    id="systems/open-loop-mean",
    statement="an open loop that drops its oldest has mean staleness C/P + rho below rho = 1, 1 + E floor(a+t) above",
    kind="expectation",
    status="conditional",
    point=_read,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: ages at the dequeue; mean-staleness identity below rho = 1",
    formula_defects={
        "rounding replaced by one half": _closed,
        "the install before training forgotten": _own_publish,
        "a full buffer waits q periods": _not_dropped,
    },
)
