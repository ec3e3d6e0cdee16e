r"""The effective sample size of the stale Gaussian bandit: ESS/N near (1 + 2 v)^{-1/2}, v the displacement's variance.

Given that the mean moved by Delta in the tau updates since the data was drawn, ESS/N of many samples is e^{-Delta^2 /
width^2}. The stationary variance of Delta is exact, v = 2 (gamma_0 - gamma_tau)/width^2 by `staleness/gaussian-bandit`
and twice the mean KL. For a normal Delta the mean of ESS/N is (1 + 2 v)^{-1/2}. Conditional: Delta is normal in the
limit of large groups alone. At N = 8 its kurtosis is above 5, and the ESS is read 1 percent high at v = 0.1; at N = 32
it is right to 0.2 percent. Domain: that of the bandit, tau >= 1. Second route: moments of neighbors from their linear
system, and quadrature over Delta. Source: derived.
"""

from __future__ import annotations

import math

import numpy as np

from asyncsim.theory._declared import Staleness
from asyncsim.theory._delay import covariance_share
from asyncsim.theory._gaussian_bandit import GaussianBandit, mean_square, second_moments
from asyncsim.theory._lengths import panels
from asyncsim.theory._stated import stated


class _Setting(GaussianBandit):
    staleness = Staleness(1, 24, typical=(1, 8), example=4)


def _variance(s: _Setting, lag: int) -> float:
    """Of the displacement over so many updates, in squared widths."""
    share = covariance_share(s.step * s.curvature, s.staleness, lag)
    return 2.0 * mean_square(s) * (1.0 - share) / s.width**2


def _size(variance: float) -> dict[str, float]:
    return {"ess": 1.0 / math.sqrt(1.0 + 2.0 * variance)}


def _cross_check(s: _Setting) -> dict[str, float]:
    law, _ = second_moments(s)
    spread = math.sqrt(float(law[0, 0] + law[-1, -1] - 2.0 * law[0, -1])) / s.width
    z, weight = panels(np.linspace(-9.0, 9.0, 65))
    density = np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)
    return {"ess": float(weight @ (density * np.exp(-((spread * z) ** 2))))}


claim = stated(
    id="ess/stale-gaussian-bandit",
    statement="mean `ESS/N = (1 + 2 v)^(-1/2)` where a stale Gaussian bandit moves by a variance of `v` squared widths",
    kind="expectation",
    status="conditional",
    point=_Setting,
    predict=lambda s: _size(_variance(s, s.staleness)),
    cross_check=_cross_check,
    reference="derived",
    formula_defects={
        "both ends taken as independent": lambda s: _size(2.0 * mean_square(s) / s.width**2),
        "KL for the variance": lambda s: _size(0.5 * _variance(s, s.staleness)),
        "displacement of one update": lambda s: _size(_variance(s, 1)),
    },
)
