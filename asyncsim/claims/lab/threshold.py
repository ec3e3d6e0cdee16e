"""Noiseless descent from next to the minimum, one learning rate per replicate: the largest stable one, and growth."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from asyncsim import schedules, tasks, updates
from asyncsim.base import checks
from asyncsim.claims._trial import Estimate, Plant, Point, untouched
from asyncsim.claims.lab.runs import descent, run
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.running import running
from asyncsim.running.spec import Spec
from asyncsim.schedules.imposed import Imposed, Request

GRID = 48
_GROWTH = 1e4
_GROUPS, _MANY = 24, 4096
"""Most groups of a batch that has a law exactly, and groups of one that has it nearly."""
_LEVELS = 96
_SETTLED = 1e3
"""Amplitude, in units of the start, from which on other modes have died out."""
_RESOLUTION = 0.004
"""Half a period of the oscillation that is cut off, over the mean of all levels, at the points of the claim at most."""
_LONGEST = 20_000


def noiseless_descent(
    curvatures: tuple[float, ...], system: Any, plant: Plant = untouched
) -> Callable[[tuple[float, ...], int], Spec]:
    """A `build` function for threshold searches: noiseless descent from near a quadratic's minimum, after planting."""
    task = tasks.quadratic(curvatures, noise=0.0, start=1e-6)
    settings: dict[str, Any] = {"sampling": "enumerate", "diagnostics": ["gradient_norm"]}

    def build(steps: tuple[float, ...], count: int) -> Spec:
        return plant(descent(task, system, updates.sgd(steps), updates=count, replicates=len(steps), **settings))

    return build


PROBE = Metric(
    "probe",
    lambda step: (step.gradient.double() * step.gradient.new_tensor(1.0 + np.arange(step.gradient.shape[1]) ** 2)).sum(
        1
    ),
)
"""Sum of the gradient's components, each with a weight of its own, `[R]`; it obeys the recurrence of the whole linear
system."""


def roots(sequence: np.ndarray, order: int, noise: float = 1e-12) -> np.ndarray:
    """Complex roots, largest first, of the linear recurrence of order at most `order` that a sequence `[U]` obeys.

    Least squares of least norm, without what is smaller than `noise`: roots that the data does not determine lie inside
    the unit circle. Growth by more than `_GROWTH`, beyond which nothing need be linear, gives the root infinity.

    >>> roots(np.array([1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125]), 2)[0].real.round(12).item()
    0.5
    """
    size = np.abs(sequence)
    if not np.isfinite(size).all() or size.max() > _GROWTH * size[0]:
        return np.array([np.inf])
    rows = np.lib.stride_tricks.sliding_window_view(sequence / size.max(), order + 1)
    coefficients = np.linalg.lstsq(rows[:, :-1], rows[:, -1], rcond=noise)[0]
    found = np.roots(np.concatenate([[1.0], -coefficients[::-1]]))
    return found[np.argsort(-np.abs(found))]


def crossing(excess: Callable[[np.ndarray], np.ndarray], low: float, high: float) -> Estimate:
    """Learning rate at which an excess `[R]` of rates `[R]` becomes positive, bracketed by two grids and interpolated.

    Nothing below 0 lies behind it. At small steps, where all is slow, rounding may look like growth.
    """
    for _ in range(2):
        steps = np.geomspace(low, high, GRID)
        rates = excess(steps)
        first = GRID - int(np.argmax(rates[::-1] < 0.0))
        inside, bound = first < GRID and bool((rates < 0.0).any()), f"between {low:g} and {high:g}"
        checks.require(inside, "largest stable step", "outside the grid", bound, "ask elsewhere")
        low, high = steps[first - 1], steps[first]
    before, after = rates[first - 1], rates[first]
    share = 0.5 if np.isinf(after) else -before / (after - before)
    found = float(low * (high / low) ** share)
    return Estimate(found, tolerance=float(high - low), samples=2 * GRID)


def grown(series: np.ndarray, order: int, noise: float = 1e-12) -> np.ndarray:
    """Growth rate of each column of `[U, R]`, the log modulus of its recurrence's largest root, in nats per update."""
    largest = np.array([np.abs(roots(column, order, noise)[0]) for column in series.T])
    return np.log(np.maximum(largest, 1e-9))


def marginal_step(
    build: Callable[[tuple[float, ...], int], Spec], low: float, high: float, order: int, seed: int, every: int = 1,
    noise: float = 1e-12, modes: int = 0,
) -> Estimate:  # fmt: skip
    """Learning rate at which deviations of a linear system stop decaying, from the roots of short runs.

    `build(steps, updates)` makes a noiseless spec with one learning rate per replicate; the gradients of every so many
    updates obey a recurrence of at most this order, but for relative `noise`. Where components are `modes` that do not
    touch one another, the order is that of each: roots of all together are hard to tell apart.
    """
    probes = [Metric(f"mode{k}", lambda step, k=k: step.gradient[:, k].double()) for k in range(modes)] or [PROBE]

    def excess(steps: np.ndarray) -> np.ndarray:
        spec = build(tuple(steps), (3 * order + 4) * every).replace(diagnostics=probes)
        trace = running.run(spec, seed=seed, progress=False)
        return np.max([grown(trace[probe.name][::every], order, noise) for probe in probes], axis=0)

    return crossing(excess, low, high)


def largest_step(
    curvatures: Sequence[float], system: Any, delay: int, high: float, seed: int, plant: Plant, every: int = 1
) -> Estimate:
    """Largest stable learning rate of SGD with delays up to `delay`, searched up to `high` / the largest curvature."""
    build, scale = noiseless_descent(tuple(curvatures), system, plant), 1.0 / max(curvatures) / every
    low = 0.4 * scale / (1 + delay)
    return marginal_step(build, low, high * scale, delay + 2, seed, every=every, modes=len(curvatures))


def mixture(stalenesses: Sequence[int]) -> Imposed:
    """Schedule with one group per staleness in every batch.

    >>> mixture((0, 2)).schedule(4, 1, 1, 1, seed=0).staleness().reshape(4, 2).tolist()
    [[0.0, 0.0], [0.0, 1.0], [0.0, 2.0], [0.0, 2.0]]
    """
    each = np.array(stalenesses)

    def versions(request: Request) -> np.ndarray:
        return np.maximum(request.train_version[:, None, None] - each[None, :, None], 0)

    settings = {"stalenesses": each.tolist()}
    return Imposed("mixture", settings, versions, groups_per_batch=len(each), reached=int(each.max()))


def in_groups(law: Sequence[float]) -> tuple[list[int], float]:
    """Staleness of each group in the smallest batch with this distribution, and the total error of its fractions.

    >>> in_groups((0.25, 0.0, 0.75))
    ([0, 2, 2, 2], 0.0)
    """
    shares = np.asarray(law, dtype=np.float64)
    for groups in range(1, _GROUPS + 1):
        counts = np.round(shares * groups).astype(int)
        if np.allclose(counts, shares * groups, atol=1e-9):
            return np.repeat(np.arange(len(counts)), counts).tolist(), 0.0
    ends = np.round(np.cumsum(shares) / shares.sum() * _MANY).astype(int)
    counts = np.diff(ends, prepend=0)
    return np.repeat(np.arange(len(counts)), counts).tolist(), float(np.abs(counts / _MANY - shares).sum())


def step_under(law: Sequence[float], curvatures: Sequence[float], seed: int, plant: Plant) -> Estimate:
    """Largest stable learning rate for batches that mix the stalenesses of a distribution in its proportions.

    Where shares are off, an error of the gradient moves it as much; the factor is for the oscillation's period.
    """
    stalenesses, off = in_groups(law)
    step = largest_step(curvatures, mixture(stalenesses), len(law) - 1, 4.5, seed, plant)
    return step._replace(tolerance=step.tolerance + 4.0 * off * step.value)


def passage(point: Point, seed: int, plant: Plant) -> Estimate:
    """Mean number of updates in which the gradient norm grows by a factor `ratio` beyond the stability boundary.
    The mean is over many initial amplitudes."""
    ratio, first = point["ratio"], 1e-6 * point["curvature"] * _SETTLED
    # Alarms at levels over as wide a range again, so that every phase of the oscillation has its part.
    levels = first * ratio ** np.linspace(0.0, 1.0, _LEVELS, endpoint=False)
    build = noiseless_descent((point["curvature"],), schedules.fixed(point["staleness"]))
    spec = plant(build((point["step"],), _length(point)))
    largest = np.fmax.accumulate(run(spec, seed, untouched)["gradient_norm"][:, 0])
    # Updates before the first one above a level.
    alarm, collapse = (np.searchsorted(largest, each, side="right") for each in (levels, ratio * levels))
    mean, half = float(np.mean(collapse - alarm)), 2.0 * point["staleness"] + 1.0
    # A norm passes levels at peaks: of few half periods the mean over levels may leave out a part of one.
    return Estimate(mean, tolerance=max(_RESOLUTION * mean, half**2 / (4.0 * mean)), samples=_LEVELS)


def _length(point: Point) -> int:
    """Number of updates that surely reaches the highest level: growth is slow near the boundary."""
    above = point["step"] * point["curvature"] * (2 * point["staleness"] + 1) / math.pi - 1.0
    nats = 2.0 * math.log(point["ratio"]) + math.log(_SETTLED) + 3.0
    return math.ceil(nats * (point["staleness"] + 1) * (1.1 + 1.25 / max(above, 1e-3)))


def reach(point: Point) -> str | None:
    """Return why a gradient grows too slowly, or too much, for a run of reasonable length; else None."""
    if _length(point) > _LONGEST:
        return f"runs of at most {_LONGEST} updates; take a step farther beyond the boundary"
    return None if point["ratio"] <= 1e60 else "a ratio of at most 1e60; lower it"
