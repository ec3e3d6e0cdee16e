"""Trials of the claims on systems."""
