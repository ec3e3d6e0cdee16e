"""Advantages that remember earlier batches, in front of the first one; runs are in tests/core/test_memory.py."""

from __future__ import annotations

from tests.core import formulas


def window_std(rewards, weights, norms, everything):
    return (rewards - everything.mean()) / (everything.std() + 1e-6)


ADVANTAGES = {"running_mean": formulas.none, "window_std": window_std}
STEPWISE = {"window_std"}
