r"""Gradient descent with a biased gradient: the mean squared gradient is bounded by the mean squared bias.

(1/T) sum_t E|grad f(x_t)|^2 <= 2 Delta/(step T) + (1/T) sum_t E|b_t|^2 + step L noise^2 for step <= 1/L, with b_t =
E[g_t | past] - grad f(x_t). Derivation: smoothness and <u, u + b> = (|u|^2 + |u + b|^2 - |b|^2)/2 for u = grad f(x_t);
the part (1 - step L) |u + b|^2 is left out, and f(x_T) set to its least value. Evaluated for f = L x^2/2 from x =
start, where g_t is read `staleness` updates ago: b_t = L (x_{t-tau} - x_t), of which the bound needs no condition on
the staleness. Attained at step 1/L where x_T = 0; at staleness 1 the bias then carries nearly all of it. Domain: the
step condition, noise of variance at most noise^2. Second route: the impulse response of the recursion gives E|b_t|^2
update by update, against moments of a covariance recursion. Source: elementary.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._declared import Declared, Draw, Integer, Positive, Real, Staleness
from asyncsim.theory._stated import stated


class _Setting(Declared):
    curvature = Positive(
        typical=(0.1, 5.0), example=2.0, unit="gradient per parameter", doc="L, the largest curvature of the loss"
    )
    staleness = Staleness(0, 64, typical=(0, 6), example=1)
    step = Positive(example=0.4, unit="parameter per gradient", doc="learning rate")
    noise = Real(0.0, typical=(0.1, 2.0), example=1.0, unit="gradient", doc="noise of one gradient")
    start = Real(typical=(-2.0, 2.0), example=1.0, unit="parameter", doc="distance from the optimum at first")
    updates = Integer(
        1, 5000, typical=(1, 60), example=8, unit="updates", doc="length of the run", remedy="count the updates"
    )

    def joint(self) -> None:
        """Refuses a path that never moves, and learning rates above 1 / L."""
        moves = self.noise > 0.0 or self.start != 0.0
        checks.require(moves, "noise", self.noise, "above 0 at start = 0", "without either nothing moves")
        # At the largest allowed step the product may round to just above 1.
        small = self.step * self.curvature <= 1.0 + 1e-12
        checks.require(small, "step", self.step, f"at most 1 / L = {1.0 / self.curvature:.6g}", "lower it")

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """A step up to 1 / L, and no more growth than digits allow."""
        point = {name: draw(p) for name, p in cls.parameters.items() if name != "step"}
        return point | {"step": draw(Real(typical=(0.02, 1.0))) / (point["curvature"] * (1 + point["staleness"] / 2))}


def _squares(s: _Setting) -> np.ndarray:
    """E|b_t|^2 `[T]`: squared mean, plus squared differences of the impulse response."""
    a, tau = s.step * s.curvature, s.staleness
    mean, impulse = np.full(s.updates + tau, s.start), np.zeros(s.updates + tau)
    # Entry tau + t is at update t. Noise of update -1 would be the impulse: it has moved x_0 by 1.
    impulse[tau] = 1.0
    for t in range(tau, s.updates + tau - 1):
        mean[t + 1] = mean[t] - a * mean[t - tau]
        impulse[t + 1] = impulse[t] - a * impulse[t - tau]
    gap, spread = (path[: s.updates] - path[tau:] for path in (mean, impulse))
    energy = np.concatenate([[0.0], np.cumsum(spread[:-1] ** 2)])
    squares: np.ndarray = s.curvature**2 * (gap**2 + (s.step * s.noise) ** 2 * energy)
    return squares


def _bound(
    s: _Setting, bias: float = 1.0, noise: float = 1.0, descent: float = 2.0, power: float = 1.0
) -> dict[str, float]:
    gap = s.curvature * s.start**2 / 2.0
    mean = float((_squares(s) ** power).mean())
    floor = noise * s.step * s.curvature * s.noise**2
    return {"bound": descent * gap / (s.step * s.updates) + bias * mean + floor}


def _cross_check(s: _Setting) -> dict[str, float]:
    """The budget update by update, on a covariance matrix of iterates, newest first."""
    size, a = s.staleness + 1, s.step * s.curvature
    companion = np.eye(size, k=-1)
    companion[0, 0] = 1.0
    companion[0, -1] -= a
    moments = np.full((size, size), s.start**2)
    terms, gradients = [s.curvature * s.start**2 / (s.step * s.updates)], []
    for _ in range(s.updates):
        gradients.append(s.curvature**2 * moments[0, 0] / s.updates)
        squared = moments[0, 0] + moments[-1, -1] - 2.0 * moments[0, -1]
        terms += [s.curvature**2 * squared / s.updates, a * s.noise**2 / s.updates]
        moments = companion @ moments @ companion.T
        moments[0, 0] += (s.step * s.noise) ** 2
    bound, exact = math.fsum(terms), math.fsum(gradients)
    # Rounding must not make a bound that is attained count as exceeded.
    return {"bound": bound if exact <= bound * (1.0 + 1e-12) else exact}


claim = stated(
    id="convergence/biased-gradient",
    statement="biased gradients at learning rate `a <= 1/L`: mean squared gradient "
    "`<= 2 Delta/(a T) + mean |b|^2 + a L s^2`",
    kind="bound",
    status="exact",
    point=_Setting,
    predict=_bound,
    cross_check=_cross_check,
    reference="elementary",
    formula_defects={
        "length of the bias instead of its square": lambda s: _bound(s, power=0.5),
        "bias forgotten": lambda s: _bound(s, bias=0.0),
        "noise term halved": lambda s: _bound(s, noise=0.5),
        "initial gap counted once": lambda s: _bound(s, descent=1.0),
    },
    terms={
        "initial gap": lambda s, factor: _bound(s, descent=2.0 * factor),
        "bias": lambda s, factor: _bound(s, bias=factor),
        "noise": lambda s, factor: _bound(s, noise=factor),
    },
)
