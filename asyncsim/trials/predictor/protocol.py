"""Times of collapse and areas of a signal that knows nothing, through `predict`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from asyncsim.base.records import Estimate, Point
from asyncsim.predicting import Prediction, Signal, predict
from asyncsim.trials._trial import Defect, Plant, Trial, units_for
from asyncsim.trials.predictor._noise import columns, noise

_SPREAD = 0.21
"""Of one run of each kind, in the share of pairs whose longer run scores higher, over that share: at most 0.18 at the
points below."""

_Asked = Callable[..., Prediction]


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    half = units_for(_SPREAD, effect, 3 * len(trial.points))
    values = noise(seed, point["length"], 2 * half)
    # Both kinds of runs have the same numbers: what tells them apart can only be the times at which they are read.
    same = np.tile(values[:, :half], 2)
    asked = functools.partial(predict, signal=Signal("noise", window=1), start=0.0, best=1.0, lead=(0,), confirm=0)
    ask: _Asked = plant(functools.partial(asked, window=point["window"]))
    matched = ask(columns(same, point["fall"], point["left"]))
    unmatched = ask(columns(values, point["fall"], point["left"]), cut="end").alarms["noise"].area[0]
    return {
        "collapse": Estimate(float(matched.course.collapsed[:half].mean()), tolerance=1e-9, samples=half),
        "area_matched": Estimate(matched.alarms["noise"].area[0].value, tolerance=1e-9, samples=2 * half),
        "longer_above": unmatched._replace(value=1.0 - unmatched.value),
    }


def _uncut(ask: _Asked) -> _Asked:
    """Healthy runs are watched to their end."""
    return lambda *runs, **options: ask(*runs, **options | {"cut": "end"})


def _early(ask: _Asked) -> _Asked:
    """Collapse at the first low return."""

    def asked(*runs: Any, **options: Any) -> Prediction:
        return ask(*runs, **options | {"window": 1})

    return asked


_POINT: dict[str, Any] = {"fall": 12, "window": 5, "left": 0.15, "length": 200}

trial = Trial(
    points=(_POINT, {"fall": 10, "window": 4, "left": 0.3, "length": 160}),
    measure=_measure,
    defects={
        "healthy runs never cut": Defect(_uncut, _POINT),
        "collapse at the first low return": Defect(_early, _POINT),
    },
    effect=0.02,
    through="predict",
)
