"""Sampling: batches drawn early or late; evaluations; exact values by enumerating all outcomes."""
