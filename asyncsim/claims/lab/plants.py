"""Defects to plant and instruments to measure with: wrappers of product components, never edits of them."""

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim import updates
from asyncsim.base import records
from asyncsim.claims._trial import Plant, Wrapped, overriding
from asyncsim.methods._weights import NoRatio
from asyncsim.policies._policy import Forward
from asyncsim.running.spec import Spec
from asyncsim.step.batch import Batch
from asyncsim.step.step import Step
from asyncsim.step.versions import View
from asyncsim.updates import _link
from asyncsim.updates._link import Record, State


class OffByOne(Wrapped):
    """A system that generates every token one version earlier than its schedule says."""

    def schedule(self, *arguments: Any) -> records.Schedule:
        schedule = self._inner.schedule(*arguments)
        return replace(schedule, version=np.maximum(schedule.version - 1, 0).astype(np.int32))


def off_by_one_version(spec: Spec) -> Spec:
    """Plant in which data are one version staler than scheduled."""
    return spec.replace(system=OffByOne(spec.system))


def with_method(**settings: Any) -> Plant:
    """Plant that injects a defect by changing settings of the spec's method."""
    return lambda spec: spec.replace(method=spec.method.replace(**settings))


def with_task(change: Callable[[Any], dict[str, Any]]) -> Plant:
    """Plant that injects a defect by changing settings of the spec's task, computed from the task."""
    return lambda spec: spec.replace(task=replace(spec.task, **change(spec.task)))


def wrapping_advantage(kind: type[Wrapped]) -> Plant:
    """Plant that wraps the advantage of the spec's method."""
    return lambda spec: with_method(advantage=kind(spec.method.advantage))(spec)


dropped_ratio = with_method(weight=NoRatio())
"""The method without its ratio."""


def relinked(change: Callable[..., tuple[_link.Link, ...]]) -> Plant:
    """Plant that replaces the links of the update chain by links made from them."""
    return lambda spec: spec.replace(update=_link.Chain(change(*spec.update.links)))


momentum_inserted = relinked(lambda *links: (updates.momentum(0.5), *links))
"""A heavy ball in front of the chain."""


def rescoring(change: Callable[[Any, Tensor, Batch], Tensor]) -> Any:
    """Policy wrapper that changes the log-probs of the forward pass, given the policy, the log-probs and the batch."""

    def forward(policy: Any, view: View, batch: Batch, names: Iterable[str]) -> Forward:
        outputs, pullback = policy.forward(view, batch, names)
        return Forward({k: change(policy, v, batch) if k == "log_prob" else v for k, v in outputs.items()}, pullback)

    return overriding(forward=forward)


Tempered = rescoring(lambda policy, log_prob, batch: log_prob / 0.9)
"""Log-probs scored at another temperature than actions are sampled at."""
Sharpened = overriding(prepare=lambda policy, parameters: policy.prepare(parameters / 0.9))
"""A policy that acts and scores at a temperature of 0.9 but leaves it out of the derivative."""
Uncut = overriding(record=lambda policy, view, batch: {"log_prob": policy.score(view, batch)})
"""A sampler cut by top-p that reports the whole policy's log-probs."""
ShortProduct = rescoring(lambda policy, log_prob, batch: torch.cat([log_prob[..., :-1], 0.0 * log_prob[..., -1:]], -1))
"""The last token is left out of the sequence's log-prob."""
Unscored = overriding(
    compared=lambda policy, view, batch: {"scored_log_prob": (batch.behavior or policy.record(view, batch))["log_prob"]}
)
"""The trainer's log-probs at the behavior weights are recorded as the sampler's, so that nothing is mismatched."""


def engine_replaced(**settings: Any) -> Plant:
    """Plant that changes settings of the engine of the spec's policy."""
    return with_policy(lambda policy: replace(policy, engine=replace(policy.engine, **settings)))


def with_policy(change: Callable[[Any], Any]) -> Plant:
    """Plant that injects a defect by changing or wrapping the spec's policy."""
    return lambda spec: spec.replace(policy=change(spec.trained_policy))


class FourthPower(Wrapped):
    """Optimal baseline that squares its weights twice, because the score norm already contains the ratio."""

    def __call__(self, step: Step) -> Tensor:
        altered_step = copy.copy(step)
        altered_step.score_norm = step.score_norm * step.sample_weight**2
        return self._inner(altered_step)


@dataclass(frozen=True)
class Displace:
    """Instrument, not a defect: the first update adds the vector `by`, `[P]` or `[R, P]`; later updates add zero."""

    by: tuple[float, ...] | tuple[tuple[float, ...], ...]

    def init(self, parameters: Tensor) -> State:
        return {"left": torch.ones((parameters.shape[0], 1), dtype=parameters.dtype)}

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        record.direction = state["left"] * torch.tensor(self.by, dtype=record.direction.dtype)
        return record, {"left": torch.zeros_like(state["left"])}
