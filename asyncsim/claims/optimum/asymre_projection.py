r"""With a baseline below the behavior's mean reward, REINFORCE on frozen data converges to a simplex projection.

on frozen data, a baseline `V < V_mu` leads REINFORCE to `mu (r - V)/(V_mu - V)`, projected onto distributions

Take frozen behavior mu and a baseline V < V_mu = mu . r. Gradient flow of E_mu[(r - V) log pi] in the logits tends to
the Euclidean projection on the simplex of x = mu (r - V) / (V_mu - V). Derivation: the flow is (V_mu - V)(x - pi), the
gradient of a concave function. Such a flow tends to the least-norm element of the closure of its gradients, and pi
ranges over the simplex. Domain: full support, one softmax, plain gradient (not natural, not Adam). Second route: the
flow itself, by implicit Euler with steps that double, to time 3e13.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import wrightomega

from asyncsim.claims._bandit import Frozen, project, softmax
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Real, indexed, lab, replaced, sim

_UPDATES, _STEP, _TOLERANCE = 800, 3.0, 1e-6
_POINT = {"behavior_logits": (0.5, 0.1, -0.3, 0.2, 0.0), "rewards": (0.0, 0.3, 0.9, 1.0, 0.5), "offset": 0.2}


class AsymreProjection(Frozen, Claim):
    kind, source = "identity", "arXiv 2506.20520 (method); limit derived"
    relative_to = "norm"

    offset = Real(typical=(-1.0, 0.5), example=0.2, unit="reward", doc="baseline V in units of reward")

    def joint(self) -> None:
        margin = 1e-9 * max(float(np.ptp(self.rewards)), abs(self.mean))
        bound = f"below the behavior's mean reward {self.mean:.6g}"
        self.require(self.offset < self.mean - margin, "offset", bound, "lower it")

        # x = mu (r - V) / (V_mu - V); sums to 1, entries may be negative.
        x = self.mu * (self.rewards - self.offset)
        self.target: np.ndarray = x / x.sum()

    def predict(s) -> dict[str, float]:
        return indexed("pi", project(s.target))

    def check(s) -> dict[str, float]:
        """Implicit steps new = theta + length (x - softmax(new)), up to a constant.

        With p = softmax(new) this is length p + log p = length x + theta - c, solved by Wright's omega function. The
        constant c is the root of sum p = 1. Logits come from log p where p is positive: digits stay on a long step.
        """
        x, arms = s.target, s.target.size
        theta, length = np.zeros(arms), 1.0

        def mass(c: float) -> np.ndarray:
            return np.real(wrightomega(z - c)) / length

        for _ in range(45):
            z = length * x + theta + np.log(length)
            low = float(z.max()) - length - np.log(length) - 1.0
            high = float(z.max()) - length / arms - np.log(length / arms) + 1.0
            c = brentq(lambda c: float(mass(c).sum()) - 1.0, low, high, xtol=1e-15 * max(1.0, length), rtol=1e-15)
            p = mass(c)
            linear = z - np.log(length) - c - length * p
            theta, length = np.where(p > 0.0, np.log(np.where(p > 0.0, p, 1.0)), linear), 2.0 * length
        return indexed("pi", softmax(theta))

    wrong = {"best arm": lambda s: indexed("pi", np.arange(s.rewards.size) == s.rewards.argmax())}

    points = (_POINT, {**_POINT, "offset": 0.35})
    more = ({**_POINT, "offset": -0.5},)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        method = sim.methods.reinforce(sim.advantages.offset(point["offset"]))
        step = _STEP / max(1.0, float(np.abs(np.array(point["rewards"]) - point["offset"]).max()))

        def ending(updates: int) -> np.ndarray:
            spec = lab.offline(point, method, step, updates)
            return lab.probabilities(lab.run(spec, seed, plant).parameters[0])

        return lab.arms("pi", lab.settled(ending, _UPDATES, 0.1 * _TOLERANCE), _TOLERANCE)

    defects = {"behavior refreshed": lambda: replaced(system=lab.fixed(0))}
