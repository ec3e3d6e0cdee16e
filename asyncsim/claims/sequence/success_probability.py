r"""The success probability of a chain of independent bits is an upper tail of a Poisson binomial distribution.

a chain's success probability is the Poisson binomial tail of its right bits, also on weighted stale data; its gradient
in a bit is `p (1 - p)` times the probability that the others are one short

J = P(K >= k), K the number of right bits, k = ceil(f H). Under stale data from mu the mean reward is J(mu); weighted by
the sequence ratio it is J(pi). A bit contributes to the gradient only where it decides the outcome: dJ/dm_t = p_t (1 -
p_t) P(K_{-t} = k - 1), the other bits one short of what is needed ("grad", "total" their sum). Weighted alike,
REINFORCE on stale data has this mean. Derivation: bits are independent, E_mu W r = E_pi r, J = p_t P(K_{-t} >= k - 1) +
(1 - p_t) P(K_{-t} >= k). Domain: at most 4096 bits, margins that go evenly along the chain, a gradient above 1e-9.
Second route: the generating function at the roots of unity; a complex step through the law of K.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import expit

from asyncsim.claims._bandit import complex_gradient
from asyncsim.claims._chain import Chains, bits
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Real, indexed, lab, sim, too_rare

_FEW = {"horizon": 24, "fraction": 0.83, "behavior_margins": (0.7, 1.4), "current_margins": (1.0, 1.7)}
_SHORT = {"horizon": 24, "fraction": 0.75, "behavior_margins": (0.6, 1.4), "current_margins": (0.9, 1.6)}


def _count_law(probabilities: np.ndarray) -> np.ndarray:
    """P(k correct bits), k = 0..H, by convolving one bit after another; complex probabilities are allowed."""
    law = np.ones(1, dtype=probabilities.dtype)
    for p in probabilities:
        law = np.convolve(law, np.array([1.0 - p, p]))
    return law


def _fourier_law(probabilities: np.ndarray) -> np.ndarray:
    """Distribution of the number of correct bits, from its generating function at the roots of unity."""
    size = len(probabilities) + 1
    roots = np.exp(-2j * np.pi * np.arange(size) / size)
    return np.fft.ifft((1.0 + probabilities * (roots[:, None] - 1.0)).prod(axis=1)).real


def _slope(margins: np.ndarray, needed: int) -> np.ndarray:
    p = expit(margins)
    others = [np.delete(p, t) for t in range(len(p))]
    one_short = np.array([_count_law(o)[needed - 1] if 0 < needed <= len(p) else 0.0 for o in others])
    return p * (1.0 - p) * one_short


def _spread_of_slope(chain: lab.Chain) -> float:
    """Standard deviation of one sample's component divided by the gradient norm: about W (r - 1/2) (1[right] - p).

    The factor is for what the three have in common (measured at the points below: at most 1.1).
    """
    norm = float(np.linalg.norm(chain.exact(chain.current)[1][::2]))
    return 1.2 * 0.25 * math.sqrt(chain.moment(2.0)) / norm if norm > 0.0 else math.inf


def _spread(chain: lab.Chain) -> float:
    """Upper bound on one sample's relative standard deviation: E W^2 r <= E W^2 for r in {0, 1}."""
    stale, current = (chain.exact(place)[0] for place in (chain.behavior, chain.current))
    if min(stale, current) <= 0.0:
        return math.inf
    return math.sqrt(max(1.0 / stale - 1.0, chain.moment(2.0) / current**2 - 1.0, 1e-6))


class SuccessProbability(Chains, Claim):
    kind, source = "expectation", "textbook (Poisson binomial; score identity)"
    relative_to = "norm"

    horizon = bits(30)
    fraction = Real(0.0, 1.0, typical=(0.0, 1.0), example=0.75, doc="minimum fraction of right bits for reward 1")

    def joint(self) -> None:
        # Correct bits that earn the reward.
        self.needed = math.ceil(self.fraction * self.horizon - 1e-9)
        norm = float(np.linalg.norm(_slope(self.current, self.needed)))
        self.require(norm > 1e-9, "fraction", "such that success depends on the bits", "ask for other")

    def _tails(s, law: Callable[[np.ndarray], np.ndarray], extra: int = 0) -> dict[str, float]:
        behavior, current = (float(law(expit(m))[s.needed + extra :].sum()) for m in (s.behavior, s.current))
        return {"stale_return": behavior, "weighted_return": current}

    def _with_total(s, gradient: np.ndarray) -> dict[str, float]:
        return {"total": float(gradient.sum()), **indexed("grad", gradient)}

    def predict(s) -> dict[str, float]:
        return s._tails(_count_law) | s._with_total(_slope(s.current, s.needed))

    def check(s) -> dict[str, float]:
        def success(margins: np.ndarray) -> np.ndarray:
            return _count_law(1.0 / (1.0 + np.exp(-margins)))[s.needed :].sum()

        return s._tails(_fourier_law) | s._with_total(complex_gradient(success, s.current))

    wrong = {
        "more than the needed bits": lambda s: s._tails(_count_law, 1),
        "taken at the behavior policy": lambda s: s._with_total(_slope(s.behavior, s.needed)),
    }

    points = (
        _SHORT,
        _FEW,
        {"horizon": 48, "fraction": 0.7, "behavior_margins": (1.2, 0.4), "current_margins": (1.1, 0.7)},
    )
    more = ({"horizon": 200, "fraction": 0.6, "behavior_margins": (0.2, 0.7), "current_margins": (0.25, 0.75)},)

    def reach(self, point: Point) -> str | None:
        chain = lab.Chain(point, point["fraction"])
        return too_rare(_spread(chain), lab.MOST) or too_rare(_spread_of_slope(chain), lab.MOST)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        chain, bits = lab.Chain(point, point["fraction"]), point["horizon"]

        def weighted(step: lab.Step) -> lab.Tensor:
            return step.mean(lab.torch.exp(step.sequence_log_ratio) * step.batch.reward)

        metrics = ["batch_return", lab.Metric("weighted", weighted, ("log_prob",))]
        trace = chain.run(metrics, lab.replicates_for(_spread(chain), effect, 6), seed, plant)
        returns = {
            "stale_return": lab.share_of(trace["batch_return"][1:], lab.SAMPLES),
            "weighted_return": lab.mean_of(trace, "weighted"),
        }
        method = sim.methods.full_is(advantage=sim.advantages.offset(0.5))
        replicates = lab.replicates_for(_spread_of_slope(chain), effect, 2 * bits)
        trace = chain.run([lab.MeanGradient()], replicates, seed, plant, method)
        # The logit of the wrong bit has the opposite gradient; the margin is the right one's.
        gradient = trace.accumulated["gradient"][::2]
        each = {f"grad[{t}]": lab.between(gradient[t]) for t in range(bits)}
        return returns | {"total": lab.between(gradient.sum(axis=0)), **each}

    defects = {
        "more than the needed bits": lambda: lab.with_task(lambda t: {"fraction": (t.needed + 1) / t.horizon}),
        "one number for all bits": lambda: lab.with_policy(lab.OneNumber),
        "dropped ratio": lambda: (lab.dropped_ratio, _FEW),
        "token ratio in place of the sequence's": lambda: (lab.with_method(weight=lab.Ratio("token")), _FEW),
    }
