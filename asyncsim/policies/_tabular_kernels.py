"""Compiled loops of tabular policies: drawing by inverse CDF, and scattering cotangents into the table."""

from typing import Any

import numpy as np

from asyncsim.base.compiling import kept
from asyncsim.base.rng_compiled import pair

TILE = 8
"""Tokens that are drawn before any is written: a row of memory holds eight numbers."""
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


@kept(nogil=True)
def walk(
    k0, k1, replicates, row, ids, cdf, said, slot, following, begin, states, there, action, log_prob, index, numbers
):
    """Whole trajectories: every token by inverse CDF as in `choose`, from draw 0 of its own counter.

    replicates, row [R], the row of ids int64 [M, G, N]; cdf, said [H, R, S, A], what is drawn from and recorded; slot
    int64 [1 or M, 1 or G, 1 or N, 1 or T]; following int64 [S, A], the next state, -1 behind the last token; begin
    int64 [R, G, N], the first. Filled as far as a trajectory goes: action, log_prob and index, the cell of a table
    [R, S, A], [R, G, N, T]; states and there, as many in a row, or none. numbers [2, R, G, N]: draws 0, 1 of token 0.
    """
    R, G, N, T = action.shape
    S, A = following.shape
    # Flat, and counted without a sign: nothing is looked up from the end.
    edges, tables, size = cdf.reshape(-1), said.reshape(-1), np.uint64(R * S * A)
    actions, recorded, cells = action.reshape(-1), log_prob.reshape(-1), index.reshape(-1)
    after, whole = following.reshape(-1), (following >= 0).all()
    # Whether every action of a state leads to one and the same.
    plain = np.empty(S, dtype=np.bool_)
    for s in range(S):
        plain[s] = following[s, 0] >= 0 and (following[s] == following[s, 0]).all()
    uniform, beside, here = np.empty(N), np.empty(N), np.empty(N, dtype=np.int64)
    chosen, passed = np.empty((TILE, N), dtype=np.int64), np.empty((TILE, N), dtype=np.int64)
    place = np.empty(N, dtype=np.uint64)
    for r in range(R):
        first, m = np.uint64(replicates[r]), row[r]
        ms = m if slot.shape[0] > 1 else 0
        for g in range(G):
            gs = g if slot.shape[1] > 1 else 0
            # The state that all samples are in, -1 where they differ; `here` of each is negative behind its end.
            common, left = begin[r, g, 0], N
            for n in range(N):
                here[n] = begin[r, g, n]
                if here[n] != common:
                    common = -1
            for start in range(0, T, TILE):
                if left == 0:
                    break
                count = min(TILE, T - start)
                for j in range(count):
                    t = start + j
                    ts = t if slot.shape[3] > 1 else 0
                    for n in range(N):
                        uniform[n], beside[n] = pair(k0, k1, first, np.uint64(ids[m, g, n]), np.uint64(t), np.uint64(0))
                        chosen[j, n] = 0
                    if t == 0:
                        numbers[0, r, g], numbers[1, r, g] = uniform, beside
                    if common >= 0 and slot.shape[2] == 1:
                        # One row for all samples: entry by entry, which vectorizes.
                        entries = cdf[slot[ms, gs, 0, ts], r, common]
                        last = entries[A - 1] * BELOW
                        for n in range(N):
                            uniform[n] = min(uniform[n], last)
                        for a in range(A - 1):
                            edge = entries[a]
                            for n in range(N):
                                chosen[j, n] += uniform[n] >= edge
                    else:
                        for n in range(N):
                            s = common if common >= 0 else max(here[n], 0)
                            h = slot[ms, gs, n if slot.shape[2] > 1 else 0, ts]
                            place[n] = np.uint64(h) * size + np.uint64((r * S + s) * A)
                            uniform[n] = min(uniform[n], edges[place[n] + np.uint64(A - 1)] * BELOW)
                        for a in range(A - 1):
                            for n in range(N):
                                chosen[j, n] += uniform[n] >= edges[place[n] + np.uint64(a)]
                    if common >= 0 and left == N and plain[common]:
                        passed[j] = common
                        common = following[common, 0]
                        continue
                    if whole and common < 0:
                        for n in range(N):
                            passed[j, n] = here[n]
                            here[n] = after[np.uint64(here[n] * A + chosen[j, n])]
                        continue
                    then = -2
                    for n in range(N):
                        passed[j, n] = s = common if common >= 0 and here[n] >= 0 else here[n]
                        if s >= 0:
                            here[n] = following[s, chosen[j, n]]
                            left -= here[n] < 0
                        if here[n] >= 0:
                            then = here[n] if then == -2 or then == here[n] else -1
                    common = then
                # Record a tile, so that each sample's numbers are written side by side.
                for n in range(N):
                    ns = n if slot.shape[2] > 1 else 0
                    for j in range(count):
                        s, i = passed[j, n], np.uint64(((r * G + g) * N + n) * T + start + j)
                        if s >= 0:
                            h = slot[ms, gs, ns, start + j if slot.shape[3] > 1 else 0]
                            cell = np.uint64((r * S + s) * A + chosen[j, n])
                            actions[i], cells[i], recorded[i] = chosen[j, n], cell, tables[np.uint64(h) * size + cell]
                        if states.size > 0 and s >= 0:
                            states[i] = s
                        if there.size > 0:
                            there[i] = s >= 0


@kept()
def scatter(values, index, table):
    """Add values [n] to their cells of a flat table, in index order."""
    for i in range(values.size):
        table[index[i]] += values[i]


def contiguous(array: Any) -> np.ndarray:
    """A flat contiguous NumPy array over the tensor's memory (a copy only where it is not contiguous)."""
    return array.detach().contiguous().reshape(-1).numpy()
