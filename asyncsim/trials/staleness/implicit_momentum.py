"""Mean logits of a bandit trained by exponential workers, and the boundary of the mean, through kernel and loop."""

from __future__ import annotations

from asyncsim import methods, tasks
from asyncsim.trials._plants import off_by_one_version
from asyncsim.trials._runs import ascent, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, units_for, within
from asyncsim.trials.staleness._paths import given, mean_of, moment_boundary
from asyncsim.trials.staleness._workers import in_rotation, on, orders, timed, windows

_SPREAD = 0.06
"""Largest standard deviation of a logit over the norm at the points below (measured)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    # Train on cuts of one run of the kernel.
    count = units_for(_SPREAD, effect, 12)
    version = windows(timed(point["workers"]), point["updates"], count, seed)
    task, method = tasks.softmax_bandit(3, point["rewards"], rewards="fixed"), methods.reinforce()
    spec = ascent(task, given(version), method, point["step"], point["updates"], **on(version))
    logits = run(spec, seed, plant).parameters
    found = {f"logit[{k}]": mean_of(logits[:, k]) for k in range(3)}
    # The mean of a linear gradient has two roots; a defect may add one.
    bracket = (0.05 / point["curvature"], 5.0 * point["workers"] / point["curvature"])
    step = moment_boundary(*orders(point["workers"], 6), point["curvature"], bracket, seed, plant, power=1)
    return {"step": step, **found}


_POINT = {"workers": 3, "updates": 5, "curvature": 2.0, "rewards": (0.0, 0.5, 1.0), "step": 2.0}

trial = Trial(
    points=(_POINT,),
    more=({**_POINT, "workers": 2, "updates": 8}, {**_POINT, "workers": 6}),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _POINT),
        "workers in rotation": Defect(in_rotation(3), _POINT),
    },
    effect=0.02,
    reach=within(workers=12),
    through="kernel, loop",
)
