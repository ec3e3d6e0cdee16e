"""Verdicts with stated error rates: (estimate, prediction) -> held, violated, inconclusive or outside."""

from asyncsim.validation.joining import join
from asyncsim.validation.judging import judge
from asyncsim.validation.rates import missed_rate, sample_size
from asyncsim.validation.together import e_value, holm, wealth

__all__ = ["e_value", "holm", "join", "judge", "missed_rate", "sample_size", "wealth"]
