r"""Maximum gradient and Hessian of a discounted process in its logits: sqrt(S/8) and S/(3 sqrt 3) times a range.

with `S` states of choice the discounted return has a gradient of at most `sqrt(S/8)`, and a Hessian of at most `S/(3
sqrt 3)`, times the range of returns, `<= (max r - min r)/(1 - gamma)`

S counts states with a choice, in which actions differ; the range is that of the returns J_f of deterministic policies,
at most (max r - min r)/(1 - gamma). Derivation: J = sum_f W_f J_f, and W is a softmax over deterministic policies f
with logits x_f = sum_s theta(s, f_s) + const. Along a unit vector dJ = Cov_W(J_f, x_f) and d^2 J = Cov_W(J_f, (x_f -
E_W x_f)^2), where x_f spans at most w = sqrt(2 S). So |dJ| <= range w/4 (Grüss) and |d^2 J| <= range w^2/(6 sqrt 3).
Conditional: that two values of x_f allow the largest |d^2 J| is a numerical optimum, not a proof.

Tight at S = 1 for every discount. At S = 2 a search finds 0.81 of the Hessian at discount 0.99 and 0.98 at 0.9999: two
states, actions that lead to one or the other. The published 8/(1 - gamma)^3 for rewards in [0, 1] is larger by the
factor 41.6/(S (1 - gamma)^2). Domain: endless episodes. Second route: maximization over two-valued laws, best and worst
policy by policy iteration.
"""

import math

import numpy as np
from scipy.optimize import minimize_scalar

from asyncsim.claims._claim import Claim, Estimate, Plant, Point, lab, multiplied
from asyncsim.claims._mdp import Process, arms, logits
from asyncsim.claims._points import STAY, process

_STEP = 1e-4
"""Half the distance of the policies that are compared; what it leaves out is about its square."""
_FLAT, _STEEP = 0.0, float(np.log(2.0 + np.sqrt(3.0)))
"""Difference of two arms' logits at which a softmax has its largest slope, and its largest curvature."""
_BANDIT = process((((1.0,), (1.0,)),), ((0.2, 0.7),), 0.5, logits=((_STEEP, 0.0),))
_TWO = process(STAY, ((1.0, 0.0), (1.0, 0.0)), 0.99, logits=((3.5145, 0.0), (-2.1537, 0.0)))
_LEVEL = {**_TWO, "logits": ((2.6698, 0.0), (-2.7507, 0.0))}


def _slipping(discount: float, place: float) -> Point:
    """Process in which staying pays 1 and leaving ends the episode; gradients are large where leaving is rare."""
    away = float(-np.log(1.0 - discount)) + place
    return process((((1.0,), (0.0,)),), ((1.0, 0.0),), discount, logits=((away, 0.0),))


class MdpConstants(Process, Claim):
    kind, status, source = "bound", "conditional", "derived; arXiv 2005.06392 for 8/(1 - gamma)^3"
    through, effect = "oracle", 0.01

    logits = logits("policy", (0.4, -0.3), (-0.8, 0.5))

    def joint(self) -> None:
        # States in which actions differ, and the range of the returns of deterministic policies.
        same_pay = np.ptp(self.rewards, axis=1) == 0.0
        same_way = (np.ptp(self.transition, axis=1) == 0.0).all(axis=1)
        self.choices = int((~(same_pay & same_way)).sum())
        self.spread = float(np.ptp(arms(self)[2]))

    def _bounds(s, spread: float, states: float) -> dict[str, float]:
        return {"gradient": math.sqrt(states / 8.0) * spread, "hessian": states * spread / (3.0 * math.sqrt(3.0))}

    def _iterated(s, sign: float) -> float:
        """Maximum return over policies, or minimum for a negative sign, by policy iteration."""
        states = np.arange(len(s.rewards))
        chosen = np.zeros(len(states), dtype=np.int64)
        while True:
            led = np.eye(len(states)) - s.discount * s.transition[states, chosen]
            value = np.linalg.solve(led, s.rewards[states, chosen])
            ahead = sign * (s.rewards + s.discount * s.transition @ value)
            if (ahead.max(axis=1) <= ahead[states, chosen] + 1e-13).all():
                return float(value[0])
            chosen = ahead.argmax(axis=1)

    def predict(s) -> dict[str, float]:
        return s._bounds(s.spread, s.choices)

    def check(s) -> dict[str, float]:
        width = math.sqrt(2.0 * s.choices)

        def largest(power: int) -> float:
            """Maximum of Cov(1[x = w], (x - E x)^power) over distributions on 0 and w."""

            def covariance(p: float) -> float:
                return p * (1.0 - p) * abs((1.0 - p) ** power - (-p) ** power) * width**power

            how = {"bounds": (0.0, 0.5), "method": "bounded", "options": {"xatol": 1e-12}}
            return max(-float(minimize_scalar(lambda p: -covariance(p), **how).fun), covariance(0.5))

        spread = s._iterated(1.0) - s._iterated(-1.0)
        return {"gradient": largest(1) * spread, "hessian": largest(2) * spread}

    wrong = {"states forgotten": lambda s: s._bounds(s.spread, 1.0)}

    terms = {"gradient": multiplied("gradient"), "Hessian": multiplied("hessian")}

    points = (_BANDIT, _slipping(0.9, _FLAT), _slipping(0.9, _STEEP), _TWO, _LEVEL)
    more = (_slipping(0.99, _STEEP), _slipping(0.99, _FLAT), {**_TWO, "discount": 0.9})

    reach = staticmethod(lambda point: lab.mdp.why_long(point))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        logits = np.ravel(point["logits"])
        task = lab.mdp.task_of(point)
        spec = lab.mdp.spec_of(task, plant)
        shifts = _STEP * np.concatenate([np.zeros((1, logits.size)), np.eye(logits.size), -np.eye(logits.size)])
        here, *near = lab.mdp.exact(spec, logits + shifts)[1]
        after, before = np.split(np.array(near), 2)
        slopes = (after - before) / (2.0 * _STEP)
        size = float(np.abs(np.linalg.eigvalsh(0.5 * (slopes + slopes.T))).max())
        left_out = lab.mdp.left_out(task) * task.horizon
        gradient = Estimate(float(np.linalg.norm(here)), tolerance=left_out)
        return {"gradient": gradient, "hessian": Estimate(size, tolerance=left_out + 10.0 * _STEP**2 * size)}

    defects = {"temperature forgotten in the derivative": lambda: lab.with_policy(lab.Sharpened)}
