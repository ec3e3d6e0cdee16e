"""The gradient of every update, and what needs every outcome of a task: exact values, bias and variance."""

import torch
from torch import Tensor

from asyncsim.diagnostics._diagnostic import READS, metric
from asyncsim.diagnostics._ranges import ANY, COSINE, POSITIVE, SHARE
from asyncsim.sampling import oracle
from asyncsim.step import ratios
from asyncsim.step.step import Step


@metric("in units of advantage per parameter", POSITIVE, "textbook", default=True, subject="policy")
def gradient_norm(step: Step) -> Tensor:
    """Norm of the gradient before the update chain.

    |g| = sqrt(sum_p g_p^2) over all parameters. Blind to the direction, and to how much of the length is sampling
    noise.
    """
    return ratios.norm(step.gradient)


@metric("a pure number in [-1, 1]", COSINE, "as a precursor of collapse 2603.01501", default=True, subject="policy")
def gradient_cosine(step: Step) -> Tensor:
    """Cosine between this gradient and that of the update before; NaN where there is none.

    kappa_t = <g_t, g_(t-1)> / (|g_t| |g_(t-1)|), before the update chain; NaN too where either is zero or not finite.
    Blind to why gradients agree: about |E g|^2 / (|E g|^2 + tr Var g) for a steady mean at any staleness, so it
    compares runs of equal batch, step size and return only.
    """
    return ratios.cosine(step.gradient, step.previous)


@metric("a pure number", SHARE, "this package", subject="policy")
def gradient_cosine_valid(step: Step) -> Tensor:
    """Whether `gradient_cosine` has a value: 0 or 1.

    valid = [g_t and g_(t-1) exist, are finite and are not zero]: 0 at the first update, at one whose gradient was lost,
    and at the one behind it. Its mean over a run is the share of cosines that count. Blind to the cosine's value.
    """
    return torch.isfinite(ratios.cosine(step.gradient, step.previous)).double()


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
