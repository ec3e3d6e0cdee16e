"""Update on arrival (A3C, asynchronous SGD, parameter server): every worker's result is an update at once."""

from collections.abc import Sequence

from asyncsim.systems._knobs import Length, arrivals
from asyncsim.systems._system import System


def update_on_arrival(
    workers: int, service: Length = "exponential:1.0", rates: Sequence[float] | None = None, stagger: bool = False
) -> System:
    """N workers, each restarts at once with the newest weights: mean staleness N - 1 for every service law.

    K = C = N, P = S = 1, training takes no time, a worker finishes under the weights that it started with (pin). Laws
    `systems/update-on-arrival`, and `systems/geometric` for exponential service; in updates, of which each is a
    publish.

    Arguments: `workers` N; `service`, law of the work of a worker between updates; `rates`, work per second of each
    worker, 1 unless given; `stagger`, whether worker w starts at w E[service] / N seconds instead of 0. Returns a
    system. Raises `InputError`. Source: Mnih et al. (1602.01783).

    >>> update_on_arrival(3, 1.0).schedule(6, 1, 1, 1, seed=0).staleness().ravel().tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    return arrivals("update_on_arrival", workers, service, rates, stagger, tickets=workers, release="publish")
