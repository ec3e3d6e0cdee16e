"""Compiled loops of tabular policies: drawing by inverse CDF, and scattering cotangents into the table."""

import numba
import numpy as np


@numba.njit(cache=True)
def choose(uniform, realization, cdf, slot, state, action):
    """Action of every sample: the number of CDF entries (all but the last) that do not exceed its uniform number.

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
                    count += u >= row[a]
                action[r, g, n] = count


@numba.njit(cache=True)
def scatter(cotangent, index, actions, table, rows):
    """Add cotangents [n] to their cells of the flat table and to their rows, in index order."""
    for i in range(cotangent.size):
        table[index[i]] += cotangent[i]
        rows[index[i] // actions] += cotangent[i]


@numba.njit(cache=True)
def scatter_rows(cotangent, row, rows):
    """Add cotangents [n] to rows, in index order."""
    for i in range(cotangent.size):
        rows[row[i]] += cotangent[i]


def contiguous(array) -> np.ndarray:
    """A flat contiguous NumPy array over the tensor's memory (a copy only where it is not contiguous)."""
    return array.detach().contiguous().reshape(-1).numpy()
