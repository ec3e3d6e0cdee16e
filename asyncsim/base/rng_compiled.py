"""The compiled twin of `rng`: scalar functions for numba kernels, and array wrappers."""

import math
from typing import Any

import numba
import numpy as np

from asyncsim.base import rng
from asyncsim.base.compiling import kept

_M0 = np.uint64(rng.MULTIPLIER_0)
_M1 = np.uint64(rng.MULTIPLIER_1)
_W0 = np.uint64(rng.WEYL_0)
_W1 = np.uint64(rng.WEYL_1)
_MASK = np.uint64(rng.MASK)
_SHIFT = np.uint64(32)
_ONE = np.uint64(1)
_FIVE = np.uint64(5)
_SIX = np.uint64(6)


@numba.njit(inline="always")
def block(k0, k1, c0, c1, c2, c3):
    """Four 32-bit words of Philox4x32-10 for one counter, each in a uint64."""
    k0, k1 = np.uint64(k0), np.uint64(k1)
    c0, c1, c2, c3 = np.uint64(c0), np.uint64(c1), np.uint64(c2), np.uint64(c3)
    for _ in range(10):
        p0 = c0 * _M0
        p1 = c2 * _M1
        c0 = (p1 >> _SHIFT) ^ c1 ^ k0
        c1 = p1 & _MASK
        c2 = (p0 >> _SHIFT) ^ c3 ^ k1
        c3 = p0 & _MASK
        k0 = (k0 + _W0) & _MASK
        k1 = (k1 + _W1) & _MASK
    return c0, c1, c2, c3


@numba.njit(inline="always")
def fraction(high, low):
    """Combine two words to a 53-bit fraction in [0, 1)."""
    return (float(high >> np.uint64(5)) * rng.TWO_26 + float(low >> np.uint64(6))) * rng.TWO_M53


@kept()
def uniform_at(k0, k1, c0, c1, c2, draw):
    """One uniform number at given coordinates, with the same bits as `rng.Stream.uniform`."""
    draw = np.uint64(draw)
    w0, w1, w2, w3 = block(k0, k1, c0, c1, c2, draw >> _ONE)
    return fraction(w2, w3) if draw & _ONE else fraction(w0, w1)


@kept()
def normal_at(k0, k1, c0, c1, c2, draw):
    """One standard normal number at given coordinates, within 4 units in the last place of `Stream.normal`."""
    draw = np.uint64(draw)
    w0, w1, w2, w3 = block(k0, k1, c0, c1, c2, draw >> _ONE)
    radius = math.sqrt(-2.0 * math.log(1.0 - fraction(w0, w1)))
    angle = 2.0 * math.pi * fraction(w2, w3)
    return radius * math.sin(angle) if draw & _ONE else radius * math.cos(angle)


@numba.njit(inline="always")
def pair(k0, k1, c0, c1, c2, c3):
    """Both uniform numbers of a Philox block, without branches and conversions that vector units lack."""
    a, b = np.uint64(k0), np.uint64(k1)
    for _ in range(10):
        p0 = (c0 & _MASK) * _M0
        p1 = (c2 & _MASK) * _M1
        c0 = ((p1 >> _SHIFT) ^ c1 ^ a) & _MASK
        c1 = p1 & _MASK
        c2 = ((p0 >> _SHIFT) ^ c3 ^ b) & _MASK
        c3 = p0 & _MASK
        a = (a + _W0) & _MASK
        b = (b + _W1) & _MASK
    # Through int64: the signed conversion is the one that vector units have.
    low = (float(np.int64(c0 >> _FIVE)) * rng.TWO_26 + float(np.int64(c1 >> _SIX))) * rng.TWO_M53
    high = (float(np.int64(c2 >> _FIVE)) * rng.TWO_26 + float(np.int64(c3 >> _SIX))) * rng.TWO_M53
    return low, high


@kept(nogil=True)
def fill_block(k0, k1, first, row, second, third, number, low, high):
    """Both uniform numbers of one block for R x n counters: draws 2*number -> low and 2*number + 1 -> high, `[R, n]`.

    first [R]; row [R], the row of second [M, n] that each replicate reads. The loop is vectorized, an order of
    magnitude faster than calls of `uniform_at`.
    """
    for r in range(first.size):
        start = np.uint64(first[r])
        ids = second[row[r]]
        for i in range(ids.size):
            low[r, i], high[r, i] = pair(k0, k1, start, np.uint64(ids[i]), np.uint64(third), np.uint64(number))


@kept(nogil=True)
def fill_normals(k0, k1, first, row, second, third, begin, out):
    """Standard normal draws begin, begin + 1, ... for R x n counters, `[R, n, D]`, as in `normal_at`; `begin` is even.

    first [R]; row [R], the row of second [M, n] that each replicate reads. Both halves of a block come from one
    logarithm.
    """
    for r in range(first.size):
        ids = second[row[r]]
        for i in range(ids.size):
            for d in range(0, out.shape[2], 2):
                w0, w1, w2, w3 = block(k0, k1, first[r], ids[i], third, (begin + d) // 2)
                radius = math.sqrt(-2.0 * math.log(1.0 - fraction(w0, w1)))
                angle = 2.0 * math.pi * fraction(w2, w3)
                out[r, i, d] = radius * math.cos(angle)
                if d + 1 < out.shape[2]:
                    out[r, i, d + 1] = radius * math.sin(angle)


@kept(nogil=True)
def fill_parts(k0, k1, first, second, third, out):
    """Shuffle each row of n items and split it into equal parts, such as minibatches, `[parts, R, rows, n / parts]`.

    Shuffles are Fisher and Yates's: position k is swapped with k + floor(u (n - k)). first [R]. Row m of a replicate
    uses n - 1 draws after those of the rows before it, one per swap. Items are numbered through all rows.
    """
    parts, R, rows, each = out.shape
    size = parts * each
    u, order = np.empty(rows * (size - 1) + 1), np.empty(size, dtype=np.int64)
    for r in range(R):
        # All draws first: then they are vectorized.
        start = np.uint64(first[r])
        for number in range(u.size // 2):
            both = pair(k0, k1, start, np.uint64(second), np.uint64(third), np.uint64(number))
            u[2 * number], u[2 * number + 1] = both
        for m in range(rows):
            own = u[m * (size - 1) :]
            for k in range(size):
                order[k] = m * size + k
            for k in range(size - 1):
                place = k + int(own[k] * (size - k))
                order[k], order[place] = order[place], order[k]
            for part in range(parts):
                out[part, r, m] = order[part * each : (part + 1) * each]


@kept(nogil=True)
def _to_normals(low, high):
    """Convert uniform numbers, in place, to the even normal draw of every block; as `normal_at`."""
    for i in range(low.size):
        low[i] = math.sqrt(-2.0 * math.log(1.0 - low[i])) * math.cos(2.0 * math.pi * high[i])


@kept(nogil=True)
def _fill_uniform(k0, k1, c0, c1, c2, draw, out):
    for i in range(out.size):
        out[i] = uniform_at(k0, k1, c0[i], c1[i], c2[i], draw[i])


@kept(nogil=True)
def _fill_normal(k0, k1, c0, c1, c2, draw, out):
    for i in range(out.size):
        out[i] = normal_at(k0, k1, c0[i], c1[i], c2[i], draw[i])


def uniform(stream: rng.Stream, first: Any, second: Any, third: Any = 0, draw: Any = 0) -> np.ndarray:
    """Array form of `uniform_at`, in the broadcast shape of the coordinates."""
    if _is_run(first, second, third, draw):
        return _run(stream, first, second, third, draw)[draw & 1]
    return _array(_fill_uniform, stream, first, second, third, draw)


def normal(stream: rng.Stream, first: Any, second: Any, third: Any = 0, draw: Any = 0) -> np.ndarray:
    """Array form of `normal_at`, in the broadcast shape of the coordinates."""
    if _is_run(first, second, third, draw) and draw == 0:
        # The blocks first: by themselves they are vectorized.
        low, high = _run(stream, first, second, third, 0)
        _to_normals(low, high)
        return low
    return _array(_fill_normal, stream, first, second, third, draw)


def _run(stream: rng.Stream, first: Any, second: np.ndarray, third: Any, draw: Any) -> tuple[np.ndarray, np.ndarray]:
    """Both uniform numbers of the block that contains this draw, for every second coordinate."""
    low, high = np.empty((1, len(second))), np.empty((1, len(second)))
    row = np.zeros(1, dtype=np.int64)
    fill_block(*stream.key, np.array([first]), row, second[None], third, draw >> 1, low, high)
    return low[0], high[0]


def _is_run(first: Any, second: Any, third: Any, draw: Any) -> bool:
    """Whether only the second coordinate varies, and over integers: the block pattern of draws in systems."""
    single = all(isinstance(c, (int, np.integer)) and 0 <= c <= rng.MASK for c in (first, third, draw))
    run = isinstance(second, np.ndarray) and second.ndim == 1 and second.dtype == np.int64 and second.size > 0
    return single and run and second.min() >= 0 and second.max() <= rng.MASK


def _array(fill: Any, stream: rng.Stream, *coordinates: Any) -> np.ndarray:
    arrays = rng.broadcast(*coordinates)
    out = np.empty(arrays[0].shape, dtype=np.float64)
    flat = [np.ascontiguousarray(a).reshape(-1) for a in arrays]
    fill(*stream.key, *flat, out.reshape(-1))
    return out
