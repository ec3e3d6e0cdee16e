"""Trials of the claims on ratio."""
