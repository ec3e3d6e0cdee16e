r"""Gradients between two publishes agree, those across a publish disagree: a block pattern.

Weights are published every s updates; a = step * curvature. Any two gradients of one cycle correlate at rho = a / (2 -
(s-1) a), any gradient of a cycle with any of the next at -rho. E g^2 / sigma^2 = (2 - (s-1) a) / (2 - s a), and over
all phases neighbors correlate at (s-2) rho / s. Derivation: x at cycle starts is an AR(1) of factor 1 - s a, hence E
x^2 = step^2 sigma^2 / (a (2 - s a)). All gradients of a cycle are taken at this x, and the next x contains each of
their noises once. Domain: one mode, white noise, stationary, s a < 2. Second route: Lyapunov equation of (newest,
published) iterate, solved around one cycle. Source: derived.
"""

import math

import numpy as np
from scipy.linalg import solve_discrete_lyapunov

import asyncsim as sim
from asyncsim.claims._claim import Claim, Count, Estimate, Plant, Point, Positive, lab, replaced, units_for, up_to

_COPIES = 8
"""Equal coordinates: cheaper than as many replicates."""
_CYCLES, _WARM_UP, _LONGEST = 200, 40, 600
"""Cycles that are measured, cycles left out before them, and the most of these."""
_AT_FOUR = {"updates": 4, "curvature": 1.0, "noise": 1.0, "step": 0.3}
_SLOW = {**_AT_FOUR, "step": 0.2}
"""One cycle more of staleness would make larger steps diverge."""


def _warm_up(point: Point) -> int:
    """Cycles that are left out: nine times what the start of a cycle takes to fall by a factor of e, or more."""
    factor = abs(1.0 - point["updates"] * point["step"] * point["curvature"])
    return int(min(max(_WARM_UP, -9.0 / math.log(min(max(factor, 1e-9), 1.0 - 1e-9))), 1e9))


class SawtoothCosine(Claim):
    """gradients correlate at `a/(2-(s-1)a)` inside a publish cycle of `s` updates and at minus that with the next"""

    kind, source = "identity", "derived: cycle starts are an AR(1) of factor 1 - s a"

    updates = Count(1, typical=(1, 16), example=4, unit="updates", doc="updates between two publishes")
    curvature = Positive(typical=(0.1, 5.0), example=2.0, unit="gradient per parameter", doc="curvature of the mode")
    noise = Positive(typical=(0.1, 3.0), example=0.5, unit="gradient", doc="noise of one gradient")
    step = Positive(example=0.15, unit="parameter per gradient", doc="learning rate")

    def joint(self) -> None:
        limit = 2.0 / self.updates / self.curvature
        self.require(self.step < limit, "step", f"below {limit:.6g} = 2/(updates curvature)", "publish more often")
        self.share = self.step * self.curvature

    def _quantities(s, energy: float, inside: float, across: float, lag1: float) -> dict[str, float]:
        """A cycle of one update has no two gradients; with two the mean of neighbors is exactly 0, without a scale."""
        more = ({"inside": inside} if s.updates > 1 else {}) | ({"lag1": lag1} if s.updates != 2 else {})
        return {"amplification": energy, "across": across} | more

    def predict(s) -> dict[str, float]:
        n, a = s.updates, s.share
        rho = a / (2.0 - (n - 1) * a)
        return s._quantities((2.0 - (n - 1) * a) / (2.0 - n * a), rho, -rho, (n - 2) * rho / n)

    def check(s) -> dict[str, float]:
        """The state (x, published x) through every update of a cycle, with the last publish folded in."""
        n = s.updates
        moves = [np.array([[1.0, -s.share], [0.0, 1.0]])] * n
        moves[-1] = np.array([[1.0, 0.0], [1.0, 0.0]]) @ moves[-1]
        pushes = [np.array([-s.step, 0.0])] * (n - 1) + [np.array([-s.step, -s.step])]
        cycle, noise = np.eye(2), np.zeros((2, 2))
        for move, push in zip(moves, pushes, strict=True):
            cycle, noise = move @ cycle, move @ noise @ move.T + s.noise**2 * np.outer(push, push)
        # At a cycle's start both coordinates are equal; the singular direction has factor 0 and does no harm.
        law, readout = solve_discrete_lyapunov(cycle, noise), np.array([0.0, s.curvature])
        # Follow covariances through this cycle and the next.
        power, products = float(readout @ law @ readout) + s.noise**2, np.zeros((n, 2 * n))
        for phase in range(n):
            covariance = moves[phase] @ law @ readout + s.noise**2 * pushes[phase]
            for lag in range(1, 2 * n - phase):
                products[phase, lag] = readout @ covariance / power
                covariance = moves[(phase + lag) % n] @ covariance
            law = moves[phase] @ law @ moves[phase].T + s.noise**2 * np.outer(pushes[phase], pushes[phase])
        # Average pairs by the publish between them.
        phases, lags = np.indices(products.shape)
        last = phases + lags
        inside, across = products[(lags > 0) & (last < n)], products[(last >= n) & (last < 2 * n)]
        inside_mean = float(inside.mean()) if n > 1 else 0.0
        return s._quantities(power / s.noise**2, inside_mean, float(across.mean()), float(products[:, 1].mean()))

    wrong = {
        "publish between neighbors ignored": lambda s: {"across" if s.updates == 2 else "lag1": -s.predict()["across"]}
    }

    points = (_AT_FOUR, {"updates": 8, "curvature": 2.0, "noise": 0.5, "step": 0.09})
    more = ({"updates": 1, "curvature": 1.0, "noise": 1.0, "step": 0.7}, {**_AT_FOUR, "updates": 2, "step": 0.6})

    _slow = f"a warm-up of at most {_LONGEST} cycles, not {{}}; take a step nearer to half of the boundary"
    reach = staticmethod(up_to(_LONGEST, _warm_up, _slow))

    @staticmethod
    def measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        length, skipped = point["updates"], _warm_up(point)
        cycles = lab.quadratics.Cycles(length, skipped * length)
        # Largest relative standard deviation of one replicate's quantity at the points above (measured).
        spec = lab.descent(
            sim.tasks.quadratic((point["curvature"],) * _COPIES, noise=point["noise"]),
            sim.schedules.sawtooth(length),
            sim.updates.sgd(point["step"]),
            updates=(skipped + _CYCLES) * length,
            replicates=units_for(0.11, effect, 12),
            diagnostics=[cycles],
        )
        means = lab.run(spec, seed, plant).accumulated
        values = {"amplification": lab.between(means["energy"] / (_COPIES * point["noise"] ** 2))}
        names = {"across": "across", "inside": "inside", "lag1": "neighbors"}
        pairs = {name: means[key] for name, key in names.items() if key in means}
        return values | {name: lab.ratio(products, means["energy"]) for name, products in pairs.items()}

    defects = {
        "off-by-one version": lambda: (lab.off_by_one_version, _SLOW),
        "published an update late": lambda: replaced(system=sim.schedules.sawtooth(5)),
        "momentum inserted": lambda: lab.momentum_inserted,
    }
