r"""Without ratios, the gradient on stale data is the covariance of reward and score, plus a drift to the old policy.

without ratios, the gradient on stale data is `E_mu[A S] = Cov_mu(A, S) - E_mu[A] grad KL(mu, pi)`: signal plus drift

E_mu[A S] = Cov_mu(A, S) + E_mu[A] E_mu[S], S the score of the current policy pi, A = reward - baseline. The drift has
the direction E_mu[S] = -grad KL(mu || pi), which pulls pi toward mu, and the length of the mean advantage. It vanishes
under the baseline E_mu[reward], whatever the policies are, and at pi = mu. Derivation: the definition of a covariance;
the entropy of mu does not depend on pi. Domain: softmax tokens of full support, one prompt, at most 2^20 sequences.
Second route: complex steps through means over behavior. The total is the slope of E_mu[A log pi], the drift that of
E_mu[A] E_mu[log pi], without a score.
"""

from typing import Any

import numpy as np

from asyncsim.claims import _bandit, lab
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Real, indexed, sequence_point, sim

_IID = sequence_point("iid", 5, 1, success=None, baseline=0.1)
_MARKOV = sequence_point("markov", 4, 4, success=0.5, baseline=-0.3)


class DriftSplit(_bandit.PaidSequencePair, Claim):
    kind, source = "identity", "elementary; use in arXiv 2609.20807"
    relative_to, through = "norm", "oracle"

    success = _bandit.share_that_pays(0.6)
    baseline = Real(typical=(-1.0, 0.2), example=-0.3, unit="reward", doc="fixed baseline")

    def joint(self) -> None:
        self.mass, self.advantage = self.sequences.mass, self.paid_mass / self.sequences.mass - self.baseline

    def _parts(s, signal: np.ndarray, drift: np.ndarray) -> dict[str, float]:
        return indexed("total", signal + drift) | indexed("signal", signal) | indexed("drift", drift)

    def predict(s, factor: float = 1.0) -> dict[str, float]:
        covariance = (s.mass * (s.advantage - s.mass @ s.advantage)) @ s.sequences.score
        return s._parts(covariance, factor * (s.mass @ s.advantage) * (s.mass @ s.sequences.score))

    def check(s) -> dict[str, float]:
        rows = s.rows(s.sequences.tokens)

        def mean_log(weights: np.ndarray) -> np.ndarray:
            def value(logits: np.ndarray) -> Any:
                return weights @ np.log(_bandit.softmax(logits))[rows, s.sequences.tokens].sum(axis=1)

            return _bandit.complex_gradient(value, s.current_logits)

        total, score = mean_log(s.mass * s.advantage), mean_log(s.mass)
        drift = (s.mass @ s.advantage) * score
        return s._parts(total - drift, drift)

    wrong = {"drift forgotten": lambda s: s.predict(0.0)}

    points = (_IID, sequence_point("position", 3, 3, success=1.0, baseline=-0.5), _MARKOV)
    more = (sequence_point("markov", 7, 4, success=0.7, baseline=0.05),)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        total, signal = (
            lab.limit_of(lab.planted(point, sim.methods.reinforce(baseline), plant), point)
            for baseline in (sim.advantages.offset(point["baseline"]), sim.advantages.mean())
        )
        parts = lab.components("total", total) | lab.components("signal", signal)
        return parts | lab.components("drift", total - signal)

    defects = {
        "baseline forgotten": lambda: (lab.with_method(advantage=sim.advantages.none()), _MARKOV),
        "ratio applied": lambda: (lab.with_method(weight=lab.Ratio("sequence", None)), _MARKOV),
    }
