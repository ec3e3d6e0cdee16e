"""Update on arrival (A3C, asynchronous SGD, parameter server): every worker's result is an update at once."""

from collections.abc import Sequence

from asyncsim import checks
from asyncsim.laws import Law, as_law
from asyncsim.systems._system import PLACES, System


def update_on_arrival(
    workers: int, service: Law | float | str = "exponential:1.0", rates: Sequence[float] | None = None,
    stagger: bool = False, *, updates_per_batch: int = 1,
) -> System:
    """N workers, each restarts at once with the newest weights: mean staleness N - 1 for every service law.

    K = C = N, P = S = 1, training takes no time, a worker finishes under the weights that it started with (pin).

    Arguments: `workers` N; `service`, law of the work of a worker between updates; `rates`, work per second of each
    worker, 1 unless given; `stagger`, whether worker w starts at w E[service] / N seconds instead of 0. Returns a
    system. Raises `InputError`. Source: Mnih et al. (1602.01783).

    >>> update_on_arrival(3, 1.0).schedule(6, 1, 1, 1, seed=0).staleness().ravel().tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    workers = checks.integer("workers", workers, 1, "give a number of workers", PLACES)
    checks.boolean("stagger", stagger, "say whether workers start one after the other")
    law = as_law("service", service)
    given = [1.0] * workers if rates is None else rates
    speeds = tuple(checks.finite_array("rates", given, (workers,), "give each worker its rate").tolist())
    offsets = tuple(w * law.mean() / workers for w in range(workers)) if stagger else None
    knobs = {
        "workers": workers, "service": str(law), "rates": None if rates is None else list(speeds), "stagger": stagger,
    }
    return System(
        "update_on_arrival", knobs, law, speeds, tickets=workers, release="publish", offsets=offsets, mode="pin",
        train_time=0.0, updates_per_batch=updates_per_batch,
    )
