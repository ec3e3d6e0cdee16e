r"""The ratio of a chain of bits has the moments of a product, and its batches the ESS that follows.

E_mu W^p = prod_t sum_a pi_t(a)^p mu_t(a)^{1-p}; a large batch has ESS/N = 1/E W^2. Derivation: bits are independent.
Domain: at most 4096 bits whose margins go evenly along the chain, E W^2 below 1e12. Second route: the chi-square of
every bit, (pi - mu)^2 / (mu (1 - mu)), and the Hellinger affinity of every bit, as products. Source: arXiv 1511.01437
for the product; Kong 1992 for the effective sample size.
"""

from __future__ import annotations

import math

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._chain import Chains, log_moment, probabilities
from asyncsim.theory._stated import stated


class _Setting(Chains):
    def joint(self) -> None:
        """No batch shows the moments of policies that are farther apart."""
        second = log_moment(self.pair, 2.0)
        bound = f"such that E W^2 = exp({second:.3g}) is below 1e12"
        margins = self.current_margins.tolist()
        checks.require(second < math.log(1e12), "current_margins", margins, bound, "move them closer")


def _quantities(log_second: float, half: float) -> dict[str, float]:
    second = math.exp(log_second)
    return {"ess": 1.0 / second, "second_moment": second, "affinity": half}


def _predict(s: _Setting) -> dict[str, float]:
    pair = s.pair
    return _quantities(log_moment(pair, 2.0), math.exp(log_moment(pair, 0.5)))


def _cross_check(s: _Setting) -> dict[str, float]:
    mu, pi = (probabilities(m) for m in s.pair)
    affinity = np.sqrt(pi * mu) + np.sqrt((1.0 - pi) * (1.0 - mu))
    return _quantities(float(np.log1p((pi - mu) ** 2 / (mu * (1.0 - mu))).sum()), float(affinity.prod()))


def _under_current(s: _Setting) -> dict[str, float]:
    pair = s.pair
    return _quantities(log_moment(pair, 3.0), math.exp(log_moment(pair, 1.5)))


def _sum_of_chi_squares(s: _Setting) -> dict[str, float]:
    pair = s.pair
    mu, pi = (probabilities(m) for m in pair)
    total = float(((pi - mu) ** 2 / (mu * (1.0 - mu))).sum())
    return _quantities(math.log1p(total), math.exp(log_moment(pair, 0.5)))


claim = stated(
    id="ratio/chain-moments",
    statement="`E W^p` of a chain of bits is a product over bits, and a large batch has `ESS/N = 1/E W^2`",
    kind="expectation",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="arXiv 1511.01437; Kong 1992 (University of Chicago technical report 348)",
    formula_defects={
        "moments taken under the current policy": _under_current,
        "sum of chi-squares": _sum_of_chi_squares,
    },
)
