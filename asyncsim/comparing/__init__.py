"""Comparisons: is one arm better than another, by how much, how certain is it, and how many replicates it takes."""

from asyncsim.comparing.deciding import compare, power

__all__ = ["compare", "power"]
