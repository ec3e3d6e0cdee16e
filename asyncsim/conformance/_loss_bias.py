"""Bias and variance of a loss by enumeration: its gradient on every batch of small tasks, beside a method's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from asyncsim import tasks
from asyncsim.advantages._advantage import Advantage
from asyncsim.conformance._loss_subject import Probe
from asyncsim.conformance.loss_reports import BiasRow
from asyncsim.learning import oracle
from asyncsim.learning.step import Step
from asyncsim.methods._method import Method
from asyncsim.methods._weights import Weight

_SETTINGS = ((2, 2, 4), (3, 2, 2), (2, 3, 3))
"""Arms, tokens and samples; one arm ends the sequence, so that lengths differ."""
_DISPLACEMENTS = (0.0, 0.5, 1.0)


@dataclass(frozen=True)
class Asked(Weight):
    """The score weight of a loss from outside: -dL/d log_prob over the share of a sum over sequences."""

    ask: Callable[[Probe], Tensor]
    scale: float

    level: ClassVar[str] = "token"  # type: ignore[misc]
    proximal: ClassVar[bool] = True

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """c of every token `[R, G, N, T]`; the loss is called once for every replicate."""
        kept = step.mask > 0
        logs = [
            torch.where(kept, x["log_prob"], torch.zeros_like(step.mask))
            for x in (step.current, step.behavior, step.proximal)
        ]
        given = [*logs, advantage.expand(step.mask.shape), step.mask]
        R, G, N, T = step.mask.shape
        found = [
            self.ask(Probe.of("enumeration", (x[r].reshape(G * N, T).clone() for x in given), N)) for r in range(R)
        ]
        return torch.stack(found).reshape(step.mask.shape) * (G * N / self.scale)


def biases(ask: Callable[[Probe], Tensor], scale: float, method: Method, advantage: Advantage) -> tuple[BiasRow, ...]:
    """Moments of the loss, divided by `scale`, and of the method with the same advantage, at each displacement."""
    loss = Method("loss", advantage, Asked(ask, scale), "sequence_sum")
    beside = method.replace(advantage=advantage)
    return tuple(_row(loss, beside, *setting, d) for setting in _SETTINGS for d in _DISPLACEMENTS)


def _row(loss: Method, beside: Method, actions: int, horizon: int, samples: int, displacement: float) -> BiasRow:
    task = tasks.token_bandit(actions=actions, horizon=horizon, dependence="position", ends=True)
    size = task.policy().size
    now = np.linspace(-0.3, 0.4, size)
    then = now + displacement * np.cos(np.arange(size) * 2.0)
    found = [_moments(task, method, now, then, samples) for method in (loss, beside)]
    return BiasRow(f"{actions} arms, {horizon} tokens", samples, displacement, *found[0], *found[1])


def _moments(task: tasks._task.Task, method: Method, now: np.ndarray, then: np.ndarray, samples: int) -> list[float]:
    moments = oracle.moments(task, method, now, then, samples=samples)
    size = float(np.linalg.norm(moments.exact))
    mean = float(np.linalg.norm(moments.mean))
    cosine = float(moments.mean @ moments.exact) / (mean * size) if mean > 0 else float("nan")
    return [float(np.linalg.norm(moments.bias)) / size, moments.variance / size**2, cosine]
