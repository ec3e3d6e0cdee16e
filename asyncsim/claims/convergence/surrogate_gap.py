r"""A bound on the difference between the return and the objective of token ratios on stale data.

the objective of token ratios on stale data differs from the return by at most `4 gamma max |A| D^2/((1 - gamma) (1 -
gamma (1 - D)))`, with `D = max TV`, and by at most `2 gamma/(1 - gamma) max |E_pi A| E_d TV`

Data of mu, token ratios pi/mu, rewards to go: the gradient is that of L(pi) = J(mu) + sum_s d_mu(s) g(s), g(s) = sum_a
pi(a|s) A_mu(s, a), d_mu not normalized. Its states stay those of mu. The return has d_pi instead of d_mu (performance
difference), so with B of `convergence/return-shift`, whose D is the largest total variation of a state,
    |J(pi) - L(pi)| <= 2 gamma max_s |g(s)| B   ("gap"),
and since |g| <= 2 D max |A_mu|, at most 4 gamma max |A_mu| D^2/((1 - gamma)(1 - gamma (1 - D)))   ("coarse").

All are attained. "gap" with the mean distance: one choice of which state to stay in for ever, where pi gains in one and
loses in the other. With the largest distance, and "coarse": a step that may slip from gain into loss for good. The
published 4 gamma max |A| D^2/(1 - gamma)^2 is attained for small D only. Domain: endless episodes. Second route: sums
over steps. Source: arXiv 1502.05477, theorem 1 and its proof; 1705.10528 for the mean; attained: derived.
"""

import numpy as np

from asyncsim.claims._claim import FORK, Claim, Estimate, Plant, Point, lab, process, sim
from asyncsim.claims._mdp import Pair

_SPLIT = process(
    FORK, ((0.0, 0.0), (1.0, -1.0), (-1.0, 1.0)), 0.2,
    behavior_logits=((1.1, 0.0), (0.0, 0.0), (0.0, 0.0)), current_logits=((-1.1, 0.0), (0.02, 0.0), (0.02, 0.0)),
)  # fmt: skip
_SLIP = process(
    (((1.0, 0.0), (1.0, 0.0), (0.0, 1.0)), ((0.0, 1.0),) * 3), ((1.0, -1.0, 1.0), (1.0, -1.0, 0.0)), 0.15,
    behavior_logits=((0.0, 0.0, float(np.log(1e-5))),) * 2,
    current_logits=tuple(tuple(np.log(row).tolist()) for row in ((0.5, 0.2, 0.3), (0.2, 0.8, 1e-5))),
)  # fmt: skip


class SurrogateGap(Pair, Claim):
    kind, source = "bound", "arXiv 1502.05477, theorem 1; 1705.10528 for the mean distance"
    through, effect = "oracle", 0.01

    def _bounds(s, advantage: np.ndarray, averaged: float, coupled: float) -> dict[str, float]:
        """Tight and coarse bound from the averaged and coupled forms of B."""
        coarse = 2.0 * float(s.distances.max()) * float(np.abs(advantage).max())
        gains = float(np.abs((s.pair[1] * advantage).sum(axis=1)).max())
        gap = 2.0 * s.discount * gains * min(averaged, coupled)
        return {"gap": gap, "coarse": 2.0 * s.discount * coarse * coupled}

    def predict(s, mean: float = 1.0, largest: float = 1.0) -> dict[str, float]:
        return s._bounds(s.advantage(s.pair[0]), mean * s.averaged, largest * s.coupled)

    def check(s) -> dict[str, float]:
        behavior = s.pair[0]
        value = s.visits_by_steps(behavior) @ (behavior * s.rewards).sum(axis=1)
        advantage = s.rewards + s.discount * s.transition @ value - value[:, None]
        return s._bounds(advantage, *s.by_steps())

    wrong = {"normalized occupancy": lambda s: {name: (1 - s.discount) * value for name, value in s.predict().items()}}

    terms = {
        "mean distance": lambda s, factor: s.predict(mean=factor),
        "largest distance": lambda s, factor: s.predict(largest=factor),
    }

    points = (_SPLIT, _SLIP)
    more = ({**_SLIP, "discount": 0.1}, {**_SPLIT, "rewards": ((0.5, 0.0), (1.0, -1.0), (-1.0, 1.0))})

    reach = staticmethod(lambda point: lab.mdp.why_random(point))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        task = lab.mdp.listed(point)
        method = sim.methods.full_is("token", sim.advantages.returns_to_go())
        # E_mu sum_t r_t A_t is the sum of all score weights.
        weighed = lab.Metric("objective", lambda step: step.cotangents["log_prob"].sum((1, 2, 3)))
        spec = lab.mdp.spec_of(task, plant, method=method, diagnostics=[weighed])
        places = np.array([point["behavior_logits"], point["current_logits"]]).reshape(2, -1)
        before, after = lab.metrics_of(spec, places, places[[0, 0]])[0]
        returns = lab.mdp.exact(spec, places)[0]
        gap = abs((returns[1] - returns[0]) - (after - before))
        found = Estimate(float(gap), tolerance=4.0 * lab.mdp.left_out(task))
        return {"gap": found, "coarse": found}

    defects = {"discount in the advantage alone": lambda: lab.mdp.discount_in_advantage}
