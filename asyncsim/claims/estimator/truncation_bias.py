r"""Truncating the sequence ratio at C biases the gradient by the contribution of the weight above C.

truncating the sequence ratio at `C` biases the gradient by `-E_mu[(W-C)_+ R S]`

E_mu[min(W, C) R S] - grad J = -E_mu[(W - C)_+ R S]. Derivation: min(W, C) = W - (W - C)_+, and full weighting has no
bias: W mu = pi, so that E_mu[W R S] = E_pi[R S] = grad J by the score identity, W = prod_t pi/mu, S = sum_t grad log
pi. The norm need not fall monotonically in C. Domain: softmax tokens of full support, 0 < C < largest ratio (no bias
beyond), at most 2^20 sequences. Second route: truncated mean by enumeration minus the complex-step gradient of J.
"""

import numpy as np

from asyncsim.claims._bandit import PaidSequencePair, exact_gradient
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Positive, indexed, lab, sequence_point, sim

_MARKOV = {**sequence_point("markov", 4, 4, success=0.5), "cap": 1.5}


class TruncationBias(PaidSequencePair, Claim):
    kind, source = "identity", "elementary"
    relative_to, through = "norm", "oracle"

    cap = Positive(typical=(0.2, 2.0), example=1.1, doc="maximum sequence ratio that is not truncated")

    def joint(self) -> None:
        self.ratio, largest = self.sequences.ratio, float(self.sequences.ratio.max())
        bound = f"below the largest sequence ratio {largest:.6g}"
        self.require(self.cap < largest, "cap", bound, "a cap that never binds has no bias")

    def predict(s) -> dict[str, float]:
        return indexed("bias", -(s.paid_mass * np.maximum(s.ratio - s.cap, 0.0)) @ s.sequences.score)

    def check(s) -> dict[str, float]:
        truncated = (s.paid_mass * np.minimum(s.sequences.ratio, s.cap)) @ s.sequences.score
        return indexed("bias", truncated - exact_gradient(s, s.current_logits, s.success))

    wrong = {
        "masking in place of truncation": lambda s: indexed(
            "bias", -(s.paid_mass * s.ratio * (s.ratio > s.cap)) @ s.sequences.score
        )
    }

    points = ({**sequence_point("iid", 4, 1, success=None), "cap": 2.0}, _MARKOV)
    more = ({**sequence_point("position", 3, 3, success=1.0), "cap": 1.2},)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        # Not by the name of truncated weights, which refuses caps below 1.
        weight = lab.Ratio("sequence", point["cap"])
        spec = lab.planted(point, sim.methods.full_is(advantage=sim.advantages.none()).replace(weight=weight), plant)
        truth = sim.oracle.exact(spec.task, lab.places(point)[0], spec.policy)[1]
        allowance = 2.0 * point["horizon"] * lab.cut_off(spec.task, point, cap=point["cap"])
        return lab.components("bias", lab.limit_of(spec, point) - truth, allowance)

    defects = {
        "token factors truncated before the product": lambda: (
            lab.with_method(weight=lab.Ratio("token", 1.5)),
            _MARKOV,
        ),
        "dropped ratio": lambda: (lab.dropped_ratio, _MARKOV),
    }
