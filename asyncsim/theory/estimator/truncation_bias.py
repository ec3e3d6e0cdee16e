r"""Truncating the sequence ratio at C biases the gradient by exactly the weight that is cut off.

E_mu[min(W, C) R S] - grad J = -E_mu[(W - C)_+ R S]. Derivation: min(W, C) = W - (W - C)_+ and full weighting is
unbiased. The norm need not fall monotonically in C. Domain: softmax tokens of full support, 0 < C < largest ratio (no
bias beyond), at most 2^20 sequences. Second route: truncated mean by enumeration minus the complex-step gradient of
J. Source: elementary.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from asyncsim import checks
from asyncsim.records import Claim, Point
from asyncsim.theory import _points
from asyncsim.theory._bandit import (
    Enumeration,
    SequencePair,
    enumerate_sequences,
    exact_gradient,
    read_sequence,
    read_success,
    reward,
)
from asyncsim.theory._points import indexed


class _Setting(NamedTuple):
    pair: SequencePair
    every: Enumeration
    cap: float
    success: float | None

    @property
    def paid(self) -> np.ndarray:
        """Probability under behavior times reward, `[Y]`."""
        paid: np.ndarray = self.every.mass * reward(
            (self.every.tokens == 0).sum(axis=1), self.pair.horizon, self.success
        )
        return paid


def _read(point: Point) -> _Setting:
    pair, (cap, success) = read_sequence(point, "cap", "success")
    every, cap = enumerate_sequences(pair), _points.positive("cap", cap)
    largest = float(every.ratio.max())
    checks.require(
        cap < largest,
        "cap",
        cap,
        f"below the largest sequence ratio {largest:.6g}",
        "a cap that never binds has no bias",
    )
    return _Setting(pair, every, cap, read_success(success))


def _predict(point: Point) -> dict[str, float]:
    s = _read(point)
    return indexed("bias", -(s.paid * np.maximum(s.every.ratio - s.cap, 0.0)) @ s.every.score)


def _cross_check(point: Point) -> dict[str, float]:
    s = _read(point)
    truncated = (s.paid * np.minimum(s.every.ratio, s.cap)) @ s.every.score
    return indexed("bias", truncated - exact_gradient(s.pair, s.pair.current, s.success))


def _masked(point: Point) -> dict[str, float]:
    s = _read(point)
    return indexed("bias", -(s.paid * s.every.ratio * (s.every.ratio > s.cap)) @ s.every.score)


def _tokens_first(point: Point) -> dict[str, float]:
    s = _read(point)
    product = np.minimum(np.exp(s.every.log_current - s.every.log_behavior), s.cap).prod(axis=1)
    return indexed("bias", (s.paid * (product - s.every.ratio)) @ s.every.score)


def _sign(point: Point) -> dict[str, float]:
    return {name: -value for name, value in _predict(point).items()}


claim = Claim(
    id="estimator/truncation-bias",
    statement="truncating the sequence ratio at C biases the gradient by -E_mu[(W-C)_+ R S]",
    kind="identity",
    status="exact",
    point=_read,
    predict=_predict,
    cross_check=_cross_check,
    reference="elementary",
    formula_defects={
        "masking in place of truncation": _masked,
        "token factors truncated before the product": _tokens_first,
        "sign": _sign,
    },
    relative_to="norm",
)
