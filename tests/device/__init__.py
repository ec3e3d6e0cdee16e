"""Runs on a device that exists in name only."""
