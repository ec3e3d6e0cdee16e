r"""With the behavior's mean reward as baseline, REINFORCE on frozen data ends at one arm, often not the best arm.

with the baseline `V_mu`, REINFORCE on frozen data moves logits by `step * mu (r - V_mu)` in every update; the arm with
the largest `mu_a (r_a - V_mu)` wins, often not the best arm

Take frozen behavior mu and V_mu = mu . r. The mean gradient is mu (r - V_mu) - (mu . (r - V_mu)) pi, whose last term is
0. So every update moves the logits by step mu (r - V_mu), wherever they are. The arm with the largest mu_a (r_a - V_mu)
takes all: a good arm that was tried often beats the best one that was tried rarely. Domain: full support, one softmax,
plain gradient, a winner that leads by more than 0.001 of the largest speed. Second route: complex-step gradient of
E_mu[(r - V_mu) log pi] away from the start, and the projection of `optimum/asymre-projection` as V rises to V_mu.
"""

import numpy as np

from asyncsim.claims._bandit import Frozen, complex_gradient, project, softmax
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Vector, indexed, lab, replaced, sim

_LEAD, _UPDATES, _TOLERANCE = 1e-3, 20, 1e-9
_FIVE = {"behavior_logits": (0.5, 0.1, -0.3, 0.2, 0.0), "rewards": (0.0, 0.3, 0.9, 1.0, 0.5)}


class FrozenMeanBaseline(Frozen, Claim):
    kind, source = "identity", "derived"
    relative_to = "norm"

    behavior_logits = Vector(
        typical=(-2.0, 2.0), sizes=(3, 4), example=(0.6, 0.06, -1.9), doc="logits of the frozen behavior, by arm"
    )
    rewards = Vector(typical=(0.0, 1.0), example=(0.6, 0.9, 1.0), unit="reward", doc="rewards of the arms")

    def joint(self) -> None:
        self.speed = self.mu * (self.rewards - self.mean)
        second, first = np.sort(self.speed)[-2:]
        self.scale = float(np.abs(self.speed).max())
        bound = f"such that the largest mu (r - V_mu) leads by {_LEAD:g} of it"
        self.require(first - second > _LEAD * self.scale > 0.0, "rewards", bound, "change a reward")

    def predict(s, winner: int | None = None) -> dict[str, float]:
        winner = int(s.speed.argmax()) if winner is None else winner
        return indexed("speed", s.speed) | indexed("pi", np.eye(s.speed.size)[winner])

    def check(s) -> dict[str, float]:
        def objective(logits: np.ndarray) -> np.ndarray:
            return (s.mu * (s.rewards - s.mean) * np.log(softmax(logits))).sum()

        below = 0.1 * _LEAD * s.scale
        target = s.mu * (s.rewards - s.mean + below) / below
        speed = complex_gradient(objective, np.cos(np.arange(s.mu.size)))
        return indexed("speed", speed) | indexed("pi", project(target))

    wrong = {"best arm": lambda s: s.predict(int(s.rewards.argmax()))}

    points = ({"behavior_logits": (0.6, 0.06, -1.9), "rewards": (0.6, 0.9, 1.0)}, _FIVE)
    more = ({**_FIVE, "behavior_logits": (1.5, -1.0, 0.8, -0.7, 0.0)},)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        # The field is the same everywhere, so the size of a step only sets how far the run gets.
        step = 5e5 / float(np.ptp(point["rewards"]))
        spec = lab.offline(point, sim.methods.reinforce(sim.advantages.group_mean()), step, _UPDATES)
        logits = lab.run(spec, seed, plant).parameters[0]
        speed = (logits - np.array(point["behavior_logits"])) / (step * _UPDATES)
        found = lab.arms("speed", speed, _TOLERANCE * float(np.linalg.norm(speed)))
        return found | lab.arms("pi", lab.probabilities(logits), _TOLERANCE)

    defects = {
        "behavior refreshed": lambda: replaced(system=lab.fixed(0)),
        "baseline above the mean": lambda: lab.with_method(advantage=sim.advantages.group_mean(shift=0.02)),
    }
