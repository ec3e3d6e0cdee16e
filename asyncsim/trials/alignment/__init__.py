"""Trials of the claims on alignment."""
