"""Trials of the claims on optimum."""
