r"""The batch effective sample size per sample tends to 1 / (1 + chi^2).

(sum w)^2 / (N sum w^2) -> (E w)^2 / E w^2 = 1 / (1 + chi^2), chi^2 = sum (pi - mu)^2 / mu. Derivation: law of large
numbers for both sums, E_mu w = 1. Domain: softmax policies over one set of actions, N -> infinity (a batch reads high
by O(1/N)). Second route: the ratio exp(2 lse(l) - lse(2 l)) of the log weights, each action counted with its behavior
probability. Source: Kong, University of Chicago technical report 348 (1992).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_softmax, logsumexp

from asyncsim.theory._bandit import PolicyPair, softmax
from asyncsim.theory._stated import stated


def _chi_square(s: PolicyPair) -> float:
    mu, pi = (softmax(logits) for logits in s.logits)
    return float(((pi - mu) ** 2 / mu).sum())


def _predict(s: PolicyPair) -> dict[str, float]:
    return {"ess": 1.0 / (1.0 + _chi_square(s))}


def _cross_check(s: PolicyPair) -> dict[str, float]:
    log_mu, log_pi = (log_softmax(logits) for logits in s.logits)
    log_w, counts = log_pi - log_mu, np.exp(log_mu)
    return {"ess": float(np.exp(2.0 * logsumexp(log_w, b=counts) - logsumexp(2.0 * log_w, b=counts)))}


def _relative_entropy(s: PolicyPair) -> dict[str, float]:
    log_mu, log_pi = (log_softmax(logits) for logits in s.logits)
    return {"ess": math.exp(-float(np.exp(log_pi) @ (log_pi - log_mu)))}


claim = stated(
    id="ess/limit",
    statement="the effective sample size per sample of a large batch is `1/(1 + chi^2)`",
    kind="expectation",
    status="exact",
    point=PolicyPair,
    predict=_predict,
    cross_check=_cross_check,
    reference="Kong 1992 (University of Chicago technical report 348)",
    formula_defects={
        "first order, 1 - chi^2": lambda s: {"ess": 1.0 - _chi_square(s)},
        "exp(-KL) in place of 1/(1 + chi^2)": _relative_entropy,
    },
)
