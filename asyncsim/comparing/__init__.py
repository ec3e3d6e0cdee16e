"""Comparisons: verdict on two arms, size and uncertainty of their difference, and the number of replicates needed."""

from asyncsim.comparing.deciding import compare, power

__all__ = ["compare", "power"]
