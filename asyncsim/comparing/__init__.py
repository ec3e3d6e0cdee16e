"""Asking: is one arm better than another, by how much, how sure, and with how many replicates."""

from asyncsim.comparing.deciding import compare, power

__all__ = ["compare", "power"]
