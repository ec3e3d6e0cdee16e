r"""Delayed gradient descent is stable up to a learning rate of a_c(staleness) divided by the maximum curvature.

gradient descent at staleness `tau` is stable iff `step * curvature < 2 sin(pi/(2 (2 tau + 1)))`; momentum `beta` raises
the limit to `2 (1 + beta)` without staleness, and lowers it to `1 - beta` at staleness 1

x_{t+1} = x_t - step H x_{t-tau} (+ noise): mean and variance are stable iff 0 < step * curvature < a_c for each
curvature. a_c(tau) = 2 sin(pi / (2 (2 tau + 1))). Derivation: a root of z^{tau+1} - z^tau + a leaves the disc at z =
e^{i phi}. z^tau (1 - z) = a is real and positive first at phi = pi / (2 tau + 1), where |1 - z| = 2 sin(phi / 2).

Momentum beta, x_{t+1} = x_t + beta (x_t - x_{t-1}) - step g_{t-tau} without a factor 1 - beta on g, raises the limit of
fresh gradients and lowers that of stale ones: step * curvature < 2 sin(phi/2) sqrt(1 - 2 beta cos phi + beta^2). Here
phi is the smallest root of (tau - 1/2) phi + arg(e^{i phi} - beta) = pi/2. So 2 (1 + beta) at tau = 0, 1 - beta at tau
= 1; divided by 1 - beta it falls towards 1/tau for tau >= 2. Derivation: a root z leaves the disc where z^{tau-1} (z -
1) (z - beta) = -a, of modulus and phase as stated.

Domain: linear gradient, constant staleness in updates; with momentum staleness up to 64 and beta <= 0.99. Second route:
root finding on the spectral radius, and on the largest root of z^{tau+1} - (1 + beta) z^tau + beta z^{tau-1} + a.
"""

import math

import numpy as np
from scipy.optimize import brentq

from asyncsim.claims._claim import (
    Claim,
    Estimate,
    Plant,
    Point,
    Real,
    Staleness,
    Vector,
    checks,
    lab,
    named,
    sim,
    within,
)
from asyncsim.claims._delay import critical
from asyncsim.claims._recursion import marginal_step

_point = named("staleness", "momentum", curvatures=(1.0, 0.25))


class StabilityBoundary(Claim):
    kind, through = "threshold", "loop"
    source = "Levin and May 1976 (Theor. Popul. Biol. 9); arXiv 1910.05124; momentum derived, compare arXiv 1909.12340"

    staleness = Staleness(typical=(0, 24), example=4)
    curvatures = Vector(0.0, typical=(0.1, 9.0), sizes=(1, 3), example=(1.0, 0.5, 3.0), doc="curvatures of the modes")
    momentum = Real(
        0.0, 0.99, optional=True, typical=(0.0, 0.99), example=0.5, doc="share of the previous update (default: 0)",
        remedy="nearer to 1 the roots are too close together to be separated",
    )  # fmt: skip

    def joint(self) -> None:
        self.curvature, self.beta = float(self.curvatures.max()), self.momentum or 0.0
        if self.beta:
            checks.integer("staleness", self.staleness, 0, "with momentum, roots are known up to that", 64)

    def predict(s) -> dict[str, float]:
        tau, beta = s.staleness, s.beta
        if not beta or tau == 0:
            return {"step": critical(tau) * (1.0 + beta) / s.curvature}

        def phase(phi: float) -> float:
            return (tau - 0.5) * phi + math.atan2(math.sin(phi), math.cos(phi) - beta) - math.pi / 2.0

        half = float(brentq(phase, 1e-12, math.pi, xtol=1e-16, rtol=1e-15)) / 2.0
        # 1 - 2 beta cos phi + beta^2, without the cancellation near beta = 1.
        boundary = 2.0 * math.sin(half) * math.hypot(1.0 - beta, 2.0 * math.sqrt(beta) * math.sin(half))
        return {"step": boundary / s.curvature}

    def check(s) -> dict[str, float]:
        if not s.beta:
            return {"step": min(marginal_step(np.array([[-h]]), s.staleness) for h in np.unique(s.curvatures))}

        def excess(a: float) -> float:
            """Modulus of the largest root minus 1; the polynomial is multiplied by z if tau = 0."""
            roots = np.zeros(max(s.staleness, 1) + 2)
            roots[:3] = 1.0, -1.0 - s.beta, s.beta
            roots[max(s.staleness, 1) + (s.staleness > 0)] += a
            return float(np.abs(np.roots(roots)).max()) - 1.0

        low = 0.5 * (1.0 - s.beta) / (1 + s.staleness)
        return {"step": float(brentq(excess, low, 4.5, xtol=1e-15, rtol=1e-14)) / s.curvature}

    wrong = {
        "staleness one too large": lambda s: s.but(staleness=s.staleness + 1).predict(),
        "sufficient condition 1/(L(1+tau)) as boundary": lambda s: {"step": 1.0 / (s.curvature * (1 + s.staleness))},
        "momentum forgotten": lambda s: {"step": critical(s.staleness) / s.curvature},
        "factor 1 - beta assumed on the gradient": lambda s: {"step": s.predict()["step"] / (1.0 - s.beta)},
    }

    points = (
        *({"staleness": s, "curvatures": (1.0, 0.25)} for s in (0, 1, 2, 4, 8)),
        *(_point(*each) for each in ((0, 0.5), (1, 0.5), (1, 0.9), (4, 0.5))),
    )
    more = (
        *({"staleness": 16, "curvatures": (2.0,)}, {"staleness": 3, "curvatures": (0.5, 1.0, 3.0)}),
        *(_point(*each) for each in ((4, 0.9), (0, 0.9), (8, 0.8), (2, 0.95))),
    )

    def reach(self, point: Point) -> str | None:
        beta = point.get("momentum") or 0.0
        long = "staleness + momentum/(1 - momentum) of at most 40; lower either, runs would be too long"
        if beta:
            return None if point["staleness"] + beta / (1.0 - beta) <= 40.0 else long
        return within(staleness=64)(point)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        tau, beta, scale = point["staleness"], point.get("momentum"), 1.0 / max(point["curvatures"])
        if not beta:
            return {"step": lab.largest_step(point["curvatures"], lab.fixed(tau), tau, 4.0, seed, plant)}
        descent = lab.noiseless_descent(point["curvatures"], lab.fixed(tau))

        def build(steps: tuple[float, ...], count: int) -> lab.Spec:
            link = sim.updates.momentum(beta)
            return plant(descent(steps, count).replace(update=sim.chain(link, sim.updates.sgd(steps))))

        low = 0.4 * scale * (1.0 - beta) / (1 + tau)
        return {"step": lab.marginal_step(build, low, 4.5 * scale, tau + 3, seed, modes=len(point["curvatures"]))}

    defects = {
        "off-by-one version": lambda: (lab.off_by_one_version, {"staleness": 4, "curvatures": (1.0, 0.25)}),
        "factor 1 - beta on the gradient": lambda: (
            lab.relinked(lambda ball, *rest: (ball, sim.updates.scale(0.5), *rest)),
            _point(1, 0.5),
        ),
    }
