"""Projection in front of Adam and behind it, on gradients of a constant mean, through the loop."""

from __future__ import annotations

import math

import numpy as np

from asyncsim.base import uncertainty
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, units_for
from asyncsim.trials.alignment._projection import changed, constant_mean, projection
from asyncsim.updates._link import Chain
from asyncsim.updates.adam import Adam, adam
from asyncsim.updates.align import Align

_UPDATES, _AFTER = 400, 200
"""Measured updates, and those left out: until then Adam's second moment rests on too few gradients."""
_BETA2 = 0.9999
_SPREAD = 0.6
"""Deviation of one replicate's ratio times root of updates and of the mean's energy (measured)."""
_BIAS = 3e-3
"""Relative error from the second moment's own fluctuation, and from the first gradient, which has none before it."""


def _bias(point: Point) -> float:
    """The same where the first gradient has much more energy than those that are projected."""
    rest = (1.0 - point["strength"]) ** 2 * point["signal"] + 0.5
    return _BIAS + max(0.0, point["signal"] - 2.0) / rest / (2.0 * _UPDATES)


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    spread = _SPREAD / math.sqrt(_UPDATES * point["dimension"] * point["signal"])
    remainder = max(0.2, 1.0 - point["strength"] * min(1.0, point["signal"]))
    bias = _bias(point)
    net_effect = max(effect - 2.0 * bias, 0.25 * effect)
    replicates = max(8, units_for(spread / remainder, net_effect, 12))
    inner, idle = adam(1e-8, 0.0, _BETA2, 0.0), int(point["reference"] == "known")
    control = projection(point["reference"], point["strength"], point["dimension"])
    signal = np.full(replicates, point["signal"])
    none, before, behind = (
        constant_mean(point["dimension"], idle, signal, links, _UPDATES, _AFTER, seed, plant)
        for links in ((inner,), (control, inner), (inner, control))
    )
    pairs = {"before": (before, none), "behind": (behind, none), "inflation": (before, behind)}
    ratios = {name: uncertainty.ratio(*pair) for name, pair in pairs.items()}
    return {name: each._replace(tolerance=bias * abs(each.value)) for name, each in ratios.items()}


_WEAK = {"dimension": 8, "signal": 0.5, "strength": 0.8, "reference": "previous"}
_KNOWN = {"dimension": 4, "signal": 2.0, "strength": 0.5, "reference": "known"}

trial = Trial(
    points=(_WEAK, _KNOWN),
    more=(
        {**_KNOWN, "dimension": 1, "signal": 1.0},
        {**_WEAK, "dimension": 32, "strength": 1.0},
        {**_WEAK, "dimension": 16, "signal": 1.0},
    ),
    measure=_measure,
    defects={
        "links swapped": Defect(lambda spec: spec.replace(update=Chain(spec.update.links[::-1])), _KNOWN),
        "reference applied instead of raw": Defect(changed(Align, reference="applied"), _WEAK),
        "momentum in Adam": Defect(changed(Adam, beta1=0.9), _WEAK),
    },
    effect=0.02,
    reach=lambda p: (
        None
        if p["dimension"] * p["signal"] >= 0.5 and _bias(p) <= 0.05
        else "dimension * signal >= 0.5, and a first gradient that weighs little; lower signal or strength"
    ),
    through="loop",
)
