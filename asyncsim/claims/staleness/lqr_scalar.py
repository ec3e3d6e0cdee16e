r"""Stale policy gradients of scalar linear-quadratic control: stable to a_c(tau) over the curvature at the best gain.

stale policy gradients of scalar linear-quadratic control are stable iff `step < a_c(tau)/(2 (r + b^2 P) sum_t E x_t^2)`
near the best gain

x' = a x + b u, u ~ N(-K x, width^2), cost q x^2 + r u^2 a step and P x_T^2 at the end, P = q + a^2 P r/(r + b^2 P).
Completing squares with the cost to go P x^2 gives, for any K and horizon T,
    J(K*) - J(K) = (r + b^2 P) (K - K*)^2 sum_{t < T} m_t(K),  m_{t+1} = (a - b K)^2 m_t + (b width)^2, m_0 = x_0^2.
So the curvature at K* is 2 (r + b^2 P) sum_t m_t(K*), and with gradients tau updates old the largest stable learning
rate is a_c(tau) over it. Where x_0^2 is stationary it is T times the textbook 2 (r + b^2 P) E x^2 of the average cost,
E x^2 = (b width)^2/(1 - (a - b K*)^2). The cost itself is no parabola: the limit is local. Domain: scores taken where
the data was drawn. Second route: J as a polynomial in K, its stationary point and second derivative; root of the
companion matrix.
"""

import math

import numpy as np
from numpy.polynomial import Polynomial

import asyncsim as sim
from asyncsim.claims import lab
from asyncsim.claims._claim import Claim, Estimate, Integer, Plant, Point, Positive, Real, Staleness, replaced, within
from asyncsim.claims._delay import critical
from asyncsim.claims._recursion import marginal_step

_BASE = {"drift": 0.9, "control": 0.5, "state_cost": 1.0, "action_cost": 0.5, "begins": 1.0, "width": 0.6, "horizon": 2}
_UNSTABLE = {**_BASE, "drift": 1.4, "control": 1.0, "begins": 0.5, "width": 1.0}


class LqrScalar(Claim):
    kind, source, through = "threshold", "derived from the gradient in arXiv 1801.05039", "loop"

    staleness = Staleness(0, 64, typical=(0, 12), example=4)
    drift = Real(typical=(-1.5, 1.5), example=0.9, unit="per step", doc="factor of the state, a")
    control = Real(typical=(0.2, 2.0), example=0.5, unit="state per action", doc="factor of the action, b")
    state_cost = Positive(typical=(0.1, 3.0), example=1.0, unit="cost per squared state", doc="cost of the state, q")
    action_cost = Positive(typical=(0.1, 3.0), example=0.5, unit="cost per squared action", doc="cost of the action, r")
    begins = Real(typical=(0.5, 2.0), example=1.0, unit="state", doc="first state")
    width = Positive(typical=(0.1, 1.0), example=0.6, unit="action", doc="exploration of the policy")
    horizon = Integer(1, 12, typical=(1, 4), example=3, unit="steps", doc="steps of an episode")

    def joint(self) -> None:
        self.require(self.control != 0.0, "control", "not 0", "without it nothing is controlled")
        moved = self.horizon > 1 or self.begins != 0.0
        self.require(moved, "begins", "not 0 for a single step", "at 0 no gain matters")
        # P, the cost to go of a squared state; r + b^2 P; a - b K*; and E x_t^2 at the best gain, `[T]`.
        linear = self.action_cost * (1.0 - self.drift**2) - self.state_cost * self.control**2
        root = math.hypot(linear, 2.0 * self.control * math.sqrt(self.state_cost * self.action_cost))
        price = (root - linear) / (2.0 * self.control**2)
        self.weight = self.action_cost + self.control**2 * price
        closed = self.drift - self.control * self.drift * self.control * price / self.weight
        second = [self.begins**2]
        for _ in range(self.horizon - 1):
            second.append(closed**2 * second[-1] + (self.control * self.width) ** 2)
        self.moments = np.array(second)

    def predict(s) -> dict[str, float]:
        return {"step": critical(s.staleness) / (2.0 * s.weight * float(s.moments.sum()))}

    def check(s) -> dict[str, float]:
        price = s.state_cost
        for _ in range(4000):
            price = s.state_cost + s.drift**2 * price * s.action_cost / (s.action_cost + s.control**2 * price)
        best = s.drift * s.control * price / (s.action_cost + s.control**2 * price)
        # Around the best gain: powers of the gain itself cancel.
        gain = Polynomial([best, 1.0])
        second, cost = Polynomial([s.begins**2]), Polynomial([0.0])
        for _ in range(s.horizon):
            cost = cost + (s.state_cost + s.action_cost * gain**2) * second
            second = (s.drift - s.control * gain) ** 2 * second + (s.control * s.width) ** 2
        slope = (cost + price * second).deriv()
        off = -slope(0.0) / slope.deriv()(0.0)
        return {"step": marginal_step(np.array([[-slope.deriv()(off)]]), s.staleness)}

    wrong = {"curvature without the states": lambda s: {"step": critical(s.staleness) / (2.0 * s.weight * s.horizon)}}

    points = ({"staleness": 0, **_BASE}, {"staleness": 1, **_UNSTABLE}, {"staleness": 4, **_BASE, "horizon": 1})
    more = ({"staleness": 8, **_BASE}, {"staleness": 4, **_UNSTABLE})
    reach = staticmethod(within(horizon=2, staleness=16))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        tau = point["staleness"]
        names = ("drift", "control", "state_cost", "action_cost", "begins", "width", "horizon")
        task = sim.tasks.lqr(**{name: point[name] for name in names})
        method = sim.methods.reinforce(sim.advantages.returns_to_go(), at="behavior")

        def build(steps: tuple[float, ...], count: int) -> lab.Spec:
            start = (task.best_gain + 1e-7,)
            return plant(lab.ascent(task, lab.fixed(tau), method, steps, count, replicates=len(steps), initial=start))

        # A wide bracket around the inverse of the curvature, which has the squares of the states as well.
        squares = task.begins**2 + (task.control * task.width) ** 2
        near = 1.0 / (task.action_cost + task.control**2 * task.closing) / squares
        return {"step": lab.marginal_step(build, 0.01 * near, 40.0 * near, tau + 2, seed, noise=1e-6)}

    defects = {
        "off-by-one version": lambda: (lab.off_by_one_version, {"staleness": 4, **_BASE, "horizon": 1}),
        "whole returns without a baseline, scores of the trainer": lambda: (
            replaced(method=sim.methods.reinforce(sim.advantages.none(), at="current")),
            {"staleness": 1, **_UNSTABLE},
        ),
    }
