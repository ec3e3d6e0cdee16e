"""Columns as a log has them: returns that fall where a point says, and a metric that is noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim.base.rng import Stream


def noise(seed: int, updates: int, runs: int) -> np.ndarray:
    """Independent uniform numbers `[U, R]`."""
    return Stream(seed, "signal").uniform(np.arange(updates)[:, None], np.arange(runs))


def columns(values: np.ndarray, fall: int, left: float) -> dict[str, Any]:
    """Returns of 1, of which the first half of the runs loses all but `left` at `fall`; values `[U, R]` as "noise"."""
    returns = np.ones(values.shape)
    returns[fall:, : values.shape[1] // 2] = left
    return {"batch_return": returns, "noise": values}
