r"""Gradients within a publish cycle agree, and gradients of consecutive cycles disagree: a block pattern.

with `s` updates per publish, gradients of one cycle correlate at `a/(2-(s-1)a)`, with those of the next at minus this

Weights are published every s updates; a = step * curvature. Any two gradients of one cycle correlate at rho = a / (2 -
(s-1) a), any gradient of a cycle with any of the next at -rho. E g^2 / sigma^2 = (2 - (s-1) a) / (2 - s a), and over
all phases neighbors correlate at (s-2) rho / s. Derivation: x at cycle starts is an AR(1) of factor 1 - s a, hence E
x^2 = step^2 sigma^2 / (a (2 - s a)). All gradients of a cycle are taken at this x, the next has each noise once.
Domain: one mode, white noise, stationary, s a < 2. Second route: covariances over two cycles.
"""

import math

import numpy as np

from asyncsim.claims._claim import Claim, Count, Estimate, Plant, Point, Positive, lab, replaced, sim, units_for, up_to

_COPIES = 8
"""Equal coordinates: cheaper than as many replicates."""
_CYCLES, _WARM_UP, _LONGEST = 200, 40, 600
"""Cycles that are measured, cycles left out before them, and the most of these."""
_AT_FOUR = {"updates": 4, "curvature": 1.0, "noise": 1.0, "step": 0.3}
_SLOW = {**_AT_FOUR, "step": 0.2}
"""One cycle more of staleness would make larger steps diverge."""


def _warm_up(point: Point) -> int:
    """Number of warm-up cycles: at least nine e-folding times of the initial condition."""
    factor = abs(1.0 - point["updates"] * point["step"] * point["curvature"])
    return int(min(max(_WARM_UP, -9.0 / math.log(min(max(factor, 1e-9), 1.0 - 1e-9))), 1e9))


class SawtoothCosine(Claim):
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
        """Omit quantities that do not exist: pairs inside a cycle of one update, and lag 1 for two, whose mean is 0."""
        more = ({"inside": inside} if s.updates > 1 else {}) | ({"lag1": lag1} if s.updates != 2 else {})
        return {"amplification": energy, "across": across} | more

    def predict(s) -> dict[str, float]:
        n, a = s.updates, s.share
        rho = a / (2.0 - (n - 1) * a)
        return s._quantities((2.0 - (n - 1) * a) / (2.0 - n * a), rho, -rho, (n - 2) * rho / n)

    def check(s) -> dict[str, float]:
        """Covariances of all gradients of two publish cycles, each linear in the start and in all noises."""
        n, start, gradients = s.updates, np.eye(2 * s.updates + 1)[0], []
        for noises in np.split(np.eye(2 * n + 1)[1:], 2):
            gradients.append(s.curvature * start + noises)
            start = start - s.step * gradients[-1].sum(axis=0)
            if len(gradients) == 1:
                # What is left of a start, and the noise of a cycle, in units of a gradient's.
                spread = (start[1:] @ start[1:]) / (1.0 - start[0] ** 2)
        first, second = (rows * np.sqrt(np.append(spread, np.ones(2 * n))) for rows in gradients)
        own, power = first @ first.T, float(first[0] @ first[0])
        inside = float(own[np.triu_indices(n, 1)].mean()) if n > 1 else 0.0
        across = first @ second.T
        neighbors = np.append(np.diag(own, 1), across[-1, 0])
        return s._quantities(power, inside / power, float(across.mean()) / power, float(neighbors.mean()) / power)

    wrong = {
        "publish between neighbors ignored": lambda s: {"across" if s.updates == 2 else "lag1": -s.predict()["across"]}
    }

    points = (_AT_FOUR, {"updates": 8, "curvature": 2.0, "noise": 0.5, "step": 0.09})
    more = ({"updates": 1, "curvature": 1.0, "noise": 1.0, "step": 0.7}, {**_AT_FOUR, "updates": 2, "step": 0.6})

    _slow = f"a warm-up of at most {_LONGEST} cycles, not {{}}; take a step nearer to half of the boundary"
    reach = staticmethod(up_to(_LONGEST, _warm_up, _slow))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        length, skipped = point["updates"], _warm_up(point)
        cycles, curvatures = lab.quadratics.Cycles(length, skipped * length), (point["curvature"],) * _COPIES
        # Largest relative standard deviation of one replicate's quantity at the points above (measured).
        size = {"updates": (skipped + _CYCLES) * length, "replicates": units_for(0.11, effect, 12)}
        system = sim.schedules.sawtooth(length)
        spec = lab.quadratics.descending(point, curvatures, system, diagnostics=[cycles], **size)
        means = lab.run(spec, seed, plant).accumulated
        values = {"amplification": lab.between(means["energy"] / (_COPIES * point["noise"] ** 2))}
        names = {"across": "across", "inside": "inside", "lag1": "neighbors"}
        pairs = {name: means[key] for name, key in names.items() if key in means}
        return values | {name: lab.ratio(products, means["energy"]) for name, products in pairs.items()}

    defects = {
        "off-by-one version": lambda: (lab.off_by_one_version, _SLOW),
        "published an update late": lambda: replaced(system=sim.schedules.sawtooth(5)),
    }
