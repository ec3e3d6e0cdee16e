"""Points with two chains of independent bits, under behavior and under the current policy.

Bit t of H is right with probability p_t = 1/(1 + e^{-m_t}); its margin m_t goes evenly from the first to the last bit.
"""

import numpy as np

from asyncsim.base.declared import Declared, Integer, Vector


def bits(typical: int, longest: int = 4096) -> Integer:
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

    def joint(self) -> None:
        """Set the margins of both chains, interpolated from the first bit to the last, `[H]` each."""
        ends = (self.behavior_margins, self.current_margins)
        self.behavior, self.current = (np.linspace(first, last, self.horizon) for first, last in ends)
