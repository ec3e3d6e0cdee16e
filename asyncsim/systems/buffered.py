"""Buffered asynchronous training (FedBuff style): an update for every so many results that arrive."""

from collections.abc import Sequence

from asyncsim.systems._knobs import Length, arrivals, count
from asyncsim.systems._system import System


def buffered(
    workers: int,
    buffer_size: int,
    service: Length = "exponential:1.0",
    rates: Sequence[float] | None = None,
    stagger: bool = False,
) -> System:
    """N workers restart at once, P arrivals make an update: mean staleness (N - 1) / P for every service law.

    An open loop of C = N places, training takes no time, a worker finishes under the weights that it started with
    (pin). Law `systems/arrivals-per-update`, in server updates: s = floor((r + J) / P) with r uniform on 0 .. P - 1
    and, for exponential service, J geometric of parameter 1 / N.

    Arguments: `workers` N; `buffer_size` P, results per update; `service`, law of the work of a worker; `rates`, work
    per second of each worker, 1 unless given; `stagger`, whether worker w starts at w E[service] / N seconds instead of
    0. Returns a system. Raises `InputError`. Source: FedBuff (2106.06639).

    >>> buffered(5, 2, 1.0).staleness(8, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    """
    batch = count("buffer_size", buffer_size, 1, "count results per update")
    return arrivals("buffered", workers, service, rates, stagger, knobs={"buffer_size": batch}, groups_per_batch=batch)
