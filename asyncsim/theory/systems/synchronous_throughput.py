r"""A synchronous step lasts as long as the longest of its samples, then trains, then synchronizes.

Seconds of a step = E[max of P N works]/rate + t_T + t_sync, P groups of N samples. Derivation: all samples start
together on engines that hold them all, none is admitted before the install, and training starts with the last end;
steps are independent, so batches a second are the inverse of the mean step (renewal reward), not the mean of inverses.
Closed forms of the maximum: exponential mu H_n; Pareto x Gamma(n+1) Gamma(1-1/a) / Gamma(n+1-1/a); else the integral
of 1 - F^n. Domain: every sample decodes from the start (places for all groups, no limit of slots, speed independent of
the number active), rewards at once, a length of finite mean. Second route: quadrature of the quantile function.
Source: derived.
"""

from __future__ import annotations

from typing import NamedTuple

from asyncsim import checks
from asyncsim.laws import Law
from asyncsim.records import Claim, Point
from asyncsim.theory import _points, _work


class _Setting(NamedTuple):
    groups: int
    samples: int
    length: Law
    rate: float
    train: float
    sync: float


def _read(point: Point) -> _Setting:
    groups, samples, length, rate, train, sync = _points.select(
        point, "groups_per_batch samples_per_group length rate train_time sync_time"
    )
    return _Setting(
        checks.integer("groups_per_batch", groups, 1, "count the groups of a batch", checks.LARGEST),
        checks.integer("samples_per_group", samples, 1, "count the samples of a group", checks.LARGEST),
        _work.law_of("length", length),
        _points.positive("rate", rate),
        _work.seconds("train_time", train),
        checks.real("sync_time", sync, "give the seconds of a synchronization", 0.0),
    )


def _step(s: _Setting, work: float) -> dict[str, float]:
    return {"step_seconds": work / s.rate + s.train + s.sync}


def _predict(point: Point) -> dict[str, float]:
    s = _read(point)
    return _step(s, _work.longest(s.length, s.groups * s.samples))


def _cross_check(point: Point) -> dict[str, float]:
    s = _read(point)
    return _step(s, _work.longest_by_quantiles(s.length, s.groups * s.samples))


def _mean_length(point: Point) -> dict[str, float]:
    s = _read(point)
    return _step(s, s.length.mean())


def _one_group(point: Point) -> dict[str, float]:
    s = _read(point)
    return _step(s, _work.longest(s.length, s.samples))


def _overlapped(point: Point) -> dict[str, float]:
    s = _read(point)
    work = _work.longest(s.length, s.groups * s.samples) / s.rate
    return {"step_seconds": max(work, s.train) + s.sync}


claim = Claim(
    id="systems/synchronous-throughput",
    statement="a synchronous step lasts E[longest of all its samples]/rate + training + synchronization",
    kind="expectation",
    status="exact",
    point=_read,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: expectation of a maximum, renewal reward",
    formula_defects={
        "mean sample instead of the longest": _mean_length,
        "longest of one group instead of the batch": _one_group,
        "training hidden behind generation": _overlapped,
    },
)
