r"""REINFORCE with a group baseline and no ratios follows the gradient of the behavior policy: delayed ascent.

on a softmax bandit, REINFORCE with a group baseline and no ratios is gradient ascent with delayed gradients, whatever
the current policy; without a baseline, the gradient depends on the current policy

Centered rewards sum to zero over a group, so the current policy cancels from sum_i A_i (e_{a_i} - pi). Means over
groups of N samples from mu: leave-one-out baseline mu o (r - mu.r) = grad J(theta_{t-tau}). Group mean: (N-1)/N of it;
no baseline: mu o r - (mu.r) pi. Hence E theta follows theta_{t+1} = theta_t + step grad J(theta_{t-tau}) as N grows,
with theta_{-k} = theta_0. Domain: one context, no shared features, behavior of full support. Second route: enumeration
of sample pairs with the score at the current policy, and a complex-step derivative of E_mu[r log pi]. Pairs suffice
because E[(r_1 - mean) s_1] is linear in the other rewards.
"""

import numpy as np

from asyncsim.base.declared import Integer, Positive, Staleness, Vector
from asyncsim.base.uncertainty import between
from asyncsim.claims._bandit import PolicyPair, complex_gradient, refuse_equal, softmax
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, indexed, lab, sim, untouched

_ROUNDING = 1e-10
_POINT = {
    "rewards": (0.0, 0.5, 1.0), "initial_logits": (0.2, 0.0, -0.2), "behavior_logits": (0.3, -0.2, 0.5),
    "current_logits": (1.5, -0.9, 0.1), "staleness": 4, "step": 1.5, "updates": 40, "samples": 3,
}  # fmt: skip


def _pair_field(mu: np.ndarray, pi: np.ndarray, rewards: np.ndarray, others: float) -> np.ndarray:
    """E[(r_1 - (1-others) r_1 - others r_2) (e_{a_1} - pi)] over independent pairs from mu."""
    chance = mu[:, None] * mu[None, :]
    advantage = others * (rewards[:, None] - rewards[None, :])
    return np.einsum("ij,ij,ik->k", chance, advantage, np.eye(mu.size) - pi)


class StaleReinforceIsDelayedAscent(PolicyPair, Claim):
    kind, source = "identity", "derived: centered rewards sum to zero over a group"
    relative_to, through = "norm", "loop, oracle"

    rewards = Vector(typical=(0.1, 1.0), example=(0.0, 0.5, 1.0), doc="rewards of the arms")
    initial_logits = Vector(typical=(-2.0, 2.0), example=(0.0, 0.1, 0.0), doc="logits before the first update")
    staleness = Staleness(typical=(0, 6), example=4)
    step = Positive(typical=(0.01, 3.0), example=2.0, unit="logits per gradient", doc="learning rate")
    updates = Integer(1, typical=(1, 20), example=12, unit="updates", doc="length of a run")
    samples = Integer(2, typical=(2, 32), example=4, doc="samples of a group", remedy="a group baseline needs two")

    def joint(self) -> None:
        refuse_equal(self.rewards)
        # (N - 1)/N, what the group mean leaves.
        self.left = (self.samples - 1) / self.samples

    def quantities(s, logit: np.ndarray, group: np.ndarray, none: np.ndarray) -> dict[str, float]:
        return indexed("logit", logit) | indexed("group_mean", group) | indexed("none", none)

    def predict(s, factor: float | None = None) -> dict[str, float]:
        mu = softmax(s.behavior_logits)
        mean, factor = float(mu @ s.rewards), s.left if factor is None else factor
        none = mu * s.rewards - mean * softmax(s.current_logits)
        path = [s.initial_logits]
        for t in range(s.updates):
            pi = softmax(path[max(t - s.staleness, 0)])
            path.append(path[-1] + s.step * pi * (s.rewards - pi @ s.rewards))
        return s.quantities(path[-1], factor * mu * (s.rewards - mean), none)

    def check(s) -> dict[str, float]:
        path = [s.initial_logits]
        for t in range(s.updates):
            field = _pair_field(softmax(path[max(t - s.staleness, 0)]), softmax(path[-1]), s.rewards, 1.0)
            path.append(path[-1] + s.step * field)
        mu = softmax(s.behavior_logits)
        group = _pair_field(mu, softmax(s.current_logits), s.rewards, s.left)
        none = complex_gradient(lambda logits: (mu * s.rewards) @ np.log(softmax(logits)), s.current_logits)
        return s.quantities(path[-1], group, none)

    wrong = {"factor (N-1)/N of the group mean forgotten": lambda s: s.predict(factor=1.0)}

    points = (_POINT,)
    more = ({**_POINT, "staleness": 9, "samples": 5, "step": 0.7},)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        arms = len(point["rewards"])
        task = sim.tasks.softmax_bandit(arms, point["rewards"], rewards="fixed", logits=point["initial_logits"])
        method = sim.methods.reinforce(sim.advantages.leave_one_out())
        spec = plant(lab.ascent(task, lab.fixed(point["staleness"]), method, point["step"], point["updates"]))
        logits = lab.running.run(spec, seed=seed, progress=False).parameters[0]
        places = (point["current_logits"], point["behavior_logits"])
        cells = {f"logit[{k}]": Estimate(float(x), tolerance=_ROUNDING) for k, x in enumerate(logits)}
        for name, advantage in (("group_mean", sim.advantages.group_mean()), ("none", sim.advantages.none())):
            own = spec.method.replace(advantage=advantage)
            # More batches than can be listed are sampled.
            if arms ** point["samples"] > 1_000_000:
                size = point["samples"], 1, 40_000
                away = np.array(places[1]), np.array(places[0])
                sampled = lab.displaced(task, away, [lab.MeanGradient()], size, own)
                means = [between(row) for row in lab.run(sampled, seed + 1, untouched).accumulated["gradient"]]
            else:
                exact = sim.oracle.moments(task, own, *places, samples=point["samples"]).mean
                means = [Estimate(float(x), tolerance=_ROUNDING) for x in exact]
            cells |= {f"{name}[{k}]": mean for k, mean in enumerate(means)}
        return cells

    defects = {
        "off-by-one version": lambda: lab.off_by_one_version,
        "scores at the behavior version": lambda: lab.with_method(at="behavior"),
    }
