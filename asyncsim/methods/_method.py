"""A method as one value: advantage, weight on the score, aggregator; and how they make cotangents.

The ascent direction of every method here is sum_it a_it m_it c_it grad log pi(y_it): `a` from the aggregator, `m` the
mask, `c` the detached score weight. A loss with a live ratio and one with a detached ratio times log pi have the same
c, since grad(r A) = r A grad log pi.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from asyncsim import checks, ratios
from asyncsim.advantages._advantage import Advantage, Samples
from asyncsim.batch import Batch, Outputs
from asyncsim.knobs import MARK, per_sample
from asyncsim.policies._policy import Policy
from asyncsim.tasks._task import Task
from asyncsim.versions import View, Weights, current


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


class Weight(Protocol):
    """What the field calls the estimator: from token log ratios to the score weight.

    `ratio(log_ratio)`: the weight that the loss applies, `[R, G, N, T or 1]`, before anything that depends on the
    sign of the advantage. `score_weight(ratio, advantage)`: c, `[R, G, N, T or 1]`; `advantage` is `[R, G, N, 1]`.
    """

    def ratio(self, log_ratio: Tensor) -> Tensor: ...

    def score_weight(self, ratio: Tensor, advantage: Tensor) -> Tensor: ...

    def describe(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class NoRatio:
    """c = A: data is stale, scores are current."""

    def ratio(self, log_ratio: Tensor) -> Tensor:
        """1 for every sample."""
        return torch.ones_like(log_ratio[..., :1])

    def score_weight(self, ratio: Tensor, advantage: Tensor) -> Tensor:
        """A."""
        return advantage

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        return {"weight": "none"}


@dataclass(frozen=True)
class Ratio:
    """c = min(ratio, cap) A with the ratio of the token or of the sequence; cap None: untruncated."""

    level: str
    cap: Any = field(default=None, metadata=MARK)

    def ratio(self, log_ratio: Tensor) -> Tensor:
        """Token ratios `[R, G, N, T]` or the sequence ratio `[R, G, N, 1]`, truncated from above."""
        if self.level == "sequence":
            log_ratio = log_ratio.sum(-1, keepdim=True)
        weight = ratios.usable(log_ratio)
        if self.cap is None:
            return weight
        cap = per_sample(self.cap)
        return weight.clamp(max=cap) if isinstance(cap, float) else torch.minimum(weight, cap)

    def score_weight(self, ratio: Tensor, advantage: Tensor) -> Tensor:
        """Ratio times A."""
        return ratio * advantage

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        return {"weight": "ratio", "level": self.level, "cap": self.cap}


@dataclass(frozen=True)
class Clip:
    """c = rho A where the clip is open: rho <= 1 + high for A > 0, rho >= 1 - low for A < 0."""

    low: Any = field(metadata=MARK)
    high: Any = field(metadata=MARK)

    def ratio(self, log_ratio: Tensor) -> Tensor:
        """Token ratios to the anchor."""
        return ratios.usable(log_ratio)

    def score_weight(self, ratio: Tensor, advantage: Tensor) -> Tensor:
        """Ratio times A, 0 where the clip is closed."""
        too_high = (advantage > 0) & (ratio > 1.0 + per_sample(self.high))
        too_low = (advantage < 0) & (ratio < 1.0 - per_sample(self.low))
        return torch.where(too_high | too_low, torch.zeros((), dtype=ratio.dtype), ratio * advantage)

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        return {"weight": "clip", "level": "token", "low": self.low, "high": self.high}


@dataclass(frozen=True)
class Method:
    """Advantage, weight, aggregator; each part can be replaced (`dataclasses.replace`, or `method.replace`).

    `at` names the parameters of the pullback: "current", or "behavior" (A3C, asynchronous SGD). `anchor` names the
    policy that ratios refer to. `constants` are cotangents per unit of mass on other outputs: {"loss": -1.0} descends
    a loss, {"entropy": 0.01} is an entropy bonus.
    """

    name: str
    advantage: Advantage
    weight: Weight
    aggregator: str
    at: str = "current"
    anchor: str = "behavior"
    scored: bool = True
    constants: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks.one_of("aggregator", self.aggregator, AGGREGATORS, "say how tokens are averaged")
        checks.one_of("at", self.at, ("current", "behavior"), "say at which parameters the gradient is taken")
        checks.one_of("anchor", self.anchor, ANCHORS, "say which policy ratios refer to")

    @property
    def outputs(self) -> tuple[str, ...]:
        """Outputs of the policy that the method reads."""
        return (*(("log_prob",) if self.scored else ()), *self.constants)

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
        }


@dataclass
class Signal:
    """What a method makes of a batch: cotangents for the pullback, and on the way to them the ratio and advantages.

    `outputs` are those at the parameters of the pullback; `proximal` those at the start of the batch's training.
    """

    method: Method
    task: Task
    policy: Policy
    batch: Batch
    view: View
    outputs: Outputs
    proximal: Outputs

    @cached_property
    def log_ratio(self) -> Tensor:
        """Token log ratios of the pullback's policy to behavior, `[R, G, N, T]`."""
        return self._log_ratio_to(self.batch.behavior)

    @cached_property
    def anchored(self) -> Tensor:
        """Token log ratios to the method's anchor, `[R, G, N, T]`."""
        anchor = {"behavior": self.batch.behavior, "proximal": self.proximal}[self.method.anchor]
        if anchor is self.batch.behavior:
            return self.log_ratio
        return self._log_ratio_to(anchor)

    @cached_property
    def sequence_log_ratio(self) -> Tensor:
        """Sequence log ratios to behavior, `[R, G, N]`."""
        return self.log_ratio.sum(-1)

    @cached_property
    def step_mass(self) -> Tensor:
        """Mass of each sample in the whole step, total 1, `[R, G, N]`."""
        return self.batch.mass / self.batch.mass.shape[1]

    @cached_property
    def applied(self) -> Tensor:
        """Weight that the loss applies, `[R, G, N, T or 1]`."""
        return self.method.weight.ratio(self.anchored)

    @cached_property
    def advantages(self) -> Tensor:
        """Advantages, `[R, G, N]`."""
        samples = Samples(
            self.task.reward(self.batch, self.outputs),
            self.batch.mass,
            self.batch.size,
            self._sample_weight,
            self._score_norm,
        )
        return self.method.advantage(samples)

    @property
    def cotangents(self) -> Outputs:
        """One detached number per element of each output that the method uses, `[R, G, N, T]`."""
        share = AGGREGATORS[self.method.aggregator](self.batch) * self.batch.mask
        found = {name: value * share for name, value in self.method.constants.items()}
        if self.method.scored:
            weight = self.method.weight.score_weight(self.applied, self.advantages.unsqueeze(-1))
            # Weights of masked tokens may be infinite; 0 * inf must not reach the sum.
            found["log_prob"] = weight * share
            if not self.batch.full:
                nothing = torch.zeros((), dtype=share.dtype)
                found["log_prob"] = torch.where(self.batch.mask > 0, found["log_prob"], nothing)
        return found

    def _log_ratio_to(self, anchor: Outputs) -> Tensor:
        current, then = self.outputs["log_prob"], anchor["log_prob"]
        return current - then if self.batch.full else ratios.log_ratio(current, then, self.batch.mask)

    def _sample_weight(self) -> Tensor:
        """One weight per sample: that of the sequence, or the mean of its tokens' weights."""
        applied = self.applied
        if applied.shape[-1] == 1:
            return applied[..., 0]
        return (applied * self.batch.mask).sum(-1) / self.batch.lengths.clamp(min=1.0)

    def _score_norm(self) -> Tensor:
        """Squared norm of the score vector that the loss applies to each sample, `[R, G, N]`."""
        share = self.batch.mask * self.applied
        if self.method.aggregator == "sequence_mean":
            share = share / self.batch.lengths.clamp(min=1.0).unsqueeze(-1)
        return self.policy.score_norm(self.view, self.batch, share)


def checked_level(level: str) -> str:
    """ "token" or "sequence"."""
    return checks.one_of("level", level, ("token", "sequence"), "say which ratio multiplies the score")


def evaluate(
    method: Method,
    task: Task,
    policy: Policy,
    weights: Weights,
    batch: Batch,
    proximal: Outputs | None = None,
    also: tuple[str, ...] = (),
) -> tuple[Signal, Tensor]:
    """The signal of a method on a batch and its ascent direction `[R, P]`.

    `weights` are the current ones; `proximal` the outputs at the start of the batch's training (None: this is the
    start); `also` names further outputs to compute.
    """
    view = {"current": current(weights), "behavior": batch.view}[method.at]
    if view is None:
        raise checks.InputError(
            "at", method.at, "current with early drawing", "use drawing='late', which keeps weights"
        )
    forward = policy.forward(view, batch, (*method.outputs, *(name for name in also if name not in method.outputs)))
    signal = Signal(
        method, task, policy, batch, view, forward.outputs, forward.outputs if proximal is None else proximal
    )
    return signal, forward.pullback(signal.cotangents)
