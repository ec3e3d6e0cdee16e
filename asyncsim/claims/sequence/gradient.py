r"""A bit contributes to the gradient of a chain's success probability only where this bit decides the outcome.

the gradient of a chain's success probability in a bit is `p (1 - p) P(the others are one short)`

dJ/dm_t = p_t (1 - p_t) P(K_{-t} = k - 1): the other bits are one short of what is needed. Weighted by the sequence
ratio, REINFORCE on stale data has this mean at the current policy. "total" is the sum over bits. Derivation: J = p_t
P(K_{-t} >= k - 1) + (1 - p_t) P(K_{-t} >= k). Domain: at most 4096 bits, margins that go evenly along the chain, a
gradient above 1e-9. Second route: complex step through the law of K.
"""

from __future__ import annotations

import math

import numpy as np

from asyncsim.claims._bandit import complex_gradient
from asyncsim.claims._chain import PaidChains, bits, count_law, probabilities
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, indexed, lab, sim, too_rare


def _slope(margins: np.ndarray, needed: int) -> np.ndarray:
    p = probabilities(margins)
    others = [np.delete(p, t) for t in range(len(p))]
    one_short = np.array([count_law(o)[needed - 1] if 0 < needed <= len(p) else 0.0 for o in others])
    return p * (1.0 - p) * one_short


def _spread(chain: lab.Chain) -> float:
    """Standard deviation of one sample's component divided by the gradient norm: about W (r - 1/2) (1[right] - p).

    The factor is for what the three have in common (measured at the points below: at most 1.1).
    """
    norm = float(np.linalg.norm(chain.exact(chain.current)[1][::2]))
    return 1.2 * 0.25 * math.sqrt(chain.moment(2.0)) / norm if norm > 0.0 else math.inf


class Gradient(PaidChains, Claim):
    kind, source = "expectation", "textbook (score identity)"
    relative_to = "norm"

    horizon = bits(30)

    def joint(self) -> None:
        norm = float(np.linalg.norm(_slope(self.pair.current, self.needed)))
        self.require(norm > 1e-9, "fraction", "such that success depends on the bits", "ask for other")

    def _with_total(s, gradient: np.ndarray) -> dict[str, float]:
        return {"total": float(gradient.sum()), **indexed("grad", gradient)}

    def predict(s) -> dict[str, float]:
        return s._with_total(_slope(s.pair.current, s.needed))

    def check(s) -> dict[str, float]:
        current = s.pair.current
        return s._with_total(complex_gradient(lambda m: count_law(1.0 / (1.0 + np.exp(-m)))[s.needed :].sum(), current))

    wrong = {"taken at the behavior policy": lambda s: s._with_total(_slope(s.pair.behavior, s.needed))}

    points = ({"horizon": 24, "fraction": 0.83, "behavior_margins": (0.7, 1.4), "current_margins": (1.0, 1.7)},)
    more = ({"horizon": 48, "fraction": 0.7, "behavior_margins": (1.2, 0.4), "current_margins": (1.0, 0.5)},)

    reach = staticmethod(lambda point: too_rare(_spread(lab.Chain(point, point["fraction"])), lab.MOST))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        chain, bits = lab.Chain(point, point["fraction"]), point["horizon"]
        method = sim.methods.full_is(advantage=sim.advantages.offset(0.5))
        replicates = lab.replicates_for(_spread(chain), effect, 2 * bits)
        trace = chain.run([lab.MeanGradient()], replicates, seed, plant, method)
        # The logit of the wrong bit has the opposite gradient; the margin is the right one's.
        gradient = trace.accumulated["gradient"][::2]
        each = {f"grad[{t}]": lab.between(gradient[t]) for t in range(bits)}
        return {"total": lab.between(gradient.sum(axis=0)), **each}

    defects = {
        "dropped ratio": lambda: lab.dropped_ratio,
        "token ratio in place of the sequence's": lambda: lab.with_method(weight=lab.Ratio("token")),
    }
