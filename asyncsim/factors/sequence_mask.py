"""Drop sequences whose ratio leaves a band."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from asyncsim.factors._factor import Band, within
from asyncsim.step import Step


class SequenceMask(Band):
    """[low <= W <= high]; see `sequence_mask`."""

    def value(self, step: Step, of_tokens: Tensor) -> Tensor:
        """Log ratio of the sequence."""
        return step.sequence(of_tokens.double())


def sequence_mask(low: Any = 0.5, high: Any = 2.0, ratio: str = "r") -> SequenceMask:
    """Mask of sequences: c_t -> c_t [low <= W_i <= high] with W_i = prod_t rho_t, both bounds included.

    rho is r = pi/mu or h = pi_prox/mu. log W_i = sum_t log rho_t is summed in float64 and never limited. A dropped
    sequence stays in the denominators; one whose ratio is not finite is dropped. The same band keeps fewer of the
    longer sequences, since Var log W grows with the length.

    Arguments: `low` in [0, 1] and `high` >= 1, pure numbers (or one per replicate); `ratio`, "r" or "h". Returns a
    factor `[R, G, N, 1]`. Raises `InputError` for bounds outside their range or an unknown ratio. Source: verl,
    documentation of rollout correction, rejection by seq_sum_k1.

    >>> sequence_mask().describe()
    {'factor': 'sequence_mask', 'low': 0.5, 'high': 2.0, 'ratio': 'r'}
    """
    return SequenceMask(*within(low, high, ratio))
