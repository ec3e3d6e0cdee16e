"""Mean square of descent by exponential workers, and its boundary over all orders, through kernel and loop."""

from __future__ import annotations

from asyncsim import tasks, updates
from asyncsim.trials._plants import off_by_one_version
from asyncsim.trials._runs import descent, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, units_for, within
from asyncsim.trials.staleness._paths import given, mean_of, moment_boundary
from asyncsim.trials.staleness._workers import in_rotation, on, orders, timed, windows

_SPREAD = 0.45
"""Largest standard deviation of x_T^2 over its mean at the points below (measured)."""
_VALUES = 8
"""Values of E x_t^2 that determine its four roots."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    curvature = point["curvature"]
    # Train on cuts of one run of the kernel.
    version = windows(timed(point["workers"]), point["updates"], units_for(_SPREAD, effect, 6), seed)
    task = tasks.quadratic((curvature,), noise=0.0, start=1.0)
    settings = {"sampling": "enumerate", "diagnostics": "none", "updates": point["updates"], **on(version)}
    spec = descent(task, given(version), updates.sgd(point["share"] / curvature), **settings)
    second = mean_of(run(spec, seed, plant).parameters[:, 0] ** 2)
    # List all orders for the boundary.
    bracket = (0.1 / point["workers"] / curvature, 2.5 / curvature)
    step = moment_boundary(*orders(point["workers"], _VALUES), curvature, bracket, seed, plant)
    return {"step": step, "second_moment": second}


_POINT = {"workers": 3, "updates": 4, "curvature": 2.0, "share": 0.2}

trial = Trial(
    points=(_POINT, {**_POINT, "workers": 2}),
    more=({**_POINT, "workers": 4},),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _POINT),
        "workers in rotation": Defect(in_rotation(3), _POINT),
    },
    effect=0.02,
    reach=within(workers=4),
    through="kernel, loop",
)
