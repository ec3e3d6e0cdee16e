r"""Weighting stale samples by the full sequence ratio gives the exact policy gradient.

the mean of `(sequence ratio) * reward * score` under behavior is the gradient at the current policy

E_mu[W R S] = E_pi[R S] = grad J(current), W = prod_t pi/mu, S = sum_t grad log pi. Derivation: W mu = pi, then the
score identity. Domain: softmax tokens of full support, at most 2^20 sequences. Second route: complex-step derivative of
J from a forward recursion on counts, without enumeration and without a score.
"""

from asyncsim.claims import _bandit, lab
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, indexed, sequence_point, sim

_MARKOV = sequence_point("markov", 4, 4, success=0.5)


class FullIs(_bandit.PaidSequencePair, Claim):
    kind, source = "expectation", "textbook (importance sampling)"
    relative_to, through = "norm", "oracle"

    success = _bandit.share_that_pays(0.6)

    def predict(s) -> dict[str, float]:
        return indexed("grad", (s.paid_mass * s.sequences.ratio) @ s.sequences.score)

    def check(s) -> dict[str, float]:
        return indexed("grad", _bandit.exact_gradient(s, s.current_logits, s.success))

    wrong = {"ratio dropped": lambda s: indexed("grad", s.paid_mass @ s.sequences.score)}

    points = (sequence_point("iid", 5, 1, success=None), sequence_point("position", 3, 3, success=1.0), _MARKOV)
    more = (sequence_point("markov", 7, 4, success=0.7),)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        spec = lab.planted(point, sim.methods.full_is(advantage=sim.advantages.none()), plant)
        allowance = 2.0 * point["horizon"] * lab.cut_off(spec.task, point)
        return lab.components("grad", lab.limit_of(spec, point), allowance)

    defects = {
        "dropped ratio": lambda: (lab.dropped_ratio, _MARKOV),
        "token ratio in place of the sequence's": lambda: (lab.with_method(weight=lab.Ratio("token")), _MARKOV),
    }
