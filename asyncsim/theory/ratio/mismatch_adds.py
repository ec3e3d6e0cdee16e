r"""Variances of mismatch and staleness add where both are independent; a temperature makes them dependent.

The log ratio of a token is that of the weights, log pi/pi_0, plus that of sampler and trainer, log pi_0/mu. With the
sampler mu ~ pi_0^{1/tau}, tau its temperature, both are logits up to constants: Delta theta and (1 - 1/tau) theta_0. So
over independent tokens Var L = sum_t Var_mu(Delta theta) + (1 - 1/tau)^2 Var_mu(theta_0) + 2 (1 - 1/tau) Cov_mu(Delta
theta, theta_0). The covariance is 0 where what moves is not what is mismatched. It has the sign of the product where a
policy sharpens or flattens: with Delta theta = c theta_0 all is (c + 1 - 1/tau)^2 Var_mu(theta_0), which is 0 at tau =
1/(1 + c). Noise of the reports, standard deviation s, is independent of both at any size. It adds T s^2 where every
token has its own, T^2 s^2 where a sequence has one.

Noise in the logits is independent to second order only: beside s^2 (1 - |pi_0|^2) a token gets 4 s^2 Cov_pi0(pi_0,
Delta theta). Domain: tokens that are equal or have a row for each position; (2 A)^T at most 2^20. Second route: every
sequence with every sign of noise of two values. Source: derived.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy.special import log_softmax

from asyncsim.base import checks
from asyncsim.theory._bandit import LIMIT, SequencePair, softmax
from asyncsim.theory._declared import Choice, Integer, Real
from asyncsim.theory._stated import stated


class _Setting(SequencePair):
    horizon = Integer(1, typical=(1, 3), example=4, unit="tokens", doc="length of a sequence")
    dependence = Choice("iid", "position", example="position", doc="rule that picks the row of logits of a token")
    temperature = Real(0.05, 20.0, typical=(0.5, 2.0), example=0.7, doc="temperature of the sampler")
    noise = Real(
        0.0, 10.0, typical=(0.0, 1.0), example=0.2, unit="nats", doc="standard deviation of the reports' noise"
    )
    noise_per = Choice("token", "sequence", example="sequence", doc="how long one draw of the noise lasts")

    def joint(self) -> None:
        """No more outcomes than can be listed."""
        super().joint()
        count = f"(2 * {self.actions})**{self.horizon}"
        few = (2 * self.actions) ** self.horizon <= LIMIT
        checks.require(few, "horizon", self.horizon, f"such that {count} <= {LIMIT}", "shorten the sequences")


def _parts(s: _Setting, slope: float, sampler: np.ndarray) -> dict[str, float]:
    """Variances over tokens under these probabilities `[S, A]`; mismatch is `slope` times the behavior's logits."""
    change, own = s.current_logits - s.behavior_logits, slope * s.behavior_logits
    stale, mismatch, both = (
        float(((sampler * x * x).sum(1) - (sampler * x).sum(1) ** 2).sum()) for x in (change, own, change + own)
    )
    times = s.horizon if s.dependence == "iid" else 1
    noise = s.noise**2 * (s.horizon**2 if s.noise_per == "sequence" else s.horizon)
    return {"staleness": times * stale, "mismatch": times * mismatch + noise, "variance": times * both + noise}


def _sampler(s: _Setting) -> np.ndarray:
    return softmax(s.behavior_logits / s.temperature)


def _predict(s: _Setting) -> dict[str, float]:
    return _parts(s, 1.0 - 1.0 / s.temperature, _sampler(s))


def _cross_check(s: _Setting) -> dict[str, float]:
    """Every sequence under the sampler with every sign of its noise."""
    tokens = np.array(list(itertools.product(range(s.actions), repeat=s.horizon)))
    rows = s.rows(tokens)
    current, behavior, sampler = (
        log_softmax(table, axis=1)[rows, tokens].sum(1)
        for table in (s.current_logits, s.behavior_logits, s.behavior_logits / s.temperature)
    )
    draws = s.horizon if s.noise_per == "token" else 1
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=draws))).sum(1)
    noise = s.noise * signs * (s.horizon / draws)
    mass = np.repeat(np.exp(sampler), len(noise)) / len(noise)
    mismatch = np.subtract.outer(behavior - sampler, noise).ravel()
    stale = np.repeat(current - behavior, len(noise))
    parts = {"staleness": stale, "mismatch": mismatch, "variance": stale + mismatch}
    return {name: float(mass @ (x - mass @ x) ** 2) for name, x in parts.items()}


def _added(s: _Setting) -> dict[str, float]:
    right = _predict(s)
    return right | {"variance": right["staleness"] + right["mismatch"]}


def _half(s: _Setting) -> dict[str, float]:
    right = _predict(s)
    return right | {"variance": 0.5 * (right["variance"] + right["staleness"] + right["mismatch"])}


claim = stated(
    id="ratio/mismatch-adds",
    statement="`Var log W` is that of staleness plus that of mismatch plus twice their covariance, 0 for noisy reports",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived",
    formula_defects={
        "parts added without their covariance": _added,
        "covariance counted once": _half,
        "slope of the temperature 1 - tau": lambda s: _parts(s, 1.0 - s.temperature, _sampler(s)),
        "variances under the policy": lambda s: _parts(s, 1.0 - 1.0 / s.temperature, softmax(s.behavior_logits)),
    },
)
