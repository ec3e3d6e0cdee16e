"""Samples that an age cut keeps: their share, mean length and period, on the event kernel."""

from __future__ import annotations

import numpy as np

from asyncsim.base import laws
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, within
from asyncsim.trials.systems._clocked import per_sample
from asyncsim.trials.systems._heads import mean_over_realizations
from asyncsim.trials.systems._kernel_defects import dropped_counted_as_trained, version_off_by_one
from asyncsim.trials.systems._windows import heavy, places, realizations_for, timelines

_TRAINED = 8000
"""Samples that one realization trains behind its warm-up."""
_SPREAD = {"exponential": 0.014}
_NARROW = 0.009
"""Largest relative standard deviation of one realization's quantity, by the law at the points below (measured)."""
_CLOCK = {"mean_length": 0.5, "kept": 0.25, "period": 0.25}
"""How far P kept deliveries are from a clock, by 1/P (measured)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    batch = point["groups_per_batch"]
    spread = _SPREAD.get(laws.as_law("length", point["length"]).kind, _NARROW)
    realizations = realizations_for(spread, effect, _CLOCK["mean_length"] / batch, 12)
    system = plant(places(point, point["places"], batch, train_time=0.0, max_age=point["max_age"]))
    warm_up = 10 * -(-point["places"] // batch) + 4 * point["max_age"] + 10
    last = warm_up + max(_TRAINED // batch, 20)
    lengths, fates, periods = [], [], []
    for record in timelines(system, last, 1, realizations, seed):
        samples, times = record.samples, record.batches["t_start"]
        lengths.append(samples["work"][samples["batch"] >= warm_up])
        # The fate of samples ready in time for the last batch is known.
        decided = (samples["t_ready"] > times[warm_up]) & (samples["t_ready"] <= times[-1])
        fates.append((samples["fate"] == "trained")[decided])
        periods.append((times[-1] - times[warm_up]) / (last - 1 - warm_up))
    period = mean_over_realizations(np.array(periods))
    estimates = {"mean_length": per_sample(lengths), "kept": per_sample(fates), "period": period}
    return {name: each._replace(tolerance=_CLOCK[name] / batch * each.value) for name, each in estimates.items()}


def _point(length: str, places: int, batch: int, max_age: int) -> Point:
    return {"length": length, "places": places, "groups_per_batch": batch, "max_age": max_age}


_EXPONENTIAL = _point("exponential:1.0", 512, 256, 1)


def _reach(point: Point) -> str | None:
    """Places are held to the end of what is cut, so a heavy tail has no sooner a mean than without a cut."""
    few = "at least 64 groups a batch; take more, so that deliveries are a clock to a percent"
    return (few if point["groups_per_batch"] < 64 else None) or heavy(point, "length") or within(places=8192)(point)


trial = Trial(
    points=(_EXPONENTIAL, _point("lognormal:1.0:0.8", 1024, 256, 1)),
    more=(_point("lognormal:1.0:0.8", 1024, 256, 4), _point("gamma:1.0:4.0", 1024, 256, 2)),
    measure=_measure,
    defects={
        "dropped work counted as trained": Defect(dropped_counted_as_trained, _EXPONENTIAL),
        "an install not counted": Defect(version_off_by_one, _EXPONENTIAL),
        "the end compared instead of the start": Defect(replaced(age_reference="end"), _EXPONENTIAL),
    },
    effect=0.02,
    reach=_reach,
    through="kernel",
)
