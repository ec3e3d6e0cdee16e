"""Compiled loops of tabular policies: drawing by inverse CDF, and scattering cotangents into the table."""

from typing import Any

import numpy as np

from asyncsim.base.compiling import kept

BELOW = 1.0 - 2.0**-52
"""A factor that takes a number to one just below it."""


@kept()
def choose(uniform, realization, cdf, slot, state, action):
    """Action of every sample: the number of CDF entries that do not exceed its uniform number.

    uniform, state, action [R, G, N]; cdf [H, R, S, A]; slot int64 [1 or M, 1 or G, 1 or N]; realization [R]. Numbers
    are held below the last entry, which rounding may leave below 1: the last action with positive probability must
    not be passed over. A group that reads one row is counted entry by entry over all its samples, which vectorizes.
    """
    R, G, N = state.shape
    A = cdf.shape[3]
    for r in range(R):
        ms = realization[r] if slot.shape[0] > 1 else 0
        for g in range(G):
            gs = g if slot.shape[1] > 1 else 0
            # Find whether the group reads one state.
            first = state[r, g, 0]
            apart = 0
            for n in range(N):
                apart += state[r, g, n] != first
                action[r, g, n] = 0
            if apart == 0 and slot.shape[2] == 1:
                # Count entries for all samples together.
                row = cdf[slot[ms, gs, 0], r, first]
                last = row[A - 1] * BELOW
                for a in range(A - 1):
                    edge = row[a]
                    for n in range(N):
                        action[r, g, n] += min(uniform[r, g, n], last) >= edge
            else:
                for n in range(N):
                    # Count entries sample by sample.
                    row = cdf[slot[ms, gs, n if slot.shape[2] > 1 else 0], r, state[r, g, n]]
                    u = min(uniform[r, g, n], row[A - 1] * BELOW)
                    for a in range(A - 1):
                        action[r, g, n] += u >= row[a]


@kept()
def scatter(values, index, table):
    """Add values [n] to their cells of a flat table, in index order."""
    for i in range(values.size):
        table[index[i]] += values[i]


def contiguous(array: Any) -> np.ndarray:
    """A flat contiguous NumPy array over the tensor's memory (a copy only where it is not contiguous)."""
    return array.detach().contiguous().reshape(-1).numpy()
