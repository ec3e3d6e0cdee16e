"""Groups that keep the first of their samples: mean length, end and waste, on the event kernel."""

from __future__ import annotations

import numpy as np

from asyncsim.base.records import Timeline
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, within
from asyncsim.trials.systems import _windows
from asyncsim.trials.systems._kernel_defects import cancelled_counted_as_trained, cancelled_run_on, keeps_any

_PLACES, _GROUPS, _TRAINED = 8, 4, 1000
"""Places, groups of a batch, and groups that one realization trains."""
_SPREAD = 0.02
"""Largest relative standard deviation of one realization's numbers at the points below (measured, rounded up)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    kept, extra = point["kept"], point["started"] - point["kept"]
    # In strict order the groups of a run are the first by number: none is left out since it is long.
    system = _windows.places(
        point, _PLACES, _GROUPS, train_time=0.1, tickets=_PLACES + _GROUPS, order="target", redundant=extra
    )
    count = _windows.realizations_for(_SPREAD, effect, 0.0, comparisons=6)
    records = _windows.timelines(plant(system), _TRAINED // _GROUPS, kept, count, seed)
    lengths, lasts, wastes = zip(*(_summarize(record) for record in records), strict=True)
    return {
        "mean_length": _windows.mean_of(lengths),
        "last": _windows.mean_of(lasts),
        "wasted": _windows.mean_of(wastes),
    }


def _summarize(record: Timeline) -> tuple[float, float, float]:
    """Mean length of what is trained, mean seconds until a group is over, share of the written work that is wasted."""
    groups, samples = record.groups, record.samples
    trained = groups["fate"] == "trained"
    work = samples["work"][samples["fate"] == "trained"]
    wasted = float(samples["wasted"][trained[samples["group"]]].sum())
    seconds = (groups["t_done"] - groups["t_submit"])[trained]
    return float(work.mean()), float(np.mean(seconds)), wasted / (wasted + float(work.sum()))


def _reach(point: Point) -> str | None:
    return _windows.heavy(point, "length") or within(started=64)(point)


_POINT = {"length": "lognormal:1.0:0.8", "started": 12, "kept": 8}

trial = Trial(
    points=(_POINT, {"length": "exponential:1", "started": 6, "kept": 4}),
    more=({"length": "empirical:1:2:2:7", "started": 4, "kept": 2}, {"length": "gamma:2:3", "started": 20, "kept": 16}),
    measure=_measure,
    defects={
        "no sample more than is kept": Defect(replaced(redundant=0), _POINT),
        "the first by number kept": Defect(keeps_any, _POINT),
        "cancelled samples counted as trained": Defect(cancelled_counted_as_trained, _POINT),
        "cancelled samples written to their end": Defect(cancelled_run_on, _POINT),
        "half of the slots": Defect(replaced(slots=48), _POINT),
    },
    effect=0.02,
    reach=_reach,
    through="kernel",
)
