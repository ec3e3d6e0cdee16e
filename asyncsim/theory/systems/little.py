r"""Time averages of groups in generation and outstanding are throughput times mean seconds, in any system.

in_flight = (time average in generation) / (X E[seconds from start to end]) = 1 and outstanding = (time average of
groups started and not yet in training) / (X E[delay]) = 1, X groups a second, delay from a group's start to the start
of its training. Derivation: the integral of a count over time is the sum of the seconds for which each was counted.
Any bookkeeping that agrees with itself satisfies both, so in a closed loop (single groups, K tickets that return at
the publish, a place for each, training exponential of mean t_T) two numbers come with them: X = (1 - p0)/t_T, p0 as in
`systems/closed-loop`, has X T groups in generation, T = E[max of N works], and a mean delay of K/X - t_T seconds.
Domain: any settings with works of finite mean; exact over a history that begins and ends empty, else up to the groups
cut off by the ends of the window. These are averages over time; the mean-staleness identity counts at the instants of
publishes, and a mean delay in seconds is not the period times the mean staleness. Second route: counts swept through
an event simulation from empty to empty, beside the sums of its seconds; the balance equations of the loop. Source:
Little, Oper. Res. 9 (1961).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from asyncsim import checks
from asyncsim.laws import Law
from asyncsim.records import Claim, Point
from asyncsim.theory import _closed, _events, _points, _work

_BATCHES = 40


class _Setting(NamedTuple):
    places: int
    tickets: int
    early: bool
    groups: int
    samples: int
    length: Law
    train: float
    closed: bool

    def levels(self, busy: float, generation: float) -> dict[str, float]:
        """Groups in generation and seconds of delay, from the share of time for which the trainer works."""
        rate = busy / self.train
        return {"generating": rate * generation, "delay": self.tickets / rate - self.train}


def _read(point: Point) -> _Setting:
    places, tickets, release, groups, samples, length, train = _points.select(
        point, "places tickets release groups_per_batch samples_per_group length train_time"
    )
    groups = checks.integer("groups_per_batch", groups, 1, "count the groups of a batch")
    checks.one_of("release", release, ("publish", "dequeue"), "say when a ticket returns")
    places = checks.integer("places", places, 1, "count the groups in generation")
    tickets = checks.integer("tickets", tickets, groups, "give at least one ticket for each group of a batch")
    exponential = isinstance(train, str) and _work.law_of("train_time", train).kind == "exponential"
    return _Setting(
        places,
        tickets,
        release == "dequeue",
        groups,
        checks.integer("samples_per_group", samples, 1, "count the samples of a group"),
        _work.law_of("length", length),
        _work.seconds("train_time", train),
        exponential and groups == 1 and release == "publish" and places >= tickets,
    )


def _ratios(in_flight: float, outstanding: float) -> dict[str, float]:
    return {"in_flight": in_flight, "outstanding": outstanding}


def _predict(point: Point) -> dict[str, float]:
    s = _read(point)
    if not s.closed:
        return _ratios(1.0, 1.0)
    generation = _work.longest(s.length, s.samples)
    return _ratios(1.0, 1.0) | s.levels(_closed.busy(s.tickets, s.train / generation), generation)


def _swept(begins: np.ndarray, ends: np.ndarray, horizon: float) -> float:
    """Time average of the count, from its steps in the order of time."""
    times = np.concatenate([begins, ends])
    order = np.argsort(times, kind="stable")
    levels = np.cumsum(np.concatenate([np.ones(len(begins)), -np.ones(len(ends))])[order])
    return float((levels[:-1] * np.diff(times[order])).sum()) / horizon


def _cross_check(point: Point) -> dict[str, float]:
    s = _read(point)
    generator, total = np.random.default_rng(0), _BATCHES * s.groups
    works = _work.draws(s.length, generator, (total, s.samples)).max(axis=1)
    training = generator.exponential(s.train, _BATCHES) if s.train else np.zeros(_BATCHES)
    settings = _events.Settings(s.places, s.groups, tickets=s.tickets, early=s.early, total=total)
    loop = _events.Loop(settings, iter(works.tolist()), iter(training.tolist()))
    horizon = float(loop.run(_BATCHES)[-1])
    start = np.array(loop.started)
    end = np.array([loop.finished[k] for k in range(total)])
    train = np.array([loop.trained[k] for k in range(total)])
    rate = total / horizon
    ratios = _ratios(
        _swept(start, end, horizon) / (rate * float((end - start).mean())),
        _swept(start, train, horizon) / (rate * float((train - start).mean())),
    )
    if not s.closed:
        return ratios
    generation = _work.longest_by_quantiles(s.length, s.samples)
    return ratios | s.levels(_closed.busy_by_balance(s.tickets, generation, s.train), generation)


def _per_sample(point: Point) -> dict[str, float]:
    s = _read(point)
    return _predict(point) | _ratios(1.0 / s.samples, 1.0 / s.samples)


def _with_training(point: Point) -> dict[str, float]:
    s, right = _read(point), _predict(point)
    return right | ({"delay": right["delay"] + s.train} if s.closed else {})


claim = Claim(
    id="systems/little",
    statement="groups in generation and outstanding are, in the time average, throughput times mean seconds",
    kind="identity",
    status="exact",
    point=_read,
    predict=_predict,
    cross_check=_cross_check,
    reference="Little, Oper. Res. 9 (1961)",
    formula_defects={
        "samples a second for groups a second": _per_sample,
        "the group's own training counted as delay": _with_training,
    },
)
