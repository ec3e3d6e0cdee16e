"""Systems of textbooks: synchronous, a fixed lag, workers that update on arrival or into a buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asyncsim.base import checks
from asyncsim.base.laws import Law, as_law
from asyncsim.systems._knobs import ALONE, ahead, count, given, preset, source, whether


@source(kind="textbook")
@preset("textbook", "groups_per_batch", ALONE)
def synchronous(groups_per_batch: int = count("P", 1)) -> dict[str, Any]:
    """Synchronous training: generate, then train, never both.

    Every batch is generated under the version that it trains: staleness 0, update staleness 0 .. U - 1.

    All P groups of a batch are admitted together and all finish before it trains. K = q = P tickets return at the
    publish, with drain; every batch is published. With several batches to a publish the shortest groups would be
    trained first, while others are still generated: that is another system. Law `systems/cap-binds` at K = M, for every
    group.

    >>> float(synchronous(4).schedule(6, 2, 1, 1, seed=0).staleness().max())
    0.0
    """
    return ahead(groups_per_batch, 0, quantum=groups_per_batch, mode="drain")


@source(kind="textbook")
@preset("textbook", "lag")
def fixed_lag(
    lag: int = count("L in versions", remedy="give a number of versions", low=0), groups_per_batch: int = count("P", 1)
) -> dict[str, Any]:
    """Fixed staleness: every batch is exactly so many versions stale.

    Staleness min(version, L) of every token's head: K = (L + 1) P^pub, a place for each, strictly in order (W = 1).

    Law `systems/hard-bounds`: nobody overtakes and the cap always binds, so batch b was admitted with version b - L.
    Where no clock is wanted, `schedules.fixed` imposes the same staleness.

    >>> fixed_lag(2, 3, length="lognormal:1.0:0.8", load=0.7).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    return ahead(groups_per_batch, lag, order="oldest_start", window=1)


_SERVICE = given(
    "distribution of the work of a worker between updates, however many samples they have", "exponential:1.0"
)
_RATES = given("work per second of each worker, 1 unless given", None)
_STAGGER = whether(
    "worker w starts at w E[service] / N seconds instead of 0", False, "say whether workers start one after the other"
)


@source(kind="textbook")
@preset("Mnih et al. (1602.01783)", "workers", {})
def update_on_arrival(
    workers: int = count("N", remedy="give a number of workers"),
    service: Law | float | str = _SERVICE,
    rates: Sequence[float] | None = _RATES,
    stagger: bool = _STAGGER,
) -> dict[str, Any]:
    """Update on arrival (A3C, asynchronous SGD, parameter server): every worker's result is an update at once.

    N workers, each restarts at once with the newest weights: mean staleness N - 1 for every service law.

    K = C = N, P = S = 1, training takes no time, a worker finishes under the weights that it started with (pin). Laws
    `systems/update-on-arrival`, and `systems/geometric` for exponential service; in updates, of which each is a
    publish. A worker's result is a group, and all of its samples take the one service time.

    >>> update_on_arrival(3, 1.0).schedule(6, 1, 1, 1, seed=0).staleness().ravel().tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    return _arrivals(workers, service, rates, stagger) | {"tickets": workers}


@source(kind="textbook")
@preset("FedBuff (2106.06639)", "workers", {})
def buffered(
    workers: int = count("N", remedy="give a number of workers"),
    buffer_size: int = count("P, results per update", remedy="count results per update"),
    service: Law | float | str = _SERVICE,
    rates: Sequence[float] | None = _RATES,
    stagger: bool = _STAGGER,
) -> dict[str, Any]:
    """Buffered asynchronous training (FedBuff style): an update for every so many results that arrive.

    N workers restart at once, P arrivals make an update: mean staleness (N - 1) / P for every service law.

    An open loop of C = N places, training takes no time, a worker finishes under the weights that it started with
    (pin). Law `systems/arrivals-per-update`, in server updates: s = floor((r + J) / P) with r uniform on 0 .. P - 1
    and, for exponential service, J geometric of parameter 1 / N. A result is a group, and all of its samples take the
    one service time.

    >>> buffered(5, 2, 1.0).staleness(8, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    """
    return _arrivals(workers, service, rates, stagger) | {"groups_per_batch": buffer_size}


def _arrivals(number: int, service: Law | float | str, rates: Sequence[float] | None, stagger: bool) -> dict[str, Any]:
    """N workers that restart at once; training takes no time and a sample ends under the weights it began with."""
    law = as_law("service", service)
    rates = [1.0] * number if rates is None else rates
    speeds = checks.finite_array("rates", rates, (number,), "give each worker its rate")
    offsets = tuple(w * law.mean() / number for w in range(number)) if stagger else None
    times: dict[str, Any] = {"work_by": "group", "offsets": offsets, "mode": "pin", "train_time": 0.0}
    return {"knobs": {"service": str(law)}, "length": law, "rates": tuple(speeds.tolist()), **times}
