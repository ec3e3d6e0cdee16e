r"""Largest gradient and Hessian of a discounted process in its logits: sqrt(S/8) and S/(3 sqrt 3) times a range.

S counts states with a choice, in which actions differ; the range is that of the returns J_f of deterministic policies,
at most (max r - min r)/(1 - gamma). Derivation: J = sum_f W_f J_f, and W is a softmax over deterministic policies f
with logits x_f = sum_s theta(s, f_s) + const. Along a unit vector dJ = Cov_W(J_f, x_f) and d^2 J = Cov_W(J_f, (x_f -
E_W x_f)^2), where x_f spans at most w = sqrt(2 S). So |dJ| <= range w/4 (Grüss) and |d^2 J| <= range w^2/(6 sqrt 3).
Conditional: that two values of x_f allow the largest |d^2 J| is a numerical optimum, not a proof.

Tight at S = 1 for every discount. At S = 2 a search finds 0.81 of the Hessian at discount 0.99 and 0.98 at 0.9999: two
states, actions that lead to one or the other. The published 8/(1 - gamma)^3 for rewards in [0, 1] is larger by the
factor 41.6/(S (1 - gamma)^2). Domain: endless episodes. Second route: maximization over two-valued laws, best and worst
policy by policy iteration. Source: derived; arXiv 2005.06392 for 8/(1 - gamma)^3.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar

from asyncsim.theory._mdp import Process, arms, logits
from asyncsim.theory._stated import stated


class _Setting(Process):
    logits = logits("policy", (0.4, -0.3), (-0.8, 0.5))

    @property
    def choices(self) -> int:
        """States in which actions differ."""
        same_pay = np.ptp(self.rewards, axis=1) == 0.0
        same_way = (np.ptp(self.transition, axis=1) == 0.0).all(axis=1)
        return int((~(same_pay & same_way)).sum())

    @property
    def spread(self) -> float:
        """Range of the returns of deterministic policies."""
        return float(np.ptp(arms(self).returns))


def _bounds(spread: float, states: float) -> dict[str, float]:
    return {"gradient": math.sqrt(states / 8.0) * spread, "hessian": states * spread / (3.0 * math.sqrt(3.0))}


def _iterated(s: _Setting, sign: float) -> float:
    """Largest return of a policy, or the smallest for a negative sign, by policy iteration."""
    states = np.arange(len(s.rewards))
    chosen = np.zeros(len(states), dtype=np.int64)
    while True:
        value = np.linalg.solve(
            np.eye(len(states)) - s.discount * s.transition[states, chosen], s.rewards[states, chosen]
        )
        ahead = sign * (s.rewards + s.discount * s.transition @ value)
        if (ahead.max(axis=1) <= ahead[states, chosen] + 1e-13).all():
            return float(value[0])
        chosen = ahead.argmax(axis=1)


def _cross_check(s: _Setting) -> dict[str, float]:
    width = math.sqrt(2.0 * s.choices)

    def largest(power: int) -> float:
        """Of Cov(1[x = w], (x - E x)^power) over laws on 0 and w."""

        def covariance(p: float) -> float:
            return p * (1.0 - p) * abs((1.0 - p) ** power - (-p) ** power) * width**power

        found = minimize_scalar(lambda p: -covariance(p), bounds=(0.0, 0.5), method="bounded", options={"xatol": 1e-12})
        return max(-float(found.fun), covariance(0.5))

    spread = _iterated(s, 1.0) - _iterated(s, -1.0)
    return {"gradient": largest(1) * spread, "hessian": largest(2) * spread}


def _scaled(quantity: str) -> Callable[[_Setting, float], dict[str, float]]:
    """The bounds with one of them times a factor."""

    def bounds(s: _Setting, factor: float) -> dict[str, float]:
        whole = _bounds(s.spread, s.choices)
        return whole | {quantity: factor * whole[quantity]}

    return bounds


claim = stated(
    id="convergence/mdp-constants",
    statement="with `S` states of choice the discounted return has a gradient of at most `sqrt(S/8)`, and a Hessian of "
    "at most `S/(3 sqrt 3)`, times the range of returns, `<= (max r - min r)/(1 - gamma)`",
    kind="bound",
    status="conditional",
    point=_Setting,
    predict=lambda s: _bounds(s.spread, s.choices),
    cross_check=_cross_check,
    terms={"gradient": _scaled("gradient"), "Hessian": _scaled("hessian")},
    reference="derived; arXiv 2005.06392 for 8/(1 - gamma)^3",
    formula_defects={
        "states forgotten": lambda s: _bounds(s.spread, 1.0),
        "square root of the number of states": lambda s: _bounds(s.spread, math.sqrt(s.choices)),
        "range of rewards in place of returns": lambda s: _bounds(s.range, s.choices),
        "normalized occupancy": lambda s: _bounds((1.0 - s.discount) * s.spread, s.choices),
    },
)
