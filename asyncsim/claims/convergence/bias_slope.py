r"""The bias of a stale gradient is linear in the learning rate, and linear in the staleness only if drift dominates.

a stale gradient's root mean square bias grows as the learning rate, in staleness as `sqrt(S^2 drift^2 + S noise^2)`

Behavior is frozen at x = start for S updates of x_{t+1} = x_t - step (curvature start + noise xi_t). The bias after
them is b = curvature (start - x_S), E|b|^2 = curvature^2 step^2 (S^2 (curvature start)^2 + S noise^2). The quantity is
the least-squares slope of log sqrt(E|b|^2) over the log of what varies. It is 1 in the learning rate, and between 1/2
(noise) and 1 (drift) in the staleness. Domain: quadratic loss, white noise, at least two distinct values. Second route:
mean and variance carried update by update.
"""

from typing import Any

import numpy as np

from asyncsim.base.declared import Counts, Positive, Real, Staleness, Vector
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, checks, lab, sim, units_for

_FROZEN = "updates for which behavior is frozen"
_AGE: dict[str, Any] = {"optional": True, "remedy": f"count the {_FROZEN}"}
_STEP: dict[str, Any] = {"optional": True, "unit": "parameter per gradient"}
_BASE = {"curvature": 1.0, "start": 1.0}
_MIXED = {**_BASE, "noise": 3.0, "step": 0.01, "stalenesses": (1, 2, 4, 8, 16, 32)}


class BiasSlope(Claim):
    kind, status, source = "exponent", "conditional", "arXiv 2607.01083 (bound); exact formula derived"
    effect = 0.05

    curvature = Positive(typical=(0.1, 5.0), example=2.0, unit="gradient per parameter", doc="curvature of the mode")
    start = Real(typical=(0.1, 2.0), example=1.0, unit="parameter", doc="distance from the optimum")
    noise = Real(0.0, typical=(0.0, 5.0), example=1.5, unit="gradient", doc="noise of one gradient")
    step = Positive(typical=(1e-4, 0.1), example=0.01, doc="learning rate, beside `stalenesses`", **_STEP)
    # `joint` requires two distinct values of the parameter that varies.
    stalenesses = Counts(
        1, least=1, typical=(1, 64), example=(1, 2, 4, 8, 16), unit="updates", doc=f"{_FROZEN}, beside `step`", **_AGE
    )
    staleness = Staleness(1, typical=(1, 64), doc=f"{_FROZEN}, beside `steps`", **_AGE)
    steps = Vector(0.0, doc="learning rates, beside `staleness`", **_STEP)

    def joint(self) -> None:
        names = sorted(name for name, value in vars(self).items() if value is not None)
        over_steps = "steps" in names
        pair = ("staleness", "steps") if over_steps else ("step", "stalenesses")
        for name in ("step", "stalenesses", "staleness", "steps"):
            fits = (name in names) == (name in pair)
            accepted = f"the keys curvature, start, noise, {', '.join(pair)}"
            checks.require(fits, "point", names, accepted, f"{'add' if name in pair else 'drop'} {name}")
        moves = self.start != 0.0 or self.noise > 0.0
        self.require(moves, "noise", "above 0 at start = 0", "without either nothing moves")
        self.sizes = self.steps if over_steps else np.array([self.step])
        self.ages = [self.staleness] if over_steps else self.stalenesses
        self.varied = self.steps if over_steps else np.array(self.ages, dtype=np.float64)
        name, two = pair[1], np.unique(self.varied).size >= 2
        checks.require(two, name, self.varied.tolist(), "two distinct values or more", "a slope needs two")

    def _slope(s, rms: np.ndarray) -> dict[str, float]:
        x, y = np.log(s.varied), np.log(rms)
        x = x - x.mean()
        return {"slope": float(x @ y / (x @ x))}

    def predict(s) -> dict[str, float]:
        age = np.array(s.ages, dtype=np.float64)
        displacement = age**2 * (s.curvature * s.start) ** 2 + age * s.noise**2
        return s._slope(np.sqrt((s.curvature * s.sizes) ** 2 * displacement))

    def check(s) -> dict[str, float]:
        rms = []
        for step in s.sizes:
            bias_by_age, mean, spread = {0: 0.0}, s.start, 0.0
            for age in range(1, max(s.ages) + 1):
                mean, spread = mean - step * s.curvature * s.start, spread + (step * s.noise) ** 2
                bias_by_age[age] = s.curvature * float(np.hypot(s.start - mean, np.sqrt(spread)))
            rms += [bias_by_age[age] for age in s.ages]
        return {"slope": float(np.polyfit(np.log(s.varied), np.log(rms), 1)[0])}

    wrong = {"square-root formula": lambda s: {"slope": 0.5}}

    points = (
        {**_BASE, "noise": 0.3, "step": 0.01, "stalenesses": (1, 2, 4, 8, 16)},
        _MIXED,
        {**_BASE, "noise": 30.0, "step": 0.01, "stalenesses": (1, 2, 4, 8, 16)},
        {**_BASE, "noise": 3.0, "staleness": 8, "steps": (0.001, 0.002, 0.004, 0.008)},
    )

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        # Standard deviation of one replicate's linearized slope (measured: at most 0.9 at the points above).
        replicates = units_for(1.0, effect, 4, scale=0.5)
        over_steps = "steps" in point
        varied = point["steps"] if over_steps else point["stalenesses"]
        task = sim.tasks.quadratic((point["curvature"],), noise=point["noise"], start=point["start"])
        rows = []
        for k, x in enumerate(varied):
            # After `age` updates that all used data of version 0.
            age, step = (point["staleness"], x) if over_steps else (x, point["step"])
            size = {"updates": age + 1, "replicates": replicates, "diagnostics": ["bias"]}
            spec = lab.descent(task, sim.schedules.sawtooth(age + 1), sim.updates.sgd(step), **size)
            rows.append(lab.run(spec, seed + k, plant)["bias"][-1] ** 2)
        # The slope of log rms is half that of log mean square.
        slope = lab.slope(varied, np.stack(rows, axis=1), log=True)
        return {"slope": slope._replace(value=slope.value / 2, error=slope.error / 2, tolerance=1e-9)}

    defects = {"momentum inserted": lambda: (lab.momentum_inserted, _MIXED)}
