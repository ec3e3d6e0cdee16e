r"""Gradients tau updates apart correlate at +a/2, and those tau + 1 apart at -a/2: the sign change reveals tau.

stationary gradients correlate at `+a/2` across the staleness, and at `-a/2` one update later

corr(g_t, g_{t+tau}) = a/2 (tau >= 1), corr(g_t, g_{t+tau+1}) = -a/2, as ratios of averages, with the energy-weighted a
= step tr(HG)/tr G, G = E g g^T; G is diagonal with entries 1 + Q(step * curvature_i) for equal noise in every
coordinate. Derivation: stationarity of E|x|^2 gives 2 E<x_t, g_t> = step E|g|^2. Next, g_{t+tau} = H x_t + noise of a
later time, while g_{t+tau+1} is taken at x_{t+1} = x_t - step g_t. Domain: symmetric Hessian, constant staleness,
stationary, white noise. Second route: Lyapunov equation of each mode.
"""

import numpy as np

from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Positive, Staleness, Vector, lab
from asyncsim.claims._delay import excess, stable_share
from asyncsim.claims._recursion import autocovariance

_UPDATES = 600
_SPREAD = 0.3
"""Standard deviation of one replicate's correlation, relative to the predicted one, at the points below (measured)."""
_AT_FOUR = {"staleness": 4, "curvatures": (1.0, 0.5), "noise": 1.0, "step": 0.28}


class LagIdentity(Claim):
    kind, source = "identity", "derived: 2 E<x,g> = step E|g|^2"

    staleness = Staleness(typical=(0, 12), example=2)
    curvatures = Vector(0.0, example=(1.0, 0.3, 0.7), unit="gradient per parameter", doc="curvatures of the modes")
    noise = Positive(typical=(0.1, 3.0), example=0.5, unit="gradient", doc="noise of a gradient, equal in every mode")
    step = Positive(example=0.55, unit="parameter per gradient", doc="learning rate")

    def joint(self) -> None:
        stable_share(self.step, float(self.curvatures.max()), self.staleness)
        self.lags = [lag for lag in (self.staleness, self.staleness + 1) if lag >= 1]

    def _flip(s, a: float) -> dict[str, float]:
        return {f"corr[{lag}]": a / 2.0 if lag == s.staleness else -a / 2.0 for lag in s.lags}

    def predict(s) -> dict[str, float]:
        energy = np.array([1.0 + excess(s.step * h, s.staleness) for h in s.curvatures])
        return s._flip(s.step * float(s.curvatures @ energy / energy.sum()))

    def check(s) -> dict[str, float]:
        modes = [autocovariance(h, s.step, s.noise, s.staleness, s.lags) for h in s.curvatures]
        power = sum(mode[0] for mode in modes)
        return {f"corr[{lag}]": sum(mode[1][k] for mode in modes) / power for k, lag in enumerate(s.lags)}

    wrong = {"plain instead of energy-weighted mean curvature": lambda s: s._flip(s.step * float(s.curvatures.mean()))}

    points = ({"staleness": 0, "curvatures": (1.0, 0.5), "noise": 1.0, "step": 0.6}, _AT_FOUR)
    more = ({"staleness": 8, "curvatures": (1.0,), "noise": 0.5, "step": 0.15},)

    reach = staticmethod(lambda p: lab.quadratics.linear_reach(p["curvatures"], p["staleness"], p["step"]))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        tau = point["staleness"]
        spread = _SPREAD * (2 if tau > 4 else 1)
        sums = lab.quadratics.products(point, point["curvatures"], _UPDATES, spread, effect, 6, seed, plant)
        lags = [tau + 1] if tau == 0 else [tau, tau + 1]
        return {f"corr[{k}]": lab.ratio(sums[k], sums[0]) for k in lags}

    defects = {
        "off-by-one version": lambda: (lab.off_by_one_version, _AT_FOUR),
        "momentum inserted": lambda: (lab.momentum_inserted, _AT_FOUR),
    }
