r"""Weighting stale samples by the full sequence ratio gives the exact policy gradient.

E_mu[W R S] = E_pi[R S] = grad J(current), W = prod_t pi/mu, S = sum_t grad log pi. Derivation: W mu = pi, then the
score identity. Domain: softmax tokens of full support, at most 2^20 sequences. Second route: complex-step derivative
of J from a forward recursion on counts, without enumeration and without a score. Source: textbook (importance
sampling).
"""

from __future__ import annotations

import numpy as np

from asyncsim.theory import _bandit
from asyncsim.theory._stated import indexed, stated


class _Setting(_bandit.PaidSequencePair):
    success = _bandit.share_that_pays(0.6)


def _listed(s: _Setting) -> tuple[_bandit.Enumeration, np.ndarray]:
    """All sequences, and their probability under behavior times reward `[Y]`."""
    sequences = _bandit.enumerate_sequences(s)
    return sequences, s.paid(sequences)


def _predict(s: _Setting) -> dict[str, float]:
    sequences, paid = _listed(s)
    return indexed("grad", (paid * sequences.ratio) @ sequences.score)


def _cross_check(s: _Setting) -> dict[str, float]:
    return indexed("grad", _bandit.exact_gradient(s, s.current_logits, s.success))


def _no_ratio(s: _Setting) -> dict[str, float]:
    sequences, paid = _listed(s)
    return indexed("grad", paid @ sequences.score)


def _short_product(s: _Setting) -> dict[str, float]:
    sequences, paid = _listed(s)
    ratio = np.exp((sequences.log_current - sequences.log_behavior)[:, :-1].sum(axis=1))
    return indexed("grad", (paid * ratio) @ sequences.score)


def _score_at_behavior(s: _Setting) -> dict[str, float]:
    sequences, paid = _listed(s)
    return indexed("grad", (paid * sequences.ratio) @ _bandit.sequence_scores(s, s.behavior_logits, sequences.tokens))


claim = stated(
    id="estimator/full-is",
    statement="the mean of `(sequence ratio) * reward * score` under behavior is the gradient at the current policy",
    kind="expectation",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="textbook (importance sampling)",
    formula_defects={
        "ratio dropped": _no_ratio,
        "last token left out of the ratio": _short_product,
        "score at the behavior policy": _score_at_behavior,
    },
    relative_to="norm",
)
