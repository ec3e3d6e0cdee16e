"""What the atlas says of the gradients of a batch: functions of means over replicates, with jackknife intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from asyncsim.base import uncertainty

MEASURES = ("scale", "bias", "direction", "variance", "cosine", "progress", "kept")
"""scale <E g, G>/|G|^2; bias |E g - G|^2/|G|^2, free of the noise of the mean; direction 1 - cos(E g, G); variance
tr Cov g/|E g|^2; cosine E cos(g, G); progress sign(scale) <E g, G>^2/(E|g|^2 |G|^2); kept, share of tokens whose weight
is not 0, among those whose advantage is not."""


@dataclass(frozen=True)
class Found:
    """A measure, its interval of 95 percent, and its values without each replicate in turn `[R]`."""

    value: float
    low: float
    high: float
    without: np.ndarray


def measured(gradient: np.ndarray, kept: np.ndarray, truth: np.ndarray) -> dict[str, Found]:
    """Every measure of gradients `[R, P]` and kept shares `[R]` against the exact gradient `[P]`."""
    R, size = len(gradient), np.linalg.norm(gradient, axis=1)
    along = gradient @ truth
    # A batch that gives no direction makes no progress, so its cosine counts as 0.
    cosine = along / np.where(size > 0, size, 1.0) / np.linalg.norm(truth)
    rows = np.column_stack([gradient, size**2, cosine, kept])
    total = rows.sum(0)
    whole, without = of(total / R, R, truth), of((total - rows) / (R - 1), R - 1, truth)
    quadratic = degenerate(gradient, truth)
    return {name: interval(float(whole[name]), without[name], quadratic.get(name, 0.0)) for name in whole}


def degenerate(gradient: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Variance of squares of a mean of 0, which the jackknife misses: 2 tr(Cov^2)/R^2 where E g has nothing there."""
    mean, spread = gradient.mean(0), np.atleast_2d(np.cov(gradient.T))
    pairs = 2.0 * float((spread * spread).sum()) / (len(gradient) * (len(gradient) - 1))
    square = float(mean @ mean)
    return {"bias": pairs / float(truth @ truth) ** 2, "direction": pairs / (4.0 * square**2) if square > 0 else 0.0}


def of(means: np.ndarray, count: int, truth: np.ndarray) -> dict[str, np.ndarray]:
    """Measures from means `[..., P + 3]` of gradients, their squares, cosines and kept shares over `count` batches."""
    gradient, power, cosine, kept = np.split(means, [-3, -2, -1], axis=-1)
    P, scale = truth @ truth, gradient @ truth / (truth @ truth)
    power = power[..., 0]
    square = (gradient**2).sum(-1)
    # The square of a mean contains the noise of the mean.
    clean = (count * square - power) / (count - 1)
    noise = power - clean
    known = np.where(clean > 0, clean, np.nan)
    return {
        "scale": scale,
        "bias": clean / P - 2.0 * scale + 1.0,
        "direction": 1.0 - scale * math.sqrt(P) / np.sqrt(known),
        "variance": noise / known,
        "cosine": cosine[..., 0],
        "progress": np.sign(scale) * scale**2 * P / np.where(power > 0, power, 1.0),
        "kept": kept[..., 0],
    }


def interval(value: float, without: np.ndarray, more: float = 0.0) -> Found:
    """Jackknife: error^2 = (R - 1)/R sum (theta_(-r) - mean)^2, and `more`; NaN where a value is missing."""
    R = len(without)
    error = math.sqrt((R - 1) / R * float(((without - without.mean()) ** 2).sum()) + more)
    reach = uncertainty.critical(0.05, R - 1) * error
    return Found(value, value - reach, value + reach, without)


def largest(gradient: np.ndarray) -> float:
    """Share of one batch in the sum of all squared gradients: large where moments rest on what is hardly ever drawn."""
    power = (gradient**2).sum(1)
    return float(power.max() / power.sum()) if power.sum() > 0 else 0.0


def exact(mean: np.ndarray, covariance: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """The same measures from exact moments; NaN where they do not follow from these."""
    power = float(mean @ mean + np.trace(covariance))
    rows = np.concatenate([mean, [power, math.nan, math.nan]])
    found = of(rows, 1 << 53, truth)
    return {name: float(value) for name, value in found.items()}
