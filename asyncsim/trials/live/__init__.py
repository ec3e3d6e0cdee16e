"""Trials of the claims on live runs."""
