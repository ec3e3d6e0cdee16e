"""Compiled loops of an engine on tables: truncated laws, keyed noise, and tokens drawn under it."""

import math

import numba
import numpy as np

from asyncsim.base.compiling import kept
from asyncsim.base.rng_compiled import block, fraction
from asyncsim.policies._tabular_kernels import BELOW

NORMAL, UNIFORM = 0, 1
ROOT_3 = math.sqrt(3.0)


@numba.njit(inline="always")
def _pair(k0, k1, c0, c1, c2, number, law, degrees, scale):
    """Two numbers of a law with mean 0 and standard deviation `scale`; of "student" only the first is one.

    Source: Bailey 1994 for t: sqrt(nu (u^(-2/nu) - 1)) cos(2 pi v).
    """
    w0, w1, w2, w3 = block(k0, k1, c0, c1, c2, number)
    u, v = fraction(w0, w1), fraction(w2, w3)
    if law == UNIFORM:
        return scale * ROOT_3 * (2.0 * u - 1.0), scale * ROOT_3 * (2.0 * v - 1.0)
    if law == NORMAL:
        radius = scale * math.sqrt(-2.0 * math.log(1.0 - u))
        return radius * math.cos(2.0 * math.pi * v), radius * math.sin(2.0 * math.pi * v)
    radius = scale * math.sqrt((degrees - 2.0) * ((1.0 - u) ** (-2.0 / degrees) - 1.0))
    return radius * math.cos(2.0 * math.pi * v), 0.0


@numba.njit(inline="always")
def _fill(k0, k1, c0, c1, c2, law, degrees, scale, out):
    """Noise of one counter: normal and uniform numbers come in pairs, those of "student" have a block each."""
    if law <= UNIFORM:
        for d in range(0, out.size, 2):
            first, second = _pair(k0, k1, c0, c1, c2, d // 2, law, degrees, scale)
            out[d] = first
            if d + 1 < out.size:
                out[d + 1] = second
    else:
        for d in range(out.size):
            out[d], _ = _pair(k0, k1, c0, c1, c2, d, law, degrees, scale)


@numba.njit
def _least(scaled, top_k, top_p):
    """The smallest logit that is kept: of the `top_k` largest (0: all), the first that together hold `top_p`.

    An action is kept when those before it hold less than `top_p`.
    """
    ordered = np.sort(scaled)[::-1]
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
def fill_noise(k0, k1, first, version, law, degrees, scale, out):
    """Noise of one version for every replicate, `[R, n]`."""
    for r in range(first.size):
        _fill(k0, k1, first[r], version, 0, law, degrees, scale, out[r])


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
    noise, logits, weight = np.empty(A), np.empty(A), np.empty(A)
    for r in range(R):
        row = realization[r]
        ms = row if slot.shape[0] > 1 else 0
        for g in range(G):
            for n in range(N):
                own = table[slot[ms, g if slot.shape[1] > 1 else 0, n if slot.shape[2] > 1 else 0], r, state[r, g, n]]
                _fill(k0, k1, first[r], ids[row, g, n], third, law, degrees, scale, noise)
                for a in range(A):
                    logits[a] = own[a] + noise[a]
                total = _weigh(logits, temperature, top_k, top_p, weight)
                # Count the edges that do not exceed the uniform number; the last one that is possible is kept.
                u, below, chosen = min(uniform[r, g, n], BELOW) * total, 0.0, 0
                for a in range(A):
                    if weight[a] > 0.0:
                        chosen = a
                        below += weight[a]
                        if u < below:
                            break
                action[r, g, n] = chosen
                log_prob[r, g, n] = logits[chosen] - math.log(total)


@kept(nogil=True)
def act_and_misreport(
    k0, k1, first, realization, ids, third, law, degrees, scale,
    cdf, sampled, uniform, slot, state, action, log_prob,
):  # fmt: skip
    """Actions drawn from the CDF of the engine's law, and their log-probs with noise added; else as above."""
    R, G, N = state.shape
    A = cdf.shape[3]
    noise = np.empty(1)
    for r in range(R):
        row = realization[r]
        ms = row if slot.shape[0] > 1 else 0
        for g in range(G):
            for n in range(N):
                place = slot[ms, g if slot.shape[1] > 1 else 0, n if slot.shape[2] > 1 else 0]
                edges = cdf[place, r, state[r, g, n]]
                u, chosen = min(uniform[r, g, n], edges[A - 1] * BELOW), 0
                for a in range(A - 1):
                    chosen += u >= edges[a]
                _fill(k0, k1, first[r], ids[row, g, n], third, law, degrees, scale, noise)
                action[r, g, n] = chosen
                log_prob[r, g, n] = sampled[place, r, state[r, g, n], chosen] + noise[0]
