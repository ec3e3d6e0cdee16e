"""Tasks with continuous actions whose return has a closed form."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from asyncsim.base import checks, plugins
from asyncsim.base.parts import handed_on, made, real, whole
from asyncsim.policies._policy import Policy
from asyncsim.policies.continuous import WIDTH, gaussian
from asyncsim.policies.continuous import quadratic as quadratic_policy
from asyncsim.step.batch import Draws
from asyncsim.tasks._task import Outcomes, Task

_OWN, _RANGES = "a task whose own policy is `policies.", "values outside these ranges"


@dataclass(frozen=True)
class ContinuousTask(Task):
    """Base of tasks with one prompt and no enumeration of outcomes; one action unless a subclass says otherwise."""

    prompts = 1
    enumerable = False
    solved = True

    def describe(self) -> dict[str, Any]:
        return {"task": plugins.name_of(self), **vars(self)}


@dataclass(frozen=True)
class GaussianBandit(ContinuousTask):
    """Bandit with a normal action and reward -h |a - c|^2 / 2; see `gaussian_bandit`."""

    curvature: float
    target: float
    width: float
    dimension: int
    start: float

    horizon = 1

    def policy(self) -> Policy:
        return gaussian(self.dimension, self.width, self.start)

    def earn(self, state: Tensor, action: Tensor, mask: Tensor, draws: Draws) -> Tensor:
        """Quadratic reward of each action, `[R, G, N]`."""
        return -0.5 * self.curvature * ((action[..., 0, :] - self.target) ** 2).sum(-1)

    def check(self, policy: Any) -> None:
        """Refuse a policy whose action has another dimension, or no width."""
        traits = (getattr(policy, "dimension", None), hasattr(policy, "width"))
        bound, remedy = f"{self.dimension}, of a normal policy", "leave policy out for the task's own"
        checks.require(traits == (self.dimension, True), "policy dimension", traits[0], bound, remedy)

    def exact(self, policy: Any, parameters: Tensor, prompt: int | None = None) -> tuple[Tensor, Tensor]:
        """Expected return J = -h (|theta - c|^2 + D width^2) / 2, and its gradient -h (theta - c)."""
        error = parameters - self.target
        value = -0.5 * self.curvature * ((error**2).sum(-1) + self.dimension * policy.width**2)
        return value, -self.curvature * error


@made("textbook (linear-quadratic bandit)", f"{_OWN}gaussian`", _RANGES)
def gaussian_bandit(
    curvature: float = real(1.0, "h in reward per squared action", 0.0, above=True, remedy="give a positive curvature"),
    target: float = real(0.0, "c of every coordinate", remedy="give a finite target"),
    width: float = WIDTH,
    dimension: int = whole(1, "D, numbers of an action", 1, checks.LARGEST, remedy="give the action a dimension"),
    start: float = real(0.0, "initial mean", remedy="give a finite start"),
) -> GaussianBandit:
    """Bandit with a normal action and a quadratic reward; the mean step of stale REINFORCE is linear in theta.

    a ~ N(theta, width^2 I), reward -h |a - c|^2 / 2, so J = -h (|theta - c|^2 + D width^2) / 2. With a leave-one-out
    advantage REINFORCE has E g = -h (theta_behavior - c) exactly.

    >>> task = gaussian_bandit(curvature=2.0, target=1.0)
    >>> task.exact(task.policy(), task.policy().initial(1, __import__("torch").float64))[1].item()
    2.0
    """
    return GaussianBandit(curvature, target, width, dimension, start)


@dataclass(frozen=True)
class Quadratic(ContinuousTask):
    """Minimization of sum_i lambda_i x_i^2 / 2 from noisy gradients; see `quadratic`."""

    curvatures: tuple[float, ...]
    noise: float
    start: float

    horizon = 1
    enumerable = True

    def policy(self) -> Policy:
        return quadratic_policy(self.curvatures, self.noise, self.start)

    def earn(self, state: Tensor, action: Tensor, mask: Tensor, draws: Draws) -> Tensor:
        return torch.zeros(state.shape[:3], dtype=action.dtype)

    def check(self, policy: Any) -> None:
        """Refuse a policy whose loss has another spectrum of curvatures."""
        curvatures = getattr(policy, "curvatures", None)
        remedy = "leave policy out for the task's own"
        checks.require(curvatures == self.curvatures, "policy curvatures", curvatures, f"{self.curvatures}", remedy)

    def outcomes(self, prompt: Tensor) -> Outcomes:
        """The population of the task, which is one outcome without gradient noise."""
        shape = (len(prompt), 1)
        return Outcomes(
            torch.zeros((*shape, 1), dtype=torch.int64),
            torch.zeros((*shape, 1, len(self.curvatures)), dtype=torch.float64),
            torch.ones((*shape, 1), dtype=torch.float64),
            torch.zeros(shape, dtype=torch.float64),
            torch.ones(shape, dtype=torch.float64),
            complete=self.noise == 0.0,
        )

    def exact(self, policy: Policy, parameters: Tensor, prompt: int | None = None) -> tuple[Tensor, Tensor]:
        """Expected return J = -sum lambda x^2 / 2, minus the loss without noise, and its gradient -lambda x."""
        gradient = -torch.tensor(self.curvatures, dtype=parameters.dtype) * parameters
        return 0.5 * (gradient * parameters).sum(-1), gradient


@made("textbook", f"{_OWN}quadratic` and whose return is minus the loss", _RANGES)
def quadratic(
    curvatures: Any = handed_on((1.0,), "lambda, positive, one per coordinate"),
    noise: float = handed_on(1.0, "standard deviation per coordinate of one sample's gradient noise"),
    start: float = handed_on(0.0, "initial value of every coordinate"),
) -> Quadratic:
    """Quadratic loss of any spectrum with noisy gradients: the linear model of gradient descent with delays.

    Loss sum_i lambda_i x_i^2 / 2 whose gradients carry noise; used with `methods.gradient()`.

    >>> import torch
    >>> task = quadratic((1.0, 0.5), start=2.0)
    >>> task.exact(task.policy(), task.policy().initial(1, torch.float64))[0].item()
    -3.0
    """
    policy = quadratic_policy(curvatures, noise, start)
    return Quadratic(policy.curvatures, policy.noise, policy.start)
