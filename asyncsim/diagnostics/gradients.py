"""Gradients of updates, and exact quantities that need every outcome of a task: exact values, bias."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.diagnostics._diagnostic import ANY, COSINE, POSITIVE, READS, SHARE, metric
from asyncsim.sampling import oracle
from asyncsim.step import ratios
from asyncsim.step.step import Step


@metric("in units of advantage per parameter", POSITIVE, "textbook", default=True, subject="policy")
def gradient_norm(step: Step) -> Tensor:
    """Norm of the batch gradient, before the update chain changes it.

    |g| = sqrt(sum_p g_p^2) over all parameters. Blind to the direction, and to how much of the length is sampling
    noise.
    """
    return ratios.norm(step.gradient)


@metric("a pure number in [-1, 1]", COSINE, "as a precursor of collapse 2603.01501", default=True, subject="policy")
def gradient_cosine(step: Step) -> Tensor:
    """Cosine between the gradients of this update and the previous one; NaN if there is none.

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
    """Norm of the exact gradient of the return at the current parameters.

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
    """Norm of the difference between the method's gradient with infinitely many samples and the exact gradient.

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


@dataclass
class Autocorrelogram:
    """Sums of <g_t, g_{t-k}> for lags k = 0..lags; see `autocorrelogram`."""

    lags: int
    after: int
    ring: np.ndarray | None = field(default=None, repr=False)
    sums: np.ndarray | None = field(default=None, repr=False)
    count: int = 0

    name = "autocorrelogram"
    outputs = ()
    axes: ClassVar[dict[str, tuple[str, ...]]] = {"autocorrelogram": ("lag",)}

    def fresh(self) -> "Autocorrelogram":
        """An empty accumulator with the same settings."""
        return dataclasses.replace(self, ring=None, sums=None, count=0)

    def observe(self, step: Step) -> None:
        """Add the products of one update, once the ring is full after update `after`."""
        if step.update < self.after:
            return
        gradient = step.gradient.double().cpu().numpy()
        if self.ring is None or self.sums is None:
            self.ring = np.zeros((self.lags + 1, *gradient.shape))
            self.sums = np.zeros((self.lags + 1, gradient.shape[0]))
        position = (step.update - self.after) % (self.lags + 1)
        self.ring[position] = gradient
        if step.update - self.after >= self.lags:
            products = np.einsum("krp,rp->kr", self.ring, gradient)
            self.sums += products[[(position - k) % (self.lags + 1) for k in range(self.lags + 1)]]
            self.count += 1

    def result(self) -> dict[str, np.ndarray]:
        """`autocorrelogram` `[lags + 1, R]`: mean product at each lag."""
        if self.sums is None or self.count == 0:
            remedy = "run longer or start earlier"
            raise checks.InputError("after", self.after, "leaving more updates than lags", remedy)
        return {"autocorrelogram": self.sums / self.count}


def autocorrelogram(lags: int = 8, after: Any = 0) -> Autocorrelogram:
    """Mean inner products of gradients k updates apart, C_k = mean_t <g_t, g_(t-k)>, for 0 <= k <= K.

    The ratio of averages C_k / C_0 obeys exact identities (`alignment/lag1-closed-form`), an average of cosines does
    not. Blind to drift: products of a run that is not stationary mix its stages.

    Arguments: `lags`, K >= 1, and `after` >= 0, updates left out at the start, both in updates. Returns an accumulator
    whose result "autocorrelogram" has shape `[lags + 1, R]`, in squared units of advantage per parameter. Raises
    `InputError` for other values, and after a run of too few updates. Source: textbook.

    >>> autocorrelogram(lags=3).lags
    3
    """
    lags = checks.integer("lags", lags, 1, "ask for at least one lag")
    return Autocorrelogram(lags, checks.integer("after", after, 0, "give an update number"))
