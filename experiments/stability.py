"""How large a step can stale gradient descent take?

Three measured quantities, told apart by the column `quantity`:
boundary         largest step at which noiseless descent still shrinks, bisected; low and high are its bracket
growth           factor per update of a deviation 5 percent below and above that boundary; deterministic
autocorrelation  correlation of gradients `lag` updates apart in noisy stationary descent; 95 percent interval
`staleness` is the largest update staleness of the schedule: constant for `fixed`, 0, 1, ..., staleness in turn for
`sawtooth`. A boundary's `value` and a row's `step` are step sizes; times `curvature`, the largest, they are pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asyncsim import diagnostics, methods, schedules, tasks, updates
from asyncsim.base import checks, uncertainty
from asyncsim.base.records import Estimate
from asyncsim.claims.lab.threshold import GRID, noiseless_descent
from asyncsim.running import running
from asyncsim.running.spec import Spec
from asyncsim.updates._link import chain

CURVATURES = (2.0, 0.5)
MARGIN = 0.05
COLUMNS = ["quantity", "schedule", "staleness", "curvature", "step", "lag", "value", "low", "high", "error", "samples"]
PERIODS = 24
"""Length of a run in periods of the marginal oscillation; growth is read between the 4th and the last."""
RESOLUTION = 0.005
"""Largest relative error of the bisected learning rate: the boundary is bracketed to 1 percent."""


def largest_stable_step(
    build: Callable[[tuple[float, ...], int], Spec], low: float, high: float, delay: int, seed: int
) -> Estimate:
    """The learning rate at which small deviations cease to shrink, bracketed to `RESOLUTION` by two grids.

    `build(steps, updates)` makes a noiseless spec with one learning rate per replicate. Its metric "gradient_norm"
    measures the distance to the fixed point; `delay` sets the length of the runs (one period of the marginal mode is 4
    delay + 2).
    """
    period = 4 * delay + 2
    length = PERIODS * period
    for _ in range(2):
        # Run one replicate per rate of a grid.
        steps = np.geomspace(low, high, GRID)
        trace = running.run(build(tuple(steps), length), seed=seed, progress=False)
        # Compare an early period with the last.
        size = trace["gradient_norm"]
        early = size[4 * period : 5 * period].max(axis=0)
        late = size[-period:].max(axis=0)
        # A replicate that left the finite range has NaN behind; one at the floor of float64 has shrunk.
        stable = (late < early) & (trace.diverged < 0)
        checks.require(
            bool(stable[0]) and not bool(stable[-1]),
            "largest stable learning rate",
            "outside the grid",
            f"between {low:g} and {high:g}",
            "ask at a point whose boundary lies there",
        )
        # Narrow the bracket.
        first = int(np.argmin(stable))
        low, high = steps[first - 1], steps[first]
    middle = float(np.sqrt(low * high))
    return Estimate(middle, tolerance=max(RESOLUTION * middle, float(high - low)), samples=2 * GRID)


def _boundary(schedule: str, staleness: int) -> dict[str, Any]:
    return {"quantity": "boundary", "schedule": schedule, "staleness": staleness, "seed": 0}


def _autocorrelation(replicates: int, length: int) -> dict[str, Any]:
    return {
        "quantity": "autocorrelation",
        "schedule": "fixed",
        "staleness": 4,
        "curvature": 1.0,
        "step": 0.28,
        "lags": 9,
        "updates": length,
        "after": 400,
        "replicates": replicates,
        "seed": 0,
    }


SETTINGS = [
    *(_boundary("fixed", staleness) for staleness in (0, 1, 2, 4, 8, 16)),
    *(_boundary("sawtooth", updates_ - 1) for updates_ in (2, 4, 8, 16)),
    _autocorrelation(replicates=4096, length=2000),
]
QUICK = [
    *(_boundary("fixed", staleness) for staleness in (0, 4)),
    _boundary("sawtooth", 3),
    _autocorrelation(replicates=256, length=600),
]


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one schedule's boundary, or of the autocorrelogram."""
    return autocorrelogram(setting) if setting["quantity"] == "autocorrelation" else boundary(setting)


def boundary(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """The bisected boundary, and growth on either side of it."""
    staleness = setting["staleness"]
    law = schedules.fixed(staleness) if setting["schedule"] == "fixed" else schedules.sawtooth(staleness + 1)
    build = noiseless_descent(CURVATURES, law)
    largest = max(CURVATURES)
    found = largest_stable_step(build, 0.02 / largest, 4.0 / largest, staleness, setting["seed"])
    shared = {"schedule": setting["schedule"], "staleness": staleness, "curvature": largest, "lag": None}
    rows = [{"quantity": "boundary", **shared, "step": None, **_measured(found, found.tolerance)}]
    steps = (found.value * (1.0 - MARGIN), found.value * (1.0 + MARGIN))
    for step, factor in zip(steps, growth(build(steps, 24 * (4 * staleness + 2)), setting["seed"]), strict=True):
        rows.append({"quantity": "growth", **shared, "step": step, **_measured(Estimate(factor), 0.0)})
    return rows


def growth(spec: Spec, seed: int) -> np.ndarray:
    """Factor per update of the gradient's largest norm, from the second to the last quarter of the run, `[R]`."""
    size = running.run(spec, seed=seed, progress=False)["gradient_norm"]
    quarter = len(size) // 4
    early, late = size[quarter : 2 * quarter].max(axis=0), size[-quarter:].max(axis=0)
    factor: np.ndarray = (late / early) ** (1.0 / (2 * quarter))
    return factor


def autocorrelogram(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Correlations C_k / C_0 of stationary gradients, as ratios of averages over updates and replicates."""
    gathered = diagnostics.autocorrelogram(lags=setting["lags"], after=setting["after"])
    spec = Spec(
        tasks.quadratic((setting["curvature"],), noise=1.0),
        schedules.fixed(setting["staleness"]),
        methods.gradient(),
        chain(updates.sgd(setting["step"])),
        samples_per_group=1,
        updates=setting["after"] + setting["updates"],
        replicates=setting["replicates"],
        diagnostics=[gathered],
    )
    products = running.run(spec, seed=setting["seed"], progress=False).accumulated["autocorrelogram"]
    shared = {name: setting[name] for name in ("quantity", "schedule", "staleness", "curvature", "step")}
    rows = []
    for lag, product in enumerate(products):
        found = uncertainty.ratio(product, products[0])
        rows.append({**shared, "lag": lag, **_measured(found, uncertainty.critical(0.05, found.freedom) * found.error)})
    return rows


def _measured(found: Estimate, reach: float) -> dict[str, Any]:
    return {
        "value": found.value,
        "low": found.value - reach,
        "high": found.value + reach,
        "error": found.error,
        "samples": found.samples,
    }
