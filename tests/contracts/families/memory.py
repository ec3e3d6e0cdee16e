"""Advantages that remember earlier batches, in front of the first one; runs are in tests/core/test_memory.py."""

from tests.core import formulas


def window_std(rewards):
    return (rewards - rewards.mean()) / (rewards.std() + 1e-6)


ADVANTAGES = {"running_mean": formulas.none}
STEPWISE = {"window_std": window_std}
ALONE = {"running_mean"}
