"""Batches are drawn, early or late; evaluations; exact values by listing all outcomes."""
