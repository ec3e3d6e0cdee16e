"""What notebook 7 calls: an arm at many learning rates in one run, and how often few replicates pick the best arm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from asyncsim.base import checks


def returns_at(arm: Any, rates: Any, replicates: int, seed: int) -> np.ndarray:
    """Mean return over the updates of a run at each learning rate of Adam, `[rate, replicate]`.

    One run has them all: rates are its replicates. Arms with the same seed share draws. Arguments: `arm`, a `Spec`
    whose chain has `adam` and whose diagnostics have "trained_return". Raises `InputError`.
    """
    from asyncsim.comparing.tuning import set_knob, spread
    from asyncsim.running.running import run

    values = checks.finite_array("rates", rates, (None,), "give positive learning rates")
    checks.integer("replicates", replicates, 1, "run each rate at least once")
    tried = set_knob(arm, "adam.lr", tuple(np.repeat(values, replicates).tolist()), len(values) * replicates)
    trace = run(spread(tried), seed=seed, progress=False)
    return np.asarray(trace["trained_return"]).mean(0).reshape(len(values), replicates)


def picks(returns: Mapping[str, np.ndarray], best: str, sizes: Any, paired: bool, seed: int) -> list[float]:
    """How often the arm `best` has the largest mean of so many replicates: a share of 1,000 resamples for each size.

    Arguments: `returns` `[replicate]` of each arm; `paired`, whether all arms take the same replicates. Raises
    `InputError`.

    >>> picks({"a": np.ones(8), "b": np.zeros(8)}, "a", [1, 4], paired=True, seed=0)
    [1.0, 1.0]
    """
    checks.one_of("best", best, tuple(returns), "name an arm")
    checks.integer("seed", seed, 0, "give a non-negative integer seed")
    table, random = np.stack(list(returns.values())), np.random.default_rng(seed)
    arms, count = table.shape
    shares = []
    for size in sizes:
        drawn = random.integers(count, size=(1000, 1 if paired else arms, size))
        means = np.take_along_axis(table[None], np.broadcast_to(drawn, (1000, arms, size)), axis=2).mean(2)
        shares.append(float((means.argmax(1) == list(returns).index(best)).mean()))
    return shares
