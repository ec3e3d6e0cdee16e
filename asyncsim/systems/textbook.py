"""Systems of textbooks: synchronous, a fixed lag, workers that update on arrival or into a buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from asyncsim.base import checks
from asyncsim.base.laws import Law, as_law
from asyncsim.systems._knobs import Length, Times, alike, count, preset
from asyncsim.systems._system import System


@preset
def synchronous(
    groups_per_batch: int = 1,
    *,
    length: Law | float | str = 1.0,
    train_time: Law | float | str = 1.0,
    sync_time: float = 0.0,
) -> System:
    """Synchronous training: generate, then train, never both.

    Every batch is generated under the version that it trains: staleness 0, update staleness 0 .. U - 1.

    All P groups of a batch are admitted together and all finish before it trains. K = q = P tickets return at the
    publish, with drain; every batch is published. With several batches to a publish the shortest groups would be
    trained first, while others are still generated: that is another system. Law `systems/cap-binds` at K = M, for every
    group.

    Arguments: `groups_per_batch` P; `length`, law of the work of a sample at one unit a second; `train_time`, seconds
    for a batch; `sync_time`, seconds of a publish. Returns a system. Raises `InputError`. Source: textbook.

    >>> float(synchronous(4).schedule(6, 2, 1, 1, seed=0).staleness().max())
    0.0
    """
    batch = count("groups_per_batch", groups_per_batch)
    return System(
        "synchronous",
        {},
        as_law("length", length),
        (1.0,) * batch,
        groups_per_batch=batch,
        tickets=batch,
        release="publish",
        quantum=batch,
        mode="drain",
        train_time=train_time,
        sync_time=sync_time,
    )


@preset
def fixed_lag(lag: int, groups_per_batch: int = 1, *, length: Length, **times: Unpack[Times]) -> System:
    """Fixed staleness: every batch is exactly so many versions stale.

    Staleness min(version, L) of every token's head: K = (L + 1) P^pub, a place for each, strictly in order (W = 1).

    Law `systems/hard-bounds`: nobody overtakes and the cap always binds, so batch b was admitted with version b - L.
    Where no clock is wanted, `schedules.fixed` imposes the same staleness.

    Arguments: `lag` L in versions; `groups_per_batch` P. Source: textbook.

    >>> fixed_lag(2, 3, length="lognormal:1.0:0.8", load=0.7).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    staleness = count("lag", lag, 0, "give a number of versions")
    batch = count("groups_per_batch", groups_per_batch)
    tickets = (staleness + 1) * batch
    return System(
        "fixed_lag",
        {},
        as_law("length", length),
        alike("lag", staleness, tickets),
        groups_per_batch=batch,
        tickets=tickets,
        release="publish",
        order="oldest_start",
        window=1,
        mode="keep",
        **times,
    )


@preset
def update_on_arrival(
    workers: int, service: Length = "exponential:1.0", rates: Sequence[float] | None = None, stagger: bool = False
) -> System:
    """Update on arrival (A3C, asynchronous SGD, parameter server): every worker's result is an update at once.

    N workers, each restarts at once with the newest weights: mean staleness N - 1 for every service law.

    K = C = N, P = S = 1, training takes no time, a worker finishes under the weights that it started with (pin). Laws
    `systems/update-on-arrival`, and `systems/geometric` for exponential service; in updates, of which each is a
    publish. A worker's result is a group, and all of its samples take the one service time.

    Arguments: `workers` N; `service`, law of the work of a worker between updates, however many samples they have;
    `rates`, work per second of each worker, 1 unless given; `stagger`, whether worker w starts at w E[service] / N
    seconds instead of 0. Returns a system. Raises `InputError`. Source: Mnih et al. (1602.01783).

    >>> update_on_arrival(3, 1.0).schedule(6, 1, 1, 1, seed=0).staleness().ravel().tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    return _arrivals("update_on_arrival", workers, service, rates, stagger, tickets=workers, release="publish")


@preset
def buffered(
    workers: int,
    buffer_size: int,
    service: Length = "exponential:1.0",
    rates: Sequence[float] | None = None,
    stagger: bool = False,
) -> System:
    """Buffered asynchronous training (FedBuff style): an update for every so many results that arrive.

    N workers restart at once, P arrivals make an update: mean staleness (N - 1) / P for every service law.

    An open loop of C = N places, training takes no time, a worker finishes under the weights that it started with
    (pin). Law `systems/arrivals-per-update`, in server updates: s = floor((r + J) / P) with r uniform on 0 .. P - 1
    and, for exponential service, J geometric of parameter 1 / N. A result is a group, and all of its samples take the
    one service time.

    Arguments: `workers` N; `buffer_size` P, results per update; `service`, law of the work of a worker, however many
    samples a result has; `rates`, work per second of each worker, 1 unless given; `stagger`, whether worker w starts at
    w E[service] / N seconds instead of 0. Returns a system. Raises `InputError`. Source: FedBuff (2106.06639).

    >>> buffered(5, 2, 1.0).staleness(8, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    """
    batch = count("buffer_size", buffer_size, 1, "count results per update")
    return _arrivals("buffered", workers, service, rates, stagger, groups_per_batch=batch)


def _arrivals(
    name: str, workers: int, service: Length, rates: Sequence[float] | None, stagger: bool, **settings: Any
) -> System:
    """N workers that restart at once; training takes no time and a sample ends under the weights it began with."""
    number = count("workers", workers, 1, "give a number of workers")
    checks.boolean("stagger", stagger, "say whether workers start one after the other")
    law = as_law("service", service)
    worker_rates = [1.0] * number if rates is None else rates
    speeds = tuple(checks.finite_array("rates", worker_rates, (number,), "give each worker its rate").tolist())
    offsets = tuple(w * law.mean() / number for w in range(number)) if stagger else None
    times: dict[str, Any] = {"work_by": "group", "offsets": offsets, "mode": "pin", "train_time": 0.0}
    return System(name, {"service": str(law)}, law, speeds, **times, **settings)
