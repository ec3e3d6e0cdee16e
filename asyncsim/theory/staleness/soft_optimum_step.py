r"""A regularized softmax bandit is stable to learning rate a_c(workers - 1) / (kl * Fisher eigenvalue at its optimum).

J_kl = pi . r - kl KL(pi || reference) peaks at pi* ~ reference e^{r/kl}, where the Hessian in the logits is -kl F(pi*),
F = diag pi* - pi* pi*^T. With N workers in rotation every gradient is N - 1 updates old. So the local limit of delayed
ascent is the linear one with curvature kl lambda_max(F). Domain: everything in the gradient is stale (the penalty sits
in the reward, at behavior log-probabilities), no ratio, unbiased baseline, small deviations from pi*. Second route: pi*
by natural-gradient ascent, Jacobian of the mean field by complex steps, radius of the block companion matrix. Source:
derived (local linearization).
"""

from __future__ import annotations

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._bandit import Arms, complex_gradient, fisher, softmax
from asyncsim.theory._declared import Integer, Positive, Vector
from asyncsim.theory._delay import critical
from asyncsim.theory._recursion import marginal_step
from asyncsim.theory._stated import stated


class _Setting(Arms):
    workers = Integer(1, typical=(1, 9), example=5, doc="number of workers in rotation")
    rewards = Vector(typical=(0.0, 1.0), sizes=(2, 4), example=(0.0, 0.5, 1.0), doc="rewards of the arms")
    reference_logits = Vector(typical=(-1.0, 1.0), example=(0.0, 0.3, -0.2), doc="logits of the reference policy")
    kl = Positive(typical=(0.2, 3.0), example=0.15, unit="reward per nat", doc="weight of the penalty")

    def joint(self) -> None:
        """The second route loses the optimum to rounding once all but one arm have vanished."""
        super().joint()
        second = float(np.sort(self.optimum)[-2])
        checks.require(second > 1e-9, "kl", self.kl, "large enough that two arms keep more than 1e-9", "raise kl")

    @property
    def optimum(self) -> np.ndarray:
        return softmax(self.reference_logits + self.rewards / self.kl)


def _step(curvature: float, tau: int) -> dict[str, float]:
    return {"step": critical(tau) / curvature}


def _predict(s: _Setting) -> dict[str, float]:
    return _step(s.kl * float(np.linalg.eigvalsh(fisher(s.optimum))[-1]), s.workers - 1)


def _cross_check(s: _Setting) -> dict[str, float]:
    theta = s.reference_logits.copy()
    for _ in range(200):
        gain = s.rewards - s.kl * (theta - s.reference_logits)
        theta = theta + 0.3 / s.kl * (gain - gain.mean())

    def field(logits: np.ndarray) -> np.ndarray:
        pi = softmax(logits)
        soft_rewards = s.rewards - s.kl * (np.log(pi) - np.log(softmax(s.reference_logits)))
        mean_field: np.ndarray = pi * (soft_rewards - pi @ soft_rewards)
        return mean_field

    # Logits matter up to a constant: the direction (1, .., 1) has no dynamics and is projected out.
    basis = np.linalg.qr(np.column_stack([np.ones(theta.size), np.eye(theta.size)[:, 1:]]))[0][:, 1:]
    return {"step": marginal_step(basis.T @ complex_gradient(field, theta) @ basis, s.workers - 1)}


claim = stated(
    id="staleness/soft-optimum-step",
    statement="a KL-regularized softmax bandit fed by `N` workers in rotation is stable near its optimum iff "
    "`learning_rate < a_c(N-1) / (kl lambda_max(F(pi*)))`",
    kind="threshold",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: Hessian -kl F(pi*) of the regularized return, then the delayed linear boundary",
    formula_defects={
        "Fisher eigenvalue replaced by 1/4": lambda s: _step(s.kl / 4.0, s.workers - 1),
        "Fisher eigenvalue replaced by 1": lambda s: _step(s.kl, s.workers - 1),
        "Fisher at the reference policy": lambda s: _step(
            s.kl * float(np.linalg.eigvalsh(fisher(softmax(s.reference_logits)))[-1]), s.workers - 1
        ),
        "staleness equal to the number of workers": lambda s: _step(
            s.kl * float(np.linalg.eigvalsh(fisher(s.optimum))[-1]), s.workers
        ),
    },
)
