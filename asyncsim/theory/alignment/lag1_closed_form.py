r"""Variance amplification and autocorrelation of gradients in the delayed linear model.

E g^2 / sigma^2 = 1 + Q and, for 1 <= k <= tau, corr_k = Q gamma_k / (gamma_0 (1 + Q)) with Q = tan(omega/2) tan(pi/4
+ Theta/2), gamma_k/gamma_0 = (cos k omega + sin(Theta - k omega)) / (1 + sin Theta), omega = 2 arcsin(a/2), Theta =
(tau + 1/2) omega, a = step * curvature; tau = 0: corr_1 = -a/2. Derivation: for lags up to tau + 1 the autocovariance
solves gamma_{k+1} - gamma_k = -a gamma_{tau-k}, whose solutions are symmetric about Theta. Domain: one mode, white
noise, stationary, a below the boundary. Second route: Lyapunov equation of dimension tau + 1. Source: derived; the
continuous limit is in Kuechler and Mensch, Stochastics 40 (1992).
"""

from __future__ import annotations

from typing import NamedTuple

from asyncsim.records import Claim, Point
from asyncsim.theory import _points
from asyncsim.theory._delay import covariance_share, excess, stable_share
from asyncsim.theory._recursion import autocovariance


class _Setting(NamedTuple):
    staleness: int
    curvature: float
    noise: float
    step: float

    @property
    def share(self) -> float:
        return self.step * self.curvature

    @property
    def lags(self) -> range:
        return range(1, max(self.staleness, 1) + 1)


def _read(point: Point) -> _Setting:
    tau, curvature, noise, step = _points.select(point, "staleness curvature noise step")
    setting = _Setting(
        _points.staleness(tau),
        _points.positive("curvature", curvature),
        _points.positive("noise", noise),
        _points.positive("step", step),
    )
    stable_share(setting.step, setting.curvature, setting.staleness)
    return setting


def _quantities(s: _Setting, amplification: float, signal: float) -> dict[str, float]:
    """`signal` is the share of the gradient's energy that is not noise."""
    if s.staleness == 0:
        return {"amplification": amplification, "corr[1]": -s.share / 2.0}
    shares = {f"corr[{k}]": signal * covariance_share(s.share, s.staleness, k) for k in s.lags}
    return {"amplification": amplification} | shares


def _predict(point: Point) -> dict[str, float]:
    s = _read(point)
    q = excess(s.share, s.staleness)
    return _quantities(s, 1.0 + q, q / (1.0 + q))


def _cross_check(point: Point) -> dict[str, float]:
    s = _read(point)
    power, seen = autocovariance(s.curvature, s.step, s.noise, s.staleness, s.lags)
    values = {f"corr[{k}]": value / power for k, value in zip(s.lags, seen, strict=True)}
    return {"amplification": power / s.noise**2} | values


def _noise_dropped(point: Point) -> dict[str, float]:
    s = _read(point)
    return _quantities(s, excess(s.share, s.staleness), 1.0)


def _no_amplification(point: Point) -> dict[str, float]:
    s = _read(point)
    return _quantities(s, 1.0, excess(s.share, s.staleness))


claim = Claim(
    id="alignment/lag1-closed-form",
    statement="gradient energy and autocorrelation up to the staleness follow in closed form from step * curvature",
    kind="identity",
    status="exact",
    domain=_points.domain_of(_read),
    predict=_predict,
    cross_check=_cross_check,
    reference="derived; continuous limit Kuechler and Mensch 1992 (Stochastics 40)",
    formula_defects={
        "noise dropped from the denominator": _noise_dropped,
        "gradient energy taken as noise alone": _no_amplification,
    },
)
