r"""The gradient of a chain's success probability is that of the one bit on which success hangs.

dJ/dm_t = p_t (1 - p_t) P(K_{-t} = k - 1): the other bits are one short of what is needed. Weighted by the sequence
ratio, REINFORCE on stale data has this mean at the current policy. "total" is the sum over bits. Derivation: J =
p_t P(K_{-t} >= k - 1) + (1 - p_t) P(K_{-t} >= k). Domain: at most 4096 bits, margins that go evenly along the chain, a
gradient above 1e-9. Second route: complex step through the law of K. Source: textbook (score identity).
"""

from __future__ import annotations

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._bandit import complex_gradient
from asyncsim.theory._chain import PaidChains, bits, count_law, probabilities
from asyncsim.theory._stated import indexed, stated


class _Setting(PaidChains):
    horizon = bits(30)

    def joint(self) -> None:
        """A chain that always or never succeeds has no gradient to compare with."""
        norm = float(np.linalg.norm(_slope(self.pair.current, self.needed)))
        checks.require(norm > 1e-9, "fraction", self.fraction, "such that success depends on the bits", "ask for other")


def _slope(margins: np.ndarray, needed: int) -> np.ndarray:
    p = probabilities(margins)
    others = [np.delete(p, t) for t in range(len(p))]
    one_short = np.array([count_law(o)[needed - 1] if 0 < needed <= len(p) else 0.0 for o in others])
    return p * (1.0 - p) * one_short


def _with_total(gradient: np.ndarray) -> dict[str, float]:
    return {"total": float(gradient.sum()), **indexed("grad", gradient)}


def _predict(s: _Setting) -> dict[str, float]:
    return _with_total(_slope(s.pair.current, s.needed))


def _cross_check(s: _Setting) -> dict[str, float]:
    current = s.pair.current
    return _with_total(complex_gradient(lambda m: count_law(1.0 / (1.0 + np.exp(-m)))[s.needed :].sum(), current))


def _own_bit_counted(s: _Setting) -> dict[str, float]:
    p = probabilities(s.pair.current)
    return _with_total(p * (1.0 - p) * count_law(p)[s.needed])


claim = stated(
    id="sequence/gradient",
    statement="the gradient of a chain's success probability in a bit is `p (1 - p) P(the others are one short)`",
    kind="expectation",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="textbook (score identity)",
    formula_defects={
        "taken at the behavior policy": lambda s: _with_total(_slope(s.pair.behavior, s.needed)),
        "own bit among the others": _own_bit_counted,
    },
    relative_to="norm",
)
