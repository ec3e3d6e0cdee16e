"""Mutants that no test can notice, each with the reason: they do not count, but are printed."""

from __future__ import annotations

EQUIVALENT: dict[tuple[str, str, str], str] = {}
"""(file, the line with single spaces, change as printed) -> why the mutant behaves like the original."""
