"""Chains of independent bits: the law of the number of right ones, and of ratios between two such chains.

Bit t of H is right with probability p_t = 1/(1 + e^{-m_t}); its margin m_t goes evenly from the first to the last bit.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from asyncsim import checks
from asyncsim.records import Point
from asyncsim.theory._points import select, vector

LONGEST = 4096


class ChainPair(NamedTuple):
    """Margins of the bits `[H]` under behavior and under the current policy."""

    behavior: np.ndarray
    current: np.ndarray


def read_chain(point: Point, required: str = "", longest: int = LONGEST) -> tuple[ChainPair, list[Any]]:
    """Both chains of a point, and the values of the further keys."""
    values = select(point, f"horizon behavior_margins current_margins {required}")
    horizon = checks.integer("horizon", values[0], 1, "give at least one bit", longest)
    ends = (vector(name, value, length=2) for name, value in zip(_MARGINS, values[1:3], strict=True))
    behavior, current = (np.linspace(first, last, horizon) for first, last in ends)
    return ChainPair(behavior, current), values[3:]


_MARGINS = ("behavior_margins", "current_margins")


def read_paid_chain(point: Point) -> tuple[ChainPair, int]:
    """Both chains of a point, and the number of right bits that is paid."""
    pair, (fraction,) = read_chain(point, "fraction")
    checks.real("fraction", fraction, "give the fraction of right bits that is paid", 0.0, 1.0)
    return pair, math.ceil(fraction * len(pair.behavior) - 1e-9)


def count_law(probabilities: np.ndarray) -> np.ndarray:
    """P(k right bits), k = 0..H, by convolving one bit after another; complex probabilities pass through.

    >>> count_law(np.array([0.5, 0.5])).tolist()
    [0.25, 0.5, 0.25]
    """
    law = np.ones(1, dtype=probabilities.dtype)
    for p in probabilities:
        law = np.convolve(law, np.array([1.0 - p, p]))
    return law


def fourier_law(probabilities: np.ndarray) -> np.ndarray:
    """The same law from its generating function at the roots of unity.

    >>> fourier_law(np.array([0.5, 0.5])).round(12).tolist()
    [0.25, 0.5, 0.25]
    """
    size = len(probabilities) + 1
    roots = np.exp(-2j * np.pi * np.arange(size) / size)
    generating = (1.0 + probabilities * (roots[:, None] - 1.0)).prod(axis=1)
    return np.fft.ifft(generating).real


def log_ratios(pair: ChainPair) -> tuple[np.ndarray, np.ndarray]:
    """log pi/mu of every bit where it is right and where it is wrong, `[H]` each."""
    return log_expit(pair.current) - log_expit(pair.behavior), log_expit(-pair.current) - log_expit(-pair.behavior)


def log_moment(pair: ChainPair, power: float) -> float:
    """log E_mu W^power of the sequence ratio: a sum over bits."""
    right, wrong = log_ratios(pair)
    each = np.logaddexp(log_expit(pair.behavior) + power * right, log_expit(-pair.behavior) + power * wrong)
    return math.fsum(each)


def probabilities(margins: np.ndarray) -> np.ndarray:
    """Probability of a right bit from its margin."""
    found: np.ndarray = expit(margins)
    return found
