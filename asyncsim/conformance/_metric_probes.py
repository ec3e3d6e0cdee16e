"""Batches on which a metric is asked: small, drawn from a seed, with every situation that distinguishes metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

ORDINARY = (
    # name, rows, tokens, rows of a group, deviation of log ratios in nats
    ("one group", 4, 5, 4, 0.4),
    ("ragged rows", 8, 6, 2, 0.5),
    ("several micro-batches", 12, 4, 3, 0.3),
    ("far policies", 8, 5, 4, 0.25),
    ("holes in the mask", 8, 6, 2, 0.4),
    ("one heavy weight", 16, 3, 4, 0.2),
    ("equal weights", 8, 5, 4, 0.0),
    ("segments of rollouts", 20, 3, 4, 0.0),
)
_EQUAL = 0.5 * math.log(0.8)
"""Log ratio of which one over the square is 1.25."""
_FAR = 1.7 * np.array(
    [[0, 1, 0, 0, 0], [0, 1, 0, -1, 0], [0, 0, 1, 0, 0], [0, -1, 0, 0, 0], *([k] * 5 for k in (1, 1, -1, -1))]
)
"""Single tokens of some rows, and whole rows of either sign, beyond the bounds of any usual clip."""
_SHARES = {"log_prob": 1.0, "proximal_log_prob": 0.5}
"""How far policies move where they do."""


class View(NamedTuple):
    """What a metric of the catalogue reads: log ratios or staleness `x [B, T]`, and to whom rows belong."""

    x: np.ndarray
    mask: np.ndarray
    sign: np.ndarray
    group: np.ndarray
    rollout: np.ndarray

    def rows(self, index: Any) -> View:
        """Some of the rows."""
        return View(*(part[index] for part in self))


@dataclass(frozen=True)
class Batch:
    """Log-probs by policy `[B, T]`, bool mask, advantages, versions of tokens, the version that is trained on, and
    the group and the rollout of each row `[B]`; a rollout that was cut has several rows.
    """

    name: str
    logs: Mapping[str, np.ndarray]
    mask: np.ndarray
    advantages: np.ndarray
    versions: np.ndarray
    trained: int
    group: np.ndarray
    rollout: np.ndarray

    def view(self, pair: tuple[str, str] | None) -> View:
        """The log ratio of the first policy to the second; without a pair, staleness."""
        if pair is None:
            x = (self.trained - self.versions).astype(float)
        else:
            x = self.logs[pair[0]] - self.logs[pair[1]]
        return View(x, self.mask, np.sign(self.advantages[:, 0]), self.group, self.rollout)

    def but(self, name: str, **changes: Any) -> Batch:
        """The same batch with other parts."""
        return replace(self, name=name, **changes)

    def moved(self, name: str, step: np.ndarray | float, **shares: float) -> Batch:
        """The same batch with log-probs of some policies larger by a share of `step`."""
        logs = {policy: x + shares.get(policy, 0.0) * step for policy, x in self.logs.items()}
        return self.but(name, logs=logs)

    def part(self, rows: slice) -> Batch:
        """Some of the rows."""
        logs = {policy: x[rows] for policy, x in self.logs.items()}
        names = ("mask", "advantages", "versions", "group", "rollout")
        return replace(self, logs=logs, **{name: getattr(self, name)[rows] for name in names})


def ordinary(seed: int, masked: bool = True) -> list[Batch]:
    """Batches that every metric should survive; masked tokens hold other numbers; without `masked` there are none."""
    return [_drawn(np.random.default_rng([seed, index]), masked, *row) for index, row in enumerate(ORDINARY)]


def _drawn(
    rng: np.random.Generator, masked: bool, name: str, rows: int, tokens: int, size: int, deviation: float
) -> Batch:
    shape = (rows, tokens)
    mask = np.arange(tokens) < rng.integers(1, tokens + 1, rows)[:, None]
    mask[0], mask[1, -1], mask[-1, 1:] = True, False, False
    if name.startswith("holes"):
        mask[2], mask[3] = True, True
        mask[2, 0] = mask[3, 2] = False
    if name == "far policies":
        mask[:-1] = True
    if name == "equal weights":
        # Two tokens would have a ratio of 0.8, where clips end.
        mask[:, 2] |= mask[:, 1]
    mask |= not masked
    batch = _batch(rng, name, mask, size, deviation)
    heavy = 2.0 * (np.arange(rows * tokens) == 3 * tokens).reshape(shape)
    step = {"one heavy weight": heavy, "equal weights": _EQUAL, "far policies": _FAR}
    batch = batch.moved(name, step.get(name, 0.0), **_SHARES)
    # What stands behind the mask belongs to nobody.
    hidden = np.where(mask, 0.0, rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape))
    return batch.moved(name, hidden, **_SHARES)


def _batch(rng: np.random.Generator, name: str, mask: np.ndarray, size: int, deviation: float) -> Batch:
    rows, shape = len(mask), mask.shape
    steps = [deviation * rng.standard_normal(shape) for _ in range(3)]
    behavior = -9.0 - 2.0 * rng.random(shape)
    proximal = behavior + 0.7 * steps[0]
    logs = {
        "behavior_log_prob": behavior,
        "proximal_log_prob": proximal,
        "log_prob": proximal + 0.7 * steps[1],
        "reference": behavior + steps[2],
    }
    level = rng.uniform(0.3, 2.0, rows) * np.where(np.arange(rows) % 2 == 0, 1.0, -1.0)
    level[2] = 0.0
    # Versions rise along a row, but where servers differ.
    versions = 2 + rng.integers(0, 5, rows)[:, None] + np.cumsum(rng.integers(0, 2, shape), axis=1)
    versions[0] = np.roll(versions[0], 1) + (np.arange(shape[1]) == 2)
    versions = np.where(mask, versions, rng.integers(0, 3, shape))
    cut = 4 if deviation == 0.0 else 2 if rows == 8 else 0
    rollout = np.arange(rows) - np.minimum((np.arange(rows) + 1) // 2, cut)
    advantages = np.repeat(level[:, None], shape[1], axis=1)
    return Batch(name, logs, mask, advantages, versions, 12 + shape[1], np.arange(rows) // size, rollout)


def around(seed: int, masked: bool, size: float, pair: tuple[str, str]) -> list[Batch]:
    """Batches whose tokens and rows lie on either side of bounds of this size, in nats."""
    drawn = []
    for index, spread in enumerate((0.5, 1.0, 2.0, 2.0, 3.0)):
        rng = np.random.default_rng([seed, 40 + index])
        mask = (np.arange(5) < rng.integers(1, 6, 24)[:, None]) | (not masked)
        mask[0] = True
        batch = _batch(rng, "around the bounds of a clip", mask, 3, 0.1)
        steps = size * (rng.uniform(-1.5, 1.5, (24, 1)) + spread * rng.standard_normal((24, 5)))
        drawn.append(batch.but(batch.name, logs={**batch.logs, pair[0]: batch.logs[pair[1]] + steps}))
    return drawn


def flat(x: np.ndarray | float, sign: float = 1.0, newer: str = "log_prob") -> Batch:
    """Rows of one token where one policy has these log ratios to all others; without an array four of them."""
    step = np.broadcast_to(np.asarray(x, float), (4,) if np.ndim(x) == 0 else np.shape(x)).reshape(-1, 1)
    zero, rows = np.full_like(step, -30.0), np.arange(len(step))
    logs = {
        **dict.fromkeys(("behavior_log_prob", "proximal_log_prob", "log_prob", "reference"), zero),
        newer: zero + step,
    }
    ages = np.full(step.shape, 3)
    return Batch("rows of one token", logs, np.ones(step.shape, bool), 0 * step + sign, ages, 5, 0 * rows, rows)
