r"""On average, minibatches have the gradient of their batch; baselines of their own groups shrink it by a factor.

minibatches have the mean gradient of their batch; baselines of their `p` groups multiply it by `(1 - 1/p) G/(G - 1)`

A batch of G groups, one for each of G prompts, all samples of a group alike: a greedy engine draws the likeliest arm a
of each prompt, with reward r_x. Advantages are r less the mean of all groups of the step. Made from the whole batch
they are r_x - mean r, and the M minibatches of an epoch, groups, parts of each, samples or tokens, have on average the
gradient (1/G) (r_x - mean r)(e_a - pi_x) on row x, to first order in the step. Made from each minibatch of p = G/M
groups, E A_x = (1 - 1/p) (r_x - mean of the others): a factor (1 - 1/p) G/(G - 1) less, and 0 where a minibatch is one
group. Parts of every group see all groups, and have factor 1. Derivation: the others of a minibatch are p - 1 of G - 1,
dealt without replacement. Domain: small steps, no ratio. Second route: every choice of p groups.
"""

import itertools

import numpy as np

from asyncsim.base.declared import Choice, Count, Table, Vector
from asyncsim.claims._bandit import softmax
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, checks, indexed, lab, named, replaced, sim, units_for

_STEP, _EPOCHS, _SPREAD = 1e-7, 4, 0.5
"""A step so small that nothing moves, and the standard deviation of a replicate relative to the gradient's norm."""
_REWARDS, _LOGITS = (1.0, 0.2, -0.5, 0.6), ((1.0, 0.2), (0.1, 0.9), (0.7, -0.2), (-0.3, 0.4))
_point = named("cut", "advantages_from", rewards=_REWARDS, logits=_LOGITS, minibatches=2)
_GROUPS, _FLAT = _point("groups", "minibatch"), _point("samples", "batch", minibatches=4)


class CutAdvantages(Claim):
    kind, source = "expectation", "derived: sampling without replacement"
    relative_to = "norm"

    rewards = Vector(typical=(-1.0, 1.0), example=_REWARDS, unit="reward", doc="rewards of the prompts")
    _accepts = "a table of numbers, a row for each prompt", "give a row for each prompt, a number for each arm"
    logits = Table(*_accepts, example=_LOGITS, doc="logits of the policy")
    minibatches = Count(1, 8, typical=(1, 2), example=2, doc="parts of the batch, an update on each")
    cut = Choice("groups", "parts", "samples", "tokens", example="groups", doc="unit at which the batch is cut")
    advantages_from = Choice("batch", "minibatch", example="minibatch", doc="what advantages are made from")

    def joint(self) -> None:
        groups, order = self.rewards.size, np.sort(self.logits, axis=1)
        # Groups that a baseline has seen.
        cut = (self.cut, self.advantages_from) == ("groups", "minibatch")
        self.part = groups // self.minibatches if cut else groups
        checks.finite_array("logits", self.logits.tolist(), [groups, None], "give a row for each prompt")
        clear = order.shape[1] >= 2 and float((order[:, -1] - order[:, -2]).min()) > 0.01
        self.require(clear, "logits", "one largest by 0.01 in each row", "raise the largest")
        self.require(float(np.ptp(self.rewards)) > 1e-2, "rewards", "not all alike", "change one")
        kept = self.advantages_from == "batch" or self.cut in ("groups", "parts")
        self.require(kept, "cut", "groups or parts where minibatches make advantages", "choose another")
        whole = groups % self.minibatches == 0 and (self.advantages_from == "batch" or self.part >= 2)
        bound = f"a divisor of {groups} that leaves two groups or more for advantages"
        self.require(whole, "minibatches", bound, "use fewer")

    def _gradient(s, advantages: np.ndarray) -> dict[str, float]:
        """Mean over groups of A times the score of the most likely arm."""
        scores = np.eye(s.logits.shape[1])[np.argmax(s.logits, axis=1)] - softmax(s.logits)
        return indexed("gradient", advantages[:, None] * scores / s.rewards.size)

    def predict(s, part: int | None = None) -> dict[str, float]:
        groups, p = s.rewards.size, part or s.part
        factor = (1.0 - 1.0 / p) * groups / (groups - 1.0)
        return s._gradient(factor * (s.rewards - s.rewards.mean()))

    def check(s) -> dict[str, float]:
        groups = range(s.rewards.size)
        sets = list(itertools.combinations(groups, s.part))
        own = [[s.rewards[x] - s.rewards[list(each)].mean() for each in sets if x in each] for x in groups]
        return s._gradient(np.array([np.mean(each) for each in own]))

    wrong = {
        "baseline of the batch, or of half of it": lambda s: s.predict(
            s.rewards.size if s.part < s.rewards.size else max(2, s.rewards.size // 2)
        )
    }

    points = (_GROUPS, _FLAT, _point("parts", "minibatch"), _point("groups", "batch", minibatches=4))
    more = (_point("tokens", "batch"), _point("groups", "minibatch", minibatches=1))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        logits, parts = np.array(point["logits"]), point["minibatches"]
        groups, arms = logits.shape
        random = point["cut"] == "groups" and point["advantages_from"] == "minibatch" and parts > 1
        means = np.repeat(np.array(point["rewards"])[:, None], arms, 1)
        task, fresh = sim.tasks.softmax_bandit(arms, means, rewards="fixed"), lab.fixed(0, groups_per_batch=groups)
        method, greedy = (
            sim.methods.reinforce(sim.advantages.mean()),
            sim.policies.tabular(groups, arms, logits, top_k=1),
        )
        replicates = units_for(_SPREAD, effect, logits.size) if random else 2
        size = {"samples_per_group": parts, "updates": _EPOCHS * parts, "epochs": _EPOCHS, "replicates": replicates}
        size |= {name: point[name] for name in ("minibatches", "cut", "advantages_from")} | {"diagnostics": "none"}
        spec = sim.Spec(task, fresh, method, sim.chain(sim.updates.sgd(_STEP)), policy=greedy, **size)
        moved = (lab.run(spec, seed, plant).parameters - logits.ravel()) / (_STEP * _EPOCHS * parts)
        tolerance = 1e-4 * float(np.linalg.norm(moved.mean(axis=0)))
        return {f"gradient[{k}]": lab.between(x)._replace(tolerance=tolerance) for k, x in enumerate(moved.T)}

    defects = {
        "advantages of the batch": lambda: replaced(advantages_from="batch"),
        "a sampler that is not greedy": lambda: (lab.engine_replaced(top_k=0), _FLAT),
    }
