r"""A regularized softmax bandit tolerates steps up to a_c(workers - 1) / (kl * Fisher eigenvalue at its optimum).

J_kl = pi . r - kl KL(pi || reference) peaks at pi* ~ reference e^{r/kl}, where the Hessian in the logits is -kl
F(pi*), F = diag pi* - pi* pi*^T. With N workers in rotation every gradient is N - 1 updates old, so the local limit
of delayed ascent is the linear one with curvature kl lambda_max(F). Domain: everything in the gradient is stale (the
penalty sits in the reward, at behavior log-probabilities), no ratio, unbiased baseline, small deviations from pi*.
Second route: pi* by natural-gradient ascent, Jacobian of the mean field by complex steps, radius of the block
companion matrix. Source: derived (local linearization).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from asyncsim import checks
from asyncsim.records import Claim, Point
from asyncsim.theory import _points
from asyncsim.theory._bandit import complex_gradient, fisher, softmax
from asyncsim.theory._delay import critical
from asyncsim.theory._recursion import marginal_step


class _Setting(NamedTuple):
    workers: int
    rewards: np.ndarray
    reference: np.ndarray
    kl: float

    @property
    def optimum(self) -> np.ndarray:
        return softmax(self.reference + self.rewards / self.kl)


def _read(point: Point) -> _Setting:
    workers, rewards, reference, kl = _points.select(point, "workers rewards reference_logits kl")
    workers = checks.integer("workers", workers, 1, "give at least one worker")
    rewards = _points.vector("rewards", rewards)
    checks.require(rewards.size >= 2, "rewards", rewards.tolist(), "rewards of at least two arms", "add an arm")
    reference = _points.vector("reference_logits", reference, length=rewards.size)
    setting = _Setting(workers, rewards, reference, _points.positive("kl", kl))
    optimum = setting.optimum
    # The second route loses the optimum to rounding once all but one arm have vanished.
    checks.require(
        float(np.sort(optimum)[-2]) > 1e-9, "kl", kl, "large enough that two arms keep more than 1e-9", "raise kl"
    )
    return setting


def _step(curvature: float, tau: int) -> dict[str, float]:
    return {"step": critical(tau) / curvature}


def _predict(point: Point) -> dict[str, float]:
    s = _read(point)
    return _step(s.kl * float(np.linalg.eigvalsh(fisher(s.optimum))[-1]), s.workers - 1)


def _cross_check(point: Point) -> dict[str, float]:
    s = _read(point)
    theta = s.reference.copy()
    for _ in range(200):
        gain = s.rewards - s.kl * (theta - s.reference)
        theta = theta + 0.3 / s.kl * (gain - gain.mean())

    def field(logits: np.ndarray) -> np.ndarray:
        pi = softmax(logits)
        soft = s.rewards - s.kl * (np.log(pi) - np.log(softmax(s.reference)))
        mean_field: np.ndarray = pi * (soft - pi @ soft)
        return mean_field

    # Logits matter up to a constant: the direction (1, .., 1) has no dynamics and is projected out.
    basis = np.linalg.qr(np.column_stack([np.ones(theta.size), np.eye(theta.size)[:, 1:]]))[0][:, 1:]
    return {"step": marginal_step(basis.T @ complex_gradient(field, theta) @ basis, s.workers - 1)}


def _quarter(point: Point) -> dict[str, float]:
    s = _read(point)
    return _step(s.kl / 4.0, s.workers - 1)


def _unit(point: Point) -> dict[str, float]:
    s = _read(point)
    return _step(s.kl, s.workers - 1)


def _at_reference(point: Point) -> dict[str, float]:
    s = _read(point)
    return _step(s.kl * float(np.linalg.eigvalsh(fisher(softmax(s.reference)))[-1]), s.workers - 1)


def _off_by_one(point: Point) -> dict[str, float]:
    s = _read(point)
    return _step(s.kl * float(np.linalg.eigvalsh(fisher(s.optimum))[-1]), s.workers)


claim = Claim(
    id="staleness/soft-optimum-step",
    statement="a KL-regularized softmax bandit fed by N workers in rotation is stable near its optimum iff "
    "step < a_c(N-1) / (kl lambda_max(F(pi*)))",
    kind="threshold",
    status="exact",
    point=_read,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: Hessian -kl F(pi*) of the regularized return, then the delayed linear boundary",
    formula_defects={
        "Fisher eigenvalue replaced by 1/4": _quarter,
        "Fisher eigenvalue replaced by 1": _unit,
        "Fisher at the reference policy": _at_reference,
        "staleness equal to the number of workers": _off_by_one,
    },
)
