"""Keyed randomness: every draw is a function of (seed, stream name) and four integer coordinates.

A counter-based generator makes a result independent of the order in which it is computed, of block sizes and of worker
counts. Trajectory 17 of replicate 3 uses the same number for token 5 when drawn early, late, alone or in a block of
thousands. This module is the NumPy twin; `rng_compiled` holds the numba twin. Integers and uniforms agree to the bit,
normals to 4 units in the last place.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), Philox4x32 with 10 rounds.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from asyncsim.base import checks

MULTIPLIER_0 = 0xD2511F53
MULTIPLIER_1 = 0xCD9E8D57
WEYL_0 = 0x9E3779B9
WEYL_1 = 0xBB67AE85
ROUNDS = 10
MASK = 0xFFFFFFFF
TWO_26 = 67108864.0
TWO_M53 = 1.0 / 9007199254740992.0


@dataclass(frozen=True)
class Stream:
    """A named stream of random draws under one seed: the Philox key.

    The key is a 64-bit digest of (seed, name), so streams of different names never share a draw.

    Arguments: `seed`, a non-negative integer; `name`, any text ("action", "reward", "work").
    Coordinates of a draw: (replicate, trajectory, token, draw) in learning, (realization, sample, attempt, draw) in the
    event simulation. Each is a non-negative integer below 2^32, broadcast against the others.

    >>> Stream(0, "action").uniform(0, [0, 1, 2], 0, 0).round(3).tolist()
    [0.84, 0.683, 0.368]
    """

    seed: int
    name: str

    def __post_init__(self) -> None:
        checks.integer("seed", self.seed, 0, "give a non-negative integer seed", 2**63 - 1)

    @property
    def key(self) -> tuple[int, int]:
        """The two 32-bit words of the stream's Philox key."""
        text = f"{self.seed}:{self.name}".encode()
        word = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
        return word & MASK, word >> 32

    def uniform(self, first: Any, second: Any, third: Any = 0, draw: Any = 0) -> np.ndarray:
        """Uniform numbers in [0, 1) with 53 random bits, float64, in the coordinates' broadcast shape."""
        first, second, third, draw = broadcast(first, second, third, draw)
        words = philox(self.key, first, second, third, draw >> np.uint64(1))
        odd = (draw & np.uint64(1)).astype(bool)
        return _double(np.where(odd, words[2], words[0]), np.where(odd, words[3], words[1]))

    def normal(self, first: Any, second: Any, third: Any = 0, draw: Any = 0) -> np.ndarray:
        """Standard normal numbers by Box-Muller, float64; draws 2k and 2k+1 are the two halves of one block."""
        first, second, third, draw = broadcast(first, second, third, draw)
        words = philox(self.key, first, second, third, draw >> np.uint64(1))
        radius = np.sqrt(-2.0 * np.log(1.0 - _double(words[0], words[1])))
        angle = 2.0 * np.pi * _double(words[2], words[3])
        return radius * np.where((draw & np.uint64(1)).astype(bool), np.sin(angle), np.cos(angle))


def philox(key: tuple[int, int], c0: Any, c1: Any, c2: Any, c3: Any) -> tuple[np.ndarray, ...]:
    """Four 32-bit words (held in uint64) of Philox4x32-10 for each counter.

    >>> [f"{int(w):08x}" for w in philox((0, 0), 0, 0, 0, 0)]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    c0, c1, c2, c3 = (np.asarray(c, dtype=np.uint64) for c in (c0, c1, c2, c3))
    k0, k1 = key
    mask, shift = np.uint64(MASK), np.uint64(32)
    for _ in range(ROUNDS):
        product_0 = c0 * np.uint64(MULTIPLIER_0)
        product_1 = c2 * np.uint64(MULTIPLIER_1)
        c0, c1, c2, c3 = (
            (product_1 >> shift) ^ c1 ^ np.uint64(k0),
            product_1 & mask,
            (product_0 >> shift) ^ c3 ^ np.uint64(k1),
            product_0 & mask,
        )
        k0, k1 = (k0 + WEYL_0) & MASK, (k1 + WEYL_1) & MASK
    return c0, c1, c2, c3


def broadcast(*coordinates: Any) -> tuple[np.ndarray, ...]:
    """Broadcast coordinates to uint64 arrays of one shape; rejects numbers outside [0, 2^32)."""
    arrays = [np.asarray(c) for c in coordinates]
    for array in arrays:
        if array.size and (array.min() < 0 or array.max() > MASK):
            beyond = int(array.min() if array.min() < 0 else array.max())
            raise checks.InputError("random coordinate", beyond, "in [0, 2^32)", "split the run over seeds")
    return tuple(np.broadcast_arrays(*(a.astype(np.uint64) for a in arrays)))


def _double(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Combine two 32-bit words to 53-bit fractions."""
    top = (high >> np.uint64(5)).astype(np.float64)
    bottom = (low >> np.uint64(6)).astype(np.float64)
    return (top * TWO_26 + bottom) * TWO_M53
