"""Policies with continuous actions, or none: a normal mean, an iterate."""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.base.parts import handed_on, made, real, whole
from asyncsim.policies._policy import Act, Forward, Policy, Replicates, count, gathered
from asyncsim.step.batch import Batch, Draws, Outputs
from asyncsim.step.versions import View

_TEXTS = checks.table(__file__, "texts.toml")["continuous"]

WIDTH = real(1.0, "standard deviation in units of the action", 0.0, above=True, remedy="width 0 has no score")


@dataclass(frozen=True)
class Gaussian(Policy):
    """Normal policy: actions a ~ N(theta, width^2 I) of dimension D, parameters theta `[R, D]`; see `gaussian`."""

    dimension: int
    width: float
    start: float
    temperature: float = 1.0

    outputs: ClassVar[tuple[str, ...]] = ("log_prob",)
    apart: ClassVar[bool] = True

    @property
    def mismatched(self) -> bool:  # type: ignore[override]
        """Whether the sampler's temperature differs from 1, so that its width differs from the trainer's."""
        return self.temperature != 1.0

    @property
    def size(self) -> int:
        return self.dimension

    def initial(self, replicates: Replicates, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
        """Initial mean of the actions, `[R, D]`."""
        return torch.full((count(replicates), self.dimension), self.start, dtype=dtype)

    def act(
        self, view: View, state: Tensor, draws: Draws, token: int, memory: Any = None, active: Tensor | None = None
    ) -> Act:
        """Sample actions theta + width sqrt(temperature) z, float `[R, G, N, D]`."""
        mean, width = gathered(view, tuple(state.shape)), self.width * math.sqrt(self.temperature)
        return Act(mean + width * draws.normals(token, self.dimension).to(mean.dtype), {})

    def record(self, view: View, batch: Batch) -> Outputs:
        """Log-probs of a batch at the sampler's temperature."""
        sampler = dataclasses.replace(self, width=self.width * math.sqrt(self.temperature), temperature=1.0)
        return {"log_prob": sampler.score(view, batch)}

    def forward(self, view: View, batch: Batch, names: Iterable[str]) -> Forward:
        """Output `log_prob` `[R, G, N, 1]` and its pullback: d log pi / d theta = (a - theta) / width^2."""
        deviation = batch.action - gathered(view, tuple(batch.action.shape[:3])).unsqueeze(3)
        constant = self.dimension * math.log(self.width * math.sqrt(2 * math.pi))
        log_prob = -0.5 * (deviation**2).sum(-1) / self.width**2 - constant

        def pullback(cotangents: Outputs) -> Tensor:
            weight = cotangents["log_prob"].expand(deviation.shape[:-1]).unsqueeze(-1)
            return (weight * deviation).sum((1, 2, 3)) / self.width**2

        return Forward(dict.fromkeys(self.named(names), log_prob), pullback)

    def score_norm(self, view: View, batch: Batch, weight: Tensor) -> Tensor:
        """Squared norm of each weighted score, w^2 |a - theta|^2 / width^4, `[R, G, N]`."""
        deviation = batch.action - gathered(view, tuple(batch.action.shape[:3])).unsqueeze(3)
        return ((weight.unsqueeze(-1) * deviation).sum(3) ** 2).sum(-1) / self.width**4

    def describe(self) -> dict[str, Any]:
        sampler = {"sampler": {"temperature": self.temperature}} if self.mismatched else {}
        return {"policy": "gaussian", "dimension": self.dimension, "width": self.width, **sampler}


@made(**_TEXTS["gaussian"])
def gaussian(
    dimension: int = whole(1, "D, numbers of an action", 1, remedy="give the action a dimension"),
    width: float = WIDTH,
    start: float = real(0.0, "initial mean in the same unit", remedy="give a finite mean"),
    temperature: float = real(1.0, low=0.0, high=1e6, above=True, **_TEXTS["temperature"]),
) -> Gaussian:
    """A normal policy of fixed width with its mean as the parameter; importance ratios are unbounded.

    log pi(a) = -|a - theta|^2 / (2 width^2) + const. Two such policies whose means are delta widths apart have a normal
    log ratio of variance delta^2 (`ratio/gaussian-shift`). Actions that are drawn at a temperature below 1 have ratios
    with a power-law tail (`ratio/gaussian-scale`).

    >>> policy = gaussian(dimension=2, width=0.5)
    >>> policy.initial(1).tolist()
    [[0.0, 0.0]]
    """
    return Gaussian(dimension, width, start, temperature)


@dataclass(frozen=True)
class Quadratic(Policy):
    """Quadratic loss f(x) = 1/2 sum_i lambda_i x_i^2 + xi . x with noise xi ~ N(0, noise^2 I); see `quadratic`."""

    curvatures: tuple[float, ...]
    noise: float
    start: float

    outputs: ClassVar[tuple[str, ...]] = ("loss",)

    @property
    def size(self) -> int:
        """Number of coordinates, P = D: one per curvature of the quadratic loss."""
        return len(self.curvatures)

    def initial(self, replicates: Replicates, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
        """Initial iterate x of gradient descent, `[R, D]`."""
        return torch.full((count(replicates), self.size), self.start, dtype=dtype)

    def act(
        self, view: View, state: Tensor, draws: Draws, token: int, memory: Any = None, active: Tensor | None = None
    ) -> Act:
        """Gradient noise xi of each sample, float `[R, G, N, D]`, independent of the iterate."""
        return Act(self.noise * draws.normals(token, self.size).to(view.weights["parameters"].dtype), {})

    def forward(self, view: View, batch: Batch, names: Iterable[str]) -> Forward:
        """Output `loss` `[R, G, N, 1]` and its pullback: d loss / dx = lambda x + xi."""
        iterate = gathered(view, tuple(batch.action.shape[:3])).unsqueeze(3)
        curvature = torch.tensor(self.curvatures, dtype=iterate.dtype)
        loss = (0.5 * curvature * iterate**2 + batch.action * iterate).sum(-1)

        def pullback(cotangents: Outputs) -> Tensor:
            weight = cotangents["loss"].unsqueeze(-1)
            return (weight * (curvature * iterate + batch.action)).sum((1, 2, 3))

        return Forward(dict.fromkeys(self.named(names, "the quadratic goes with methods.gradient()"), loss), pullback)

    def score_norm(self, view: View, batch: Batch, weight: Tensor) -> Tensor:
        """Raise `InputError`, since a loss has no score."""
        raise checks.InputError("advantage", "opob", "one that needs no score", "it goes with methods.gradient()")

    def describe(self) -> dict[str, Any]:
        return {"policy": "quadratic", "curvatures": list(self.curvatures), "noise": self.noise, "start": self.start}


@made(**_TEXTS["quadratic"])
def quadratic(
    curvatures: Any = handed_on((1.0,), "lambda, positive, one per coordinate, in loss per squared parameter"),
    noise: float = real(1.0, "standard deviation of a sample's gradient noise, per coordinate (0: mean dynamics)", 0.0),
    start: float = real(0.0, "initial value of every coordinate", remedy="give a finite start"),
) -> Quadratic:
    """The iterate of noisy gradient descent on a quadratic loss, as a policy whose only output is `loss`.

    f(x) = 1/2 sum_i lambda_i x_i^2 with gradient noise: g = lambda x + xi, xi ~ N(0, noise^2 I).

    >>> quadratic((1.0, 0.25)).initial(2).shape
    torch.Size([2, 2])
    """
    spectrum = checks.finite_array("curvatures", curvatures, (None,), "give at least one positive curvature")
    checks.require(bool((spectrum > 0).all()), "curvatures", tuple(spectrum), "positive", "drop flat directions")
    return Quadratic(tuple(float(x) for x in spectrum), noise, start)
