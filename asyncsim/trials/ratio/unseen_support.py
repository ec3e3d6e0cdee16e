"""Batches that M2PO leaves whole, their second moments and mean ratios, sampled through the loop."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import softmax

from asyncsim import methods, tasks
from asyncsim.base.uncertainty import ratio
from asyncsim.trials._plants import Tempered, with_method, with_policy
from asyncsim.trials._runs import displaced, run, share_of
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, units_for, within

_BATCHES, _ROUNDING = 64, 1e-9
_LEAST, _MOST, _DRAWN = 0.05, 256, 16_000_000
"""Least share of batches that pass, and most samples of a batch and of all."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    spread = 1.2 * _guess(point)[1] / math.sqrt(_BATCHES)
    most = _DRAWN // (_BATCHES * point["samples"])
    replicates = max(16, min(units_for(spread, effect, 3 * len(trial.points)), most))
    places = np.array(point["behavior_logits"]), np.array(point["current_logits"])
    task = tasks.token_bandit(len(places[0]), 1)
    size = point["samples"], _BATCHES, replicates
    method = methods.m2po_areal(tau=point["bound"])
    trace = run(displaced(task, places, ["m2_all", "mean_weight"], size, method), seed, plant)
    # Nothing is dropped by rule where the largest that is left has no bound.
    passed = np.isinf(trace["m2po_theta"][1:]).astype(np.float64)
    found = {
        "accepted": share_of(passed),
        "second_moment": ratio((passed * trace["m2_all"][1:]).mean(axis=0), passed.mean(axis=0)),
        "mean_weight": ratio((passed * trace["mean_weight"][1:]).mean(axis=0), passed.mean(axis=0)),
    }
    return {name: one._replace(tolerance=one.tolerance + _ROUNDING * one.value) for name, one in found.items()}


def _guess(point: Point) -> tuple[float, float]:
    """Share of batches that pass, and the largest relative standard deviation of one, of 1000 at a fixed seed."""
    mu, pi = (softmax(np.array(point[name])) for name in ("behavior_logits", "current_logits"))
    counts = np.random.default_rng(0).multinomial(point["samples"], mu, 1000) / point["samples"]
    second, mean = counts @ np.log(pi / mu) ** 2, counts @ (pi / mu)
    passed = second <= point["bound"]
    share = float(passed.mean())
    if share < _LEAST:
        return share, math.inf
    spreads = [float(np.std(x[passed]) / np.mean(x[passed])) for x in (second, mean)]
    return share, max(math.sqrt(1.0 - share), *spreads, 0.2) / math.sqrt(share)


def _reach(point: Point) -> str | None:
    share = _guess(point)[0]
    if share < _LEAST:
        return f"a share of batches that pass of {_LEAST:g} or more, not {share:.2g}; raise the bound"
    return within(samples=_MOST)(point)


_PUBLISHED = {
    "behavior_logits": (0.6, 0.3, -2.7), "current_logits": (0.5, 0.2, -1.0), "samples": 16, "bound": 0.04,
}  # fmt: skip
_COMMON = {"behavior_logits": (0.2, 0.0), "current_logits": (0.5, -0.2), "samples": 6, "bound": 0.07}

trial = Trial(
    points=(_PUBLISHED, _COMMON),
    more=({**_PUBLISHED, "samples": 32},),
    measure=_measure,
    defects={
        "scored at another temperature": Defect(with_policy(Tempered), _PUBLISHED),
        "a sample fewer in a batch": Defect(replaced(samples_per_group=15), _PUBLISHED),
        "bound a fifth too low": Defect(with_method(weight=methods.m2po_areal(tau=0.8 * 0.07).weight), _COMMON),
    },
    effect=0.02,
    reach=_reach,
    through="loop",
)
