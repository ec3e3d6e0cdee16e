"""Share of healthy runs in which so many steps in a row exceed a level, through a signal and its run scores."""

from __future__ import annotations

import dataclasses

import numpy as np

from asyncsim.base.records import Estimate, Point
from asyncsim.base.uncertainty import proportion
from asyncsim.predicting import Signal, scores
from asyncsim.trials._trial import Defect, Plant, Trial, units_for, within
from asyncsim.trials.predictor._noise import noise


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    # Of a share near 3/4 one run has the standard deviation 0.6 of it.
    runs = units_for(0.65, effect, len(trial.points))
    values = noise(seed, point["steps"], runs)
    signal = plant(Signal("noise", over="smallest", window=point["row"]))
    ends = np.full(runs, point["steps"])
    worst = scores.worst(signal({"noise": values}), np.arange(runs), ends, None)
    return {"woken": proportion(int((worst > 1.0 - point["rate"]).sum()), runs)}


def _averaged(signal: Signal) -> Signal:
    """The mean of the window exceeds the level, not each of its numbers."""
    return dataclasses.replace(signal, over="mean")


def _longer(signal: Signal) -> Signal:
    """One exceedance more."""
    return dataclasses.replace(signal, window=signal.window + 1)


_SINGLE, _PAIR = {"rate": 0.04, "row": 1, "steps": 40}, {"rate": 0.25, "row": 2, "steps": 32}

trial = Trial(
    points=(_SINGLE, _PAIR),
    more=({"rate": 0.4, "row": 3, "steps": 40},),
    measure=_measure,
    defects={
        "mean of the window in place of its smallest": Defect(_averaged, _PAIR),
        "one exceedance more": Defect(_longer, _SINGLE),
    },
    effect=0.02,
    reach=within(steps=512),
    through="predict",
)
