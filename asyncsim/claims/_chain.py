"""Chains of independent bits: the law of the number of right ones, and of ratios between two such chains.

Bit t of H is right with probability p_t = 1/(1 + e^{-m_t}); its margin m_t goes evenly from the first to the last bit.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from asyncsim.base.declared import Declared, Integer, Vector

LONGEST = 4096


class ChainPair(NamedTuple):
    """Margins of the bits `[H]` under behavior and under the current policy."""

    behavior: np.ndarray
    current: np.ndarray


def bits(typical: int, longest: int = LONGEST) -> Integer:
    """Declare the length of a chain; random points have at most `typical` bits."""
    return Integer(1, longest, typical=(1, typical), example=7, unit="bits", doc="length of a chain")


class Chains(Declared):
    """Base of points with two chains of bits. Claims set the typical length by `horizon = bits(...)`."""

    horizon = bits(200)
    behavior_margins = Vector(
        length=2, typical=(-2.0, 2.0), example=(0.2, 1.1), doc="margins of first and last bit under behavior"
    )
    current_margins = Vector(
        length=2, typical=(-2.0, 2.0), example=(1.2, 0.7), doc="margins of first and last bit under the current policy"
    )

    @property
    def pair(self) -> ChainPair:
        """The margins of both chains, interpolated from the first bit to the last."""
        ends = (self.behavior_margins, self.current_margins)
        return ChainPair(*(np.linspace(first, last, self.horizon) for first, last in ends))


def count_law(probabilities: np.ndarray) -> np.ndarray:
    """P(k correct bits), k = 0..H, by convolving one bit after another; complex probabilities are allowed."""
    law = np.ones(1, dtype=probabilities.dtype)
    for p in probabilities:
        law = np.convolve(law, np.array([1.0 - p, p]))
    return law


def fourier_law(probabilities: np.ndarray) -> np.ndarray:
    """Distribution of the number of correct bits, from its generating function at the roots of unity."""
    size = len(probabilities) + 1
    roots = np.exp(-2j * np.pi * np.arange(size) / size)
    return np.fft.ifft((1.0 + probabilities * (roots[:, None] - 1.0)).prod(axis=1)).real


def log_ratios(pair: ChainPair) -> tuple[np.ndarray, np.ndarray]:
    """log pi/mu of every bit for a correct and for an incorrect value, `[H]` each."""
    return log_expit(pair.current) - log_expit(pair.behavior), log_expit(-pair.current) - log_expit(-pair.behavior)


probabilities = expit
"""Probability of a right bit from its margin."""
