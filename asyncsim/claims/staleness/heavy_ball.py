r"""Momentum raises the maximum stable learning rate of fresh gradients, and lowers that of stale gradients.

momentum `beta` raises the maximum stable learning rate of fresh gradients from 2 to `2 (1 + beta)`, and lowers it at
every staleness `>= 1`, from 1 to `1 - beta` at staleness 1

x_{t+1} = x_t + beta (x_t - x_{t-1}) - step g_{t-tau}, no factor 1 - beta on g. It is stable iff step * largest
curvature < 2 sin(phi/2) sqrt(1 - 2 beta cos phi + beta^2). Here phi is the smallest root of (tau - 1/2) phi + arg(e^{i
phi} - beta) = pi/2. So 2 (1 + beta) at tau = 0, 1 - beta at tau = 1; divided by 1 - beta it falls towards 1/tau for tau
>= 2. Derivation: a root z leaves the disc where z^{tau-1} (z - 1) (z - beta) = -a, of modulus and phase as stated.
Domain: linear gradient, constant staleness up to 64 updates, beta <= 0.99. Second route: root finding on the largest
root of z^{tau+1} - (1 + beta) z^tau + beta z^{tau-1} + a.
"""

import math

import numpy as np
from scipy.optimize import brentq

from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Real, Staleness, Vector, lab, named, sim, up_to
from asyncsim.claims._delay import critical

_point = named("staleness", "momentum", curvatures=(1.0, 0.25))


class HeavyBall(Claim):
    kind, source, through = "threshold", "derived; qualitatively arXiv 1909.12340", "loop"

    staleness = Staleness(0, 64, typical=(0, 24), example=4)
    momentum = Real(
        0.0, 0.99, typical=(0.0, 0.99), example=0.5, doc="momentum: share of the previous update",
        remedy="nearer to 1 the roots are too close together to be separated",
    )  # fmt: skip
    curvatures = Vector(0.0, typical=(0.1, 9.0), sizes=(1, 3), example=(1.0, 0.5, 3.0), doc="curvatures of the modes")

    def joint(self) -> None:
        self.curvature = float(self.curvatures.max())

    def predict(s) -> dict[str, float]:
        tau, beta = s.staleness, s.momentum
        if tau == 0:
            return {"step": 2.0 * (1.0 + beta) / s.curvature}

        def phase(phi: float) -> float:
            return (tau - 0.5) * phi + math.atan2(math.sin(phi), math.cos(phi) - beta) - math.pi / 2.0

        half = float(brentq(phase, 1e-12, math.pi, xtol=1e-16, rtol=1e-15)) / 2.0
        # 1 - 2 beta cos phi + beta^2, without the cancellation near beta = 1.
        boundary = 2.0 * math.sin(half) * math.hypot(1.0 - beta, 2.0 * math.sqrt(beta) * math.sin(half))
        return {"step": boundary / s.curvature}

    def check(s) -> dict[str, float]:
        def excess(a: float) -> float:
            """Modulus of the largest root minus 1; the polynomial is multiplied by z if tau = 0."""
            roots = np.zeros(max(s.staleness, 1) + 2)
            roots[:3] = 1.0, -1.0 - s.momentum, s.momentum
            roots[max(s.staleness, 1) + (s.staleness > 0)] += a
            return float(np.abs(np.roots(roots)).max()) - 1.0

        low = 0.5 * (1.0 - s.momentum) / (1 + s.staleness)
        return {"step": float(brentq(excess, low, 4.5, xtol=1e-15, rtol=1e-14)) / s.curvature}

    wrong = {
        "momentum forgotten": lambda s: {"step": critical(s.staleness) / s.curvature},
        "factor 1 - beta assumed on the gradient": lambda s: {"step": s.predict()["step"] / (1.0 - s.momentum)},
    }

    points = tuple(_point(*each) for each in ((0, 0.5), (1, 0.5), (1, 0.9), (4, 0.5)))
    more = (_point(4, 0.9), _point(0, 0.9), _point(8, 0.8), _point(2, 0.95))

    _long = "staleness + momentum/(1 - momentum) of at most 40; lower either, runs would be too long"
    reach = staticmethod(up_to(40.0, lambda p: p["staleness"] + p["momentum"] / (1.0 - p["momentum"]), _long))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        tau, beta, scale = point["staleness"], point["momentum"], 1.0 / max(point["curvatures"])
        descent = lab.noiseless_descent(point["curvatures"], lab.fixed(tau))

        def build(steps: tuple[float, ...], count: int) -> lab.Spec:
            link = sim.updates.momentum(beta)
            return plant(descent(steps, count).replace(update=sim.chain(link, sim.updates.sgd(steps))))

        low = 0.4 * scale * (1.0 - beta) / (1 + tau)
        return {"step": lab.marginal_step(build, low, 4.5 * scale, tau + 3, seed, modes=len(point["curvatures"]))}

    defects = {
        "off-by-one version": lambda: (lab.off_by_one_version, _point(4, 0.5)),
        "factor 1 - beta on the gradient": lambda: (
            lab.relinked(lambda ball, *rest: (ball, sim.updates.scale(0.5), *rest)),
            _point(1, 0.5),
        ),
    }
