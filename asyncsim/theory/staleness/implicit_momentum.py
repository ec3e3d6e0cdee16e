r"""Exponential workers turn asynchrony into momentum 1 - 1/M of the mean, whatever the loss.

E[x_{t+1} - x_t] = (1 - 1/M) E[x_t - x_{t-1}] + (step/M) E g(x_t) for t >= 1, x_1 - x_0 = step g(x_0), g the mean ascent
direction. Derivation: the mean over workers of g at what they have read changes by (g(x_t) - g(read)) / M an update. On
a linear gradient the mean is stable iff step * curvature < 2 (2 M - 1). Domain: M workers with independent exponential
times of one rate, each reads after its own update; the mean alone (`staleness/exponential-workers-second-moment`).
Here x are logits of a softmax bandit. Second route: the mean over every order of workers, and root finding on the
radius of the recursion of iterate and mean read value. Source: arXiv 1605.09774; derived for any loss.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim.theory._bandit import refuse_equal, softmax
from asyncsim.theory._declared import Draw, Positive, Vector
from asyncsim.theory._recursion import first_crossing
from asyncsim.theory._stated import indexed, stated
from asyncsim.theory.staleness._orders import ExponentialWorkers, paths


class _Setting(ExponentialWorkers):
    rewards = Vector(typical=(0.1, 1.0), length=3, example=(0.0, 0.5, 1.0), doc="rewards of the arms")
    step = Positive(typical=(0.01, 3.0), example=2.0, unit="logits per gradient", doc="learning rate of the run")

    def joint(self) -> None:
        """Arms that differ."""
        super().joint()
        refuse_equal(self.rewards)

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """One arm pays nothing, so that rewards differ."""
        point = super().drawn(draw)
        return point | {"rewards": (0.0, *point["rewards"][1:])}

    def ascent(self, logits: np.ndarray) -> np.ndarray:
        """pi o (r - pi . r), `[K, A]`."""
        pi = softmax(logits)
        direction: np.ndarray = pi * (self.rewards - (pi @ self.rewards)[:, None])
        return direction

    def orders(self) -> np.ndarray:
        """Logits over every order, `[K, T+1, A]`."""
        return paths(self.workers, self.updates, np.zeros(3), lambda read: self.step * self.ascent(read))


def _quantities(s: _Setting, boundary: float, logits: np.ndarray) -> dict[str, float]:
    return {"step": boundary / s.curvature} | indexed("logit", logits)


def _momentum(s: _Setting, keep: float, scale: float, boundary: float) -> dict[str, float]:
    """Mean logits by the recursion with momentum `keep` and learning rate step * `scale`."""
    forces = [s.ascent(each).mean(axis=0) for each in s.orders().transpose(1, 0, 2)]
    mean, change = s.step * forces[0], s.step * forces[0]
    for force in forces[1:-1]:
        change = keep * change + s.step * scale * force
        mean = mean + change
    return _quantities(s, boundary, mean)


def _predict(s: _Setting) -> dict[str, float]:
    return _momentum(s, 1.0 - 1.0 / s.workers, 1.0 / s.workers, 2.0 * (2 * s.workers - 1))


def _cross_check(s: _Setting) -> dict[str, float]:
    def excess(a: float) -> float:
        share = 1.0 / s.workers
        moved = np.array([[1.0, -a], [share, 1.0 - share - share * a]])
        return float(np.abs(np.linalg.eigvals(moved)).max()) - 1.0

    return _quantities(s, first_crossing(excess, 0.1, 5.0 * s.workers), s.orders()[:, -1].mean(axis=0))


def _of_more_workers(s: _Setting) -> dict[str, float]:
    return _momentum(s, s.workers / (s.workers + 1.0), 1.0 / s.workers, 2.0 * (2 * s.workers - 1))


claim = stated(
    id="staleness/implicit-momentum",
    statement="with `M` exponential workers updating on arrival the mean of any descent has momentum: "
    "`E[x_(t+1) - x_t] = (1 - 1/M) E[x_t - x_(t-1)] - (step/M) E grad f(x_t)`",
    kind="expectation",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="arXiv 1605.09774; derived for any loss",
    formula_defects={
        "momentum 1 - 1/(M + 1)": _of_more_workers,
        "full learning rate beside the momentum": lambda s: _momentum(
            s, 1.0 - 1.0 / s.workers, 1.0, 2.0 * (2 * s.workers - 1)
        ),
        "boundary of momentum with the full learning rate": lambda s: _momentum(
            s, 1.0 - 1.0 / s.workers, 1.0 / s.workers, 2.0 * (2.0 - 1.0 / s.workers)
        ),
    },
    relative_to="norm",
)
