r"""A learning rate that is scaled at random, without looking at the gradient, acts by its mean and its mean square.

x_{t+1} = (1 - a (mean + spread u_t)) x_t, a = step * curvature, u_t uniform in [-1, 1) and independent of all else.
So E x_t = (1 - a mean)^t and E x_t^2 = ((1 - a mean)^2 + a^2 spread^2 / 3)^t for x_0 = 1: a mean factor of the steps,
and a noise that grows with their size. It is the control of an adaptive rule: the same two moments, no tie to the
batch. Derivation: products of independent factors. Domain: fresh linear gradients without noise. Second route: the
moments as sums over binomial powers of u, E u^k = 1/(k + 1) for even k. Source: derived.
"""

from __future__ import annotations

from math import comb

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._declared import Count, Declared, Positive, Real
from asyncsim.theory._stated import indexed, stated


class _Setting(Declared):
    mean = Positive(typical=(0.3, 1.0), example=0.7, doc="mean scale")
    spread = Real(0.0, typical=(0.05, 0.3), example=0.6, doc="half the width of the scales")
    step = Positive(typical=(0.05, 0.5), example=0.6, unit="parameter per gradient", doc="learning rate")
    curvature = Positive(typical=(0.5, 1.5), example=1.0, doc="curvature of the loss")
    updates = Count(1, 64, typical=(1, 8), example=6, unit="updates", doc="length of the run")

    def joint(self) -> None:
        """Scales above 0, and an iterate that shrinks but not to nothing."""
        positive = self.spread <= self.mean
        checks.require(positive, "spread", self.spread, f"at most mean = {self.mean}", "a scale may not be negative")
        a = self.step * self.curvature
        inside = 1e-3 < 1.0 - a * (self.mean + self.spread) < 1.0
        checks.require(inside, "step", self.step, "such that every factor is in (0.001, 1)", "lower it")

    @property
    def share(self) -> float:
        """a, which every scale multiplies."""
        return self.step * self.curvature


def _moments(s: _Setting, factor: float, square: float) -> dict[str, float]:
    times = np.arange(1, s.updates + 1)
    return indexed("x", factor**times) | indexed("square", square**times)


def _predict(s: _Setting, third: float = 3.0) -> dict[str, float]:
    factor = 1.0 - s.share * s.mean
    return _moments(s, factor, factor**2 + (s.share * s.spread) ** 2 / third)


def _cross_check(s: _Setting) -> dict[str, float]:
    """E (c + d u)^(p t) = E (c + d u)^p to the power t, by powers of u."""
    c, d = 1.0 - s.share * s.mean, -s.share * s.spread
    first, second = (sum(comb(p, k) * c ** (p - k) * d**k / (k + 1) for k in range(0, p + 1, 2)) for p in (1, 2))
    return _moments(s, first, second)


claim = stated(
    id="convergence/random-scale",
    statement="learning rates scaled by `m + w u`, `u` uniform in `[-1, 1]`, leave `E x_t = (1 - a m)^t` and "
    "`E x_t^2 = ((1 - a m)^2 + a^2 w^2 / 3)^t`",
    kind="expectation",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: products of independent factors",
    formula_defects={
        "spread taken for the deviation": lambda s: _predict(s, third=1.0),
        "no spread": lambda s: _predict(s.but(spread=0.0)),
        "no mean scale": lambda s: _predict(s.but(mean=1.0, spread=0.1)),
        "one scale for all updates": lambda s: (
            indexed("x", (1.0 - s.share * s.mean) ** np.arange(1, s.updates + 1)) | indexed("square", _constant(s))
        ),
    },
)


def _constant(s: _Setting) -> np.ndarray:
    """E x_t^2 of a scale drawn once, by Gauss's quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(80)
    factors = 1.0 - s.share * (s.mean + s.spread * nodes)
    return np.array([weights @ factors ** (2 * t) / 2.0 for t in range(1, s.updates + 1)])
