"""What a correlogram of so many updates says about the staleness: its mean by the claims, its noise by Bartlett."""

from __future__ import annotations

import numpy as np

from asyncsim import claims
from asyncsim.claims._recursion import autocovariance
from experiments import _gac

_FAR = 600
"""Lags over which products of correlations are summed."""
_DRAWS = 4000


def correlations(staleness: int, step: float, lags: int) -> np.ndarray:
    """corr_0..corr_lags of the delayed linear model of curvature 1, `[lags + 1]`.

    Up to one update behind the staleness from the closed form, farther from the Lyapunov equation.
    """
    point = {"staleness": staleness, "noise": 1.0, "step": step, "curvature": 1.0}
    found = claims.claim("alignment/lag1-closed-form").predict(point)
    known = {0: 1.0} | {int(name[5:-1]): value for name, value in found.items() if name.startswith("corr[")}
    beyond = [lag for lag in range(1, lags + 1) if lag > staleness + 1]
    power, products = autocovariance(1.0, step, 1.0, staleness, beyond)
    known |= {lag: product / power for lag, product in zip(beyond, products, strict=True)}
    return np.array([known[lag] for lag in range(lags + 1)])


def covariance(known: np.ndarray, lags: int) -> np.ndarray:
    """n times the covariance of measured correlations 1..lags over n products (Bartlett 1946), `[lags, lags]`."""
    both = np.concatenate([known[::-1], known[1:]])
    middle, u = len(known) - 1, np.arange(1, len(known) - lags)
    terms = np.array(
        [both[middle + u + k] + both[middle + u - k] - 2.0 * known[u] * known[k] for k in range(1, lags + 1)]
    )
    found: np.ndarray = terms @ terms.T
    return found


def readings(staleness: int, step: float, lengths: np.ndarray, lags: int, dimension: int) -> np.ndarray:
    """Share of runs whose staleness is read right by `_gac.read`, `[lengths]`.

    Measured correlations of n updates in d independent coordinates are taken as normal with the predicted mean and
    1/(n d) of Bartlett's covariance; the share is counted over drawn correlograms.
    """
    known = correlations(staleness, step, _FAR + lags)
    root = np.linalg.cholesky(covariance(known, lags) + 1e-12 * np.eye(lags))
    noise = root @ np.random.default_rng(0).standard_normal((_DRAWS, lags)).T
    right = []
    for count in lengths * dimension:
        drawn = known[1 : lags + 1, None] + noise / np.sqrt(count)
        right.append(np.mean(_gac.read(np.vstack([np.ones(_DRAWS), drawn]), count) == staleness))
    return np.array(right)
