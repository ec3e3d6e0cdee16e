"""Trials of the claims on estimator."""
