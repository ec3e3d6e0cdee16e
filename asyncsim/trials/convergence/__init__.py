"""Trials of the claims on convergence."""
