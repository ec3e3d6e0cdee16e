"""Linear feedback on a state of one dimension with normal exploration: a ~ N(-K x, width^2), parameter K."""

from __future__ import annotations

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
class Feedback(Plain):
    """Actions a ~ N(-K x, width^2) of one dimension, parameter K `[R, 1]`; see `feedback`."""

    width: float
    start: float

    outputs: ClassVar[tuple[str, ...]] = ("log_prob",)
    threads: ClassVar[int] = 1
    apart: ClassVar[bool] = True
    size: ClassVar[int] = 1

    def initial(self, replicates: int | np.ndarray, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
        """Initial gain `[R, 1]`."""
        return torch.full((count(replicates), 1), self.start, dtype=dtype)

    def prepare(self, parameters: Tensor) -> Weights:
        """The gain is all there is to publish, `[R, 1]`."""
        return {"gain": parameters}

    def act(
        self, view: View, state: Tensor, draws: Draws, token: int, memory: Any = None, active: Tensor | None = None
    ) -> Act:
        """Actions -K x + width z, float `[R, G, N, 1]`."""
        gain = gathered(view, "gain", tuple(state.shape))
        return Act(-gain * state.unsqueeze(-1) + self.width * draws.normals(token, 1).to(gain.dtype), {})

    def forward(self, view: View, batch: Batch, names: Iterable[str]) -> Forward:
        """`log_prob` `[R, G, N, T]` and the pullback: d log pi / dK = -(a + K x) x / width^2."""
        state = batch.state.to(batch.action.dtype)
        deviation = batch.action[..., 0] + self._gain(view, tuple(state.shape)) * state
        outputs: Outputs = {}
        for name in names:
            checks.one_of("policy output", name, self.outputs, "use a policy that offers it")
            outputs[name] = -0.5 * (deviation / self.width) ** 2 - math.log(self.width * math.sqrt(2 * math.pi))

        def pullback(cotangents: Outputs) -> Tensor:
            score = -(deviation * state) / self.width**2
            return (cotangents["log_prob"] * score).sum((1, 2, 3)).unsqueeze(-1)

        return Forward(outputs, pullback)

    def score_norm(self, view: View, batch: Batch, weight: Tensor) -> Tensor:
        """(sum_t w_t (a_t + K x_t) x_t)^2 / width^4, `[R, G, N]`."""
        deviation = batch.action[..., 0] + self._gain(view, tuple(batch.state.shape)) * batch.state
        return (weight * deviation * batch.state).sum(-1) ** 2 / self.width**4

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        return {"policy": "feedback", "width": self.width}

    def _gain(self, view: View, shape: tuple[int, ...]) -> Tensor:
        """The gain that each token reads, `[R, G, N, T]` or broadcastable to it."""
        stack = view.weights["gain"][..., 0]
        if view.single:
            return stack[int(view.slot.flat[0])][:, None, None, None]
        return stack[view.slots(shape), torch.arange(stack.shape[1]).reshape(-1, 1, 1, 1)]


def feedback(width: float = 0.5, start: float = 0.0) -> Feedback:
    """Linear feedback with normal exploration: log pi(a|x) = -(a + K x)^2 / (2 width^2) + const.

    Arguments: `width` > 0, standard deviation of the exploration, in units of the action; `start`, initial gain K, in
    units of action per state. Returns a policy of one parameter with the output `log_prob` per action in nats,
    `[R, G, N, T]`, for tasks whose state is one number. Raises `InputError` for a width that is not positive, or a
    start that is not finite. Source: textbook (linear-quadratic control).

    >>> feedback(start=0.3).initial(2).tolist()
    [[0.3], [0.3]]
    """
    checks.real("width", width, "a policy of width 0 has no score", 0.0, open_low=True)
    checks.real("start", start, "give a finite gain")
    return Feedback(float(width), float(start))
