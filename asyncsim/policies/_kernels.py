"""Compiled loops of tables: drawing by inverse CDF, scattering cotangents, and engines' truncated laws and noise."""

import math
from typing import Any

import numba
import numpy as np

from asyncsim.base.compiling import kept
from asyncsim.base.rng_compiled import pair

TILE = 8
"""Tokens that are drawn before any is written: a row of memory holds eight numbers."""
BELOW = 1.0 - 2.0**-52
"""A factor that takes a number to one just below it."""


@kept()
def choose(uniform, realization, cdf, slot, state, action):
    """Choose the action of every sample by inverse CDF: the number of CDF entries that do not exceed a uniform draw.

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
            first = state[r, g, 0]
            apart = 0
            for n in range(N):
                apart += state[r, g, n] != first
                action[r, g, n] = 0
            if apart == 0 and slot.shape[2] == 1:
                row = cdf[slot[ms, gs, 0], r, first]
                last = row[A - 1] * BELOW
                for a in range(A - 1):
                    edge = row[a]
                    for n in range(N):
                        action[r, g, n] += min(uniform[r, g, n], last) >= edge
            else:
                for n in range(N):
                    row = cdf[slot[ms, gs, n if slot.shape[2] > 1 else 0], r, state[r, g, n]]
                    u = min(uniform[r, g, n], row[A - 1] * BELOW)
                    for a in range(A - 1):
                        action[r, g, n] += u >= row[a]


@kept(nogil=True)
def walk(
    k0, k1, replicates, row, ids, cdf, said, slot, following, begin, states, there, action, log_prob, index, numbers
):
    """Sample full trajectories: every token by inverse CDF as in `choose`, from draw 0 of its own counter.

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
    """Add values [n] to the cells of a flat table given by their indices [n], in index order."""
    for i in range(values.size):
        table[index[i]] += values[i]


def contiguous(array: Any) -> np.ndarray:
    """Flat contiguous NumPy array on a tensor's memory (a copy only if the tensor is not contiguous)."""
    return array.detach().contiguous().reshape(-1).numpy()


NORMAL, UNIFORM = 0, 1
ROOT_3 = math.sqrt(3.0)
LOG_2, LOG2_E = math.log(2.0), 1.0 / math.log(2.0)
MAGIC = 1.5 * 2.0**52
LN2_HIGH, LN2_LOW = 6.93145751953125e-1, 1.42860682030941723212e-6
LOGS = tuple(2.0 / (2 * k + 1) for k in range(9))
SINES = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(11))
COSINES = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(12))
EXPONENTIALS = tuple(1.0 / math.factorial(k) for k in range(14))


def _series(coefficients):
    """Compile a polynomial with constant coefficients, lowest first, unrolled."""

    def value(x):
        total = coefficients[-1]
        for place in numba.literal_unroll(coefficients[-2::-1]):
            total = total * x + place
        return total

    return numba.njit(value)


_log_series, _exp_series = _series(LOGS), _series(EXPONENTIALS)
_sine_series, _cosine_series = _series(SINES), _series(COSINES)


@numba.njit
def _logs(x, bits):
    """log x in place, x > 0; `bits` is the same memory as integers. Loops without branches or calls vectorize."""
    for i in range(x.size):
        exponent = float((bits[i] >> 52) - 1023)
        bits[i] = (bits[i] & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000
        # The mantissa in [sqrt 1/2, sqrt 2): then the series in s = (m - 1)/(m + 1) is short.
        high = 1.0 if x[i] > 1.4142135623730951 else 0.0
        m = x[i] * (1.0 - 0.5 * high)
        s = (m - 1.0) / (m + 1.0)
        x[i] = (exponent + high) * LOG_2 + s * _log_series(s * s)


@numba.njit
def exponentials(x, scale):
    """Compute exp x in place for x clamped to [-700, 700]; `scale` is scratch space of the same size."""
    for i in range(x.size):
        held = min(max(x[i], -700.0), 700.0)
        # Added to 1.5 * 2^52 a number is rounded to an integer, which stands in the last bits.
        scale[i] = held * LOG2_E + MAGIC
        k = scale[i] - MAGIC
        x[i] = (held - k * LN2_HIGH) - k * LN2_LOW
    bits = scale.view(np.int64)
    for i in range(bits.size):
        bits[i] = (bits[i] + 1023) << 52
    for i in range(x.size):
        x[i] = _exp_series(x[i]) * scale[i]


@numba.njit
def _shape(law, degrees, scale, u, v, uu, first, second):
    """Turn each pair of uniform numbers into two noise values in `first` and `second`; for "student" only the first.

    Source: Bailey 1994 for t: sqrt(nu (u^(-2/nu) - 1)) cos(2 pi v).
    """
    if law == UNIFORM:
        for i in range(u.size):
            first[i], second[i] = scale * ROOT_3 * (2.0 * u[i] - 1.0), scale * ROOT_3 * (2.0 * v[i] - 1.0)
        return
    for i in range(u.size):
        u[i] = 1.0 - u[i]
    _logs(u, uu)
    if law == NORMAL:
        for i in range(u.size):
            u[i] = scale * math.sqrt(-2.0 * u[i])
    else:
        for i in range(u.size):
            u[i] *= -2.0 / degrees
        exponentials(u, first)
        for i in range(u.size):
            u[i] = scale * math.sqrt((degrees - 2.0) * max(u[i] - 1.0, 0.0))
    for i in range(u.size):
        half = math.pi * (v[i] - 0.5)
        square = half * half
        s, c = half * _sine_series(square), _cosine_series(square)
        first[i], second[i] = u[i] * (s * s - c * c), -2.0 * u[i] * s * c


@numba.njit
def _uniforms(k0, k1, c0, ids, third, blocks, u, v):
    """Both uniform numbers of each block at counters (c0, id, third), `[blocks * n]`."""
    n, start = ids.size, np.uint64(c0)
    for d in range(blocks):
        for i in range(n):
            u[d * n + i], v[d * n + i] = pair(k0, k1, start, np.uint64(ids[i]), np.uint64(third), np.uint64(d))


@numba.njit
def _placed(first, second, law, out):
    """Move numbers from blocks `[blocks * n]` to `[n, D]`; for "student" each number has its own block."""
    n, D = out.shape
    for d in range(first.size // n):
        for i in range(n):
            if law > UNIFORM:
                out[i, d] = first[d * n + i]
            else:
                out[i, 2 * d] = first[d * n + i]
                if 2 * d + 1 < D:
                    out[i, 2 * d + 1] = second[d * n + i]


@numba.njit
def _blocks(D, law):
    return D if law > UNIFORM else (D + 1) // 2


@numba.njit
def _descending(values):
    """Sort values in descending order; for few values, insertion takes a tenth of the time of a general sort."""
    if values.size > 32:
        return np.sort(values)[::-1]
    ordered = values.copy()
    for i in range(1, ordered.size):
        value, j = ordered[i], i
        while j > 0 and ordered[j - 1] < value:
            ordered[j] = ordered[j - 1]
            j -= 1
        ordered[j] = value
    return ordered


@numba.njit
def _least(scaled, top_k, top_p):
    """Smallest logit that is kept: of the `top_k` largest (0: all), the first that together reach mass `top_p`."""
    ordered = _descending(scaled)
    count = top_k if 0 < top_k < ordered.size else ordered.size
    least = ordered[count - 1]
    if top_p < 1.0:
        total = 0.0
        for a in range(ordered.size):
            if ordered[a] >= least:
                total += math.exp(ordered[a] - ordered[0])
        before = math.exp(0.0)
        kept_least = ordered[0]
        for a in range(1, ordered.size):
            if ordered[a] < least or before >= top_p * total:
                break
            kept_least = ordered[a]
            before += math.exp(ordered[a] - ordered[0])
        least = kept_least
    return least


@numba.njit
def _weigh(logits, temperature, top_k, top_p, weight):
    """Replace logits by (logit - max) / temperature, fill in weights (0: not kept), and return their sum."""
    high = -np.inf
    for a in range(logits.size):
        logits[a] = logits[a] / temperature
        high = max(high, logits[a])
    cut = 0 < top_k < logits.size or top_p < 1.0
    least = _least(logits, top_k, top_p) if cut else -np.inf
    total = 0.0
    for a in range(logits.size):
        inside = not cut or logits[a] >= least
        logits[a] -= high
        weight[a] = math.exp(logits[a]) if inside else 0.0
        total += weight[a]
    return total


@kept(nogil=True)
def lay_out(table, noise, temperature, top_k, top_p, sampled, cdf):
    """Log-probs and CDF of an engine's sampling distribution, `[R, S, A]`, from policy log-probs and optional noise."""
    R, S, A = table.shape
    logits, weight = np.empty(A), np.empty(A)
    for r in range(R):
        for s in range(S):
            for a in range(A):
                logits[a] = table[r, s, a] + (noise[r, s, a] if noise.size > 0 else 0.0)
            total = _weigh(logits, temperature, top_k, top_p, weight)
            log_total, below = math.log(total), 0.0
            for a in range(A):
                below += weight[a] / total
                cdf[r, s, a] = below
                sampled[r, s, a] = logits[a] - log_total if weight[a] > 0.0 else -np.inf


@kept(nogil=True)
def fill_noise(k0, k1, first, row, ids, law, degrees, scale, out):
    """Draw an engine's noise, `[R, n, D]`, from the counters (replicate, id, 0) of the selected ids."""
    R, n, D = out.shape
    blocks = _blocks(D, law)
    size = n * blocks
    u, v, one, other = np.empty(R * size), np.empty(R * size), np.empty(R * size), np.empty(R * size)
    for r in range(R):
        own = slice(r * size, (r + 1) * size)
        _uniforms(k0, k1, first[r], ids[row[r]], 0, blocks, u[own], v[own])
    # All replicates together, since a group may be few.
    _shape(law, degrees, scale, u, v, u.view(np.int64), one, other)
    for r in range(R):
        own = slice(r * size, (r + 1) * size)
        _placed(one[own], other[own], law, out[r])


@kept(nogil=True)
def act_on_noise(
    k0, k1, first, realization, ids, third, law, degrees, scale,
    table, temperature, top_k, top_p, uniform, slot, state, action, log_prob,
):  # fmt: skip
    """Sample actions from noisy logits, with log-probs under the noisy distribution; shapes as in `choose`."""
    R, G, N = state.shape
    A = table.shape[3]
    blocks = _blocks(A, law)
    logits, weight, spare, work = np.empty((N, A)), np.empty((N, A)), np.empty(N * A), np.empty((4, N * blocks))
    u, v = work[0], work[1]
    cut, sharpness = 0 < top_k < A or top_p < 1.0, 1.0 / temperature
    for r in range(R):
        row = realization[r]
        ms = row if slot.shape[0] > 1 else 0
        for g in range(G):
            _uniforms(k0, k1, first[r], ids[row, g], third, blocks, u, v)
            _shape(law, degrees, scale, u, v, u.view(np.int64), work[2], work[3])
            _placed(work[2], work[3], law, logits)
            # Logits over the temperature, less the largest of each sample.
            for n in range(N):
                own = table[slot[ms, g if slot.shape[1] > 1 else 0, n if slot.shape[2] > 1 else 0], r, state[r, g, n]]
                high = -np.inf
                for a in range(A):
                    logits[n, a] = (logits[n, a] + own[a]) * sharpness
                    high = max(high, logits[n, a])
                for a in range(A):
                    logits[n, a] -= high
                    weight[n, a] = logits[n, a]
            exponentials(weight.reshape(-1), spare)
            for n in range(N):
                if cut:
                    least = _least(logits[n], top_k, top_p)
                    for a in range(A):
                        weight[n, a] = weight[n, a] if logits[n, a] >= least else 0.0
                total = 0.0
                for a in range(A):
                    total += weight[n, a]
                # Count the edges that do not exceed the uniform number; the last one that is possible is kept.
                drawn, below, chosen = min(uniform[r, g, n], BELOW) * total, 0.0, 0
                for a in range(A):
                    if weight[n, a] > 0.0:
                        chosen = a
                        below += weight[n, a]
                        if drawn < below:
                            break
                action[r, g, n] = chosen
                log_prob[r, g, n] = logits[n, chosen] - math.log(total)
