"""Trials of the claims on staleness."""
