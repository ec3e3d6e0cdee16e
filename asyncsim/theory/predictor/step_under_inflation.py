r"""Which power of rho should scale the step where the variance of gradients grows by 1/rho? It depends on the aim.

Batches shrink from N samples to N rho, v = noise^2/N grows to v/rho. "one_step": the step of the largest expected
descent is signal^2/(curvature (signal^2 + v)), its exponent the slope of its log over log rho: 0 without noise, 1 where
noise dominates. "floor_sgd", "floor_adam": with E x^2 ~ step^alpha rho^-beta a step times rho^(beta/alpha) keeps the
floor. Descent has E x^2 = (v/curvature^2) b/(2 - b), b = step * curvature: exponent 1 for small steps. Adam without a
first moment divides by the rms of gradients, E g^2 = 2 v/(2 - b), so that b = step * curvature/sqrt(2 v/(2 - b)):
exponent 1/2. Slopes are those between `step` and 4 `step`, and between N and N rho. Domain: quadratic, white noise,
fresh gradients; v of Adam known, beta_2 near 1. Second route: root finding, and moments carried to their fixed point.
Source: derived; the square root 2602.17616.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq

from asyncsim.base import checks
from asyncsim.theory._declared import Count, Declared, Positive, Real
from asyncsim.theory._stated import stated

_WIDER = 4.0


class _Setting(Declared):
    noise = Positive(typical=(0.5, 3.0), example=2.0, unit="gradient", doc="noise of one sample's gradient")
    samples = Count(1, 4096, typical=(1, 8), example=1, doc="samples of a shrunken batch")
    fewer = Count(2, 64, typical=(2, 8), example=4, doc="factor by which batches shrink, 1/rho")
    signal = Positive(typical=(0.5, 3.0), example=1.0, unit="gradient", doc="gradient at the start")
    step = Real(1e-4, 0.4, typical=(0.01, 0.3), example=0.1, unit="parameter per gradient", doc="learning rate")

    def joint(self) -> None:
        """Adam's steps are small beside the noise."""
        bound = f"at least {4.0 * self.step:g} * sqrt(samples * fewer), four times the noise that a step makes up for"
        enough = self.noise >= 4.0 * self.step * math.sqrt(self.samples * self.fewer)
        checks.require(enough, "noise", self.noise, bound, "lower the step")

    @property
    def variances(self) -> tuple[float, float]:
        """v of whole batches and of shrunken ones."""
        small = self.noise**2 / self.samples
        return small / self.fewer, small


def _one_step(s: _Setting) -> float:
    whole, small = (1.0 / (s.signal**2 + v) for v in s.variances)
    return math.log(whole / small) / math.log(s.fewer)


def _floor(v: float, b: float) -> float:
    return v * b / (2.0 - b)


def _normalized(v: float, step: float) -> float:
    """b = step/sqrt(2 v/(2 - b)): a quadratic in b."""
    share = step**2 / (2.0 * v)
    return (-share + math.sqrt(share**2 + 8.0 * share)) / 2.0


def _exponent(s: _Setting, floor: Callable[[float, float], float]) -> float:
    """beta/alpha of a floor as a function of variance and step."""
    whole, small = s.variances
    base, wider, inflated = floor(whole, s.step), floor(whole, _WIDER * s.step), floor(small, s.step)
    return math.log(inflated / base) / math.log(s.fewer) / (math.log(wider / base) / math.log(_WIDER))


def _predict(s: _Setting) -> dict[str, float]:
    return {
        "one_step": _one_step(s),
        "floor_sgd": _exponent(s, _floor),
        "floor_adam": _exponent(s, lambda v, step: _floor(v, _normalized(v, step))),
    }


def _carried(v: float, b: float) -> float:
    """E x^2 = (1 - b)^2 E x^2 + b^2 v, summed as a series by doubling."""
    total, factor = b**2 * v, (1.0 - b) ** 2
    for _ in range(40):
        total, factor = total * (1.0 + factor), factor**2
    return total


def _descent(s: _Setting, v: float) -> float:
    """The step at which the slope of the expected loss vanishes."""
    return float(brentq(lambda step: step * (s.signal**2 + v) - s.signal**2, 0.0, 2.0, xtol=1e-15, rtol=1e-14))


def _cross_check(s: _Setting) -> dict[str, float]:
    def adam(v: float, step: float) -> float:
        def off(b: float) -> float:
            return b * math.sqrt(v + _carried(v, b)) - step

        return _carried(v, float(brentq(off, 1e-9, 1.9, xtol=1e-15, rtol=1e-14)))

    whole, small = (_descent(s, v) for v in s.variances)
    one = math.log(whole / small) / math.log(s.fewer)
    return {"one_step": one, "floor_sgd": _exponent(s, _carried), "floor_adam": _exponent(s, adam)}


claim = stated(
    id="predictor/step-under-inflation",
    statement="where variance grows by `1/rho` a noise floor is kept by a step times `rho` under descent and "
    "`sqrt(rho)` under Adam; largest descent takes `signal^2/(signal^2 + v/rho)`",
    kind="exponent",
    status="asymptotic",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived; square root arXiv 2602.17616",
    formula_defects={
        "square root for all aims": lambda s: dict.fromkeys(_predict(s), 0.5),
        "Adam taken as descent": lambda s: _predict(s) | {"floor_adam": _exponent(s, _floor)},
        "linear for one step whatever the noise": lambda s: _predict(s) | {"one_step": 1.0},
    },
)
