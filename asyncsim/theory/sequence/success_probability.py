r"""A chain of independent bits succeeds with the upper tail of a Poisson binomial distribution.

J = P(K >= k), K the number of right bits, k = ceil(f H). Under stale data from mu the mean reward is J(mu); weighted by
the sequence ratio it is J(pi). Derivation: bits are independent, E_mu W r = E_pi r. Domain: at most 4096 bits, margins
that go evenly along the chain. Second route: the generating function at the roots of unity. Source: textbook.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr

from asyncsim.theory._chain import PaidChains, bits, count_law, fourier_law, probabilities
from asyncsim.theory._stated import stated


class _Setting(PaidChains):
    horizon = bits(60)


def _tails(s: _Setting, law: Callable[[np.ndarray], np.ndarray], extra: int = 0) -> dict[str, float]:
    behavior, current = (float(law(probabilities(m))[s.needed + extra :].sum()) for m in s.pair)
    return {"stale_return": behavior, "weighted_return": current}


def _predict(s: _Setting) -> dict[str, float]:
    return _tails(s, count_law)


def _cross_check(s: _Setting) -> dict[str, float]:
    return _tails(s, fourier_law)


def _normal_tail(s: _Setting) -> dict[str, float]:
    tails = []
    for p in map(probabilities, s.pair):
        tails.append(float(ndtr((p.sum() - s.needed) / np.sqrt((p * (1.0 - p)).sum()))))
    return {"stale_return": tails[0], "weighted_return": tails[1]}


claim = stated(
    id="sequence/success-probability",
    statement="a chain of bits succeeds with the Poisson binomial tail of its right bits, on stale data when weighted",
    kind="expectation",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="textbook (Poisson binomial)",
    formula_defects={
        "more than the needed bits": lambda s: _tails(s, count_law, 1),
        "normal tail without half a bit": _normal_tail,
    },
)
