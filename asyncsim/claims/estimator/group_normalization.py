r"""Baseline and scale of a group multiply each prompt's gradient by c(p), with success probability p.

a group's scale multiplies a prompt's gradient by the number `c(p) = E[k (1 - k) / scale(k)] / (p (1 - p))`

Rewards 0 and 1, group mean k, A_i = (r_i - k) / scale(k), fresh data: E (1/N) sum_i A_i s_i = c grad J with c =
E[k (1 - k) / scale(k)] / (p (1 - p)), N k binomial. So the direction stays inside a prompt, and prompts are weighed
anew by c(p). Leave-one-out has scale 1 - 1/N and c = 1; the group mean c = 1 - 1/N; the standard deviation weighs rare
success and rare failure most: c tends to sqrt(N - 1) for p to 0 and 1, and for many samples to 1/sqrt(p (1 - p)), the
gradient of 2 arcsin(sqrt p). Dividing by N - 1 in the variance multiplies c by sqrt(1 - 1/N). Divided by the mean
(MaxRL) c = (1 - (1 - p)^(N-1)) / p, near 1/p: rare success only. `eps` is added to a deviation or a mean; it matters
where it reaches their size. Derivation: E[A | r = 1] - E[A | r = 0] multiplies E[(r - p) s] = grad J, and E A = 0.
Domain: one prompt, on-policy, Bernoulli arms, 0 < p < 1. Second route: both conditional means, summed over arms.
Source: derived; leave-one-out 2402.14740, standard deviation 2402.03300, MaxRL 2602.02710.
"""

import numpy as np
from scipy.stats import binom

from asyncsim.base.declared import Choice, Integer, Real, Vector
from asyncsim.claims._bandit import Arms, softmax
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, indexed, lab, sim, up_to

_BATCHES = 200_000
_POINT = {"means": (0.1, 0.7), "logits": (0.5, -0.5), "samples": 4, "eps": 1e-6}
_STD = {**_POINT, "normalization": "std"}
_UNBIASED = {**_POINT, "normalization": "std_unbiased"}


class GroupNormalization(Arms, Claim):
    kind, source = "expectation", "derived; arXiv 2402.14740, 2402.03300 and 2602.02710 for the rules"
    relative_to, through = "norm", "oracle"

    means = Vector(typical=(0.02, 0.98), sizes=(2, 3), example=(0.1, 0.3, 0.7), doc="success probabilities of the arms")
    logits = Vector(typical=(-1.5, 1.5), example=(0.5, 0.0, -0.5), doc="logits of the policy")
    samples = Integer(2, 4096, typical=(2, 5), example=4, unit="samples", doc="samples in a group")
    normalization = Choice(
        "leave_one_out", "mean", "std", "std_unbiased", "maxrl", example="std", doc="scale of the group's advantages"
    )
    eps = Real(0.0, open_low=True, typical=(1e-6, 0.3), example=0.1, unit="reward", doc="added to a deviation or mean")

    def joint(self) -> None:
        inside = bool(((self.means >= 0.0) & (self.means <= 1.0)).all())
        self.require(inside, "means", "in [0, 1]", "give success probabilities")
        self.pi = softmax(self.logits)
        self.success = float(self.pi @ self.means)
        self.gradient = self.pi * (self.means - self.success)
        differ = float(np.abs(self.gradient).max()) > 1e-6 * float(self.means.max())
        self.require(differ, "means", "means that differ", "change one")

    def _scale(s, share: np.ndarray) -> np.ndarray:
        """Divisor of centered rewards at a given fraction of successes."""
        spread = share * (1.0 - share)
        scales = {
            "leave_one_out": np.full_like(share, 1.0 - 1.0 / s.samples),
            "mean": np.ones_like(share),
            "std": np.sqrt(spread) + s.eps,
            "std_unbiased": np.sqrt(spread / (1.0 - 1.0 / s.samples)) + s.eps,
            "maxrl": share + s.eps,
        }
        return scales[s.normalization]

    def _of(s, factor: float) -> dict[str, float]:
        return {"factor": factor} | indexed("mean", factor * s.gradient)

    def predict(s) -> dict[str, float]:
        successes = np.arange(s.samples + 1)
        share = successes / s.samples
        moment = binom.pmf(successes, s.samples, s.success) @ (share * (1.0 - share) / s._scale(share))
        return s._of(float(moment / (s.success * (1.0 - s.success))))

    def check(s) -> dict[str, float]:
        others = np.arange(s.samples)
        chance = binom.pmf(others, s.samples - 1, s.success)
        shares = [(reward, (others + reward) / s.samples) for reward in (0.0, 1.0)]
        expected = [float(chance @ ((reward - share) / s._scale(share))) for reward, share in shares]
        mean = (s.pi * (expected[0] + s.means * (expected[1] - expected[0]))) @ (np.eye(len(s.pi)) - s.pi)
        return {"factor": float(mean @ s.gradient / (s.gradient @ s.gradient))} | indexed("mean", mean)

    wrong = {"limit of many samples": lambda s: s._of(float((s.success * (1.0 - s.success)) ** -0.5))}

    points = (_STD, _UNBIASED, *({**_POINT, "normalization": name} for name in ("mean", "leave_one_out", "maxrl")))
    more = ({"means": (0.001, 0.01), "logits": (0.0, 0.0), "samples": 8, "eps": 1e-3, "normalization": "std"},)

    _few = f"samples such that (2 arms)**samples <= {_BATCHES}; take fewer"
    reach = staticmethod(up_to(_BATCHES, lambda p: (2 * len(p["means"])) ** p["samples"], _few))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        means, eps = point["means"], point["eps"]
        advantage = {
            "leave_one_out": sim.advantages.leave_one_out(),
            "mean": sim.advantages.group_mean(),
            "std": sim.advantages.group_std(eps),
            "std_unbiased": sim.advantages.group_std(eps, unbiased=True),
            "maxrl": sim.advantages.maxrl(eps),
        }[point["normalization"]]
        spec = plant(lab.population(sim.tasks.softmax_bandit(len(means), means), sim.methods.reinforce(advantage)))
        found = sim.oracle.moments(spec.task, spec.method, np.array(point["logits"]), samples=point["samples"])
        factor = float(found.mean @ found.exact / (found.exact @ found.exact))
        return lab.to_share({"factor": factor}, 1e-9) | lab.components("mean", found.mean)

    defects = {
        "other divisor of the variance": lambda: lab.with_method(advantage=sim.advantages.group_std(unbiased=True))
    }
