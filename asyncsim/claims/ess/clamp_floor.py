r"""Weights clamped to [1/C, C] cannot show an effective sample size below 4 / (C + 1/C)^2.

weights clamped to `[1/C, C]` have at least `ESS/N >= 4/(C + 1/C)^2`, that is `N/ESS <= (C + 1/C)^2/4`

ESS/N = (E w)^2 / E w^2 >= 4 m M / (m + M)^2 for weights in [m, M]. It is attained with a fraction m/(m + M) of the
weights at M. Derivation: (w - m)(M - w) >= 0 gives E w^2 <= (m + M) E w - m M; then minimize over E w. Domain: clamp on
both sides, C >= 1 (a clamp from above alone has no floor). Second route: minimization over the fraction at C, with a
third weight free in between. As an upper bound it is one on N/ESS.
"""

import math

import numpy as np
from scipy.optimize import minimize_scalar

from asyncsim.base import rng
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Real, lab, sim

_SHARES = 2001


class ClampFloor(Claim):
    kind, source = "bound", "Kantorovich inequality"
    through, effect = "ratios", 0.05

    clamp = Real(1.0, typical=(1.0, 50.0), example=2.0, doc="upper clamp C of [1/C, C]")

    def predict(s) -> dict[str, float]:
        c = s.clamp
        return {"largest_inverse": (c + 1.0 / c) ** 2 / 4.0}

    def check(s) -> dict[str, float]:
        c = s.clamp

        def lowest_ess(share: float, middle: float) -> float:
            """Minimum ESS/N over the fraction at C, when `share` of the weights equal `middle`."""

            def size(log_odds: float) -> float:
                top = (1.0 - share) / (1.0 + np.exp(log_odds))
                bottom = 1.0 - share - top
                first = top * c + bottom / c + share * middle
                return float(first**2 / (top * c**2 + bottom / c**2 + share * middle**2))

            bounds, options = (-1.0, 4.0 * np.log(c) + 1.0), {"xatol": 1e-9}
            return float(minimize_scalar(size, bounds=bounds, method="bounded", options=options).fun)

        floor = min(lowest_ess(share, middle) for share in (0.0, 0.2, 0.6) for middle in np.geomspace(1.0 / c, c, 5))
        return {"largest_inverse": 1.0 / floor}

    wrong = {"square forgotten": lambda s: {"largest_inverse": (s.clamp + 1.0 / s.clamp) / 2.0}}

    points = ({"clamp": 2.0}, {"clamp": 5.0})
    more = ({"clamp": 8.0}, {"clamp": 1.3})

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        # From log weights `[R, n]`, masses and the clamp C to ESS/N `[R]`.
        statistic = plant(sim.ratios.ess)
        clamp = float(point["clamp"])
        # Laws on two points far outside the clamp, of every share; and random laws on eight points.
        share = lab.torch.linspace(1e-4, 1.0 - 1e-4, _SHARES, dtype=lab.torch.float64)
        far = lab.torch.tensor([3.0, -3.0], dtype=lab.torch.float64) * math.log(clamp)
        drawn = 8.0 * rng.Stream(seed, "clamp-floor").normal([[k] for k in range(_SHARES)], range(8))
        logs = lab.torch.from_numpy(drawn)
        two_points = far.expand(_SHARES, 2), lab.torch.stack([share, 1.0 - share], -1)
        laws = two_points, (logs, logs.new_full(logs.shape, 0.125))
        lowest = min(statistic(*law, clamp).min().item() for law in laws)
        # The grid of shares misses the worst one by at most 5e-4, which changes N/ESS by less than 1e-5 of itself.
        return {"largest_inverse": Estimate(1.0 / lowest, tolerance=1e-9 / lowest, samples=2 * _SHARES)}

    defects = {
        "clamp from above only": lambda: (
            lambda ess: lambda log_weight, mass, clamp: ess(log_weight.clamp(max=math.log(clamp)), mass)
        )
    }
