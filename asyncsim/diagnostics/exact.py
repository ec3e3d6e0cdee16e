"""What needs every outcome of a task: exact return and gradient, bias and variance of the method."""

from __future__ import annotations

from torch import Tensor

from asyncsim.diagnostics._diagnostic import READS, metric
from asyncsim.diagnostics._ranges import ANY, COSINE, POSITIVE
from asyncsim.sampling import oracle
from asyncsim.step import ratios
from asyncsim.step.step import Step


@metric("in units of reward", ANY, "textbook", enumerates=True, subject="policy")
def exact_return(step: Step) -> Tensor:
    """Expected reward of the current policy.

    J(theta) = E_pi r before the update, less the penalty of a task, averaged over prompts. Blind to how the reward is
    spread over prompts. Needs a task that can be enumerated.
    """
    return step.exact[0]


@metric("in units of reward per parameter", POSITIVE, "textbook", enumerates=True, subject="policy")
def exact_gradient_norm(step: Step) -> Tensor:
    """Norm of the exact gradient at the current parameters.

    |grad J| = sqrt(sum_p (dJ/dtheta_p)^2) before the update, J averaged over prompts. Blind to what the method does;
    small at an optimum and on a plateau alike. Needs a task that can be enumerated.
    """
    return step.exact[1].norm(dim=-1)


@metric("a pure number in [-1, 1], NaN where either vanishes", COSINE, "textbook", enumerates=True, subject="policy")
def exact_cosine(step: Step) -> Tensor:
    """Cosine between the batch gradient and the exact gradient.

    cos = <g, grad J> / (|g| |grad J|), before the update chain, at the weights before the update. Blind to lengths, and
    to whether bias or sampling noise turned the gradient. Needs a task that can be enumerated.
    """
    return ratios.cosine(step.gradient, step.exact[1])


@metric("in units of advantage per parameter", POSITIVE, "textbook", enumerates=True, subject="policy")
def bias(step: Step) -> Tensor:
    """Norm of the method's population gradient minus the exact gradient.

    |b| = |g(N -> infinity) - grad J(theta)|, both at the weights before the update, data from the batch's own behavior
    versions. Blind to what a finite group adds, such as the factor 1 - 1/N of a group mean (`oracle.moments` has it);
    NaN in later updates on a batch where ratios refer to the proximal policy. Needs a task that can be enumerated.
    """
    return (oracle.population(step) - step.exact[1]).norm(dim=-1)


@metric("in squared units of advantage per parameter", POSITIVE, "textbook", READS, enumerates=True, subject="policy")
def variance(step: Step) -> Tensor:
    """Total variance of the method's gradient over all batches, by enumeration.

    tr Var g = E |g - E g|^2 over every batch of one group at the batch's behavior version. NaN in later updates on a
    batch where ratios refer to the proximal policy. Blind to bias, and to directions. Needs one group at one version,
    single numbers as knobs, and at most a million batches.
    """
    return oracle.batch_variance(step)
