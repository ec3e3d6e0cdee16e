"""Alignment of gradients with a steady mean: ratio of averages and mean cosine, through the loop."""

from __future__ import annotations

import math

import numpy as np

from asyncsim.base import uncertainty
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, units_for
from asyncsim.trials.alignment._standing import batch_used_twice, run_standing

_UPDATES, _MOST = 102, 3e8


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    d, signal, noise, samples = (point[name] for name in ("dimension", "signal", "noise", "samples"))
    replicates = units_for(_spread(point), effect, 4)
    trace = run_standing(d, signal, noise, samples, _UPDATES, replicates, seed, plant)
    products, cosine = trace.accumulated["autocorrelogram"], np.asarray(trace["gradient_cosine"][1:]).T
    return {"corr[1]": uncertainty.ratio(products[1], products[0]), "cosine": uncertainty.between(cosine)}


def _spread(point: Point) -> float:
    """Of one replicate, relative."""
    d, signal, noise, samples = (point[name] for name in ("dimension", "signal", "noise", "samples"))
    # One product of neighbors against its mean: noise against signal, and noise against noise over the dimension.
    power = d * noise**2 / samples / signal**2
    return 1.45 * math.sqrt((2.0 * power + power**2) / d / _UPDATES)


def _reach(point: Point) -> str | None:
    units = (_spread(point) / trial.effect * 6.0) ** 2
    numbers = units * _UPDATES * point["dimension"] * point["samples"]
    return None if numbers <= _MOST else f"at most {_MOST:.0e} drawn numbers, not {numbers:.1e}; raise the signal"


_WEAK = {"dimension": 3, "signal": 0.8, "noise": 2.0, "samples": 4}

trial = Trial(
    points=(_WEAK, {"dimension": 20, "signal": 2.0, "noise": 1.0, "samples": 2}),
    more=({"dimension": 100, "signal": 5.0, "noise": 1.0, "samples": 1},),
    measure=_measure,
    defects={
        "batch of one sample": Defect(replaced(samples_per_group=1), _WEAK),
        "batch used twice": Defect(batch_used_twice, _WEAK),
    },
    effect=0.02,
    reach=_reach,
    through="loop",
)
