"""A forward pass in micro-batches: the step's outputs put together, its cotangents taken apart.

Weights, advantages and denominators see the whole step between the two, so that the split cannot change a gradient by
more than the order of its sums.
"""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.policies._policy import Forward, Policy
from asyncsim.step.batch import Batch, Outputs
from asyncsim.step.versions import View


def forward(policy: Policy, view: View, batch: Batch, names: tuple[str, ...], parts: int) -> Forward:
    """`policy.forward` on `parts` micro-batches of about equal size, cut between groups, or between samples of one."""
    if parts == 1:
        return policy.forward(view, batch, names)
    axis, edges = _cuts(batch, parts)
    spans = list(pairwise(edges))
    done = [policy.forward(_view(view, axis, *span), _part(batch, axis, *span), names) for span in spans]
    outputs = {name: torch.cat([piece.outputs[name] for piece in done], axis) for name in names}

    def pullback(cotangents: Outputs) -> Tensor:
        shape = batch.action.shape[:4]
        whole = {name: each.expand(*shape, *each.shape[4:]) for name, each in cotangents.items()}
        pulled = [
            piece.pullback({name: each.narrow(axis, low, high - low) for name, each in whole.items()})
            for piece, (low, high) in zip(done, spans, strict=True)
        ]
        return torch.stack(pulled).sum(0)

    return Forward(outputs, pullback)


def _cuts(batch: Batch, parts: int) -> tuple[int, list[int]]:
    """Axis along which the step is cut, and where: no micro-batch is left out because it is smaller."""
    groups, samples = batch.action.shape[1:3]
    axis, length = (1, groups) if groups >= parts else (2, samples)
    checks.require(
        parts <= length,
        "micro_batches",
        parts,
        f"at most the groups ({groups}) or the samples of a group ({samples})",
        "use fewer micro-batches",
    )
    return axis, [round(length * k / parts) for k in range(parts + 1)]


def _part(batch: Batch, axis: int, low: int, high: int) -> Batch:
    def cut(x: Tensor) -> Tensor:
        return x.narrow(axis, low, high - low) if x.shape[axis] > 1 else x

    columns = ("action", "state", "mask", "reward", "mass", "token_reward", "ended", "finished")
    changes: dict[str, Any] = {name: cut(x) for name in columns if (x := getattr(batch, name)) is not None}
    behavior = {name: cut(value) for name, value in batch.behavior.items()}
    version, trajectory = (_rows(x, axis, low, high) for x in (batch.version, batch.trajectory))
    return dataclasses.replace(
        batch, **changes, behavior=behavior, version=version, trajectory=trajectory, index=None, age=None, _full=None
    )


def _view(view: View, axis: int, low: int, high: int) -> View:
    return View(view.weights, _rows(view.slot, axis, low, high), view.realization)


def _rows(x: np.ndarray, axis: int, low: int, high: int) -> np.ndarray:
    return x if x.shape[axis] == 1 else x.take(np.arange(low, high), axis)
