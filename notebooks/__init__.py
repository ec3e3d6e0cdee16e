"""Guided tours of asyncsim: `python -m notebooks` runs them, see README.md."""
