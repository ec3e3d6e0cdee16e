r"""Exact total variance of a leave-one-out REINFORCE gradient on a softmax bandit, for any number of samples.

the leave-one-out gradient of a softmax bandit has total variance `[4 (N - 2) zeta_1 + 2 zeta_2]/(N (N - 1))`

g = (1/N) sum_i (r_i - mean of the others) e_{a_i} is a U-statistic with kernel h(a, b) = (r_a - r_b)(e_a - e_b)/2. So
tr Var g = [4 (N-2) zeta_1 + 2 zeta_2] / (N (N-1)) with zeta_1 = tr Var E[h | a] and zeta_2 = Var_pi r - |grad J|^2.
Here E[h | a] = ((r_a - J) e_a + pi (r - r_a))/2. All are taken at the policy that draws. The policy of the scores does
not matter: advantages add up to 0, so its terms cancel. Domain: rewards of the arms fixed, one prompt, N >= 2, no
penalty. Second route: E<h, h'> over all choices of four arms, by how many samples two pairs share.
"""

import numpy as np

from asyncsim.claims._bandit import arm_rewards, softmax
from asyncsim.claims._claim import Claim, Estimate, Integer, Plant, Point, Vector, checks, lab, sim

_ROUNDING = 1e-12
_BATCHES, _SAMPLED = 200_000, 100_000
"""Ordered batches that are listed, at most; and batches that are sampled where there are more."""
_POINT = {"rewards": (0.0, 0.5, 1.0), "behavior_logits": (0.3, -0.2, 0.5), "samples": 4}


class BanditNoise(Claim):
    kind, source = "identity", "derived: Hoeffding's decomposition of U-statistics"
    through = "oracle"

    rewards = arm_rewards(0.0, 0.4, 1.0, low=-1.0, most=2.0, least=4, doc="fixed rewards of the arms")
    behavior_logits = Vector(
        typical=(-2.0, 2.0), sizes=(4, 4), example=(0.3, -0.2, 0.5), doc="logits of the sampling policy, by arm"
    )
    samples = Integer(2, typical=(2, 60), example=5, doc="samples of a group", remedy="leaving one out needs another")

    def joint(self) -> None:
        arms = self.rewards.size
        # The second route lists triples of arms.
        checks.integer("arms of rewards", arms, 2, "give rewards of at least two arms", 64)
        checks.finite_array("behavior_logits", self.behavior_logits.tolist(), [arms], "give one logit for each arm")
        self.policy = softmax(self.behavior_logits)

    def _components(s) -> tuple[float, float]:
        """Hoeffding variance components zeta_1 and zeta_2."""
        pi, centered = s.policy, s.rewards - s.policy @ s.rewards
        conditional_mean = (np.diag(centered) + pi * (s.rewards - s.rewards[:, None])) / 2.0
        gradient = pi * centered
        first = float(pi @ (conditional_mean**2).sum(axis=1) - gradient @ gradient)
        return first, float(pi @ centered**2 - gradient @ gradient)

    def predict(s) -> dict[str, float]:
        first, second = s._components()
        return {"variance": (4.0 * (s.samples - 2) * first + 2.0 * second) / (s.samples * (s.samples - 1))}

    def check(s) -> dict[str, float]:
        n, arms = s.samples, np.eye(s.rewards.size)
        kernel = (s.rewards[:, None] - s.rewards)[..., None] * (arms[:, None] - arms) / 2.0
        same = np.einsum("a,b,abk,abk->", s.policy, s.policy, kernel, kernel)
        shared = np.einsum("a,b,c,abk,ack->", s.policy, s.policy, s.policy, kernel, kernel, optimize=True)
        mean = np.einsum("a,b,abk->k", s.policy, s.policy, kernel)
        pairs = n * (n - 1) // 2
        # Of all pairs of pairs: equal ones, those that share one sample, and those that share none.
        one_shared, none_shared = n * (n - 1) * (n - 2), pairs * ((n - 2) * (n - 3) // 2)
        square = (pairs * same + one_shared * shared + none_shared * (mean @ mean)) / pairs**2
        return {"variance": float(square - mean @ mean)}

    wrong = {
        "pairs taken as independent": lambda s: {"variance": 2.0 * s._components()[1] / (s.samples * (s.samples - 1))}
    }

    points = (_POINT, {**_POINT, "samples": 2}, {"rewards": (0.0, 1.0), "behavior_logits": (0.0, 1.7), "samples": 8})
    more = ({"rewards": (0.2, 0.1, 0.9, 0.4), "behavior_logits": (0.0, 1.0, -1.0, 0.5), "samples": 6},)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        rewards, behavior = np.array(point["rewards"]), np.array(point["behavior_logits"])
        task = sim.tasks.softmax_bandit(len(rewards), rewards, rewards="fixed")
        method = sim.methods.reinforce(sim.advantages.leave_one_out())
        # Scores are taken at another policy than the data: the variance must be the same.
        current = behavior + np.cos(1.0 + np.arange(len(rewards)))
        if len(rewards) ** point["samples"] > _BATCHES:
            size = point["samples"], 1, _SAMPLED
            fresh = lab.displaced(task, (behavior, current), [lab.MeanGradient()], size, method)
            gradient = lab.run(fresh, seed, plant).accumulated["gradient"]
            around = gradient - gradient.mean(axis=1, keepdims=True)
            return {"variance": lab.between((around**2).sum(axis=0))._replace(tolerance=_ROUNDING)}
        spec = plant(sim.Spec(task, sim.schedules.frozen(), method, sim.chain()))
        moments = sim.oracle.moments(spec.fitted_task, spec.method, current, behavior, samples=point["samples"])
        return {"variance": Estimate(moments.variance, tolerance=_ROUNDING)}

    defects = {"mean of the whole group": lambda: lab.with_method(advantage=sim.advantages.group_mean())}
