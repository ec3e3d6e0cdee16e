r"""Weighting stale samples by the full sequence ratio gives the exact policy gradient.

E_mu[W R S] = E_pi[R S] = grad J(current), W = prod_t pi/mu, S = sum_t grad log pi. Derivation: W mu = pi, then the
score identity. Domain: softmax tokens of full support, at most 2^20 sequences. Second route: complex-step derivative
of J from a forward recursion on counts, without enumeration and without a score. Source: textbook (importance
sampling).
"""

from __future__ import annotations

import numpy as np

from asyncsim.base.records import Claim, Point
from asyncsim.theory._bandit import (
    Enumeration,
    PaidSequencePair,
    enumerate_sequences,
    exact_gradient,
    sequence_scores,
    share_that_pays,
)
from asyncsim.theory._points import indexed


class _Setting(PaidSequencePair):
    success = share_that_pays(0.6)


def _open(point: Point) -> tuple[_Setting, Enumeration, np.ndarray]:
    """The policies, all sequences, and their probability under behavior times reward `[Y]`."""
    pair = _Setting(point)
    every = enumerate_sequences(pair)
    return pair, every, pair.paid(every)


def _predict(point: Point) -> dict[str, float]:
    _, every, paid = _open(point)
    return indexed("grad", (paid * every.ratio) @ every.score)


def _cross_check(point: Point) -> dict[str, float]:
    pair = _Setting(point)
    return indexed("grad", exact_gradient(pair, pair.current_logits, pair.success))


def _no_ratio(point: Point) -> dict[str, float]:
    _, every, paid = _open(point)
    return indexed("grad", paid @ every.score)


def _short_product(point: Point) -> dict[str, float]:
    _, every, paid = _open(point)
    ratio = np.exp((every.log_current - every.log_behavior)[:, :-1].sum(axis=1))
    return indexed("grad", (paid * ratio) @ every.score)


def _score_at_behavior(point: Point) -> dict[str, float]:
    pair, every, paid = _open(point)
    return indexed("grad", (paid * every.ratio) @ sequence_scores(pair, pair.behavior_logits, every.tokens))


claim = Claim(
    id="estimator/full-is",
    statement="the mean of (sequence ratio) * reward * score under behavior is the gradient at the current policy",
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
