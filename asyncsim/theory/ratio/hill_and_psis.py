r"""Hill's estimate from the m largest of exactly Pareto weights is Gamma distributed: its relative error is 1/sqrt(m).

With tail shape k (index 1/k) and the (m+1)-th largest as threshold, the estimate of k has the law Gamma(m, k/m): mean k
("shape"), mean square k^2 (1 + 1/m) ("square"), and P(estimate <= k (1 + z/sqrt(m))) from the incomplete Gamma function
("below[i]", z the i-th score). Its reciprocal, the estimated index, has mean (1/k) m/(m - 1) ("index"). Here m =
ceil(min(N/5, 3 sqrt(N))) of N samples. At N = 512 m is 68, and k = 0.5 is read to 12 percent: one batch cannot tell
0.5 from 0.6. Derivation: spacings of exponential order statistics are independent (Renyi). Domain: exact Pareto
weights, as of `ratio/exponential-pareto` with k one minus the temperature; N >= 25, so that the
index has a fourth moment. Second route: moments and law of a
sum of m exponentials by quadrature of their Laplace transform's inverse, a power of x. Source: Hill 1975; arXiv
1507.02646 for m. PSIS fits a generalized Pareto law to the same weights (metric `pareto_k`). That estimate has no known
law at finite m: its standard deviation nears (1 + k)/sqrt(m), and is off by up to 5 percent at N = 256. So it is tested
beside its formula, and no part of this claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import gammainc

from asyncsim.base import checks
from asyncsim.theory._declared import Count, Declared, Real, Vector
from asyncsim.theory._lengths import panels
from asyncsim.theory._stated import indexed, stated


class _Setting(Declared):
    temperature = Real(0.02, 0.98, typical=(0.05, 0.95), example=0.5, doc="1 - k, k the shape of the tail")
    samples = Count(25, 1 << 20, typical=(25, 2000), example=40, doc="samples of a batch")
    scores = Vector(-3.0, typical=(-1.0, 2.0), sizes=(2, 2), example=(0.0, 1.0), doc="places of the law, in its sd")

    def joint(self) -> None:
        """Places above 0."""
        least = 1.0 + self.scores.min() / math.sqrt(self.largest)
        checks.require(least > 0.0, "scores", self.scores.tolist(), "above -sqrt(m)", "raise the least")

    @property
    def largest(self) -> int:
        """m, how many of the samples are used."""
        return math.ceil(min(self.samples / 5.0, 3.0 * math.sqrt(self.samples)))


def _law(s: _Setting, m: int, scale: float) -> dict[str, float]:
    """Quantities where the estimate is Gamma(m, scale), read at the right places."""
    k, root = 1.0 - s.temperature, math.sqrt(s.largest)
    places = k * (1.0 + s.scores / root)
    return {"shape": m * scale, "square": m * (m + 1.0) * scale**2, "index": 1.0 / ((m - 1.0) * scale)} | indexed(
        "below", gammainc(m, places / scale)
    )


def _predict(s: _Setting) -> dict[str, float]:
    m = s.largest
    return _law(s, m, (1.0 - s.temperature) / m)


def _cross_check(s: _Setting) -> dict[str, float]:
    k, m = 1.0 - s.temperature, s.largest
    root = math.sqrt(m)
    peak = m - 1.0

    def density(x: np.ndarray) -> np.ndarray:
        """Of a sum of m standard exponentials, up to its value at the peak."""
        return np.exp((m - 1.0) * np.log(x / peak) - (x - peak))

    def integral(function: Callable[[np.ndarray], np.ndarray], high: float) -> float:
        low = max(1e-12, peak - 14.0 * root - 5.0)
        if high <= low:
            return 0.0
        x, weight = panels(np.linspace(low, high, 129))
        return float(weight @ (density(x) * function(x)))

    far = m + 14.0 * root + 60.0
    total = integral(np.ones_like, far)
    shape, square, index = (
        integral(function, far) / total
        for function in (lambda x: k * x / m, lambda x: (k * x / m) ** 2, lambda x: m / (k * x))
    )
    below = [integral(np.ones_like, m * (1.0 + z / root)) / total for z in s.scores]
    return {"shape": shape, "square": square, "index": index} | indexed("below", below)


claim = stated(
    id="ratio/hill-and-psis",
    statement="Hill's estimate of a Pareto shape `k` from the `m` largest weights is `Gamma(m, k/m)`, so off by "
    "`k/sqrt(m)`",
    kind="distribution",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="Hill 1975; arXiv 1507.02646 for m",
    formula_defects={
        "threshold counted among the largest": lambda s: _law(s, s.largest, (1.0 - s.temperature) / (s.largest + 1)),
        "index for shape": lambda s: _predict(s) | {"shape": 1.0 / (1.0 - s.temperature)},
        "mean of the index without m/(m - 1)": lambda s: _predict(s) | {"index": 1.0 / (1.0 - s.temperature)},
        "variance of the generalized Pareto fit": lambda s: (
            _predict(s) | {"square": (1.0 - s.temperature) ** 2 + (2.0 - s.temperature) ** 2 / s.largest}
        ),
    },
)
