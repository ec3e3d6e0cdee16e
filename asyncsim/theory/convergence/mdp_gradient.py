r"""Return and policy gradient of a discounted decision process, with the occupancy that is not normalized.

Softmax policy pi on a table, start in state 0, endless episodes but for ends in the tables:
    J = start^T (I - gamma P_pi)^-1 r_pi,  grad J = d(s) pi(a|s) A(s, a),  d = (I - gamma P_pi)^-T start.
d adds up to 1/(1 - gamma) where nothing ends: a gradient that weighs states by their share of visits is smaller by
that factor. Derivation: derivative of the inverse. Second route: the bandit over all deterministic policies, J = sum_f
W_f J_f with W_f ~ prod_s pi(f_s|s) det(I - gamma P_f), differentiated as a softmax bandit. Source: Sutton et al. 2000
(policy gradient theorem); the bandit is derived.
"""

from __future__ import annotations

import numpy as np

from asyncsim.theory._bandit import softmax
from asyncsim.theory._mdp import Process, arms, logits
from asyncsim.theory._stated import indexed, stated


class _Setting(Process):
    logits = logits("policy", (0.4, -0.3), (-0.8, 0.5))

    @property
    def policy(self) -> np.ndarray:
        return softmax(self.logits)


def _numbers(s: _Setting, occupancy: np.ndarray) -> dict[str, float]:
    value = s.resolvent(s.policy)[0] @ (s.policy * s.rewards).sum(axis=1)
    return {"value": float(value)} | indexed("gradient", occupancy[:, None] * s.policy * s.advantage(s.policy))


def _predict(s: _Setting) -> dict[str, float]:
    return _numbers(s, s.occupancy(s.policy))


def _cross_check(s: _Setting) -> dict[str, float]:
    chosen, determinant, returns = arms(s)
    states = np.arange(chosen.shape[1])
    weight = s.policy[states, chosen].prod(axis=1) * determinant
    weight /= weight.sum()
    value = weight @ returns
    taken = np.eye(s.logits.shape[1])[chosen]
    # The scores of an arm are e(f_s) less their mean, and centered rewards make the mean drop out.
    return {"value": float(value)} | indexed("gradient", np.einsum("f,fsa->sa", weight * (returns - value), taken))


def _undiscounted_visits(s: _Setting) -> np.ndarray:
    """Visits of 20 steps without a discount, as an update makes them that weighs all steps alike."""
    led = np.einsum("sa,sat->st", s.policy, s.transition)
    return np.sum([np.linalg.matrix_power(led, t)[0] for t in range(20)], axis=0)


claim = stated(
    id="convergence/mdp-gradient",
    statement="a discounted decision process has `J = start^T (I - gamma P)^-1 r` and `grad J(s,a) = d(s) pi(a|s) "
    "A(s,a)` with the unnormalized occupancy `d = (I - gamma P)^-T start`",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="Sutton et al. 2000; the second route is derived",
    formula_defects={
        "normalized occupancy": lambda s: _numbers(s, (1.0 - s.discount) * s.occupancy(s.policy)),
        "discount forgotten in the occupancy": lambda s: _numbers(s, _undiscounted_visits(s)),
        "transition transposed": lambda s: _predict(s.but(transition=s.transition.transpose(2, 1, 0))),
    },
    relative_to="norm",
)
