"""Runs on noisy quadratics: the delayed linear model, publish cycles, a standing policy, mean squares for a bound.

And projection through the loop: gradients of a constant mean, and one mode far from its minimum.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim import diagnostics, schedules, tasks, updates
from asyncsim.base.records import Estimate, Point
from asyncsim.base.trace import Trace
from asyncsim.base.uncertainty import between
from asyncsim.claims._trial import Plant, replaced, units_for
from asyncsim.claims.lab.plants import relinked
from asyncsim.claims.lab.runs import descent, run
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.running import running
from asyncsim.running.spec import Spec
from asyncsim.step.step import Step
from asyncsim.updates._link import Link, Record, State

IDLE = 1e-12
"""Curvature of coordinates that carry noise alone."""
_LONGEST, _DRAWN = 3000, 16_000.0
"""Updates of a warm-up, and gradients of all replicates times the square of the effect, at most."""
batch_used_twice = replaced(system=schedules.fixed(1), epochs=2)
"""Two updates on every batch: half of the neighbors share their samples."""
SPREAD = 0.12
"""Relative standard deviation of one replicate's mean square where a bound is tight; measured, it is at most 0.09. The
larger value tests the term of a delay, 0.38 of the bound, as sharply as the whole."""


def descending(point: Point, curvatures: tuple[float, ...], schedule: Any, **settings: Any) -> Spec:
    """Spec of SGD with a point's learning rate and gradient noise, from its start (default 0)."""
    task = tasks.quadratic(curvatures, noise=point["noise"], start=point.get("start", 0.0))
    return descent(task, schedule, updates.sgd(point["step"]), **settings)


def products(
    point: Point, curvatures: tuple[float, ...], length: int, spread: float, effect: float, comparisons: int, seed: int,
    plant: Plant,
) -> np.ndarray:  # fmt: skip
    """Mean products of gradients up to lag staleness + 1, over `length` updates after a warm-up."""
    tau = point["staleness"]
    after = warm_up(curvatures, tau, point["step"])
    replicates = min(units_for(spread, effect, comparisons), int(_DRAWN / effect**2 / (length + after)))
    size = {"updates": length + after, "replicates": replicates}
    metric = diagnostics.autocorrelogram(lags=tau + 1, after=after)
    spec = descending(point, curvatures, schedules.fixed(tau), diagnostics=[metric], **size)
    return run(spec, seed, plant).accumulated["autocorrelogram"]


def warm_up(curvatures: tuple[float, ...], staleness: int, step: float) -> int:
    """Number of warm-up updates: ten e-folding times of the slowest mode, or 60 delays."""
    largest = 0.0
    for share in (step * min(curvatures), step * max(curvatures)):
        recurrence = np.zeros(staleness + 2)
        recurrence[:2] = 1.0, -1.0
        recurrence[-1] += share
        largest = max(largest, float(np.abs(np.roots(recurrence)).max(initial=0.0)))
    relaxation = -1.0 / math.log(max(largest, 1e-9)) if largest < 1.0 else math.inf
    return int(min(max(60 * (staleness + 1), 10.0 * relaxation), 10 * _LONGEST))


def linear_reach(curvatures: tuple[float, ...], staleness: int, step: float) -> str | None:
    """Return why a run of the trial's length would not be stationary; else None."""
    updates = warm_up(curvatures, staleness, step)
    if updates > _LONGEST:
        return f"a warm-up of at most {_LONGEST} updates, not {updates}; take steps nearer to half of the boundary"
    return None


def run_standing(
    dimension: int, signal: float, noise: float, samples: int, updates_: int, replicates: int, seed: int, plant: Plant
) -> Trace:
    """Run at learning rate 0, at distance `signal` from a quadratic's minimum; record gradient cosines and products."""
    task = tasks.quadratic((1.0,) * dimension, noise=noise, start=signal / math.sqrt(dimension))
    size = {"samples_per_group": samples, "updates": updates_, "replicates": replicates}
    metrics = ["gradient_cosine", diagnostics.autocorrelogram(lags=1)]
    return run(descent(task, schedules.fixed(2), updates.sgd(0.0), diagnostics=metrics, **size), seed, plant)


def mean_square(
    point: Point, schedule: Any, comparisons: int, effect: float, seed: int, plant: Plant
) -> dict[str, Estimate]:
    """Squared norm of the exact gradient, averaged over the updates of a run, then over replicates."""
    # Where the measurement is at 0.97 of the bound, a bound lower by the effect is exceeded by 0.02 at least.
    size = {"updates": point["updates"], "replicates": units_for(SPREAD, 0.4 * effect, comparisons, kind="bound")}
    spec = descending(point, (point["curvature"],), schedule, diagnostics=["exact_gradient_norm"], **size)
    return {"bound": between((run(spec, seed, plant)["exact_gradient_norm"] ** 2).mean(axis=0))}


@dataclass
class Cycles:
    """Instrument: mean products of gradients by position in the publish cycle of `length` updates.

    Its result, `[R]` each: "energy" E|g|^2; "inside", of all pairs of one cycle; "across", of neighboring cycles;
    "neighbors", of all pairs one update apart. Updates before `after`, a multiple of `length`, are left out.
    """

    length: int
    after: int
    sums: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    pairs: dict[str, int] = field(default_factory=dict, repr=False)
    previous: np.ndarray | None = field(default=None, repr=False)
    current_sum: np.ndarray | None = field(default=None, repr=False)
    previous_sum: np.ndarray | None = field(default=None, repr=False)

    name = "cycles"
    outputs = ()

    def fresh(self) -> "Cycles":
        return replace(self, sums={}, pairs={}, previous=None, current_sum=None, previous_sum=None)

    def observe(self, step: Step) -> None:
        if step.update < self.after:
            return
        gradient = step.gradient.double().cpu().numpy()
        phase = (step.update - self.after) % self.length
        if phase == 0:
            self.previous_sum, self.current_sum = self.current_sum, None
        self._add("energy", gradient, gradient, 1)
        self._add("neighbors", gradient, self.previous, 1)
        self._add("inside", gradient, self.current_sum, phase)
        self._add("across", gradient, self.previous_sum, self.length)
        self.previous = gradient
        self.current_sum = gradient if self.current_sum is None else self.current_sum + gradient

    def _add(self, name: str, gradient: np.ndarray, other: np.ndarray | None, pairs: int) -> None:
        if other is not None:
            self.sums[name] = self.sums.get(name, 0.0) + np.einsum("rp,rp->r", gradient, other)
            self.pairs[name] = self.pairs.get(name, 0) + pairs

    def result(self) -> dict[str, np.ndarray]:
        return {name: total / self.pairs[name] for name, total in self.sums.items()}


@dataclass(frozen=True)
class Known:
    """Instrument: alignment control that compares each gradient with one known direction, not with the previous one."""

    link: Link
    direction: tuple[float, ...]

    def init(self, parameters: Tensor) -> State:
        return self.link.init(parameters)

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        reference = torch.tensor(self.direction, dtype=record.direction.dtype).expand_as(record.direction)
        return self.link.apply(record, {**state, "reference": reference})[0], state


def changed(kind: type[Any], **changes: Any) -> Plant:
    """Plant that changes settings of all update links of one kind."""

    return relinked(lambda *links: tuple(replace(x, **changes) if isinstance(x, kind) else x for x in links))


def projection(reference: str, strength: Any, dimension: int) -> Link:
    """Link that projects every gradient along the "previous" gradient, or along the "known" mean.
    The known mean is equal in `dimension` coordinates, and 0 in one idle coordinate."""
    link = updates.align(low=-1.0, high=1.0, strength=strength)
    return link if reference == "previous" else Known(link, (1.0,) * dimension + (0.0,))


def along(dimension: int) -> Metric:
    """Metric: mean of the first `dimension` parameters before each update, `[R]`."""
    return Metric("along", lambda step: step.parameters[:, :dimension].double().mean(-1))


def constant_mean(
    dimension: int, idle: int, signal: np.ndarray, links: tuple[Link, ...], updates_: int, after: int, seed: int,
    plant: Plant,
) -> np.ndarray:  # fmt: skip
    """Distance that the signal coordinates moved along the mean after update `after`, `[R]`; `signal` is `[R]`.

    Updates are so small that the gradient stays that of the start. It is sqrt(signal) in `dimension` coordinates, 0 in
    `idle` more, with noise 1 in all of them.
    """
    task = tasks.quadratic((1.0,) * dimension + (IDLE,) * idle, noise=1.0)
    start = np.repeat(np.sqrt(signal)[:, None], dimension + idle, axis=1)
    size = {"updates": updates_ + after, "replicates": len(signal), "every": after, "diagnostics": [along(dimension)]}
    trace = run(descent(task, schedules.fixed(0), *links, initial=start, **size), seed, plant)
    return trace["along"][1] - trace.parameters[:, :dimension].mean(axis=1)


def far_away(
    curvature: float, noise: float, others: int, distance: float, links: tuple[Link, ...], staleness: int,
    updates_: int, replicates: int, every: int = 1,
) -> Spec:  # fmt: skip
    """Spec of one mode started `distance` n / curvature away, n^2 = others noise^2; other modes carry only noise."""
    start = distance * float(np.sqrt(others)) * noise / curvature
    task = tasks.quadratic((curvature,) + (IDLE * curvature,) * others, noise=noise, start=start)
    size = {"updates": updates_, "replicates": replicates, "every": every, "diagnostics": [along(1)]}
    return descent(task, schedules.fixed(staleness), *links, **size)


def grown(path: np.ndarray, staleness: int) -> np.ndarray:
    """Whether each replicate's mode grew in a run from far away, bool `[R]`; `path` holds every update, `[U, R]`."""
    period = 4 * staleness + 2
    size = np.abs(path)
    early = np.maximum(size[period : 2 * period].max(axis=0), 0.01 * size[0])
    late = size[-period:]
    # A replicate that left the finite range is missing from there on.
    return np.asarray(~np.isfinite(late).all(axis=0) | (late.max(axis=0) > 1.001 * early))


def largest_step(build: Any, low: float, high: float, staleness: int, seed: int) -> tuple[float, float]:
    """Bracket of the learning rate at which a mode starts to grow: two grids of 32 rates, one per replicate."""
    length = 24 * (4 * staleness + 2)
    for _ in range(2):
        steps = np.geomspace(low, high, 32)
        growing = grown(running.run(build(tuple(steps), length), seed=seed, progress=False)["along"], staleness)
        first = int(np.argmax(growing))
        if not growing[-1] or first == 0:
            return (float(steps[-1]), float("inf")) if not growing.any() else (0.0, float(steps[0]))
        low, high = float(steps[first - 1]), float(steps[first])
    return low, high
