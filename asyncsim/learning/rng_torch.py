"""The torch twin of `rng`: the same draws as tensors, on any device.

Integers and uniforms agree with the NumPy twin to the bit, normals to 4 units in the last place.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from asyncsim.base import checks, rng

_HALF = 0xFFFF


def uniform(
    stream: rng.Stream, first: Any, second: Any, third: Any = 0, draw: Any = 0, device: torch.device | str = "cpu"
) -> Tensor:
    """Uniform numbers in [0, 1) with 53 random bits, float64, in the broadcast shape of the coordinates.

    Arguments: `stream`, the key; `first`, `second`, `third`, `draw`, integers in [0, 2^32) as in `rng.Stream.uniform`;
    `device` of the result. Raises `InputError` for other coordinates.

    >>> uniform(rng.Stream(0, "action"), 0, [0, 1, 2]).round(decimals=3).tolist()
    [0.84, 0.683, 0.368]
    """
    words, odd = _words(stream, (first, second, third, draw), device)
    return _double(torch.where(odd, words[2], words[0]), torch.where(odd, words[3], words[1]))


def normal(
    stream: rng.Stream, first: Any, second: Any, third: Any = 0, draw: Any = 0, device: torch.device | str = "cpu"
) -> Tensor:
    """Standard normal numbers by Box-Muller, float64; draws 2k and 2k+1 are the two halves of one block.

    Arguments and errors as in `uniform`.

    >>> normal(rng.Stream(0, "action"), 0, [0, 1], draw=[[0], [1]]).shape
    torch.Size([2, 2])
    """
    words, odd = _words(stream, (first, second, third, draw), device)
    radius = torch.sqrt(-2.0 * torch.log(1.0 - _double(words[0], words[1])))
    angle = 2.0 * math.pi * _double(words[2], words[3])
    return radius * torch.where(odd, torch.sin(angle), torch.cos(angle))


def philox(
    key: tuple[int, int], c0: Tensor, c1: Tensor, c2: Tensor, c3: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four 32-bit words (held in int64) of Philox4x32-10 for each counter.

    >>> zero = torch.zeros((), dtype=torch.int64)
    >>> [f"{int(w):08x}" for w in philox((0, 0), zero, zero, zero, zero)]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    k0, k1 = key
    for _ in range(rng.ROUNDS):
        high_0, low_0 = _product(c0, rng.MULTIPLIER_0)
        high_1, low_1 = _product(c2, rng.MULTIPLIER_1)
        c0, c1, c2, c3 = high_1 ^ c1 ^ k0, low_1, high_0 ^ c3 ^ k1, low_0
        k0, k1 = (k0 + rng.WEYL_0) & rng.MASK, (k1 + rng.WEYL_1) & rng.MASK
    return c0, c1, c2, c3


def _words(
    stream: rng.Stream, coordinates: tuple[Any, ...], device: torch.device | str
) -> tuple[tuple[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """The block of every draw, and whether it is the second of its block."""
    tensors = [torch.as_tensor(c, dtype=torch.int64, device=device) for c in coordinates]
    for tensor in tensors:
        if tensor.numel() and not 0 <= int(tensor.min()) <= int(tensor.max()) <= rng.MASK:
            worst = int(tensor.min() if tensor.min() < 0 else tensor.max())
            raise checks.InputError("random coordinate", worst, "in [0, 2^32)", "split the run over seeds")
    c0, c1, c2, draw = torch.broadcast_tensors(*tensors)
    return philox(stream.key, c0, c1, c2, draw >> 1), (draw & 1).bool()


def _product(word: Tensor, multiplier: int) -> tuple[Tensor, Tensor]:
    """High and low 32 bits of a product of two 32-bit words."""
    # Signed 64 bits cannot hold the product: multiply by the halves of the constant, each below 2^48.
    low = word * (multiplier & _HALF)
    middle = word * (multiplier >> 16) + (low >> 16)
    return middle >> 16, (middle & _HALF) << 16 | low & _HALF


def _double(high: Tensor, low: Tensor) -> Tensor:
    """53-bit fractions from two 32-bit words."""
    return ((high >> 5).double() * rng.TWO_26 + (low >> 6).double()) * rng.TWO_M53
