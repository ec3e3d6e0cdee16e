r"""Truncating the sequence ratio at C biases the gradient by exactly the weight that is cut off.

E_mu[min(W, C) R S] - grad J = -E_mu[(W - C)_+ R S]. Derivation: min(W, C) = W - (W - C)_+ and full weighting is
unbiased. The norm need not fall monotonically in C. Domain: softmax tokens of full support, 0 < C < largest ratio (no
bias beyond), at most 2^20 sequences. Second route: truncated mean by enumeration minus the complex-step gradient of
J. Source: elementary.
"""

from __future__ import annotations

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._bandit import PaidSequencePair, enumerate_sequences, exact_gradient
from asyncsim.theory._declared import Positive
from asyncsim.theory._stated import indexed, stated


class _Setting(PaidSequencePair):
    cap = Positive(typical=(0.2, 2.0), example=1.1, doc="largest sequence ratio that is left as it is")

    def joint(self) -> None:
        """A cap that binds."""
        super().joint()
        self.sequences = enumerate_sequences(self)
        largest = float(self.sequences.ratio.max())
        bound = f"below the largest sequence ratio {largest:.6g}"
        checks.require(self.cap < largest, "cap", self.cap, bound, "a cap that never binds has no bias")
        self.paid_mass = self.paid(self.sequences)


def _predict(s: _Setting) -> dict[str, float]:
    return indexed("bias", -(s.paid_mass * np.maximum(s.sequences.ratio - s.cap, 0.0)) @ s.sequences.score)


def _cross_check(s: _Setting) -> dict[str, float]:
    truncated = (s.paid_mass * np.minimum(s.sequences.ratio, s.cap)) @ s.sequences.score
    return indexed("bias", truncated - exact_gradient(s, s.current_logits, s.success))


def _tokens_first(s: _Setting) -> dict[str, float]:
    product = np.minimum(np.exp(s.sequences.log_current - s.sequences.log_behavior), s.cap).prod(axis=1)
    return indexed("bias", (s.paid_mass * (product - s.sequences.ratio)) @ s.sequences.score)


claim = stated(
    id="estimator/truncation-bias",
    statement="truncating the sequence ratio at `C` biases the gradient by `-E_mu[(W-C)_+ R S]`",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="elementary",
    formula_defects={
        "masking in place of truncation": lambda s: indexed(
            "bias", -(s.paid_mass * s.sequences.ratio * (s.sequences.ratio > s.cap)) @ s.sequences.score
        ),
        "token factors truncated before the product": _tokens_first,
        "sign": lambda s: {name: -value for name, value in _predict(s).items()},
    },
    relative_to="norm",
)
