r"""What k1, k2 and k3 estimate on samples of an old policy, and the gradients of the penalties made from them.

k1 and k3 estimate `KL(mu || pi)` on samples of `mu` without bias, k2 does not; as losses, their gradients differ

With samples of mu and w = pi/mu of whole sequences: k1 = -log w and k3 = w - 1 - log w have the mean KL(mu || pi),
since E_mu w = 1; k2 = (log w)^2 / 2 does not, it is right to second order. E_mu w log w is KL(pi || mu), the other
direction. Where E_mu w is not 1 (a cut sampler, wrong log-probs), k3 is off by E_mu w - 1 and k1 is right.

Penalties on D = log pi - log mu, per unit of coefficient: `k1_step` of the k1 loss without a ratio is -E_mu[S], S the
score of the sequence, which is +grad KL(mu || pi): it drives the policy away from the data. (With the ratio it is 0.)
`k2_step` of k2 on the sequence, weighted by its ratio, is -grad KL(pi || mu), as is meant. `k3_step`, weighted alike,
is -sum over rows of E_pi[visits] grad KL(mu || pi) of the row: the other direction, visits held fixed. Derivation: E_pi
score = 0. Domain: softmax tokens of full support, policies that differ, at most 2^20 sequences. First route: recursions
over rows; second: enumeration.
"""

from typing import Any

import numpy as np

from asyncsim.claims._bandit import SequencePair, complex_gradient, enumerate_sequences, softmax
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, indexed, lab, sequence_point, sim

_MARKOV = sequence_point("markov", 4, 4)
_VALUES = {"k1": "kl_k1", "k2": "kl_k2", "k3": "kl", "reverse": "kl_reverse"}


def _penalties(**other: Any) -> tuple[Any, ...]:
    """The penalties k1, k2 and k3, with `other` settings for some."""
    usual = {"k1": {}, "k2": {"ratio": "sequence", "level": "sequence"}, "k3": {"ratio": "sequence"}}
    return tuple(getattr(sim.penalties, k)(1.0, to="behavior", **other.get(k, usual[k])) for k in usual)


class KlEstimators(SequencePair, Claim):
    kind, source = "expectation", "Schulman 2020, Approximating KL divergence (values); gradients derived"
    relative_to, through = "norm", "oracle"

    def joint(self) -> None:
        remedy = "without a difference every estimate is 0"
        self.require(self._moments(self.behavior_logits)[0] < -1e-6, "current_logits", "another policy", remedy)

    def _quantities(s, divergence: Any, square: Any, reverse: Any, *steps: np.ndarray) -> dict[str, float]:
        values = {"k1": divergence, "k2": square / 2.0, "k3": divergence, "reverse": reverse}
        return {name: float(np.real(x)) for name, x in values.items()} | {
            key: x for k, step in enumerate(steps, 1) for key, x in indexed(f"k{k}_step", step).items()
        }

    def _moments(s, sampler: np.ndarray, current: np.ndarray | None = None) -> tuple[Any, Any]:
        """E L and E L^2 under a sampler with the given logits, where L is log current - log behavior."""
        chance, now = softmax(sampler), softmax(s.current_logits if current is None else current)
        step = np.log(now) - np.log(softmax(s.behavior_logits))
        first, second = np.zeros(len(chance), now.dtype), np.zeros(len(chance), now.dtype)
        for t in reversed(range(s.horizon)):
            after, square = s.behind(first, t), s.behind(second, t)
            first, second = (chance * (step + after)).sum(1), (chance * (step**2 + 2.0 * step * after + square)).sum(1)
        return first[0], second[0]

    def predict(s) -> dict[str, float]:
        mu, pi = softmax(s.behavior_logits), softmax(s.current_logits)
        mean, square = s._moments(s.behavior_logits)
        reverse, steps = complex_gradient(lambda x: s._moments(x, x)[0], s.current_logits), []
        for chance in (mu, pi):
            # Expected visits of each row.
            mass, visits = np.eye(len(mu))[0], np.zeros(len(mu))
            for t in range(s.horizon):
                visits, after = visits + mass, np.zeros(len(mu))
                for row, a in np.ndindex(*chance.shape):
                    after[s.successor(row, a, t) % len(mu)] += mass[row] * chance[row, a]
                mass = after
            steps.append(visits[:, None] * (pi - mu))
        away, back = steps
        return s._quantities(-mean, square, s._moments(s.current_logits)[0], away, -reverse, -back)

    def check(s) -> dict[str, float]:
        found = enumerate_sequences(s)
        log_ratio, current = found.log_ratio.sum(1), found.mass * found.ratio
        rows = np.eye(len(s.current_logits))[s.rows(found.tokens)]
        scores = np.eye(s.actions)[found.tokens] - softmax(s.current_logits)[s.rows(found.tokens)]
        k3_step = np.einsum("y,yt,ytr,yta->ra", current, np.expm1(-found.log_ratio), rows, scores)
        k2_step = -(current * log_ratio) @ found.score
        k3 = float(found.mass @ (found.ratio - 1.0 - log_ratio))
        square, reverse = float(found.mass @ log_ratio**2), float(current @ log_ratio)
        return s._quantities(k3, square, reverse, -found.mass @ found.score, k2_step, k3_step)

    wrong = {"k2 taken for unbiased": lambda s: {"k2": s.predict()["k1"]}}

    points = (sequence_point("iid", 4, 1), sequence_point("position", 3, 3), _MARKOV)
    more = (sequence_point("markov", 7, 4),)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        method = sim.methods.full_is(advantage=sim.advantages.none()).replace(penalties=_penalties())
        spec = lab.planted(point, method, plant)
        step = lab.step_of(spec, point)
        values = {name: getattr(sim.diagnostics, each).measure(step).item() for name, each in _VALUES.items()}
        found = {name: lab.exactly(value) for name, value in values.items()}
        allowance = 4.0 * point["horizon"] * lab.cut_off(spec.task, point)
        plain = lab.limit_of(spec, point, penalties=())
        for k, penalty in enumerate(spec.method.penalties, 1):
            found |= lab.components(f"k{k}_step", lab.limit_of(spec, point, penalties=(penalty,)) - plain, allowance)
        return found

    defects = {
        "last token left out": lambda: (lab.with_policy(lab.ShortProduct), _MARKOV),
        "k1 loss weighted": lambda: (lab.with_method(penalties=_penalties(k1={"ratio": "sequence"})), _MARKOV),
    }
