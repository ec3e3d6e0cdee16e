"""A normal action with a quadratic reward: stale REINFORCE on it is exactly linear."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from asyncsim.base import checks
from asyncsim.policies._policy import Policy
from asyncsim.policies.gaussian import gaussian
from asyncsim.step.batch import Draws
from asyncsim.tasks._continuous import ContinuousTask


@dataclass(frozen=True)
class GaussianBandit(ContinuousTask):
    """Reward -h |a - c|^2 / 2 for a normal action; see `gaussian_bandit`."""

    curvature: float
    target: float
    width: float
    dimension: int
    start: float

    def policy(self) -> Policy:
        """Normal with free mean."""
        return gaussian(self.dimension, self.width, self.start)

    def earn(self, state: Tensor, action: Tensor, mask: Tensor, draws: Draws) -> Tensor:
        """Reward of each action, `[R, G, N]`."""
        return -0.5 * self.curvature * ((action[..., 0, :] - self.target) ** 2).sum(-1)

    def check(self, policy: Any) -> None:
        """Refuse a policy of another dimension, or without a width."""
        traits = (getattr(policy, "dimension", None), hasattr(policy, "width"))
        bound, remedy = f"{self.dimension}, of a normal policy", "leave policy out for the task's own"
        checks.require(traits == (self.dimension, True), "policy dimension", traits[0], bound, remedy)

    def exact(self, policy: Any, parameters: Tensor, prompt: int | None = None) -> tuple[Tensor, Tensor]:
        """J = -h (|theta - c|^2 + D width^2) / 2 with the policy's width, and its gradient -h (theta - c)."""
        error = parameters - self.target
        value = -0.5 * self.curvature * ((error**2).sum(-1) + self.dimension * policy.width**2)
        return value, -self.curvature * error


def gaussian_bandit(
    curvature: float = 1.0, target: float = 0.0, width: float = 1.0, dimension: int = 1, start: float = 0.0
) -> GaussianBandit:
    """Bandit: a ~ N(theta, width^2 I), reward -curvature |a - target|^2 / 2.

    J = -h (|theta - c|^2 + D width^2) / 2. With a leave-one-out advantage REINFORCE has E g = -h (theta_behavior - c)
    exactly.

    Arguments: `curvature` h > 0 in reward per squared action; `target` c of every coordinate; `width` > 0, standard
    deviation of the policy; `dimension` D; `start`, initial mean. Returns a task whose own policy is
    `policies.gaussian`. Raises `InputError` for values outside these ranges. Source: textbook (linear-quadratic
    bandit).

    >>> task = gaussian_bandit(curvature=2.0, target=1.0)
    >>> task.exact(task.policy(), task.policy().initial(1, __import__("torch").float64))[1].item()
    2.0
    """
    checks.real("curvature", curvature, "give a positive curvature", 0.0, open_low=True)
    checks.real("target", target, "give a finite target")
    checks.real("width", width, "a policy of width 0 has no score", 0.0, open_low=True)
    checks.integer("dimension", dimension, 1, "give the action a dimension", checks.LARGEST)
    checks.real("start", start, "give a finite start")
    return GaussianBandit(float(curvature), float(target), float(width), int(dimension), float(start))
