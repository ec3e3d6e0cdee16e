r"""Return and policy gradient of a discounted decision process, with the unnormalized occupancy.

a discounted decision process has the return `J = start^T (I - gamma P)^-1 r`; its derivative in a logit is `d(s)
pi(a|s) A(s,a)`, with discounted visits `d = (I - gamma P)^-T start`

Softmax policy pi on a table, start in state 0, endless episodes but for ends in the tables:
    J = start^T (I - gamma P_pi)^-1 r_pi,  grad J = d(s) pi(a|s) A(s, a),  d = (I - gamma P_pi)^-T start.
d adds up to 1/(1 - gamma) where nothing ends: a gradient that weighs states by their share of visits is smaller by
that factor. Derivation: derivative of the inverse. Second route: the bandit over all deterministic policies, J = sum_f
W_f J_f with W_f ~ prod_s pi(f_s|s) det(I - gamma P_f), differentiated as a softmax bandit. Source: Sutton et al. 2000
(policy gradient theorem); the bandit is derived.
"""

import numpy as np

from asyncsim.claims._bandit import softmax
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, indexed, lab, process
from asyncsim.claims._mdp import Process, arms, logits

_RING = process((((0.0, 1.0), (1.0, 0.0)),) * 2, ((0.2, 1.0), (0.0, 0.5)), 0.25, logits=((0.3, -0.2), (0.7, 0.1)))
_MIXED = process(
    (((0.5, 0.3, 0.2), (0.1, 0.1, 0.8)), ((0.2, 0.5, 0.3), (0.6, 0.2, 0.2)), ((0.3, 0.3, 0.4), (0.1, 0.8, 0.1))),
    ((0.0, 1.0), (0.4, -0.3), (2.0, 0.1)),
    0.9,
    logits=((0.5, -0.5), (0.0, 1.0), (-0.3, 0.2)),
)
_FIRST, _, _LAST = _MIXED["transition"]


class MdpGradient(Process, Claim):
    kind, source = "identity", "Sutton et al. 2000; the second route is derived"
    relative_to, through = "norm", "loop, oracle"

    logits = logits("policy", (0.4, -0.3), (-0.8, 0.5))

    def joint(self) -> None:
        self.policy = softmax(self.logits)

    def _numbers(s, occupancy: np.ndarray) -> dict[str, float]:
        value = s.resolvent(s.policy)[0] @ (s.policy * s.rewards).sum(axis=1)
        return {"value": float(value)} | indexed("gradient", occupancy[:, None] * s.policy * s.advantage(s.policy))

    def predict(s) -> dict[str, float]:
        return s._numbers(s.occupancy(s.policy))

    def check(s) -> dict[str, float]:
        chosen, determinant, returns = arms(s)
        weight = s.policy[np.arange(chosen.shape[1]), chosen].prod(axis=1) * determinant
        weight /= weight.sum()
        value = weight @ returns
        taken = np.eye(s.logits.shape[1])[chosen]
        # The scores of an arm are e(f_s) less their mean, and centered rewards make the mean drop out.
        return {"value": float(value)} | indexed("gradient", np.einsum("f,fsa->sa", weight * (returns - value), taken))

    wrong = {"normalized occupancy": lambda s: s._numbers((1.0 - s.discount) * s.occupancy(s.policy))}

    points = (_RING, _MIXED, {**_MIXED, "transition": (_FIRST, ((0.2, 0.3, 0.3), (0.0, 0.0, 0.0)), _LAST)})
    more = ({**_MIXED, "discount": 0.99}, {**_RING, "discount": 0.4})

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        logits = np.array(point["logits"])
        through_loop = lab.mdp.why_random(point) is None
        task = lab.mdp.listed(point) if through_loop else lab.mdp.task_of(point)
        spec = lab.mdp.spec_of(task, plant, initial=logits.ravel())
        value, gradient = (found[0] for found in lab.mdp.exact(spec, logits[None]))
        if through_loop:
            gradient = lab.running.run(spec, seed=seed, progress=False).parameters[0] - logits.ravel()
        tolerance = lab.mdp.left_out(task)
        numbers = {"value": value} | {f"gradient[{k}]": x for k, x in enumerate(gradient)}
        return {name: Estimate(float(x), tolerance=tolerance) for name, x in numbers.items()}

    defects = {"discount in the advantage alone": lambda: lab.mdp.discount_in_advantage}
