"""Compiled loops of an engine on tables: truncated laws, keyed noise, and tokens drawn under it."""

import math

import numba
import numpy as np

from asyncsim.base.compiling import kept
from asyncsim.base.rng_compiled import pair
from asyncsim.policies._tabular_kernels import BELOW

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
    """A compiled polynomial with constant coefficients, lowest first, unrolled."""

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
    """log x in place, x > 0; `bits` is the same memory as integers. Loops without branches or calls are vectorized."""
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
    """exp x in place for x in [-700, 700] (beyond: as at these ends); `scale` is as much room."""
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
    """Two numbers for each pair of uniform ones, in place of `first` and `second`; of "student" only the first is one.

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
    """Both uniform numbers of the blocks of counters (c0, id, third), `[blocks * n]`."""
    n, start = ids.size, np.uint64(c0)
    for d in range(blocks):
        for i in range(n):
            u[d * n + i], v[d * n + i] = pair(k0, k1, start, np.uint64(ids[i]), np.uint64(third), np.uint64(d))


@numba.njit
def _placed(first, second, law, out):
    """Numbers of blocks `[blocks * n]` where they belong, `[n, D]`; those of "student" have a block each."""
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
    """Values from large to small; of a few, an insertion takes a tenth of the time of a general sort."""
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
    """The smallest logit that is kept: of the `top_k` largest (0: all), the first that together hold `top_p`.

    An action is kept when those before it hold less than `top_p`.
    """
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
    """Leave logits over the temperature less their largest, fill in weights (0: not kept), and return their sum."""
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
    """Log-probs and CDF of the engine's law, `[R, S, A]`, from those of the policy and noise on them (or nothing)."""
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
    """Noise of counters (replicate, id, 0), `[R, n, D]`; first [R]; row [R], the row of ids [M, n] that each reads."""
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
    """Actions drawn from noisy logits, and their log-probs under that law; shapes as in `_tabular_kernels.choose`.

    The draws of the noise are keyed by replicate, trajectory and `third` (the token, or 0 for the whole sequence).
    """
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
