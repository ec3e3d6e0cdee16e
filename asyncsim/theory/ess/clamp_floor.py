r"""Weights clamped to [1/C, C] cannot show an effective sample size below 4 / (C + 1/C)^2.

ESS/N = (E w)^2 / E w^2 >= 4 m M / (m + M)^2 for weights in [m, M]. It is attained with a fraction m/(m + M) of the
weights at M. Derivation: (w - m)(M - w) >= 0 gives E w^2 <= (m + M) E w - m M; then minimize over E w. Domain: clamp on
both sides, C >= 1 (a clamp from above alone has no floor). Second route: minimization over the fraction at C, with a
third weight free in between. As an upper bound it is one on N/ESS. Source: Kantorovich inequality.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from asyncsim.theory._declared import Declared, Real
from asyncsim.theory._stated import stated


class _Setting(Declared):
    clamp = Real(1.0, typical=(1.0, 50.0), example=2.0, doc="upper clamp C of [1/C, C]")


def _predict(s: _Setting) -> dict[str, float]:
    c = s.clamp
    return {"largest_inverse": (c + 1.0 / c) ** 2 / 4.0}


def _cross_check(s: _Setting) -> dict[str, float]:
    c = s.clamp

    def lowest_ess(share: float, middle: float) -> float:
        """Smallest ESS/N over the fraction at C when `share` of the weights sit at `middle`."""

        def size(log_odds: float) -> float:
            top = (1.0 - share) / (1.0 + np.exp(log_odds))
            bottom = 1.0 - share - top
            first = top * c + bottom / c + share * middle
            return float(first**2 / (top * c**2 + bottom / c**2 + share * middle**2))

        return float(
            minimize_scalar(size, bounds=(-1.0, 4.0 * np.log(c) + 1.0), method="bounded", options={"xatol": 1e-9}).fun
        )

    floor = min(lowest_ess(share, middle) for share in (0.0, 0.2, 0.6) for middle in np.geomspace(1.0 / c, c, 5))
    return {"largest_inverse": 1.0 / floor}


claim = stated(
    id="ess/clamp-floor",
    statement="weights clamped to `[1/C, C]` have `ESS/N >= 4/(C + 1/C)^2`, that is `N/ESS <= (C + 1/C)^2/4`",
    kind="bound",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="Kantorovich inequality",
    formula_defects={
        "square forgotten": lambda s: {"largest_inverse": (s.clamp + 1.0 / s.clamp) / 2.0},
        "weights taken to lie in [1, C]": lambda s: {"largest_inverse": (1.0 + s.clamp) ** 2 / (4.0 * s.clamp)},
    },
)
