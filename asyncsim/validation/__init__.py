"""Verdicts with stated error rates: (estimate, prediction) -> held, violated, inconclusive or outside."""

from asyncsim.validation.joining import join
from asyncsim.validation.judging import e_value, holm, judge, missed_rate, sample_size, wealth

__all__ = ["e_value", "holm", "join", "judge", "missed_rate", "sample_size", "wealth"]
