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

from asyncsim.theory._bandit import fisher, softmax
from asyncsim.theory._declared import Integer
from asyncsim.theory._delay import critical
from asyncsim.theory._recursion import marginal_step
from asyncsim.theory._stated import stated
from asyncsim.theory.staleness._soft import SoftBandit, centered


class _Setting(SoftBandit):
    workers = Integer(1, typical=(1, 9), example=5, doc="number of workers in rotation")


def _step(curvature: float, tau: int) -> dict[str, float]:
    return {"step": critical(tau) / curvature}


def _predict(s: _Setting) -> dict[str, float]:
    return _step(s.curvature, s.workers - 1)


def _cross_check(s: _Setting) -> dict[str, float]:
    _, stale = s.jacobians(lambda current, behavior: centered(softmax(behavior), s.soft_rewards(softmax(behavior))))
    return {"step": marginal_step(stale, s.workers - 1)}


claim = stated(
    id="staleness/soft-optimum-step",
    statement="a KL-regularized softmax bandit fed by `N` workers in rotation is stable near its optimum iff "
    "`step < a_c(N-1) / (kl lambda_max(F(pi*)))`",
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
        "staleness equal to the number of workers": lambda s: _step(s.curvature, s.workers),
    },
)
