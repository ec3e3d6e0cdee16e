"""Compiled loops of tabular policies: drawing by inverse CDF, and scattering cotangents into the table."""

from typing import Any

import numba
import numpy as np


@numba.njit(cache=True)
def choose(uniform, realization, cdf, slot, state, action):
    """Action of every sample: the number of CDF entries that do not exceed its uniform number.

    Entries equal to the last one do not count: rounding may leave it below 1, and the last action with positive
    probability must not be passed over.

    uniform, state, action [R, G, N]; cdf [H, R, S, A]; slot int64 [1 or M, 1 or G, 1 or N]; realization [R].
    """
    R, G, N = state.shape
    A = cdf.shape[3]
    for r in range(R):
        ms = realization[r] if slot.shape[0] > 1 else 0
        for g in range(G):
            gs = g if slot.shape[1] > 1 else 0
            for n in range(N):
                row = cdf[slot[ms, gs, n if slot.shape[2] > 1 else 0], r, state[r, g, n]]
                u = uniform[r, g, n]
                count = 0
                for a in range(A - 1):
                    count += (u >= row[a]) & (row[a] < row[A - 1])
                action[r, g, n] = count


@numba.njit(cache=True)
def scatter(values, index, table):
    """Add values [n] to their cells of a flat table, in index order."""
    for i in range(values.size):
        table[index[i]] += values[i]


def contiguous(array: Any) -> np.ndarray:
    """A flat contiguous NumPy array over the tensor's memory (a copy only where it is not contiguous)."""
    return array.detach().contiguous().reshape(-1).numpy()
