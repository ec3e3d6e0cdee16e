r"""Bounds on the differences between two policies in return and in visits, from the distance of the policies.

two policies differ in return by at most `(max r - min r) B` and in discounted visits by at most `2 gamma B`, with `B =
min(E_d TV/(1 - gamma), D/((1 - gamma) (1 - gamma (1 - D))))` and `D = max TV`

mu made the data, pi is current, TV(s) their total variation, D the largest, d discounted visits, not normalized. With
    B = min(E_{d_mu} TV/(1 - gamma), D/((1 - gamma) (1 - gamma (1 - D))))
it holds that |J(pi) - J(mu)| <= (max r - min r) B and sum_s |d_pi - d_mu| <= 2 gamma B. Derivation: couple both
trajectories; they part at step t with probability TV(s_t) and never meet again. The first form sums that over the
visits of mu, the second takes D everywhere, where they still agree with probability (1 - D)^t.

Both are attained. The first where one choice decides for ever, whatever the policies. The second where every step may
slip into another state for good and mu never does. The usual D/(1 - gamma)^2 is attained for small D only. Second
route: sums over steps. Domain: endless episodes; where one may end, the end counts as a reward of 0.
"""

import numpy as np

from asyncsim.claims._claim import FORK, Claim, Estimate, Plant, Point, lab, process, up_to
from asyncsim.claims._mdp import Pair

_LONGEST = 4000
"""Steps of an episode at most."""
_EVEN = (0.0, 0.0)
_CHOICE = process(
    FORK, ((1.0, 0.0), (1.0, 1.0), _EVEN), 0.9,
    behavior_logits=((0.8, 0.0), _EVEN, _EVEN), current_logits=((-0.4, 0.0), _EVEN, _EVEN),
)  # fmt: skip
_SLIP = process(
    (((1.0, 0.0), (0.0, 1.0)), ((0.0, 1.0), (0.0, 1.0))), ((1.0, 0.0), _EVEN), 0.9,
    behavior_logits=((40.0, 0.0), _EVEN), current_logits=((1.0, 0.0), _EVEN),
)  # fmt: skip
_ANY = process(
    (((0.6, 0.4), (0.1, 0.9)), ((0.5, 0.3), (0.2, 0.8))), ((0.0, 1.0), (0.5, -0.4)), 0.8,
    behavior_logits=((0.3, -0.2), (0.0, 0.7)), current_logits=((1.0, -0.6), (0.4, 0.2)),
)  # fmt: skip


class ReturnShift(Pair, Claim):
    kind, source = "bound", "derived; second form as in the proof of arXiv 1502.05477, theorem 1"
    through, effect = "oracle", 0.01

    def _bounds(s, parted: float) -> dict[str, float]:
        return {"return": s.range * parted, "occupancy": 2.0 * s.discount * parted}

    def predict(s) -> dict[str, float]:
        return s._bounds(s.parted())

    def check(s) -> dict[str, float]:
        return s._bounds(min(s.by_steps()))

    wrong = {"normalized occupancy": lambda s: s._bounds((1.0 - s.discount) * s.parted())}

    terms = {
        "mean distance": lambda s, factor: s._bounds(s.parted(mean=factor)),
        "largest distance": lambda s, factor: s._bounds(s.parted(largest=factor)),
    }

    points = (_CHOICE, _SLIP, _ANY)
    more = ({**_SLIP, "discount": 0.99}, {**_SLIP, "current_logits": ((-1.0, 0.0), (0.0, 0.0))})

    _long = f"a discount whose powers vanish within {_LONGEST} steps; lower it"
    reach = staticmethod(up_to(_LONGEST, lambda point: lab.mdp.task_of(point).horizon, _long))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        places = [point["behavior_logits"], point["current_logits"]]

        def moved(rewards: object) -> float:
            """Difference between current and behavior return under these rewards."""
            behavior, current = lab.mdp.exact(lab.mdp.spec_of(lab.mdp.task_of(point, rewards), plant), places)[0]
            return float(current - behavior)

        # Discounted visits of a state are the return of a process that pays 1 there.
        task = lab.mdp.task_of(point)
        visits = [moved(np.outer(here, np.ones(task.actions))) for here in np.eye(task.rows)]
        tolerance = lab.mdp.left_out(task)
        most = float(np.abs(point["rewards"]).max())
        return {
            "return": Estimate(abs(moved(point["rewards"])), tolerance=tolerance),
            "occupancy": Estimate(float(np.abs(visits).sum()), tolerance=tolerance * task.rows / most),
        }

    defects = {"discount forgotten": lambda: lab.with_task(lambda task: {"discount": 1.0})}
