r"""The mean ratio of a batch is 1 at any lag, with standard deviation sqrt((1/rho - 1)/N).

E_mu W = sum_y mu(y) pi(y)/mu(y) = 1 and Var W = E_mu W^2 - 1 = (sum_a pi_a^2/mu_a)^T - 1 = 1/rho - 1, rho the
population ESS per sample. Domain: sequences of T independent tokens of one softmax, N independent samples, at most
20,000 count vectors. Second route: every count vector with its multinomial probability. Source: elementary.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln, log_softmax

from asyncsim.base import checks
from asyncsim.theory._bandit import PolicyPair, compositions, softmax
from asyncsim.theory._declared import Count
from asyncsim.theory._stated import stated

_ATOMS = 20_000


class _Setting(PolicyPair):
    samples = Count(2, typical=(2, 256), example=16, doc="samples of a batch")
    horizon = Count(1, typical=(1, 6), example=2, unit="tokens", doc="tokens of a sequence")

    def joint(self) -> None:
        """Few enough count vectors to list, and policies that differ."""
        super().joint()
        actions = self.behavior_logits.size
        atoms = math.comb(self.horizon + actions - 1, actions - 1)
        bound = f"such that count vectors ({atoms}) <= {_ATOMS}"
        checks.require(atoms <= _ATOMS, "horizon", self.horizon, bound, "shorten the sequences")
        apart = bool((np.abs(np.diff(self.behavior_logits - self.current_logits)) > 1e-3).any())
        remedy = "between equal policies every ratio is 1"
        checks.require(apart, "current_logits", self.current_logits.tolist(), "another policy than behavior's", remedy)


def _second(s: _Setting) -> float:
    """E W^2."""
    mu, pi = (softmax(logits) for logits in s.logits)
    return float((pi**2 / mu).sum()) ** s.horizon


def _quantities(mean: float, second: float, samples: float) -> dict[str, float]:
    return {"mean_weight": mean, "sd": math.sqrt((second - mean**2) / samples)}


def _cross_check(s: _Setting) -> dict[str, float]:
    counts = compositions(s.horizon, s.behavior_logits.size)
    log_mu, log_pi = (log_softmax(logits) for logits in s.logits)
    ways = gammaln(s.horizon + 1.0) - gammaln(counts + 1.0).sum(1)
    mass, weight = np.exp(ways + counts @ log_mu), np.exp(counts @ (log_pi - log_mu))
    # Moments about 1: no two large numbers are subtracted.
    variance = math.fsum(mass * (weight - 1.0) ** 2)
    return {"mean_weight": math.fsum(mass * weight), "sd": math.sqrt(variance / s.samples)}


def _no_denominator(s: _Setting) -> dict[str, float]:
    """Weights pi in place of pi/mu."""
    mu, pi = (softmax(logits) for logits in s.logits)
    first, second = (float((mu * pi**power).sum()) ** s.horizon for power in (1, 2))
    return _quantities(first, second, s.samples)


claim = stated(
    id="predictor/mean-weight",
    statement="the mean ratio of a batch is `E w = 1` at any lag, with sd `sqrt((1/rho - 1)/N)`, `rho` the share "
    "of ESS",
    kind="expectation",
    status="exact",
    point=_Setting,
    predict=lambda s: _quantities(1.0, _second(s), s.samples),
    cross_check=_cross_check,
    reference="elementary",
    formula_defects={
        "sd sqrt(1/(rho N))": lambda s: {"mean_weight": 1.0, "sd": math.sqrt(_second(s) / s.samples)},
        "sd of a single weight": lambda s: _quantities(1.0, _second(s), 1.0),
        "ratio without its denominator": _no_denominator,
    },
)
