"""Regularized softmax bandits run from next to their optimum, which the product finds itself, through the loop."""

from typing import Any

import numpy as np
import scipy.optimize

from asyncsim import schedules, tasks
from asyncsim.base.records import Estimate, Point
from asyncsim.claims._trial import Plant, within
from asyncsim.claims.lab.plants import with_task
from asyncsim.claims.lab.runs import ascent
from asyncsim.claims.lab.threshold import marginal_step
from asyncsim.methods._method import Method
from asyncsim.running.spec import Spec
from asyncsim.sampling import oracle


def bandit(point: Point, kl_at: str = "behavior", kl: float | None = None) -> Any:
    """Bandit task of a claim's point with the KL penalty in the reward, at weight `kl` (default: the point's)."""
    penalty = {"kl_coef": point["kl"] if kl is None else kl, "reference": point["reference_logits"], "kl_at": kl_at}
    return tasks.softmax_bandit(len(point["rewards"]), point["rewards"], rewards="fixed", **penalty)


def optimum(task: Any) -> np.ndarray:
    """Logits `[A]` at which the simulator's gradient of the regularized reward is zero; the first logit is fixed."""
    first = np.add(task.reference[0], np.array(task.means[0]) / task.kl_coef)

    def gradient(others: np.ndarray) -> np.ndarray:
        return oracle.exact(task, np.concatenate([first[:1], others]))[1][1:]

    return np.concatenate([first[:1], scipy.optimize.root(gradient, first[1:], tol=1e-14).x])


def reach(point: Point) -> str | None:
    """Return why a bandit is too stale, or its optimum too flat, for a run of reasonable length; else None."""
    logits = optimum(bandit(point))
    second = float(np.sort(np.exp(logits - logits.max()))[-2])
    flat = None if second >= 0.02 else "an optimum with a second arm of at least 0.02; raise kl"
    return within(staleness=24)(point) or flat


def boundary(
    task: Any, method: Method, start: np.ndarray, kl: float, delay: int, seed: int, plant: Plant
) -> dict[str, Estimate]:
    """Largest stable learning rate around the optimum of a bandit at a constant delay."""
    system = schedules.fixed(delay)
    nudge = np.cos(1.0 + np.arange(start.size))

    def build(steps: tuple[float, ...], count: int) -> Spec:
        return plant(ascent(task, system, method, steps, count, replicates=len(steps), initial=start + 1e-8 * nudge))

    # One mode fewer than arms; one delay more for defects.
    order = (start.size - 1) * (delay + 2)
    # A mode of little weight may count as noise: what is left out at either level is allowed for.
    fine, coarse = (marginal_step(build, 0.05 / kl, 200.0 / kl, order, seed, noise=noise) for noise in (1e-7, 1e-5))
    return {"step": fine._replace(tolerance=fine.tolerance + abs(fine.value - coarse.value))}


penalty_at_current = with_task(lambda task: {"kl_at": "current"})
"""The penalty in the reward read at other log-probs."""
