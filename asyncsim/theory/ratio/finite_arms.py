r"""Ratios of two softmax policies over finitely many arms are bounded, and so are all their moments.

E_mu w^p = sum_a pi_a^p mu_a^{1-p} = e^{(p-1) D_p(pi || mu)} ("moment[p]"), with D_p the divergence of Renyi. Among all
laws of a ratio of mean 1 in [m, M] the largest second moment is m + M - m M ("largest"), that of the law on m and M
alone; m and M are the least and largest ratio of the point. So heavy tails of ratios need long products, continuous
actions, or arms that behavior hardly plays. Derivation: (w - m)(M - w) >= 0 on average. Domain: softmax policies that
differ. Second route: the cumulant function lse(p theta + (1 - p) phi) of the logits; all laws on two points of a grid.
Source: textbook; Bhatia and Davis, American Mathematical Monthly 107 (2000), for the bound.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp

from asyncsim.base import checks
from asyncsim.theory._bandit import PolicyPair, softmax
from asyncsim.theory._stated import stated

_POWERS = (0.5, 2.0, 3.0)
_GRID = 101


class _Setting(PolicyPair):
    def joint(self) -> None:
        """Policies that differ."""
        super().joint()
        low, high = _range(self)
        logits = self.current_logits.tolist()
        checks.require(high - low > 1e-3, "current_logits", logits, "such that ratios differ by 1e-3", "move one")


def _range(s: PolicyPair) -> tuple[float, float]:
    ratio = softmax(s.current_logits) / softmax(s.behavior_logits)
    return float(ratio.min()), float(ratio.max())


def _moments(sampler: np.ndarray, ratio: np.ndarray) -> dict[str, float]:
    return {f"moment[{p:g}]": float(sampler @ ratio**p) for p in _POWERS}


def _predict(s: PolicyPair) -> dict[str, float]:
    mu, pi = (softmax(logits) for logits in s.logits)
    low, high = _range(s)
    return _moments(mu, pi / mu) | {"largest": low + high - low * high}


def _cross_check(s: PolicyPair) -> dict[str, float]:
    phi, theta = s.logits
    normalizers = logsumexp(theta), logsumexp(phi)
    moments = {
        f"moment[{p:g}]": math.exp(
            logsumexp(p * theta + (1.0 - p) * phi) - p * normalizers[0] - (1.0 - p) * normalizers[1]
        )
        for p in _POWERS
    }
    # Laws on two points are the extreme ones among those of mean 1.
    low, high = _range(s)
    below, above = np.linspace(low, 1.0, _GRID)[:-1, None], np.linspace(1.0, high, _GRID)[1:]
    share = (1.0 - below) / (above - below)
    return moments | {"largest": float((share * above**2 + (1.0 - share) * below**2).max())}


def _under_current(s: PolicyPair) -> dict[str, float]:
    mu, pi = (softmax(logits) for logits in s.logits)
    return _predict(s) | _moments(pi, pi / mu)


claim = stated(
    id="ratio/finite-arms",
    statement="`E w^p = sum pi^p mu^(1-p)` over finitely many arms, and `E w^2 <= m + M - m M` for ratios in `[m, M]`",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="textbook; Bhatia and Davis 2000 (American Mathematical Monthly 107)",
    formula_defects={
        "moments under the current policy": _under_current,
        "largest ratio for the second moment": lambda s: _predict(s) | {"largest": _range(s)[1]},
    },
)
