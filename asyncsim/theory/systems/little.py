r"""Time averages of groups in generation and outstanding are throughput times mean seconds, in any system.

in_flight = (time average in generation) / (X E[seconds from start to end]) = 1, X groups a second. outstanding = (time
average of groups started and not yet in training) / (X E[delay]) = 1, delay from a group's start to the start of its
training. Derivation: the integral of a count over time is the sum of the seconds for which each was counted. Any
consistent bookkeeping satisfies both, so in a closed loop two numbers come with them. The loop has single groups, K
tickets that return at the publish, a place for each, and exponential training of mean t_T. There X = (1 - p0)/t_T, p0
as in `systems/closed-loop`; X T groups are in generation, T = E[max of N works]; the mean delay is K/X - t_T seconds.
Domain: any settings with works of finite mean. It is exact over a history that begins and ends empty, else up to the
groups cut off by the ends of the window. These are averages over time, while the mean-staleness identity counts at the
instants of publishes. A mean delay in seconds is not the period times the mean staleness. Second route: counts swept
through an event simulation from empty to empty, beside the sums of its seconds; the balance equations of the loop.
Source: Little, Oper. Res. 9 (1961).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import checks
from asyncsim.theory import _closed, _engines, _events, _work
from asyncsim.theory._declared import Draw, Flag, Integer, Parsed
from asyncsim.theory._stated import stated

_BATCHES = 40


class _Training(NamedTuple):
    """Mean seconds, and whether their law is exponential."""

    mean: float
    exponential: bool


def _training(field: str, value: Any) -> _Training:
    mean = _work.seconds(field, value)
    return _Training(mean, isinstance(value, str) and _work.law_of(field, value).kind == "exponential")


class _Setting(_engines.Engines):
    places = _engines.places(typical=(1, 12), example=8)
    tickets = _engines.tickets(example=8)
    release = _engines.release(example="publish")
    groups_per_batch = _engines.groups(typical=(1, 6), example=1)
    samples_per_group = _engines.samples(typical=(1, 6), example=3)
    length = _engines.work(example="lognormal:1.0:0.8")
    train_time = Parsed(
        _training,
        "number >= 0, or the text of a distribution",
        typical=(0.5, "exponential:1.5"),
        example="exponential:0.4",
        unit="seconds",
        doc="training time of a batch",
    )

    def joint(self) -> None:
        """With fewer tickets no batch would be complete."""
        reason = "give at least one group permit for each group of a batch"
        checks.integer("tickets", self.tickets, self.groups_per_batch, reason)

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """Any ticket system, or a closed loop whose numbers are known."""
        point = super().drawn(draw)
        if draw(Flag()):
            return point | {"groups_per_batch": 1, "release": "publish"} | _closed.drawn_tickets(draw)
        return point | {"tickets": point["groups_per_batch"] + draw(Integer(0, typical=(0, 12)))}

    @property
    def closed(self) -> bool:
        """Whether throughput is known."""
        single = self.groups_per_batch == 1 and self.release == "publish"
        return self.train_time.exponential and single and self.places >= self.tickets

    def levels(self, busy: float, generation: float) -> dict[str, float]:
        """Groups in generation and seconds of delay, from the share of time for which the trainer works."""
        rate = busy / self.train_time.mean
        return {"generating": rate * generation, "delay": self.tickets / rate - self.train_time.mean}


def _ratios(in_flight: float, outstanding: float) -> dict[str, float]:
    return {"in_flight": in_flight, "outstanding": outstanding}


def _predict(s: _Setting) -> dict[str, float]:
    if not s.closed:
        return _ratios(1.0, 1.0)
    return _ratios(1.0, 1.0) | s.levels(_closed.busy(s.tickets, s.train_time.mean / s.group), s.group)


def _swept(begins: np.ndarray, ends: np.ndarray, horizon: float) -> float:
    """Time average of the count, from its steps in the order of time."""
    times = np.concatenate([begins, ends])
    order = np.argsort(times, kind="stable")
    levels = np.cumsum(np.concatenate([np.ones(len(begins)), -np.ones(len(ends))])[order])
    return float((levels[:-1] * np.diff(times[order])).sum()) / horizon


def _cross_check(s: _Setting) -> dict[str, float]:
    generator, total = np.random.default_rng(0), _BATCHES * s.groups_per_batch
    works = _work.draws(s.length, generator, (total, s.samples_per_group)).max(axis=1)
    training = generator.exponential(s.train_time.mean, _BATCHES) if s.train_time.mean else np.zeros(_BATCHES)
    settings = _events.Settings(
        s.places, s.groups_per_batch, tickets=s.tickets, early=s.release == "dequeue", total=total
    )
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
    generation = s.group_by_quantiles
    return ratios | s.levels(_closed.busy_by_balance(s.tickets, generation, s.train_time.mean), generation)


def _with_training(s: _Setting) -> dict[str, float]:
    prediction = _predict(s)
    return prediction | ({"delay": prediction["delay"] + s.train_time.mean} if s.closed else {})


claim = stated(
    id="systems/little",
    statement="groups in generation and outstanding are, in the time average, throughput times mean seconds",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="Little, Oper. Res. 9 (1961)",
    formula_defects={
        "samples a second for groups a second": lambda s: (
            _predict(s) | _ratios(1.0 / s.samples_per_group, 1.0 / s.samples_per_group)
        ),
        "the group's own training counted as waiting": _with_training,
    },
)
