r"""The variance of a fully weighted gradient; staleness does not multiply this variance by 1/ESS.

the total variance of `W (R - b) S` is `E_pi[W (R - b)^2 |S|^2] - |grad J|^2`; it does not grow as `N/ESS`

N samples of mu, g = (1/N) sum_i W_i (R_i - b) S_i, W the sequence ratio, b a constant. Its total variance is (E_pi[W (R
- b)^2 |S|^2] - |grad J|^2)/N: under pi the ratio enters once, under mu squared. For one softmax |S|^2 = 1 - 2 pi_a +
|pi|^2. `inflation` is the variance over that of fresh data, W = 1. It is not N/ESS = E_mu W^2 (`inverse_ess`), a
product over tokens, or of matrices for Markov tokens: that leaves rewards and scores out. With mu = (1/2, 1/2), pi =
(0.9, 0.1), b = 0, N/ESS is 1.64 while the inflation is 9 if only the first arm is paid, 0.09 with b = J, and 0.11 if
only the second. Stale data can have less variance than fresh data, and a controller that scales steps by ESS can be
wrong both ways. N samples in place of one change no ratio. Derivation: W mu = pi, and the mean of g is grad J. Domain:
softmax tokens of full support, gradients that vary, at most 2^20 sequences. Second route: deviations from the mean
under mu, with grad J by a complex step through a recursion in the first; all sequences listed for E W^2. Source:
elementary; arXiv 1511.01437 for the product; 1/ESS as an approximation Kong 1992.
"""

import math

import numpy as np

from asyncsim.claims._bandit import PaidSequencePair, chained, exact_gradient, share_that_pays, softmax
from asyncsim.claims._claim import Claim, Estimate, Integer, Plant, Point, Real, lab, sequence_point, sim, up_to

_BATCHES = 200_000
_MARKOV = sequence_point("markov", 3, 4, success=0.5, offset=0.3, samples=1)
_TWO_ARMS = {
    "actions": 2, "horizon": 1, "dependence": "iid", "success": 1.0, "offset": 0.0, "samples": 3,
    "behavior_logits": ((0.0, 0.0),), "current_logits": ((1.0986, -1.0986),),
}  # fmt: skip


class IsVariance(PaidSequencePair, Claim):
    kind, source = "identity", "elementary"
    through = "oracle"

    success = share_that_pays(0.6)
    offset = Real(typical=(-0.5, 1.5), example=0.3, unit="reward", doc="constant baseline")
    samples = Integer(1, 4096, typical=(1, 3), example=4, unit="samples", doc="samples in a batch")

    def joint(self) -> None:
        self.current_mass = self.sequences.mass * self.sequences.ratio
        self.gain = self.paid - self.offset
        self.norm = (self.sequences.score**2).sum(axis=1)
        self.gradient = exact_gradient(self, self.current_logits, self.success)
        remedy = "move the offset, or take rewards and policies that differ"
        self.fresh = np.ones(len(self.gain))
        share = min(self._variance(w) / max(1e-12, self._second_moment(w)) for w in (self.sequences.ratio, self.fresh))
        # What is a difference of nearly equal numbers has no digits.
        self.require(share > 1e-5, "offset", "such that gradients vary", remedy)

    def _second_moment(s, ratio: np.ndarray) -> float:
        return float((s.current_mass * ratio) @ (s.gain**2 * s.norm)) / s.samples

    def _variance(s, ratio: np.ndarray) -> float:
        """Variance for N samples, from the mean squared weight of each sequence under the current policy."""
        return s._second_moment(ratio) - float(s.gradient @ s.gradient) / s.samples

    def _of(s, variance: float, fresh: float) -> dict[str, float]:
        """The variance, and its ratio to the variance of `fresh` data."""
        return {"variance": variance, "inflation": variance / fresh}

    def predict(s) -> dict[str, float]:
        second = chained(s, softmax(s.current_logits) ** 2 / softmax(s.behavior_logits))
        return s._of(s._variance(s.sequences.ratio), s._variance(s.fresh)) | {"inverse_ess": float(second)}

    def check(s) -> dict[str, float]:
        found = []
        for mass, ratio in ((s.sequences.mass, s.sequences.ratio), (s.current_mass, s.fresh)):
            gradients = (ratio * s.gain)[:, None] * s.sequences.score
            found.append(float(mass @ ((gradients - mass @ gradients) ** 2).sum(axis=1)) / s.samples)
        return s._of(*found) | {"inverse_ess": math.fsum(s.sequences.mass * s.sequences.ratio**2)}

    wrong = {
        "N/ESS taken for the inflation": lambda s: s._of(
            s._variance(s.fresh) * float(s.current_mass @ s.sequences.ratio), s._variance(s.fresh)
        ),
        "second moment taken under the current policy": lambda s: {
            "inverse_ess": float(s.current_mass @ s.sequences.ratio**2)
        },
    }

    points = (sequence_point("position", 3, 3, success=None, offset=0.6, samples=1), _MARKOV, _TWO_ARMS)
    more = (sequence_point("iid", 6, 1, success=0.5, offset=0.0, samples=1),)

    _few = f"samples such that actions**(horizon samples) <= {_BATCHES}; take fewer"
    reach = staticmethod(up_to(_BATCHES, lambda p: p["actions"] ** (p["horizon"] * p["samples"]), _few))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        spec = lab.planted(point, sim.methods.full_is(advantage=sim.advantages.offset(point["offset"])), plant)
        current, behavior = lab.places(point)
        allowance = 10.0 * lab.cut_off(spec.task, point, 2.0)
        of, options = (spec.task, spec.method, current), {"samples": point["samples"], "policy": spec.policy}
        stale, fresh = (sim.oracle.moments(*of, then, **options).variance for then in (behavior, current))
        signal = lab.step_of(spec, point)
        second = 1.0 + sim.ratios.chi_square(signal.sequence_log_ratio, signal.step_mass).item()
        found = {"variance": stale, "inflation": stale / fresh, "inverse_ess": second}
        estimates = {name: lab.exactly(value) for name, value in found.items()}
        return {name: e._replace(tolerance=e.tolerance + allowance * e.value) for name, e in estimates.items()}

    defects = {
        "dropped ratio": lambda: (lab.dropped_ratio, _MARKOV),
        "truncated ratio": lambda: (lab.with_method(weight=lab.Ratio("sequence", 1.1)), _MARKOV),
        "last token left out": lambda: (lab.with_policy(lab.ShortProduct), _MARKOV),
    }
