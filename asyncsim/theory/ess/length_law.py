r"""The effective sample size falls exponentially with the length of a sequence, at the rate ln(1 + chi^2) per token.

-ln(ESS/N) = L ln(1 + chi^2) for L independent equal tokens, whose log ratio has the variance L s^2, s^2 = Var_mu ln w.
For small shifts the rate is s^2, so that ESS/N is near e^{-L s^2}; "per_variance" is how near, rate over s^2, and its
distance from 1 vanishes with the shift. Derivation: E W^2 = (1 + chi^2)^L. Domain: softmax policies that differ,
tokens independent, many samples; at most 20,000 count vectors. Second route: every vector of counts of the actions with
its multinomial probability. Source: arXiv 1511.01437 for the product.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln, log_softmax, logsumexp

from asyncsim.base import checks
from asyncsim.theory._bandit import PolicyPair, compositions, softmax
from asyncsim.theory._declared import Counts
from asyncsim.theory._stated import stated

_ATOMS, _SMALLEST = 20_000, 1e-4


class _Setting(PolicyPair):
    lengths = Counts(1, 4096, typical=(1, 8), example=(1, 2, 4), unit="tokens", doc="lengths that are compared")

    def joint(self) -> None:
        """Few enough count vectors to list, and policies that differ."""
        super().joint()
        longest, actions = max(self.lengths), self.behavior_logits.size
        atoms = math.comb(longest + actions - 1, actions - 1)
        bound = f"such that count vectors ({atoms}) <= {_ATOMS}"
        checks.require(atoms <= _ATOMS, "lengths", self.lengths, bound, "shorten the sequences")
        apart = _variance(self) > _SMALLEST**2
        logits = self.current_logits.tolist()
        checks.require(apart, "current_logits", logits, f"{_SMALLEST:g} nats from behavior or more", "move one")


def _variance(s: PolicyPair) -> float:
    """Variance of the log ratio of one token under behavior."""
    mu, change = softmax(s.behavior_logits), s.current_logits - s.behavior_logits
    return float(mu @ (change - mu @ change) ** 2)


def _quantities(s: _Setting, decay: np.ndarray, variance: np.ndarray) -> dict[str, float]:
    """From -ln(ESS/N) and the variance of the log ratio at every length."""
    x = np.array(s.lengths, dtype=float)
    x -= x.mean()
    rate = float(x @ decay / (x @ x))
    cells = {f"ess[{length}]": math.exp(-value) for length, value in zip(s.lengths, decay, strict=True)}
    return {**cells, "rate": rate, "per_variance": rate * s.lengths[0] / float(variance[0])}


def _at_rate(s: _Setting, rate: float) -> dict[str, float]:
    lengths = np.array(s.lengths)
    return _quantities(s, rate * lengths, _variance(s) * lengths)


def _rate(s: _Setting) -> float:
    mu, pi = (softmax(logits) for logits in s.logits)
    return math.log1p(float(((pi - mu) ** 2 / mu).sum()))


def _predict(s: _Setting) -> dict[str, float]:
    return _at_rate(s, _rate(s))


def _cross_check(s: _Setting) -> dict[str, float]:
    log_mu, log_pi = (log_softmax(logits) for logits in s.logits)
    decay, variance = [], []
    for length in s.lengths:
        counts = compositions(length, log_mu.size)
        log_mass = gammaln(length + 1.0) - gammaln(counts + 1.0).sum(1) + counts @ log_mu
        log_w, mass = counts @ (log_pi - log_mu), np.exp(log_mass)
        decay.append(logsumexp(2.0 * log_w + log_mass))
        variance.append(mass @ (log_w - mass @ log_w) ** 2)
    return _quantities(s, np.array(decay), np.array(variance))


def _by_sum(s: _Setting) -> dict[str, float]:
    lengths = np.array(s.lengths)
    return _quantities(s, np.log1p(lengths * math.expm1(_rate(s))), _variance(s) * lengths)


claim = stated(
    id="ess/length-law",
    statement="`-ln(ESS/N) = L ln(1 + chi^2)` at length `L`, close to `L Var ln w` for small shifts",
    kind="exponent",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="arXiv 1511.01437",
    formula_defects={
        "variance in place of ln(1 + chi^2)": lambda s: _at_rate(s, _variance(s)),
        "sum of chi-squares in place of the product": _by_sum,
        "length forgotten": lambda s: _quantities(
            s, np.full(len(s.lengths), _rate(s)), _variance(s) * np.ones(len(s.lengths))
        ),
    },
)
