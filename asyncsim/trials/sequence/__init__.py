"""Trials of the claims on sequence."""
