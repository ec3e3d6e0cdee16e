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
from asyncsim.theory import _engines, _work
from asyncsim.theory._declared import Positive
from asyncsim.theory._stated import stated


class _Setting(_engines.Engines):
    groups_per_batch = _engines.groups(high=checks.LARGEST, typical=(1, 6), example=8)
    samples_per_group = _engines.samples(checks.LARGEST, typical=(1, 6), example=4)
    length = _engines.work(example="lognormal:1.0:0.8")
    rate = Positive(typical=(0.5, 2.0), example=2.0, unit="work per second", doc="speed of a generator slot")
    train_time = _engines.train_time(typical=(0.5, "exponential:1.5"), example="exponential:1.5")
    sync_time = _engines.sync_time(typical=(0.0, 1.0), example=0.25)


def _step(s: _Setting, work: float) -> dict[str, float]:
    return {"step_seconds": work / s.rate + s.train_time + s.sync_time}


def _predict(s: _Setting) -> dict[str, float]:
    return _step(s, _work.longest(s.length, s.groups_per_batch * s.samples_per_group))


def _cross_check(s: _Setting) -> dict[str, float]:
    return _step(s, _work.longest_by_quantiles(s.length, s.groups_per_batch * s.samples_per_group))


def _overlapped(s: _Setting) -> dict[str, float]:
    work = _work.longest(s.length, s.groups_per_batch * s.samples_per_group) / s.rate
    return {"step_seconds": max(work, s.train_time) + s.sync_time}


claim = stated(
    id="systems/synchronous-throughput",
    statement="a synchronous update lasts `E[longest of all its samples]/rate + training + synchronization`",
    kind="expectation",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: expectation of a maximum, renewal reward",
    formula_defects={
        "mean sample instead of the longest": lambda s: _step(s, s.length.mean()),
        "longest of one group instead of the batch": lambda s: _step(s, s.group),
        "training hidden behind generation": _overlapped,
    },
)
