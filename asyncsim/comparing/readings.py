"""Readings, which turn the curve of a metric over a run into one number per replicate."""

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from asyncsim.base import checks, notation
from asyncsim.base.answers import SHARE
from asyncsim.base.notation import RETURNS, TRAINED
from asyncsim.base.trace import Trace

OVER = ("mean", "end", "time", "reached", "collapse", "fall")
FALLS = OVER[4:]
CLOCKS = ("seconds", "slot-hours")
"""Axes on which arms are compared at equal values, whatever their numbers of updates."""
PLACES = 201
"""Number of points on such an axis at which a curve is kept."""
ENDS = 8
"""Number of realizations from whose clocks the length of a run is estimated."""
SHORT = 4.0
"""Standard deviations between a horizon and the mean length: if normal, 1 run in 30,000 ends earlier."""
LAST = 0.1
"""Share of the recorded updates over which the end of a run is averaged."""
GAIN = 0.1
"""Smallest gain that can be lost, as a share of the metric's size before a collapse: of its start or maximum."""
WINDOW = 10
"""Recorded updates over which returns and statistics are averaged, the present one the last."""


@dataclass(frozen=True)
class Reading:
    """How the curve of a run becomes one number.

    Arguments: `metric`, a name in the trace. `over`: "mean" over updates; "end", the mean over the last tenth; "time",
    the first update at which the metric reaches `target` (all updates if it never does: the restricted mean);
    "reached", whether it does; "collapse", whether the end is below half of the maximum gain, or below the start by
    half of its size, or the replicate diverged; "fall", as in `predict`.
    "seconds" (simulated) and "slot-hours" (of `slots`): the mean over the last tenth before the `horizon`, or, with a
    target, when it is first reached (else the horizon). `target`: in units of the metric, needed by "time" and
    "reached". `better`: "higher" or "lower" values (default: by the metric's name).
    """

    metric: str = TRAINED
    over: str = "mean"
    target: float | None = None
    better: str | None = None
    horizon: float | None = None
    slots: float = 0.0

    def __post_init__(self) -> None:
        usual = "lower" if notation.COST.match(self.metric) else "higher"
        object.__setattr__(self, "better", self.better or usual)
        clocked = self.over in CLOCKS and self.horizon is None
        remedy = "seconds and slot-hours are axes of compare" if clocked else "say what of a curve is compared"
        checks.one_of("over", self.over, OVER if clocked else (*OVER, *CLOCKS), remedy)
        checks.one_of("better", self.better, ("higher", "lower"), "say which values are good")
        if self.over in ("time", "reached"):
            remedy = f"give the value that the metric has to reach; over={self.over!r} needs it"
            checks.require(self.target is not None, "target", None, "a number", remedy)
            checks.real("target", self.target, remedy)
        elif self.target is not None and self.clocked:
            checks.real("target", self.target, "give the value that the metric has to reach")
        else:
            checks.require(self.target is None, "target", self.target, "left out", "use it with over='time'")

    @property
    def clocked(self) -> bool:
        """Whether the axis of curves is seconds or cost instead of updates."""
        return self.over in CLOCKS

    @property
    def unit_of_clock(self) -> float:
        """Length of one simulated second on the axis, in seconds or slot-hours."""
        return self.slots / 3600.0 if self.over == "slot-hours" else 1.0

    @property
    def until(self) -> bool:
        """Whether the number is the time or cost until the target is reached."""
        return self.over == "time" or (self.clocked and self.target is not None)

    @property
    def axis(self) -> str:
        """Label of the axis of curves, with its unit."""
        return {"seconds": "simulated seconds", "slot-hours": "slot-hours"}.get(self.over, "update")

    @property
    def orientation(self) -> float:
        """1 if larger numbers of the metric are better, else -1."""
        own = 1.0 if self.better == "higher" else -1.0
        return -1.0 if self.until else {"collapse": -1.0, "fall": -1.0, "reached": 1.0}.get(self.over, own)

    @property
    def unit(self) -> str:
        """Unit of differences between the numbers, in words."""
        events = {"time": "updates", "reached": SHARE, "collapse": SHARE, "fall": SHARE}
        return self.over if self.clocked and self.until else events.get(self.over, self.metric)

    @property
    def event(self) -> bool:
        """Whether a replicate's number is 1 or 0: the event, such as collapse, happened in it or not."""
        return self.unit == SHARE

    def __str__(self) -> str:
        """The reading in words.

        >>> str(Reading("batch_return", "time", 0.9))
        'updates until batch_return (behavior policy) reaches 0.9'
        """
        metric = ", ".join(map(notation.whose, self.metric.split(", ")))
        at = f"{metric} reaches {self.target:g}" if self.target is not None else ""
        return {
            "mean": f"{metric}, mean over updates",
            "end": f"{metric}, mean over the last tenth",
            "time": f"updates until {at}",
            **{clock: f"{clock} until {at}" if at else f"{metric} at equal {clock}" for clock in CLOCKS},
            "reached": f"{SHARE} in which {at}",
            **{each: f"{SHARE} in which {metric} {each}s" for each in FALLS},
        }[self.over]

    @property
    def aside(self) -> str:
        """What counts as a collapse or a fall, and of which metric if not of returns; "" for other readings."""
        others = ", ".join(each for each in self.metric.split(", ") if each not in RETURNS)
        told = checks.advice("others" if others else self.over, "ends").replace("EVENT", self.over)
        return told.replace("METRIC", others) * (self.over in FALLS)

    def numbers(self, trace: Trace, lacking: bool = False, parts: int = 1) -> np.ndarray:
        """Number read from each replicate, float64 `[R]`; raises `InputError` if the metric is missing.

        With `lacking` the metric may be missing in some replicates, whose number is NaN.
        """
        curve = course(trace, self.metric, lacking)
        return np.where(np.isnan(curve).any(0), math.nan, self.of(curve, trace, parts))

    def unlearned(self, trace: Trace, parts: int = 1) -> np.ndarray:
        """Which replicates never learned, as in `predict`, in each of `parts` equal parts of a run, bool `[R]`."""
        curve = course(trace, self.metric, lacking=True) * (1.0 if self.better == "higher" else -1.0)
        means, starts = trailing(curve), (np.nanmean(part[0]) for part in np.split(curve, parts, axis=1))
        pairs = zip(np.split(means, parts, axis=1), starts, strict=True)
        # The mean of a constant is the constant to rounding only.
        return np.concatenate([learned_at(x, at, max(np.nanmax(x), at + 1e-9 * abs(at))) < 0 for x, at in pairs])

    def of(self, curve: np.ndarray, trace: Trace, parts: int = 1) -> np.ndarray:
        """Number read from each replicate of a curve `[U, R]` from `course`, of as many settings as there are parts."""
        good = curve if self.better == "higher" else -curve
        if self.over == "mean":
            return np.asarray(curve.mean(0))
        if self.over == "end":
            return ending(curve)
        if self.clocked and not self.until:
            return ending(self.drawn(curve, trace)[1])
        if self.over == "fall":
            pairs = zip(np.split(trailing(good), parts, axis=1), np.split(good[0], parts), strict=True)
            fell = [lows(mean, first.mean(), mean.max())[1].any(0) for mean, first in pairs]
            return (np.concatenate(fell) | (trace.diverged >= 0)).astype(np.float64)
        if self.over == "collapse":
            return (collapses(good) | (trace.diverged >= 0)).astype(np.float64)
        aim = float(self.target or 0.0) * (1.0 if self.better == "higher" else -1.0)
        # A value that was filled in before the first one reaches nothing.
        known = np.logical_or.accumulate(~np.isnan(trace.metrics[self.metric]), axis=0)
        there = (good >= aim) & known
        if self.over == "reached":
            return np.asarray(there.any(0), dtype=np.float64)
        first, most = self.places(trace)[there.argmax(0), np.arange(there.shape[1])], self._most(trace)
        return np.where(there.any(0), np.minimum(first, most), most).astype(np.float64)

    def places(self, trace: Trace) -> np.ndarray:
        """Position of each recorded update on the axis, `[U/every, R]`; on a clock, the start of its batch."""
        if not self.clocked:
            return np.broadcast_to(trace.updates[:, None], trace.metrics[self.metric].shape)
        kept = trace.header.get("clock")
        seconds = trace.seconds() if kept is None else kept
        return np.asarray(seconds * self.unit_of_clock)

    def drawn(self, curve: np.ndarray, trace: Trace) -> tuple[np.ndarray, np.ndarray]:
        """Axis `[K]`, and on it the curve from `course`, `[K, R]`; after its end the curve keeps its last value."""
        if not self.clocked:
            return trace.updates, curve
        x, at = np.linspace(0.0, float(self.horizon or 0.0), PLACES), self.places(trace)
        return x, np.stack([np.interp(x, *each) for each in zip(at.T, curve.T, strict=True)], axis=1)

    def of_arm(self, spec: Any) -> "Reading":
        """The reading for one arm: a slot-hour counts its sample slots, busy or idle, and slots of a trainer apart.

        Sample slots are those in the settings of its system (`Settings.sample_slots`).
        """
        if self.over != "slot-hours":
            return self
        system = getattr(spec.system, "system", spec.system)
        many = system.sample_slots(spec.samples + system.redundant)
        return replace(self, slots=many + self.slots * (not system.colocated))

    def _most(self, trace: Trace) -> float:
        return float(self.horizon or 0.0) if self.clocked else float(_length(trace))

    def bounds(self, trace: Trace, task: Any) -> tuple[float, float]:
        """Minimum and maximum of the number read from a replicate; infinite if unbounded."""
        if self.event:
            return 0.0, 1.0
        return (0.0, self._most(trace)) if self.until else self.range(trace, task)

    def range(self, trace: Trace, task: Any) -> tuple[float, float]:
        """Minimum and maximum that the metric can have; infinite if unbounded."""
        return task.earnings if self.metric in RETURNS else trace.range(self.metric)


def ends(spec: Any, seed: int) -> np.ndarray | None:
    """Seconds at which training on the last recorded batch starts, `[M]`; None if no system gives them in advance."""
    runs = _schedules(spec, seed, 1)
    return np.array([run.seconds[0, -1] for run in runs]) if runs else None


def ages(reading: Reading, spec: Any, seed: int) -> dict[str, float]:
    """Mean and 99th percentile of the staleness of tokens in versions before the horizon; empty without a clock."""
    until = (reading.horizon or 0.0) / reading.of_arm(spec).unit_of_clock if reading.clocked else 0.0
    runs = _schedules(spec, seed, spec.task.horizon) if until else []
    if not runs:
        return {}
    stale = np.concatenate([run.staleness()[:, run.seconds[0] <= until].ravel() for run in runs])
    high = np.nanpercentile(stale, 99, method="inverted_cdf")
    return {"staleness_mean": float(np.nanmean(stale)), "staleness_p99": float(high)}


def _schedules(spec: Any, seed: int, tokens: int) -> list[Any]:
    """Some realizations of the system, up to the last recorded batch; none if lengths depend on the policy."""
    last = (spec.updates - 1) // spec.every * spec.every // spec.passes
    if not hasattr(spec.system, "sample_slots"):
        return []
    seeds = range(seed, seed + (ENDS if spec.system.random else 1))
    return [spec.system.schedule(last + 1, spec.samples, tokens, 1, each) for each in seeds]


def timed(reading: Reading, specs: Any, seed: int) -> Reading:
    """A reading on a clock with its horizon: the given one, or the end of the shortest arm, to three digits.

    Raises `InputError` for an arm without a clock, for a horizon after the end of a run, and without a horizon if
    lengths depend on the policy, so that the end is known only after training.
    """
    if not reading.clocked:
        return reading
    limits: dict[str, float] = {}
    for name, spec in specs.items():
        remedy = "an imposed schedule has none: use sim.systems.NAME(...) instead, or over='mean', which counts updates"
        clock, known = ends(spec, seed), f"an event system, so that {reading.over} are known"
        coupled, system = getattr(spec.system, "coupled", False), getattr(spec.system, "name", "a saved schedule")
        checks.require(coupled or clock is not None, f"system of arm {name}", system, known, remedy)
        # Deterministic clocks have no spread; the factor leaves room for rounding to three digits.
        least = math.inf if clock is None else 0.995 * (float(clock.mean()) - SHORT * float(np.sqrt(clock.var())))
        bound = "more: with so few, the run of some replicate may end before its first update trains"
        checks.require(least > 0.0, f"updates of arm {name}", spec.updates, bound, "give more updates")
        limits[name] = float(f"{reading.of_arm(spec).unit_of_clock * least:.3g}")
    shortest = min(limits, key=lambda name: limits[name])
    most, stated = limits[shortest], reading.horizon or 0.0
    horizon = most if stated == math.inf else stated
    bound = f"in (0, {most:g}], since the run of arm {shortest} ends there"
    bound = bound if most < math.inf else "a number where lengths come from the policy"
    remedy = f"give {reading.over} that all runs last, or raise updates"
    checks.require(horizon < math.inf, "horizon", None, bound, remedy)
    checks.require(0.0 < horizon <= most, "horizon", horizon, bound, remedy)
    return replace(reading, horizon=horizon)


def _length(trace: Trace) -> int:
    """Number of updates of the run, from its header, else from its record."""
    stated = (trace.header.get("spec") or {}).get("updates")
    if stated is not None:
        return int(stated)
    every = int(trace.updates[1] - trace.updates[0]) if len(trace.updates) > 1 else 1
    return int(trace.updates[-1]) + every


def course(trace: Trace, metric: str, lacking: bool = False) -> np.ndarray:
    """The curve of a metric `[U, R]`; a diverged replicate keeps its last value.

    Values between two evaluations are interpolated linearly. Raises `InputError` if the trace lacks the metric, or if a
    replicate (with `lacking`: every one) never has a value of it.
    """
    remedy = "choose a metric of `asyncsim list metrics`, or one that a link or method of every arm reports"
    checks.one_of("metric", metric, sorted(trace.metrics) or ["none (this run records nothing)"], remedy)
    curve = trace.metrics[metric].astype(np.float64, copy=True)
    if not np.isnan(curve).any():
        return curve
    rows = np.flatnonzero(~np.isnan(curve).all(1))
    for a, b in itertools.pairwise(rows):
        share = (np.arange(a + 1, b) - a)[:, None] / (b - a)
        curve[a + 1 : b] = (1.0 - share) * curve[a] + share * curve[b]
    for row in range(1, len(curve)):
        curve[row] = np.where(np.isnan(curve[row]), curve[row - 1], curve[row])
    for row in range(len(curve) - 2, -1, -1):
        curve[row] = np.where(np.isnan(curve[row]), curve[row + 1], curve[row])
    empty = int(np.isnan(curve).any(0).sum())
    enough = empty < curve.shape[1] if lacking else empty == 0
    remedy = "choose a metric that is defined in every replicate"
    checks.require(enough, f"replicates without {metric}", empty, "0", remedy)
    return curve


def collapses(good: np.ndarray) -> np.ndarray:
    """Whether each replicate collapses, bool `[R]`, from a curve `[U, R]` that should rise."""
    start, peak, end = good[0], good.max(0), ending(good)
    # Of the replicate alone, and without its end: the deeper a fall, the smaller the gain would seem.
    size = np.maximum(np.abs(start), np.abs(peak))
    gained, sank = peak - start > GAIN * size, end < start - 0.5 * size
    return np.asarray((end < 0.5 * (start + peak)) & (gained | sank) & (size > 0.0))


def trailing(values: np.ndarray, width: int = WINDOW) -> np.ndarray:
    """Trailing mean of the last `width` values, `[U, R]`, or of fewer at the start; missing values are ignored."""
    known = np.isfinite(values)
    filled = np.where(known, values, 0.0)
    total, count = np.zeros(values.shape), np.zeros(values.shape)
    # Not a difference of running sums: one huge number would leave its rounding in all later means.
    for shift in range(min(width, len(values))):
        total[shift:] += filled[: len(values) - shift]
        count[shift:] += known[: len(values) - shift]
    return np.where(count > 0, total / np.maximum(count, 1.0), np.nan)


def learned_at(mean: np.ndarray, start: float, best: float) -> np.ndarray:
    """First update at which a trailing mean `[U, R]` has gained half of the way to the `best`, `[R]` (-1: never)."""
    above = mean >= start + 0.5 * (best - start)
    return np.where(above.any(axis=0), above.argmax(axis=0), -1)


def lows(mean: np.ndarray, start: float, best: float) -> tuple[np.ndarray, np.ndarray]:
    """When each run has learned, `[R]`, and where its trailing mean `[U, R]` is then below half of its largest gain."""
    learned, peak = learned_at(mean, start, best), np.fmax.accumulate(mean, axis=0)
    behind = (np.arange(len(mean))[:, None] > learned) & (learned >= 0)
    return learned, (mean < start + 0.5 * (peak - start)) & behind


def ending(curve: np.ndarray) -> np.ndarray:
    """Mean of a curve over the last tenth of its recorded updates, `[R]`."""
    return np.asarray(curve[-max(1, round(LAST * len(curve))) :].mean(0))
