"""Projection measured through the loop: gradients of a constant mean, and one mode far from its minimum."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim import schedules, tasks, updates
from asyncsim.claims._trial import Plant
from asyncsim.claims.lab.runs import descent, run
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.running import running
from asyncsim.running.spec import Spec
from asyncsim.updates._link import Chain, Link, Record, State

IDLE = 1e-12
"""Curvature of coordinates that carry noise alone."""


@dataclass(frozen=True)
class Known:
    """An instrument: alignment control that compares with one known direction instead of the one before."""

    link: Link
    direction: tuple[float, ...]

    def init(self, parameters: Tensor) -> State:
        return {}

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        reference = torch.tensor(self.direction, dtype=record.direction.dtype).expand_as(record.direction)
        return self.link.apply(record, {"reference": reference})[0], state


def changed(kind: type[Any], **changes: Any) -> Plant:
    """A plant: the same chain, its links of one kind with other settings."""

    def plant(spec: Spec) -> Spec:
        links: list[Any] = list(spec.update.links)
        return spec.replace(
            update=Chain(tuple(dataclasses.replace(x, **changes) if isinstance(x, kind) else x for x in links))
        )

    return plant


def projection(reference: str, strength: Any, dimension: int) -> Link:
    """Projection of every gradient, along the "previous" one or the "known" mean of `dimension` coordinates and an
    idle one."""
    link = updates.align(low=-1.0, high=1.0, strength=strength)
    return link if reference == "previous" else Known(link, (1.0,) * dimension + (0.0,))


def along(dimension: int) -> Metric:
    """Mean of the first `dimension` parameters before the update, `[R]`."""
    return Metric("along", lambda step: step.parameters[:, :dimension].double().mean(-1))


def constant_mean(
    dimension: int, idle: int, signal: np.ndarray, links: tuple[Link, ...], updates_: int, after: int, seed: int,
    plant: Plant,
) -> np.ndarray:  # fmt: skip
    """How far the carrying coordinates went along the mean from update `after` on, `[R]`; `signal` `[R]`.

    Updates are so small that the gradient stays that of the start. It is sqrt(signal) in `dimension` coordinates, 0 in
    `idle` more, with noise 1 in all of them.
    """
    spec = descent(
        tasks.quadratic((1.0,) * dimension + (IDLE,) * idle, noise=1.0),
        schedules.fixed(0),
        *links,
        updates=updates_ + after,
        replicates=len(signal),
        diagnostics=[along(dimension)],
        every=after,
        initial=np.repeat(np.sqrt(signal)[:, None], dimension + idle, axis=1),
    )
    trace = run(spec, seed, plant)
    return trace["along"][1] - trace.parameters[:, :dimension].mean(axis=1)


def far_away(
    curvature: float, noise: float, others: int, distance: float, links: tuple[Link, ...], staleness: int,
    updates_: int, replicates: int, every: int = 1,
) -> Spec:  # fmt: skip
    """One mode at a distance in units of n / curvature, n^2 = others noise^2, beside others that carry noise alone."""
    start = distance * float(np.sqrt(others)) * noise / curvature
    return descent(
        tasks.quadratic((curvature,) + (IDLE * curvature,) * others, noise=noise, start=start),
        schedules.fixed(staleness),
        *links,
        updates=updates_,
        replicates=replicates,
        diagnostics=[along(1)],
        every=every,
    )


def grown(path: np.ndarray, staleness: int) -> np.ndarray:
    """Whether each replicate's mode grew over a run from far away, bool `[R]`, from `along` at every update `[U, R]`.

    The last period is compared with the second one, or with a hundredth of the start where the second is smaller. Below
    that, noise dominates.
    """
    period = 4 * staleness + 2
    size = np.abs(path)
    early = np.maximum(size[period : 2 * period].max(axis=0), 0.01 * size[0])
    late = size[-period:]
    # A replicate that left the finite range is missing from there on.
    return np.asarray(~np.isfinite(late).all(axis=0) | (late.max(axis=0) > 1.001 * early))


def largest_step(build: Any, low: float, high: float, staleness: int, seed: int) -> tuple[float, float]:
    """Bracket of the learning rate at which the mode begins to grow: two grids of 32 rates, one a replicate.

    `build(steps, updates)` makes the spec. Low and high must lie on either side.
    """
    length = 24 * (4 * staleness + 2)
    for _ in range(2):
        steps = np.geomspace(low, high, 32)
        growing = grown(running.run(build(tuple(steps), length), seed=seed, progress=False)["along"], staleness)
        first = int(np.argmax(growing))
        if not growing[-1] or first == 0:
            return (float(steps[-1]), float("inf")) if not growing.any() else (0.0, float(steps[0]))
        low, high = float(steps[first - 1]), float(steps[first])
    return low, high
