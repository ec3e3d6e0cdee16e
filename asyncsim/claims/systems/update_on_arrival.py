r"""Mean staleness under update on arrival is workers - 1, whatever the service times.

the mean staleness of `N` workers that update on arrival is `N-1`, whatever the service times and the rates

E[s] = N - 1. Derivation: a gradient's staleness counts the updates by others while it was in flight. At every update
exactly the N - 1 other gradients are in flight. Summing over updates instead of gradients gives (N - 1) per update.
Domain: every worker restarts at once with the newest parameters, steady state, finite mean service time; law and rates
never enter. Second route: a path repeated forever, its lags counted.
"""

import numpy as np

from asyncsim.base import laws
from asyncsim.claims._claim import Estimate, Plant, Point, heavy, lab, named, sim, units_for
from asyncsim.claims._engines import Workers, cyclic_mean_lag, order, service

_point = named("workers", "law", "rates", rates=None)
_EIGHT = _point(8, "exponential:1.0", (1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 5.0))


def _between(point: Point) -> list[float]:
    """Mean number of updates between two updates of each worker."""
    rates = point.get("rates") or [1.0] * point["workers"]
    return [sum(rates) / rate for rate in rates]


class UpdateOnArrival(Workers):
    kind, source = "expectation", "derived: mean-staleness identity with N-1 outstanding gradients"

    law = service(typical=("constant:1", "exponential:1", "pareto:1:1.5"), example="exponential:1")

    def predict(s) -> dict[str, float]:
        return {"mean": float(s.workers - 1)}

    def check(s) -> dict[str, float]:
        # One more delivery by each worker closes the cycle on an order in which nobody is missing.
        path = np.concatenate([order(s.workers, 100 * s.workers, s.rates), np.arange(s.workers)])
        return {"mean": cyclic_mean_lag(path)}

    wrong = {"a worker's own update counted as staleness": lambda s: {"mean": float(s.workers)}}

    points = (_point(16, "lognormal:1.0:1.0"), _EIGHT, _point(5, "constant:1.0"))
    more = (_point(32, "gamma:1.0:0.5"),)

    def reach(self, point: Point) -> str | None:
        """Refuse heavy tails, which converge too slowly to a stationary mean, and very slow workers."""
        slowest = max(_between(point))
        if slowest > 4000.0:
            return f"a worker in 4000 updates or more often, not in {slowest:.3g}; raise its rate"
        return heavy(point, "law", index=2.0)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        realizations = max(32, units_for(0.02, effect, 4))
        law = laws.as_law("law", point["law"])
        system = plant(sim.systems.update_on_arrival(point["workers"], law, point.get("rates")))
        # Forty service times of the slowest worker, then as many updates as the mean needs.
        between = _between(point)
        warm_up = int(40 * max(between)) + 200
        window = int(max(2400, 20 * point["workers"], 10 * max(between)))
        heads = lab.stationary_heads(system, warm_up + window, warm_up, realizations, seed)
        mean = lab.mean_over_realizations(heads)
        # Without chance, what is outstanding at both ends differs by the same number in every realization.
        ends = 0.0 if law.random else sum(between) / window
        return {"mean": mean._replace(tolerance=mean.tolerance + ends)}

    defects = {
        "restart before the own update is written": lambda: (lab.restarts_early, _EIGHT),
        "a group permit lost": lambda: (lab.ticket_lost, _EIGHT),
    }
