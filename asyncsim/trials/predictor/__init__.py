"""Trials of the claims on alarms before collapse."""
