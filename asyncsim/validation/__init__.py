"""Verdicts with stated error rates: (estimate, prediction) -> held, violated, inconclusive or outside."""

from asyncsim.validation.joining import join
from asyncsim.validation.judging import judge
from asyncsim.validation.rates import missed_rate, sample_size

__all__ = ["join", "judge", "missed_rate", "sample_size"]
