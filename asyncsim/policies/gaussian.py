"""A normal policy of fixed width whose mean is the parameter; its importance ratios are unbounded."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.policies._policy import Act, Forward, Plain, count, gathered
from asyncsim.step.batch import Batch, Draws, Outputs
from asyncsim.step.versions import View, Weights


@dataclass(frozen=True)
class Gaussian(Plain):
    """Actions a ~ N(theta, width^2 I) of dimension D, parameters theta `[R, D]`; see `gaussian`."""

    dimension: int
    width: float
    start: float
    temperature: float = 1.0

    outputs: ClassVar[tuple[str, ...]] = ("log_prob",)
    threads: ClassVar[int] = 1
    apart: ClassVar[bool] = True

    @property
    def mismatched(self) -> bool:  # type: ignore[override]
        """Whether it samples at another temperature than 1."""
        return self.temperature != 1.0

    @property
    def size(self) -> int:
        """P = D."""
        return self.dimension

    def initial(self, replicates: int | np.ndarray, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
        """Initial parameters `[R, D]`."""
        return torch.full((count(replicates), self.dimension), self.start, dtype=dtype)

    def prepare(self, parameters: Tensor) -> Weights:
        """The mean is all there is to publish, `[R, D]`."""
        return {"mean": parameters}

    def act(
        self, view: View, state: Tensor, draws: Draws, token: int, memory: Any = None, active: Tensor | None = None
    ) -> Act:
        """Actions theta + width sqrt(temperature) z, float `[R, G, N, D]`."""
        mean, width = self._mean(view, tuple(state.shape)), self.width * math.sqrt(self.temperature)
        return Act(mean + width * draws.normals(token, self.dimension).to(mean.dtype), {})

    def record(self, view: View, batch: Batch) -> Outputs:
        """Log-probs at the temperature of the sampler."""
        sampler = dataclasses.replace(self, width=self.width * math.sqrt(self.temperature), temperature=1.0)
        return {"log_prob": sampler.score(view, batch)}

    def score(self, view: View, batch: Batch) -> Tensor:
        """Log-probs of the policy itself at the behavior weights, `[R, G, N, 1]`."""
        return self.forward(view, batch, self.outputs).outputs["log_prob"]

    def forward(self, view: View, batch: Batch, names: Iterable[str]) -> Forward:
        """`log_prob` `[R, G, N, 1]` and the pullback: d log pi / d theta = (a - theta) / width^2."""
        deviation = batch.action - self._mean(view, tuple(batch.action.shape[:3])).unsqueeze(3)
        outputs: Outputs = {}
        for name in names:
            checks.one_of("policy output", name, self.outputs, "use a policy that offers it")
            constant = self.dimension * math.log(self.width * math.sqrt(2 * math.pi))
            outputs[name] = -0.5 * (deviation**2).sum(-1) / self.width**2 - constant

        def pullback(cotangents: Outputs) -> Tensor:
            weight = cotangents["log_prob"].expand(deviation.shape[:-1]).unsqueeze(-1)
            return (weight * deviation).sum((1, 2, 3)) / self.width**2

        return Forward(outputs, pullback)

    def score_norm(self, view: View, batch: Batch, weight: Tensor) -> Tensor:
        """w^2 |a - theta|^2 / width^4, `[R, G, N]`."""
        deviation = batch.action - self._mean(view, tuple(batch.action.shape[:3])).unsqueeze(3)
        return ((weight.unsqueeze(-1) * deviation).sum(3) ** 2).sum(-1) / self.width**4

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        sampler = {"sampler": {"temperature": self.temperature}} if self.mismatched else {}
        return {"policy": "gaussian", "dimension": self.dimension, "width": self.width, **sampler}

    def _mean(self, view: View, shape: tuple[int, ...]) -> Tensor:
        return gathered(view, "mean", shape)


def gaussian(dimension: int = 1, width: float = 1.0, start: float = 0.0, temperature: float = 1.0) -> Gaussian:
    """Normal policy with free mean and fixed width: log pi(a) = -|a - theta|^2 / (2 width^2) + const.

    Two such policies whose means are delta widths apart have a normal log ratio of variance delta^2
    (`ratio/gaussian-shift`). Actions that are drawn at a temperature below 1 have ratios with a power-law tail
    (`ratio/gaussian-scale`).

    Arguments: `dimension` D; `width` > 0, standard deviation of each coordinate, in units of the action; `start`,
    initial mean in the same unit; `temperature` > 0 of the sampler, which draws with width sqrt(temperature) and
    reports its own log-probs. Returns a policy of P = D parameters with the output `log_prob` per action in nats,
    `[R, G, N, 1]`. Raises `InputError` for a dimension below 1, a width or temperature that is not positive, or a start
    that is not finite. Source: textbook.

    >>> policy = gaussian(dimension=2, width=0.5)
    >>> policy.initial(1).tolist()
    [[0.0, 0.0]]
    """
    checks.integer("dimension", dimension, 1, "give the action a dimension")
    checks.real("width", width, "a policy of width 0 has no score", 0.0, open_low=True)
    checks.real("start", start, "give a finite mean")
    checks.real("temperature", temperature, "1 samples from the policy as it is", 0.0, 1e6, open_low=True)
    return Gaussian(dimension, float(width), float(start), float(temperature))
