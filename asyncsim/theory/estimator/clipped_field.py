r"""What a clipped, truncated or masked method makes of stale data: its mean update, for every weight of the library.

E g = E_mu[sum_t a_t c_t grad log pi_t] with the detached weight c that the method prints, a its aggregator, A its
advantage in a population. `along` is the update's part along the policy gradient, in units of it (1: unbiased), `size`
its length in the same units, `longer` how fast it raises the mean length of responses. Knobs are `low` and `high`
(band), `cap` and `floor` (of ratios), and `scale` (a temperature, price, share or threshold); each method reads those
that it has. Derivation: a live ratio and a detached one have the same c, since grad(r A) = r A grad log pi; a gate
passes what has not yet moved along A beyond its bound. Domain: a table of logits for each place, responses of up to T
tokens, no ratio on a bound. Second route: complex steps through the printed objective, gates by real parts. Source: the
papers of the methods, named in their docstrings; derived.
"""

from __future__ import annotations

import numpy as np

from asyncsim.theory._bandit import softmax
from asyncsim.theory._declared import Choice, Real, Staleness
from asyncsim.theory._ragged import LaterRagged
from asyncsim.theory._stated import stated
from asyncsim.theory.estimator import _printed as printed


class _Setting(LaterRagged):
    method = Choice(*printed.C, example="decoupled_ppo", doc="method, or form of it, with its usual advantage")
    staleness = Staleness(1, typical=(1, 4), example=2)
    low = Real(0.0, 1.0, typical=(0.02, 0.4), example=0.1, doc="how far below the band reaches")
    high = Real(0.0, typical=(0.02, 0.4), example=0.2, doc="how far above the band reaches")
    cap = Real(1.0, open_low=True, typical=(1.05, 1.6), example=1.15, doc="largest ratio")
    floor = Real(0.0, 1.0, typical=(0.3, 0.95), example=0.8, doc="smallest ratio")
    scale = Real(0.0, 1.0, open_low=True, typical=(0.05, 0.95), example=0.5, doc="temperature, price or share")


def _weighted(s: _Setting, c: printed.Printed | None = None, aggregator: str = "") -> dict[str, float]:
    """The update of a weight, the method's own unless others are given."""
    found, (usual, kind) = s.listed(), printed.STEPS[s.method]
    weight = (c or printed.C[s.method])(s, found, _gain(s, kind))
    return s.read(s.pulled(found.share(aggregator or usual) * weight))


def _gain(s: _Setting, kind: str) -> np.ndarray:
    """Advantages of a population; that of VCPO weighs by the squared length of the score that the loss applies."""
    e = s.listed()
    if kind != "opob":
        return e.advantage(kind, s.scale)
    scores = (np.eye(s.actions)[s.tokens] - softmax(s.current_logits)) * s.mask[..., None]
    weight = e.mass * (np.minimum(printed.whole(e), s.cap) / e.length) ** 2 * (scores**2).sum((1, 2))[:, None]
    return e.reward - (weight * e.reward).sum() / weight.sum()


def _cross_check(s: _Setting) -> dict[str, float]:
    aggregator, kind = printed.STEPS[s.method]
    gain, fixed = _gain(s, kind), printed.C[s.method](s, s.listed(), _gain(s, kind))
    live = printed.OBJECTIVES.get(s.method, lambda s, e, gain: fixed * e.current)
    return s.read(s.slope(lambda e: (e.share(aggregator) * live(s, e, gain)).sum()))


def _swapped(s: _Setting) -> dict[str, float]:
    return _weighted(s, lambda s, e, gain: -printed.C[s.method](s, e, -gain))


claim = stated(
    id="estimator/clipped-field",
    statement="a method's mean update is `E_mu[c A grad log pi]` with the weight `c` that it prints",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_weighted,
    cross_check=_cross_check,
    reference="papers of the methods; derived",
    formula_defects={
        "sides of the gate swapped": _swapped,
        "every response counts alike": lambda s: _weighted(s, aggregator="sequence_mean"),
        "clip on the ratio to behavior": lambda s: _weighted(s, printed.C["ppo_clip"]),
        "correction of staleness forgotten": lambda s: _weighted(
            s, lambda s, e, gain: printed.C["decoupled_ppo"](s, e, gain) / np.minimum(printed.h(e), s.cap)
        ),
        "cap counted from 0": lambda s: _weighted(s.but(cap=1.0 + s.cap)),
    },
)
