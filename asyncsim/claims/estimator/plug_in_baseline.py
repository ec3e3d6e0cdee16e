r"""Baselines from the batch that they serve bias the gradient toward zero; baselines without the sample itself do not.

with a baseline `sum_j q_j r_j` of its batch, sample `i` has the score `w_i s_i - q_i sum_j w_j s_j`, biased low

N samples of mu, full ratios w, g = (1/N) sum_i w_i (r_i - b_i) s_i. A baseline b = sum_j q_j r_j, with shares q_j of
weights omega_j, lets sample i count with w_i s_i - q_i sum_j w_j s_j. The heavier it is, the less is left of it, and of
a single sample nothing. omega = 1 is the group mean, w the self-normalized and w^2 |s|^2 the plug-in optimal baseline.
Without sample i in its own b_i the mean of g is the gradient, for each of them. `mean` and `variance` (total) are those
of g. Of 600 random examples with 2 to 4 arms and samples the plug-in baseline made the mean shorter in all. So was its
variance lower than that of the plain leave-one-out mean. By projection^2 / variance, which a scale leaves alone, it was
ahead in 242 only. Domain: one softmax, fixed rewards of the arms, N >= 2, at most 2^16 batches. First route: ordered
batches. Second: counts of arms, in the coefficient form above; for leave-one-out the mean by score identity.
"""

import math

import numpy as np

from asyncsim.claims._bandit import PaidGroup, compositions, score_norm_squared
from asyncsim.claims._claim import PAIR, Choice, Claim, Estimate, Flag, Integer, Plant, Point, indexed, lab, sim

_POINT = {**PAIR, "rewards": (0.2, 0.5, 1.0), "samples": 3, "leave_one_out": False}
_PLUG_IN = {**_POINT, "baseline": "plug_in"}
_OUT = {**_PLUG_IN, "leave_one_out": True}
_WIDE = {
    "behavior_logits": (0.0, 0.5, -0.5, 0.2), "current_logits": (1.0, -0.5, 0.3, 0.0), "rewards": (1.0, 0.0, 0.6, 0.3),
    "samples": 4, "leave_one_out": False, "baseline": "plug_in",
}  # fmt: skip


class PlugInBaseline(PaidGroup, Claim):
    kind, source = "identity", "derived; plug-in optimal baseline arXiv 2602.17616"
    relative_to, through = "norm", "oracle"

    samples = Integer(2, 16, typical=(2, 5), example=3, unit="samples", doc="samples in a group")
    baseline = Choice("mean", "self_normalized", "plug_in", example="plug_in", doc="weights in the baseline")
    leave_one_out = Flag(example=False, doc="leave the sample out of its baseline")

    def joint(self) -> None:
        self.require(float(np.abs(self.gradient).max()) > 1e-6, "rewards", "rewards that differ", "change one")
        self.omega = {
            "mean": np.ones_like(self.rewards),
            "self_normalized": self.ratio,
            "plug_in": self.ratio**2 * score_norm_squared(self.pi),
        }[self.baseline]

    def _of(s, chance: np.ndarray, gradients: np.ndarray) -> dict[str, float]:
        mean = chance @ gradients
        return indexed("mean", mean) | {"variance": float(chance @ ((gradients - mean) ** 2).sum(axis=1))}

    def _with(s, out: bool) -> dict[str, float]:
        """Moments over all ordered batches, with sample i included in its own baseline or left out."""
        picks, chance = s.batches()
        heavy, reward = s.omega[picks], s.rewards[picks]
        keep = np.ones((s.samples, s.samples)) - out * np.eye(s.samples)
        baseline = (heavy * reward) @ keep / (heavy @ keep)
        weight = s.ratio[picks] * (reward - baseline) / s.samples
        return s._of(chance, np.einsum("bn,bnk->bk", weight, s.scores[picks]))

    def predict(s) -> dict[str, float]:
        return s._with(s.leave_one_out)

    def check(s) -> dict[str, float]:
        counts = compositions(s.samples, s.rewards.size)
        ways = np.array([math.factorial(s.samples) // math.prod(map(math.factorial, row)) for row in counts.tolist()])
        chance = ways * (s.mu**counts).prod(axis=1)
        weighted = s.ratio[:, None] * s.scores
        total = counts @ weighted
        rows = np.empty_like(total)
        for k, count in enumerate(counts):
            if s.leave_one_out:
                # One sample of an arm sees the others of the count.
                others = count - np.eye(s.rewards.size)
                heavy = np.where(count[:, None] > 0, others * s.omega, 1.0)
                rows[k] = (count * (s.rewards - heavy @ s.rewards / heavy.sum(axis=1))) @ weighted
            else:
                share = s.omega / (count @ s.omega)
                rows[k] = (count * s.rewards) @ (weighted - np.outer(share, total[k]))
        found = s._of(chance, rows / s.samples)
        return found | (indexed("mean", s.gradient) if s.leave_one_out else {})

    wrong = {"own sample on the other side": lambda s: s._with(not s.leave_one_out)}

    points = (_PLUG_IN, _OUT, {**_POINT, "baseline": "mean"}, {**_POINT, "baseline": "self_normalized"})
    more = ({**_OUT, "baseline": "mean"}, {**_OUT, "baseline": "self_normalized"}, _WIDE)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        rewards, out = point["rewards"], bool(point["leave_one_out"])
        baseline = {
            "mean": sim.advantages.leave_one_out() if out else sim.advantages.group_mean(),
            "self_normalized": sim.advantages.self_normalized(leave_one_out=out),
            "plug_in": sim.advantages.opob(leave_one_out=out),
        }[point["baseline"]]
        task = sim.tasks.softmax_bandit(len(rewards), rewards, rewards="fixed")
        spec = plant(lab.population(task, sim.methods.full_is(advantage=baseline)))
        found = sim.oracle.moments(task, spec.method, *lab.places(point), samples=point["samples"])
        return lab.components("mean", found.mean) | {"variance": lab.exactly(found.variance)}

    defects = {
        "weight to the fourth power": lambda: lab.wrapping_advantage(lab.FourthPower),
        "sample inside its own baseline": lambda: (lab.with_method(advantage=sim.advantages.opob()), _OUT),
    }
