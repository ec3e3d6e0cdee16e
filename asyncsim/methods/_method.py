"""A method as one value: advantage, weight on the score, aggregator; and how they make cotangents.

The ascent direction of every method here is sum_it a_it m_it c_it grad log pi(y_it): `a` from the aggregator, `m` the
mask, `c` the detached score weight. A loss with a live ratio and one with a detached ratio times log pi have the same
c, since grad(r A) = r A grad log pi.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from asyncsim import checks
from asyncsim.advantages._advantage import Advantage
from asyncsim.batch import Batch
from asyncsim.methods._weights import Weight


def sequence_sum(batch: Batch) -> Tensor:
    """mass / G: the gradient of the expected reward."""
    return (batch.mass / batch.mass.shape[1]).unsqueeze(-1)


def sequence_mean(batch: Batch) -> Tensor:
    """mass / (G T_i): every sequence counts alike, tokens of long ones less."""
    return (batch.mass / (batch.mass.shape[1] * batch.lengths.clamp(min=1.0))).unsqueeze(-1)


def token_mean(batch: Batch) -> Tensor:
    """mass / sum(mass T_i) over the step: every token counts alike."""
    tokens = (batch.mass * batch.lengths).sum((1, 2), keepdim=True)
    return (batch.mass / tokens).unsqueeze(-1)


def constant(batch: Batch) -> Tensor:
    """mass / (G T_max)."""
    return (batch.mass / (batch.mass.shape[1] * batch.mask.shape[-1])).unsqueeze(-1)


AGGREGATORS: Mapping[str, Callable[[Batch], Tensor]] = {
    "sequence_sum": sequence_sum,
    "sequence_mean": sequence_mean,
    "token_mean": token_mean,
    "constant": constant,
}
ANCHORS = ("behavior", "proximal")


@dataclass(frozen=True)
class Method:
    """Advantage, weight, aggregator; each part can be replaced (`dataclasses.replace`, or `method.replace`).

    `at` names the parameters of the pullback: "current", or "behavior" (A3C, asynchronous SGD). `anchor` names the
    policy that ratios refer to. `constants` are cotangents per unit of mass on other outputs: {"loss": -1.0} descends
    a loss, {"entropy": 0.01} is an entropy bonus. `critic` is the coefficient c of the value loss c (V - target)^2.
    """

    name: str
    advantage: Advantage
    weight: Weight
    aggregator: str
    at: str = "current"
    anchor: str = "behavior"
    scored: bool = True
    constants: Mapping[str, float] = field(default_factory=dict)
    critic: float = 0.0

    def __post_init__(self) -> None:
        checks.require(
            hasattr(self.advantage, "check"),
            "advantage",
            self.advantage,
            "an advantage",
            "write sim.advantages.NAME(...)",
        )
        checks.one_of("aggregator", self.aggregator, AGGREGATORS, "say how tokens are averaged")
        checks.one_of("at", self.at, ("current", "behavior"), "say at which parameters the gradient is taken")
        checks.one_of("anchor", self.anchor, ANCHORS, "say which policy ratios refer to")
        checks.real("critic", self.critic, "give the coefficient of the value loss, 0 for none", 0.0)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Outputs of the policy that the method reads."""
        return (*(("log_prob",) if self.scored else ()), *self.constants, *(("value",) if self.critic else ()))

    def replace(self, **changes: Any) -> Method:
        """The same method with other parts."""
        return dataclasses.replace(self, **changes)

    def describe(self) -> dict[str, Any]:
        """Header of a run: what the result depends on, anchor included."""
        return {
            "method": self.name,
            **self.advantage.describe(),
            **self.weight.describe(),
            "aggregator": self.aggregator,
            "at": self.at,
            "anchor": self.anchor,
            "constants": dict(self.constants),
            "critic": self.critic,
        }
