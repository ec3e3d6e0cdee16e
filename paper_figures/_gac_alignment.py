"""What is predicted for gradients in training, at the optimum and far away: correlation of neighbors, noise, path."""

from __future__ import annotations

import numpy as np

from asyncsim import claims
from experiments import _gac
from experiments import gac_alignment as made


def steady(task: str, staleness: int, fraction: float) -> float:
    """Correlation of neighbors at a task's optimum: each mode's, weighted by its energy; noise as its curvature."""
    modes = made.curvatures(task)[0]
    step = fraction * _gac.boundary("fixed", made.LATE) / modes.max()
    law = claims.claim("alignment/lag1-closed-form")
    energy = neighbors = 0.0
    for mode in modes:
        found = law.predict({"staleness": staleness, "curvature": mode, "noise": float(np.sqrt(mode)), "step": step})
        energy += mode * found["amplification"]
        neighbors += mode * found["amplification"] * found["corr[1]"]
    return neighbors / energy


def noise(square: float, samples: int) -> float:
    """Noise of one coordinate of the Gaussian bandit's gradient, as if of one sample, at |theta|^2 = `square`.

    The gradient is the covariance of rewards -|a|^2/2 and z over N samples, whose variance is (m22 - (N-2)/(N-1) m11^2
    + m20 m02/(N-1)) / N by the central moments; summed over the coordinates.
    """
    d, n = made.DIMENSION, samples
    m22 = (d + 2) * square + d * (d + 4) / 2
    total = m22 - (n - 2) / (n - 1) * square + d * (square + d / 2) / (n - 1)
    return float(np.sqrt(total / d))


def signal(coordinate: float, samples: int) -> float:
    """Correlation of neighbors while the mean gradient is steady, at one value of every coordinate."""
    d = made.DIMENSION
    point = {"dimension": d, "signal": abs(coordinate) * np.sqrt(d), "samples": samples}
    return claims.claim("alignment/snr").predict({**point, "noise": noise(d * coordinate**2, samples)})["corr[1]"]


def path(staleness: int, fraction: float, updates: int) -> np.ndarray:
    """Mean of a coordinate that the gradient of each update reads, from far away."""
    a, mean = fraction * _gac.boundary("fixed", made.LATE), [made.START]
    for t in range(updates):
        mean.append(mean[-1] - a * mean[max(t - staleness, 0)])
    return np.array([mean[max(t - staleness, 0)] for t in range(updates)])


def settled(staleness: int, fraction: float, updates: int) -> int:
    """The last update whose mean gradient is more than a fiftieth of its noise, in squares."""
    size = made.DIMENSION * path(staleness, fraction, updates) ** 2
    chance = made.DIMENSION * np.array([noise(s, made.SAMPLES) ** 2 for s in size]) / made.SAMPLES
    return int(np.flatnonzero(size > 0.02 * chance).max())


def causes(condition: str, staleness: int) -> float | None:
    """Predicted correlation of neighbors under a condition; none with momentum, which no claim covers."""
    own = made.CONDITIONS[condition]
    if "momentum" in own:
        return None
    if not own.get("steady", True):
        return signal(made.START, own["samples"])
    if own.get("schedule") == "random":
        law = (1.0 / (staleness + 1),) * (staleness + 1)
        point = {"law": law, "curvature": 1.0, "noise": 1.0, "step": own["share"] * _gac.boundary("fixed", made.LATE)}
        return claims.claim("alignment/random-delay-cosine").predict(point)["corr[1]"]
    passes = own.get("passes", 1)
    # Updates on one batch repeat one gradient exactly, so batches see so many times the step.
    return (passes - 1) / passes + steady("gaussian", staleness, own["share"] * passes) / passes
