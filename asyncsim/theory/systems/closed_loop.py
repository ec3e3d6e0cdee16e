r"""A trainer that takes single groups from a closed loop of K tickets: exact throughput for any law of generation.

groups a second = (1 - p0) / t_T with 1/p0 = sum_{n=0..K} K!/(K-n)! (t_T/T)^n: K tickets return at the publish, one
group makes a batch (P = S = 1), training takes an exponential time of mean t_T, generation T = E[max of N works] of
any law.
Derivation: n groups at the trainer, K - n in generation; with exponential generation detailed balance gives p_n =
p_{n-1} (K-n+1) t_T/T, and a station without queue (a place for every ticket) enters a product form by its mean alone.
p0 is the loss probability of Erlang at offered load T/t_T. Domain: places >= tickets, no synchronization time, nothing
dropped, rewards at once. Second route: the balance equations of generation in two exponential phases, whose law is not
exponential; so equality also shows that only the mean enters. Source: derived; product form of queueing networks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from asyncsim import checks
from asyncsim.laws import Law
from asyncsim.records import Claim, Point
from asyncsim.theory import _closed, _points, _work


class _Setting(NamedTuple):
    tickets: int
    samples: int
    length: Law
    train: float


def _read(point: Point) -> _Setting:
    places, tickets, samples, length, train = _points.select(
        point, "places tickets samples_per_group length train_time"
    )
    tickets = checks.integer("tickets", tickets, 1, "count the groups that are out", 500)
    checks.integer("places", places, tickets, "give every ticket a place, so that no group waits for one")
    law = _work.law_of("train_time", train)
    checks.require(
        law.kind == "exponential", "train_time", train, "an exponential law", "write exponential:mean; others differ"
    )
    samples = checks.integer("samples_per_group", samples, 1, "count the samples of a group")
    return _Setting(tickets, samples, _work.law_of("length", length), law.mean())


def _trained(s: _Setting, busy: float) -> dict[str, float]:
    return {"groups_per_second": busy / s.train}


def _predict(point: Point) -> dict[str, float]:
    s = _read(point)
    return _trained(s, _closed.busy(s.tickets, s.train / _work.longest(s.length, s.samples)))


def _cross_check(point: Point) -> dict[str, float]:
    s = _read(point)
    return _trained(s, _closed.busy_by_balance(s.tickets, _work.longest_by_quantiles(s.length, s.samples), s.train))


def _defect(inverse_idle: Callable[[int, float], float]) -> Callable[[Point], dict[str, float]]:
    def wrong(point: Point) -> dict[str, float]:
        s = _read(point)
        return _trained(s, 1.0 - 1.0 / inverse_idle(s.tickets, s.train / _work.longest(s.length, s.samples)))

    return wrong


def _bounds(point: Point) -> dict[str, float]:
    s = _read(point)
    cycle = _work.longest(s.length, s.samples) + s.train
    return {"groups_per_second": min(1.0 / s.train, s.tickets / cycle)}


def _open_arrivals(tickets: int, ratio: float) -> float:
    """Groups in generation taken to be all K at all times."""
    return float(((tickets * ratio) ** np.arange(tickets + 1)).sum())


def _one_server(tickets: int, ratio: float) -> float:
    """Groups generated one at a time."""
    return float((ratio ** np.arange(tickets + 1)).sum())


claim = Claim(
    id="systems/closed-loop",
    statement="a closed loop of K tickets with exponential training trains (1-p0)/t_T groups a second, "
    "1/p0 = sum K!/(K-n)! (t_T/T)^n, whatever the law of generation",
    kind="expectation",
    status="exact",
    point=_read,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: product form of a delay station and an exponential server",
    formula_defects={
        "the bound min(1/t_T, K/(T + t_T)) taken for the value": _bounds,
        "arrivals at the rate of K groups always": _defect(_open_arrivals),
        "generation one group at a time": _defect(_one_server),
    },
)
