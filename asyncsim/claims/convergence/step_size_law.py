r"""Delay and drift both limit the step by 1/staleness, but only drift collapses at a constant step * time.

drift leads to collapse at a constant `step * t_c = r/curvature`; delay leads to it at `step * t_c = step * ln R/ln|z|`,
about `c ln R/(curvature * Re W_0(-c))`, which grows without bound as `c` falls to `pi/2`

Cumulative drift: data frozen at x = x_0 pull with the same gradient at every update, so x leaves a radius r |x_0| after
t_c = r/(step * curvature) updates, and t_c * step = r/curvature whatever the step and the staleness ("drift"). Delay:
beyond the boundary an amplitude grows by a ratio R in t_c = ln R/ln|z| updates, z the largest root of z^{tau+1} - z^tau
+ step * curvature ("delay" is t_c * step): other roots have died out. That is (tau + 1/2) ln R/Re W_0(-c) times the
step, c = step * curvature (tau + 1/2), within 2 percent from tau = 8 on: a function of step * staleness alone for long
delays, without bound at c = pi/2, and a few periods of staleness far behind the boundary. So it is also the lead time
of an alarm at an amplitude R times smaller. Domain: quadratic of one dimension, no noise, mean over levels of one
ratio. Second route: the path's crossing; Newton's method on z = e^s.
"""

import math

import numpy as np

from asyncsim.claims import _delay, lab
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Positive, Real, Staleness, named, sim

_point = named("staleness", "step", "ratio", curvature=1.0, radius=20.0)
_FAR = _point(4, 0.7, 1e9)


class StepSizeLaw(Claim):
    kind, status, source = "expectation", "conditional", "derived; two-constraint rule arXiv 2607.01083"

    staleness = Staleness(1, 64, typical=(1, 32), example=4)
    step = Positive(example=0.5, unit="parameter per gradient", doc="learning rate")
    curvature = Positive(typical=(0.2, 5.0), example=1.0, unit="gradient per parameter", doc="curvature of the mode")
    ratio = Real(2.0, 1e60, typical=(10.0, 1e6), example=1e6, doc="growth of the amplitude that counts as a collapse")
    radius = Real(2.0, 1e6, typical=(5.0, 100.0), example=20.0, doc="drift at collapse, over the initial distance")

    def joint(self) -> None:
        _delay.unstable("step", self.step, self.step * self.curvature, self.staleness)

    def _quantities(s, drift: float, growth: float) -> dict[str, float]:
        return {"drift": drift, "delay": s.step * math.log(s.ratio) / growth}

    def predict(s) -> dict[str, float]:
        return s._quantities(s.radius / s.curvature, _delay.growth(s.step * s.curvature, s.staleness))

    def check(s) -> dict[str, float]:
        time, place = 0, 1.0
        # The gradient is that of version 0; the crossing is read between two updates.
        while 1.0 - place < s.radius:
            time, before, place = time + 1, place, place - s.step * s.curvature
        crossing = time - 1 + (s.radius - (1.0 - before)) / (before - place)
        return s._quantities(s.step * crossing, _delay.growth_by_newton(s.step * s.curvature, s.staleness))

    wrong = {
        "delay collapses at a constant step * time too": lambda s: {"delay": math.log(s.ratio) / s.curvature},
        "tau in place of tau + 1/2": lambda s: s._quantities(
            s.radius / s.curvature, _delay.growth_by_lambert(s.step * s.curvature, s.staleness)
        ),
    }

    points = (_point(4, 0.42, 1e3), _FAR)
    more = (_point(8, 0.35, 1e9), _point(16, 0.12, 1e6), _point(2, 0.8, 1e9), _point(32, 0.08, 1e12))

    reach = staticmethod(lambda point: lab.reach(point))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        growing = lab.passage(point, seed, plant)
        curvature, step = point["curvature"], point["step"]
        delay = Estimate(step * growing.value, tolerance=step * growing.tolerance, samples=growing.samples)
        # Updates until the stale gradient of version 0 is off by `radius` of itself, read between two updates.
        count = math.ceil(point["radius"] / (step * curvature)) + 4
        settings = {"updates": count, "replicates": 1, "sampling": "enumerate", "diagnostics": ["bias"]}
        task = sim.tasks.quadratic((curvature,), noise=0.0, start=1.0)
        spec = lab.descent(task, sim.schedules.frozen(), sim.updates.sgd(step), **settings)
        bias = lab.run(spec, seed, plant)["bias"][:, 0] / curvature
        drift = float(np.interp(point["radius"], bias, np.arange(count)))
        return {"drift": Estimate(step * drift, tolerance=1e-9), "delay": delay}

    defects = {
        "off-by-one version": lambda: (lab.off_by_one_version, _FAR),
        "momentum inserted": lambda: (lab.momentum_inserted, _FAR),
    }
