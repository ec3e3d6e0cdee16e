r"""How far the return and the visits of two policies can lie apart, given how far the policies do.

mu generated the data, pi is current, TV(s) their total variation in state s, a the largest one, d discounted visits,
not normalized. With
    B = min(E_{d_mu} TV/(1 - gamma), a/((1 - gamma) (1 - gamma (1 - a))))
it holds that |J(pi) - J(mu)| <= (max r - min r) B and sum_s |d_pi - d_mu| <= 2 gamma B. Derivation: couple both
trajectories; they part at step t with probability TV(s_t) and never meet again. The first form sums that over the
visits of mu, the second takes a everywhere, where they still agree with probability (1 - a)^t.

Both are attained. The first where one choice decides for ever, whatever the policies. The second where every step may
slip into another state for good and mu never does. The usual a/(1 - gamma)^2 is attained for small a only. Second
route: sums over steps. Domain: endless episodes; where one may end, the end counts as a reward of 0. Source: derived;
the second form is in the proof of arXiv 1502.05477, theorem 1.
"""

from __future__ import annotations

from asyncsim.theory._mdp import Pair
from asyncsim.theory._stated import stated


def _bounds(s: Pair, parted: float) -> dict[str, float]:
    return {"return": s.range * parted, "occupancy": 2.0 * s.discount * parted}


def _predict(s: Pair) -> dict[str, float]:
    return _bounds(s, s.parted())


def _meeting_again(s: Pair) -> dict[str, float]:
    """Trajectories that have parted for one step only."""
    return _bounds(s, (1.0 - s.discount) * min(s.averaged, float(s.distances.max()) / (1.0 - s.discount) ** 2))


claim = stated(
    id="convergence/return-shift",
    statement="two policies differ in return by at most `(max r - min r) B`, in discounted visits by at most "
    "`2 gamma B`, `B = min(E_d TV/(1 - gamma), a/((1 - gamma) (1 - gamma (1 - a))))` with `a = max TV`",
    kind="bound",
    status="exact",
    point=Pair,
    predict=_predict,
    cross_check=lambda s: _bounds(s, min(s.by_steps())),
    reference="derived; second form as in the proof of arXiv 1502.05477, theorem 1",
    formula_defects={
        "trajectories that meet again": _meeting_again,
        "normalized occupancy": lambda s: _bounds(s, (1.0 - s.discount) * s.parted()),
        "distances in the mean over actions": lambda s: _bounds(s, s.parted() / s.rewards.shape[1]),
    },
    terms={
        "mean distance": lambda s, factor: _bounds(s, s.parted(mean=factor)),
        "largest distance": lambda s, factor: _bounds(s, s.parted(largest=factor)),
    },
)
