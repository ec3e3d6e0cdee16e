r"""Stale data without a ratio give the covariance of reward and score, and a drift that no reward decides.

E_mu[A S] = Cov_mu(A, S) + E_mu[A] E_mu[S], S the score of the current policy pi, A = reward - baseline. The drift has
the direction E_mu[S] = -grad KL(mu || pi), which pulls pi toward mu, and the length of the mean advantage. It vanishes
under the baseline E_mu[reward], whatever the policies are, and at pi = mu. Derivation: the
definition of a covariance; the entropy of mu does not depend on pi. Domain: softmax tokens of full support, one
prompt, at most 2^20 sequences. Second route: complex steps through means over behavior. The total is the slope of
E_mu[A log pi], the drift that of E_mu[A] E_mu[log pi], without a score. Source: elementary; use arXiv 2609.20807.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim.theory import _bandit
from asyncsim.theory._declared import Real
from asyncsim.theory._stated import indexed, stated


class _Setting(_bandit.PaidSequencePair):
    success = _bandit.share_that_pays(0.6)
    baseline = Real(typical=(-1.0, 0.2), example=-0.3, unit="reward", doc="fixed baseline")

    def joint(self) -> None:
        """Every sequence with its probability and advantage under behavior."""
        super().joint()
        self.sequences = _bandit.enumerate_sequences(self)
        self.mass = self.sequences.mass
        self.advantage = self.paid(self.sequences) / self.mass - self.baseline


def _parts(s: _Setting, signal: np.ndarray, drift: np.ndarray) -> dict[str, float]:
    return indexed("total", signal + drift) | indexed("signal", signal) | indexed("drift", drift)


def _covariance(s: _Setting) -> np.ndarray:
    mean = s.mass @ s.advantage
    covariance: np.ndarray = (s.mass * (s.advantage - mean)) @ s.sequences.score
    return covariance


def _predict(s: _Setting) -> dict[str, float]:
    return _parts(s, _covariance(s), (s.mass @ s.advantage) * (s.mass @ s.sequences.score))


def _cross_check(s: _Setting) -> dict[str, float]:
    rows = s.rows(s.sequences.tokens)

    def mean_log(weights: np.ndarray) -> np.ndarray:
        def value(logits: np.ndarray) -> Any:
            return weights @ np.log(_bandit.softmax(logits))[rows, s.sequences.tokens].sum(axis=1)

        return _bandit.complex_gradient(value, s.current_logits)

    total, score = mean_log(s.mass * s.advantage), mean_log(s.mass)
    drift = (s.mass @ s.advantage) * score
    return _parts(s, total - drift, drift)


def _late_centering(s: _Setting) -> dict[str, float]:
    """The baseline subtracted from the mean reward, behind an average of scores that already counts rewards."""
    total = (s.mass * (s.advantage + s.baseline)) @ s.sequences.score
    drift = (s.mass @ s.advantage) * (s.mass @ s.sequences.score)
    return _parts(s, total - drift, drift)


claim = stated(
    id="alignment/drift-split",
    statement="stale data without a ratio give `E_mu[A S] = Cov_mu(A, S) - E_mu[A] grad KL(mu, pi)`: signal and drift",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="elementary; use in arXiv 2609.20807",
    formula_defects={
        "drift forgotten": lambda s: _parts(s, _covariance(s), 0.0 * _covariance(s)),
        "drift toward the current policy": lambda s: _parts(
            s, _covariance(s), -(s.mass @ s.advantage) * (s.mass @ s.sequences.score)
        ),
        "baseline left out of the total": _late_centering,
        "mean score taken under the current policy": lambda s: _parts(
            s, _covariance(s), (s.mass @ s.advantage) * ((s.mass * s.sequences.ratio) @ s.sequences.score)
        ),
    },
    relative_to="norm",
)
