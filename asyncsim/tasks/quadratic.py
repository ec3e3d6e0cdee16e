"""A noisy quadratic of any spectrum: the linear delayed model itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.policies._policy import Policy
from asyncsim.policies.quadratic import quadratic as quadratic_policy
from asyncsim.tasks._continuous import ContinuousTask
from asyncsim.tasks._task import Outcomes


@dataclass(frozen=True)
class Quadratic(ContinuousTask):
    """Minimize sum_i lambda_i x_i^2 / 2 from noisy gradients; see `quadratic`."""

    curvatures: tuple[float, ...]
    noise: float
    start: float

    enumerable = True

    def policy(self) -> Policy:
        """The iterate."""
        return quadratic_policy(self.curvatures, self.noise, self.start)

    def check(self, policy: Any) -> None:
        """Refuse a policy of another spectrum."""
        curvatures = getattr(policy, "curvatures", None)
        remedy = "leave policy out for the task's own"
        checks.require(curvatures == self.curvatures, "policy curvatures", curvatures, f"{self.curvatures}", remedy)

    def outcomes(self, prompt: Tensor) -> Outcomes:
        """The population: one outcome without noise."""
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
        """J = -sum lambda x^2 / 2 and its gradient -lambda x."""
        gradient = -torch.tensor(self.curvatures, dtype=parameters.dtype) * parameters
        return 0.5 * (gradient * parameters).sum(-1), gradient


def quadratic(curvatures: Any = (1.0,), noise: float = 1.0, start: float = 0.0) -> Quadratic:
    """Quadratic loss sum_i lambda_i x_i^2 / 2 whose gradients carry noise; used with `methods.gradient()`.

    Arguments: `curvatures` lambda, positive, one per coordinate; `noise` >= 0, standard deviation per coordinate of one
    sample's gradient noise; `start`, initial value of every coordinate. Returns a task whose return is minus the loss
    and whose own policy is `policies.quadratic`. Raises `InputError` for values outside these ranges. Source: textbook.

    >>> import torch
    >>> task = quadratic((1.0, 0.5), start=2.0)
    >>> task.exact(task.policy(), task.policy().initial(1, torch.float64))[0].item()
    -3.0
    """
    policy = quadratic_policy(curvatures, noise, start)
    return Quadratic(policy.curvatures, policy.noise, policy.start)
