"""Mean staleness of workers that restart at once, for several service laws, on the event kernel."""

from __future__ import annotations

from asyncsim import systems
from asyncsim.base import laws
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, units_for
from asyncsim.trials.systems._heads import mean_over_realizations, restarts_early, stationary_heads, ticket_lost

_SPREAD = 0.02
"""Relative standard deviation of one realization's mean at the points below (measured)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    realizations = max(32, units_for(_SPREAD, effect, 4))
    law = laws.as_law("law", point["law"])
    system = plant(systems.update_on_arrival(point["workers"], law, point.get("rates")))
    # Forty service times of the slowest worker, then as many updates as the mean needs.
    between = _between(point)
    warm_up = int(40 * max(between)) + 200
    window = int(max(2400, 20 * point["workers"], 10 * max(between)))
    mean = mean_over_realizations(stationary_heads(system, warm_up + window, warm_up, realizations, seed))
    # Without chance, what is outstanding at both ends differs by the same number in every realization.
    ends = 0.0 if law.random else sum(between) / window
    return {"mean": mean._replace(tolerance=mean.tolerance + ends)}


def _between(point: Point) -> list[float]:
    """Updates between two of each worker."""
    rates = point.get("rates") or [1.0] * point["workers"]
    return [sum(rates) / rate for rate in rates]


def _reach(point: Point) -> str | None:
    """Heavy tails forget their start too slowly for a stationary mean; the conserved total is another claim's."""
    slowest = max(_between(point))
    return (
        None if slowest <= 4000.0 else f"a worker in 4000 updates or more often, not in {slowest:.3g}; raise its rate"
    )


_EIGHT = {"workers": 8, "law": "exponential:1.0", "rates": (1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 5.0)}

trial = Trial(
    points=(
        {"workers": 16, "law": "lognormal:1.0:1.0", "rates": None},
        _EIGHT,
        {"workers": 5, "law": "constant:1.0", "rates": None},
    ),
    more=({"workers": 32, "law": "gamma:1.0:0.5", "rates": None},),
    measure=_measure,
    defects={
        "restart before the own update is written": Defect(restarts_early, _EIGHT),
        "a group permit lost": Defect(ticket_lost, _EIGHT),
    },
    effect=0.02,
    reach=_reach,
    through="kernel",
)
