"""Trials of the claims on ess."""
