"""The iterate of a noisy quadratic as a policy whose only output is `loss`: staleness theory without approximation."""

from __future__ import annotations

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
class Quadratic(Plain):
    """Loss f(x) = 1/2 sum_i lambda_i x_i^2 + xi . x with noise xi ~ N(0, noise^2 I); see `quadratic`."""

    curvatures: tuple[float, ...]
    noise: float
    start: float

    outputs: ClassVar[tuple[str, ...]] = ("loss",)
    threads: ClassVar[int] = 1

    @property
    def size(self) -> int:
        """P = D, one coordinate per curvature."""
        return len(self.curvatures)

    def initial(self, replicates: int | np.ndarray, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
        """Initial iterate `[R, D]`."""
        return torch.full((count(replicates), self.size), self.start, dtype=dtype)

    def prepare(self, parameters: Tensor) -> Weights:
        """The iterate itself, `[R, D]`."""
        return {"iterate": parameters}

    def act(
        self, view: View, state: Tensor, draws: Draws, token: int, memory: Any = None, active: Tensor | None = None
    ) -> Act:
        """The gradient noise xi of each sample, float `[R, G, N, D]`; it does not depend on the iterate."""
        return Act(self.noise * draws.normals(token, self.size).to(view.weights["iterate"].dtype), {})

    def forward(self, view: View, batch: Batch, names: Iterable[str]) -> Forward:
        """`loss` `[R, G, N, 1]` and the pullback: d loss / dx = lambda x + xi."""
        shape = tuple(batch.action.shape[:3])
        iterate = gathered(view, "iterate", shape).unsqueeze(3)
        curvature = torch.tensor(self.curvatures, dtype=iterate.dtype)
        outputs: Outputs = {}
        for name in names:
            checks.one_of("policy output", name, self.outputs, "the quadratic goes with methods.gradient()")
            outputs[name] = (0.5 * curvature * iterate**2 + batch.action * iterate).sum(-1)

        def pullback(cotangents: Outputs) -> Tensor:
            weight = cotangents["loss"].unsqueeze(-1)
            return (weight * (curvature * iterate + batch.action)).sum((1, 2, 3))

        return Forward(outputs, pullback)

    def score_norm(self, view: View, batch: Batch, weight: Tensor) -> Tensor:
        """A loss has no score."""
        raise checks.InputError(
            "advantage", "opob", "one that needs no score", "the quadratic goes with methods.gradient()"
        )

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        return {"policy": "quadratic", "curvatures": list(self.curvatures), "noise": self.noise, "start": self.start}


def quadratic(curvatures: Any = (1.0,), noise: float = 1.0, start: float = 0.0) -> Quadratic:
    """Iterate of f(x) = 1/2 sum_i lambda_i x_i^2 with gradient noise: g = lambda x + xi, xi ~ N(0, noise^2 I).

    Arguments: `curvatures` lambda, positive, one per coordinate, in loss per squared parameter; `noise` >= 0, standard
    deviation per coordinate of the gradient noise of one sample; `start`, initial value of every coordinate. Returns a
    policy of P = D parameters with the output `loss`, `[R, G, N, 1]`. Raises `InputError` for a curvature that is not
    positive, a negative noise, or a start that is not finite. Source: textbook.

    >>> quadratic((1.0, 0.25)).initial(2).shape
    torch.Size([2, 2])
    """
    spectrum = checks.finite_array("curvatures", curvatures, (None,), "give at least one positive curvature")
    checks.require(bool((spectrum > 0).all()), "curvatures", tuple(spectrum), "positive", "drop flat directions")
    checks.real("noise", noise, "use 0 for the mean dynamics", 0.0)
    checks.real("start", start, "give a finite start")
    return Quadratic(tuple(float(x) for x in spectrum), float(noise), float(start))
