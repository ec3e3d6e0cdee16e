r"""How far the objective that token ratios ascend on stale data can lie from the return itself.

Data of mu, token ratios pi/mu, rewards to go: the gradient is that of L(pi) = J(mu) + sum_s d_mu(s) g(s), g(s) = sum_a
pi(a|s) A_mu(s, a), d_mu not normalized. Its states stay those of mu. The return has d_pi instead of d_mu (performance
difference), so with B of `convergence/return-shift`, whose a is the largest total variation of a state,
    |J(pi) - L(pi)| <= 2 gamma max_s |g(s)| B   ("gap"),
and since |g| <= 2 a max |A_mu|, at most 4 gamma max |A_mu| a^2/((1 - gamma)(1 - gamma (1 - a)))   ("coarse").

All are attained. "gap" with the mean distance: one choice of which state to stay in for ever, where pi gains in one and
loses in the other. With the largest distance, and "coarse": a step that may slip from gain into loss for good. The
published 4 gamma max |A| a^2/(1 - gamma)^2 is attained for small a only. Domain: endless episodes. Second route: sums
over steps. Source: arXiv 1502.05477, theorem 1 and its proof; 1705.10528 for the mean; that they are attained is
derived.
"""

from __future__ import annotations

import numpy as np

from asyncsim.theory._mdp import Pair
from asyncsim.theory._stated import stated


def _gains(s: Pair, advantage: np.ndarray) -> float:
    """max_s |sum_a pi A_mu|."""
    return float(np.abs((s.pair[1] * advantage).sum(axis=1)).max())


def _bounds(s: Pair, advantage: np.ndarray, averaged: float, coupled: float) -> dict[str, float]:
    """Both bounds from the two forms of B."""
    coarse = 2.0 * float(s.distances.max()) * float(np.abs(advantage).max())
    gap = 2.0 * s.discount * _gains(s, advantage) * min(averaged, coupled)
    return {"gap": gap, "coarse": 2.0 * s.discount * coarse * coupled}


def _predict(s: Pair, mean: float = 1.0, largest: float = 1.0) -> dict[str, float]:
    return _bounds(s, s.advantage(s.pair[0]), mean * s.averaged, largest * s.coupled)


def _cross_check(s: Pair) -> dict[str, float]:
    behavior = s.pair[0]
    value = s.visits_by_steps(behavior) @ (behavior * s.rewards).sum(axis=1)
    advantage = s.rewards + s.discount * s.transition @ value - value[:, None]
    return _bounds(s, advantage, *s.by_steps())


claim = stated(
    id="convergence/surrogate-gap",
    statement="the objective of token ratios on stale data differs from the return by at most "
    "`4 gamma max |A| a^2/((1 - gamma) (1 - gamma (1 - a)))`, `a = max TV`, and by "
    "`2 gamma/(1 - gamma) max |E_pi A| E_d TV`",
    kind="bound",
    status="exact",
    point=Pair,
    predict=_predict,
    cross_check=_cross_check,
    reference="arXiv 1502.05477, theorem 1; 1705.10528 for the mean distance",
    formula_defects={
        "factor 2 of total variation forgotten": lambda s: {name: x / 2.0 for name, x in _predict(s).items()},
        "discount counted twice": lambda s: {name: s.discount * x for name, x in _predict(s).items()},
        "normalized occupancy": lambda s: {name: (1.0 - s.discount) * value for name, value in _predict(s).items()},
    },
    terms={
        "mean distance": lambda s, factor: _predict(s, mean=factor),
        "largest distance": lambda s, factor: _predict(s, largest=factor),
    },
)
