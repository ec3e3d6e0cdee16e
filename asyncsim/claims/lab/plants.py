"""Defects to plant and instruments to measure with: wrappers of product components, never edits of them."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from asyncsim import updates
from asyncsim.base import records
from asyncsim.claims._trial import Plant, Wrapped
from asyncsim.methods._weights import NoRatio, Weight
from asyncsim.policies._policy import Act, Forward
from asyncsim.running.spec import Spec
from asyncsim.step import ratios
from asyncsim.step.batch import Batch, Draws, Outputs
from asyncsim.step.step import Step
from asyncsim.step.versions import View, Weights
from asyncsim.updates import _link
from asyncsim.updates._link import Record, State


class OffByOne(Wrapped):
    """A system whose tokens are generated one version earlier than it says."""

    def schedule(self, *arguments: Any) -> records.Schedule:
        schedule = self._inner.schedule(*arguments)
        return dataclasses.replace(schedule, version=np.maximum(schedule.version - 1, 0).astype(np.int32))


def off_by_one_version(spec: Spec) -> Spec:
    """Data one version staler than scheduled."""
    return spec.replace(system=OffByOne(spec.system))


def with_method(**settings: Any) -> Plant:
    """A plant: the same spec, its method with other settings."""
    return lambda spec: spec.replace(method=spec.method.replace(**settings))


def wrapping(**kinds: type[Wrapped]) -> Plant:
    """A plant: the same spec, some of its parts wrapped."""
    return lambda spec: spec.replace(**{name: kind(getattr(spec, name)) for name, kind in kinds.items()})


def wrapping_advantage(kind: type[Wrapped]) -> Plant:
    """A plant: the same spec, the advantage of its method wrapped."""
    return lambda spec: spec.replace(method=spec.method.replace(advantage=kind(spec.method.advantage)))


dropped_ratio = with_method(weight=NoRatio())
"""The method without its ratio."""


def relinked(change: Callable[..., tuple[_link.Link, ...]]) -> Plant:
    """A plant: other links, made of those of the chain."""
    return lambda spec: spec.replace(update=_link.Chain(change(*spec.update.links)))


momentum_inserted = relinked(lambda *links: (updates.momentum(0.5), *links))
"""A heavy ball in front of the chain."""


class PolicyDefect(Wrapped):
    """A policy whose forward pass returns `altered` log-probs; everything else is the wrapped policy's."""

    def altered(self, log_prob: Tensor, batch: Batch) -> Tensor:
        raise NotImplementedError

    def forward(self, view: View, batch: Batch, names: Iterable[str]) -> Forward:
        outputs, pullback = self._inner.forward(view, batch, names)
        return Forward({k: self.altered(v, batch) if k == "log_prob" else v for k, v in outputs.items()}, pullback)


class Tempered(PolicyDefect):
    """Log-probs scored at another temperature than actions are sampled at."""

    def altered(self, log_prob: Tensor, batch: Batch) -> Tensor:
        return log_prob / 0.9


class Sharpened(Wrapped):
    """A policy that acts and scores at a temperature of 0.9 but leaves it out of the derivative."""

    def prepare(self, parameters: Tensor) -> Weights:
        return self._inner.prepare(parameters / 0.9)


class ShortProduct(PolicyDefect):
    """The last token is left out of the sequence's log-prob."""

    def altered(self, log_prob: Tensor, batch: Batch) -> Tensor:
        mask = torch.ones_like(log_prob)
        mask[..., -1] = 0.0
        return log_prob * mask


class Uncut(Wrapped):
    """A sampler cut by top-p that reports the whole policy's log-probs."""

    def record(self, view: View, batch: Batch) -> Outputs:
        return {"log_prob": self._inner.score(view, batch)}


class Unscored(Wrapped):
    """The trainer's log-probs at the behavior weights are recorded as the sampler's, so that nothing is mismatched."""

    def compared(self, view: View, batch: Batch) -> Outputs:
        sampled = batch.behavior["log_prob"] if batch.behavior else self._inner.record(view, batch)["log_prob"]
        return {"scored_log_prob": sampled}


class NoiseTwice(Wrapped):
    """An engine whose reports get their noise twice."""

    def misreport(self, outputs: Outputs, draws: Draws) -> Outputs:
        return self._inner.misreport(self._inner.misreport(outputs, draws), draws)


class NoiseAnew(Wrapped):
    """An engine that samples from noisy logits and records the log-prob under noise drawn anew."""

    def act(self, view: View, state: Tensor, draws: Draws, token: int, *more: Any) -> Act:
        act = self._inner.act(view, state, draws, token, *more)
        engine, generator = self._inner.engine, torch.Generator().manual_seed(token)
        replicate = torch.arange(len(state)).reshape(-1, 1, 1)
        row = view.weights["log_prob"][int(view.slot.flat[0])][replicate, state]
        noisy = torch.log_softmax(row + engine.noise * torch.randn(row.shape, generator=generator), dim=-1)
        return Act(act.action, {"log_prob": noisy.gather(-1, act.action.unsqueeze(-1))[..., 0]})


def engine_replaced(**settings: Any) -> Plant:
    """A plant: the spec's policy with other settings of its engine."""

    def plant(spec: Spec) -> Spec:
        policy: Any = spec.trained_policy
        return spec.replace(policy=dataclasses.replace(policy, engine=dataclasses.replace(policy.engine, **settings)))

    return plant


def with_policy(wrapper: type[Wrapped]) -> Any:
    """A plant that wraps the spec's policy."""
    return lambda spec: spec.replace(policy=wrapper(spec.trained_policy))


@dataclass(frozen=True)
class Masked(Weight):
    """Ratios above the cap set to 0 instead of to the cap."""

    cap: float

    level: ClassVar[str] = "sequence"  # type: ignore[misc]

    def applied(self, step: Step) -> Tensor:
        weight = ratios.usable(step.sequence(step.log_ratio))
        return torch.where(weight > self.cap, torch.zeros_like(weight), weight)

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        return self.applied(step) * advantage


class FourthPower(Wrapped):
    """An optimal baseline whose weights are squared twice: the score norm already contains the ratio."""

    def __call__(self, step: Step) -> Tensor:
        altered_step = copy.copy(step)
        altered_step.score_norm = step.score_norm * step.sample_weight**2
        return self._inner(altered_step)


@dataclass(frozen=True)
class Displace:
    """An instrument, not a defect: the first update moves the parameters by a given vector, later ones by nothing.

    `by` `[P]`, or `[R, P]` for vectors of all replicates of a block.

    With a frozen schedule the policy is then at a known place away from behavior, and every further update is a fresh
    batch measured there.
    """

    by: tuple[float, ...] | tuple[tuple[float, ...], ...]

    def init(self, parameters: Tensor) -> State:
        return {"left": torch.ones((parameters.shape[0], 1), dtype=parameters.dtype)}

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        record.direction = state["left"] * torch.tensor(self.by, dtype=record.direction.dtype)
        return record, {"left": torch.zeros_like(state["left"])}
