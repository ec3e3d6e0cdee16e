"""Descent on a quadratic from a distance: what points of its bounds have in common."""

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from asyncsim.base.declared import Declared, Integer, Positive, Real
from asyncsim.claims._recursion import second_moments


class Descent(Declared):
    """Base class of claim points with maximum curvature L, learning rate, noise, start and updates, without delays."""

    curvature = Positive(
        typical=(0.1, 5.0), example=2.0, unit="gradient per parameter", doc="L, maximum curvature of the loss"
    )
    step = Positive(example=0.1, unit="parameter per gradient", doc="learning rate")
    noise = Real(0.0, typical=(0.1, 2.0), example=1.0, unit="gradient", doc="noise of one gradient")
    start = Real(typical=(-2.0, 2.0), example=1.0, unit="parameter", doc="initial distance from the optimum")
    updates = Integer(
        1, typical=(1, 300), example=400, unit="updates", doc="length of the run", remedy="make at least one update"
    )

    def joint(self) -> None:
        moves = self.noise > 0.0 or self.start != 0.0
        self.require(moves, "noise", "above 0 at start = 0", "without either nothing moves")

    wrong: ClassVar[Mapping[str, Callable[[Any], dict[str, float]]]] = {
        "noise carried by staleness omitted": lambda s: s.predict(delay=0.0),
        "noise term halved": lambda s: s.predict(noise=0.5),
    }
    terms: ClassVar[dict[str, Callable[[Any, float], dict[str, float]]]] = {
        "initial gap": lambda s, factor: s.predict(descent=2.0 * factor),
        "fresh noise": lambda s, factor: s.predict(noise=factor),
    }

    def budget(self, mean: float, part: float) -> dict[str, float]:
        """Sum of the bound over updates, with integer delays whose running mean tracks the mean delay."""
        energy, terms = (self.step * self.noise) ** 2, []
        late = part * self.step * self.curvature**2 * energy
        for update in range(1, self.updates + 1):
            terms.append(self.curvature / 2.0 * energy)
            terms += [late] * (math.floor(update * mean) - math.floor((update - 1) * mean))
        terms.append(late * (self.updates * mean % 1.0))
        budget = (self.curvature / 2.0 * self.start**2 + math.fsum(terms)) / (self.step / 2.0 * self.updates)
        path = second_moments(self.curvature, self.start, self.noise, self.step, math.floor(mean), self.updates)
        exact = self.curvature**2 * math.fsum(path) / self.updates
        # Rounding must not make a bound that is attained to its last term count as exceeded.
        return {"bound": budget if exact <= budget * (1.0 + 1e-12) else exact}

    def bound(self, late: float, descent: float = 2.0, noise: float = 1.0, delay: float = 1.0) -> dict[str, float]:
        """Bound 2 Delta/(step T) + step L noise^2 + (step L)^2 late noise^2, with a factor per term."""
        a, gap = self.step * self.curvature, self.curvature * self.start**2 / 2.0
        floor = (noise * a + delay * a**2 * late) * self.noise**2
        return {"bound": descent * gap / (self.step * self.updates) + floor}
