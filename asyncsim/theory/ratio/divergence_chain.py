r"""Divergences of a policy pair bound one another: KL(pi || mu) <= ln(1 + chi^2) <= chi^2, and chi^2 <= c(R) M2.

M2 = E_mu (ln w)^2 and c(R) = ((R - 1)/ln R)^2 where 1/R <= w <= R. The quantities are the largest values over policy
pairs: "kl" of KL(pi || mu) / ln(1 + chi^2), "renyi" of ln(1 + chi^2) / chi^2, "second" of chi^2 / M2. All are attained
in a limit: kl where pi has one arm left, renyi where the policies meet, second where a rare arm has the weight R and
the others nearly 1. KL(mu || pi) obeys no such bound. Derivation: Jensen for ln E_pi w; ln(1 + x) <= x; (w - 1)/ln w =
int_0^1 w^u du grows with w. Domain: ratios of mean 1, R up to 1000. Second route: ratios in the limits themselves, and
that integral by quadrature at every weight of a grid. Source: derived; arXiv 2510.01161 has R^2 for c(R).
"""

from __future__ import annotations

import math

import numpy as np

from asyncsim.theory._declared import Declared, Real
from asyncsim.theory._stated import stated


class _Setting(Declared):
    largest = Real(1.0001, 1000.0, typical=(1.1, 50.0), example=3.0, doc="R, the largest ratio and one over the least")


def _bounds(s: _Setting, kl: float = 1.0, renyi: float = 1.0, second: float = 1.0) -> dict[str, float]:
    constant = ((s.largest - 1.0) / math.log(s.largest)) ** 2
    return {"kl": kl, "renyi": renyi, "second": second * constant}


def _cross_check(s: _Setting) -> dict[str, float]:
    shares = np.array([0.05, 0.3, 0.9])
    # With one arm left KL(pi || mu) is -ln of its behavior probability, and E w^2 is one over that.
    kl = (-np.log(shares) / np.log(1.0 / shares)).max()
    meeting = np.array([1e-13, 1e-14])
    renyi = (np.log1p(meeting) / meeting).max()
    u, weight = np.polynomial.legendre.leggauss(60)
    log_w = np.linspace(-1.0, 1.0, 201) * math.log(s.largest)
    means = np.exp(np.outer(log_w, (u + 1.0) / 2.0)) @ weight / 2.0
    return {"kl": float(kl), "renyi": float(renyi), "second": float(means.max() ** 2)}


claim = stated(
    id="ratio/divergence-chain",
    statement="`KL(pi || mu) <= ln(1 + chi^2) <= chi^2 <= ((R - 1)/ln R)^2 E (ln w)^2` for ratios in `[1/R, R]`",
    kind="bound",
    status="exact",
    point=_Setting,
    predict=_bounds,
    cross_check=_cross_check,
    reference="derived; arXiv 2510.01161 with R^2",
    formula_defects={
        "half, as between normal policies": lambda s: _bounds(s, kl=0.5),
        "second order, KL for chi^2": lambda s: _bounds(s, renyi=0.5),
        "square forgotten": lambda s: _bounds(s, second=math.log(s.largest) / (s.largest - 1.0)),
        "geometric mean of the ratios, R": lambda s: {"kl": 1.0, "renyi": 1.0, "second": s.largest},
    },
    terms={
        "KL": lambda s, factor: _bounds(s, kl=factor),
        "Renyi's divergence": lambda s, factor: _bounds(s, renyi=factor),
        "second moment of the log ratio": lambda s, factor: _bounds(s, second=factor),
    },
)
