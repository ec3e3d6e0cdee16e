"""Bisecting a largest stable learning rate: noiseless runs started next to the fixed point, one rate per replicate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asyncsim import tasks, updates
from asyncsim.base import checks
from asyncsim.learning import running
from asyncsim.learning.spec import Spec
from asyncsim.trials._runs import descent
from asyncsim.trials._trial import Estimate

GRID = 48
PERIODS = 24
"""Length of a run in periods of the marginal oscillation; growth is read between the 4th and the last."""
RESOLUTION = 0.005
"""Largest relative error of the bisected learning rate: the boundary is bracketed to 1 percent."""


def noiseless_descent(curvatures: tuple[float, ...], system: Any) -> Callable[[tuple[float, ...], int], Spec]:
    """A `build` for `largest_stable_step`: descent on a quadratic from next to its minimum."""

    def build(steps: tuple[float, ...], count: int) -> Spec:
        return descent(
            tasks.quadratic(curvatures, noise=0.0, start=1e-6),
            system,
            updates.sgd(steps),
            updates=count,
            replicates=len(steps),
            sampling="enumerate",
            diagnostics=["gradient_norm"],
        )

    return build


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
