"""Mean staleness of workers that restart at once, for several service laws, on the event kernel."""

from __future__ import annotations

from asyncsim import laws, systems, validation
from asyncsim.records import Estimate, Point
from asyncsim.trials._trial import Defect, Plant, Trial
from asyncsim.trials.systems._heads import LateStamp, mean_over_realizations, stationary_heads, ticket_lost

_UPDATES, _WARM_UP = 3000, 600
_SPREAD = 0.02
"""Relative standard deviation of one realization's mean at the points below (measured)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    realizations = max(32, validation.sample_size(_SPREAD, effect, 1.0, 1e-3, 0.05, comparisons=4))
    system = plant(systems.update_on_arrival(point["workers"], laws.as_law("law", point["law"]), point.get("rates")))
    return {"mean": mean_over_realizations(stationary_heads(system, _UPDATES, _WARM_UP, realizations, seed))}


_EIGHT = {"workers": 8, "law": "exponential:1.0", "rates": (1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 5.0)}

trial = Trial(
    claim="systems/update-on-arrival",
    points=(
        {"workers": 16, "law": "lognormal:1.0:1.0", "rates": None},
        _EIGHT,
        {"workers": 5, "law": "constant:1.0", "rates": None},
    ),
    more=({"workers": 32, "law": "gamma:1.0:0.5", "rates": None},),
    measure=_measure,
    defects={"stamp taken at completion": Defect(LateStamp, _EIGHT), "a ticket lost": Defect(ticket_lost, _EIGHT)},
    effect=0.02,
    through="kernel",
)
