"""Timelines of realizations after a warm-up: heads, rates, means, their errors, and the limits of trials."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from asyncsim import systems
from asyncsim.base import laws, uncertainty
from asyncsim.base.records import Estimate, Point, Timeline
from asyncsim.claims._trial import Plant, overriding, units_for
from asyncsim.systems._system import System

_ROUNDING = 1e-9
"""Relative rounding of a mean over thousands of differences of times."""
_FEWEST = 16
"""Realizations at least, for a reliable error estimate."""
_RARE = 1e-6
"""Share of samples that is too long for a record's margin; they count with what they had at its end."""
_SETTINGS = ("places", *(each.name for each in fields(System)))


def realizations_for(
    spread: float, effect: float, tolerance: float, comparisons: int, kind: str = "expectation"
) -> int:
    """Number of realizations that detect the effect despite a tolerance, which a verdict counts twice."""
    net_effect = max(effect - 2.0 * tolerance, effect / 4.0)
    return max(_FEWEST, units_for(spread, net_effect, comparisons, kind))


def timelines(system: Any, batches: int, samples: int, realizations: int, seed: int) -> Iterator[Timeline]:
    """Timelines of `realizations` realizations, one after the other."""
    return (system.timeline(batches, samples, seed=seed, realization=m) for m in range(realizations))


def seconds_or_law(name: str, value: Any) -> Any:
    """Seconds as a number, or the distribution given as text."""
    return laws.as_law(name, value) if isinstance(value, str) else float(value)


def engine(point: Point, **settings: Any) -> System:
    """System with the point's settings and "places" slots of one unit of work per second; `settings` override."""
    given = {name: point[name] for name in _SETTINGS if name in point} | settings
    rates, train_time = (1.0,) * given.pop("places"), seconds_or_law("train_time", given.pop("train_time"))
    return System("places", {}, laws.as_law("length", given.pop("length")), rates, train_time=train_time, **given)


def synchronous(point: Point, **settings: Any) -> System:
    """Synchronous system with the claim point's work, training and synchronization times."""
    length, train_time = laws.as_law("length", point["length"]), seconds_or_law("train_time", point["train_time"])
    times: dict[str, Any] = {"length": length, "train_time": train_time, "sync_time": float(point["sync_time"])}
    return systems.synchronous(point["groups_per_batch"], **times).replace(**settings)


def publishes_for(out: int, groups: int) -> int:
    """Number of publishes of `groups` groups such that the warm-up, one tenth, renews all groups ten times."""
    return max(200, math.ceil(6_000 / groups), math.ceil(100 * out / groups))


def staggered(system: System, samples: int) -> System:
    """The system with slots that start one after the other, since constant work times would stay synchronized."""
    seconds, count = system.length.expected_max(samples), len(system.rates)
    return system.replace(offsets=tuple(seconds * p / count for p in range(count)))


def stationary_heads(
    system: Any, batches: int, warm_up: int, realizations: int, seed: int, samples_per_group: int = 1
) -> np.ndarray:
    """Head staleness of every group that is trained after the warm-up, `[M, groups]`."""
    stalenesses = system.staleness(batches, realizations, seed, samples_per_group)
    return np.asarray(stalenesses[:, warm_up:].reshape(realizations, -1))


def mean_over_realizations(values: np.ndarray) -> Estimate:
    """Mean of `[M, ...]` with its standard error across realizations; exact if all are equal."""
    estimate = uncertainty.between(values, np.arange(len(values)), random=True)
    return estimate._replace(tolerance=1e-12 * max(1.0, abs(estimate.value)))


def law_of(heads: np.ndarray, cells: int) -> dict[str, Estimate]:
    """Fraction of head stalenesses `[M, ...]` at each value 0 .. cells - 1, and the fraction above."""
    shares = {f"p[{k}]": mean_over_realizations((heads == k).astype(float)) for k in range(cells)}
    return shares | {"tail": mean_over_realizations((heads >= cells).astype(float))}


def interval(record: Timeline, warm: int) -> tuple[int, float]:
    """Number of batches published after the first `warm` publishes, and the seconds between their installs."""
    installs = record.publishes["t_install"]
    count = len(record.batches["batch"]) // len(installs) * (len(installs) - warm)
    return count, float(installs[-1] - installs[warm - 1])


def groups_per_second(
    system: System, batches: int, samples: int, warm: int, realizations: int, seed: int, tolerance: float = 0.0
) -> dict[str, Estimate]:
    """Groups trained per second after the warm-up, over all realizations; `tolerance` is relative."""
    intervals = [interval(record, warm) for record in timelines(system, batches, samples, realizations, seed)]
    counts, seconds = np.array(intervals, dtype=np.float64).T
    groups = system.groups_per_batch * counts
    rate = uncertainty.ratio(groups, seconds, np.arange(realizations), random=True)
    return {"groups_per_second": _allowed(rate, tolerance)}


def _allowed(estimate: Estimate, tolerance: float) -> Estimate:
    """The estimate with a relative systematic tolerance, plus rounding."""
    return estimate._replace(tolerance=(tolerance + _ROUNDING) * abs(estimate.value))


def means(
    records: Iterable[Timeline], numbers: Callable[[Timeline], Mapping[str, float]], tolerance: float = 0.0
) -> dict[str, Estimate]:
    """Means of each timeline's `numbers` over realizations, by name."""
    rows = [numbers(record) for record in records]
    return {name: average([row[name] for row in rows], tolerance) for name in rows[0]}


def average(rows: Sequence[float], tolerance: float = 0.0) -> Estimate:
    """Mean of one number per realization, and its standard error across realizations."""
    return _allowed(uncertainty.between(np.array(rows), np.arange(len(rows)), random=True), tolerance)


def per_sample(values: Sequence[np.ndarray], weights: Sequence[np.ndarray] | None = None) -> Estimate:
    """Weighted mean over all samples of all realizations, with its standard error across realizations."""
    weights = [np.ones(len(v)) for v in values] if weights is None else weights
    tops = np.array([float(v @ w) for v, w in zip(values, weights, strict=True)])
    return uncertainty.ratio(tops, np.array([w.sum() for w in weights]), np.arange(len(tops)), random=True)


def overproduced(point: Point) -> str | None:
    """Return why a generator is too fast for a reasonable run, because nearly all its output is dropped; else None."""
    train, work = (laws.as_law(name, point[name]).mean() for name in ("train_time", "length"))
    most = 40.0 * point["groups_per_batch"] * work / point["places"]
    return f"train_time of at most {most:.3g} seconds; shorten it" if train > most else None


def _lengths_of_warm_up(point: Point) -> float:
    """Warm-up in mean lengths after which samples that began together are spread over one period."""
    law = laws.as_law("length", point["length"])
    shape = law.parameters[-1]
    spread = {"gamma": shape**-0.5, "lognormal": math.sqrt(math.expm1(min(shape, 20.0) ** 2))}.get(law.kind, 1.0)
    return max(20.0, (point["period"] / law.mean() / spread) ** 2)


def crowded(point: Point) -> str | None:
    """Return why a run of `completions` would be too long; else None."""
    lengths, places = _lengths_of_warm_up(point), point["places"]
    if places > 4096:
        return f"at most 4096 places, not {places}; take fewer"
    remedy = "take more varied lengths, or a shorter period"
    return f"a warm-up of at most 2000 mean lengths, not {lengths:.3g}; {remedy}" if lengths > 2000.0 else None


def completions(point: Point, window: float, realization: int, seed: int, plant: Plant) -> list[np.ndarray]:
    """Installs seen by heads, mean installs seen by tokens, and works, of samples started in a `window` after warm-up.

    Places start again at once, the trainer is under a clock, the buffer overflows. Installs come with the clock, so
    that a part of a period would count some phases twice: the window is lengthened to whole periods.
    """
    period, capacity = point["period"], 2 * point["groups_per_batch"]
    system = engine(point, train_time=period, capacity=capacity, overflow="drop_oldest", mode="keep")
    window = period * math.ceil(window / period)
    margin = system.length.mean()
    while float(system.length.survival(margin)) > _RARE:
        margin *= 1.25
    begin = _lengths_of_warm_up(point) * system.length.mean() + 4.0 * period
    batches = int((begin + window + margin) / period) + 2
    state = plant(system).simulate(batches, 1, realization, seed)
    sample = state.sample[: state.run.admitted]
    sample = sample[(sample.start >= begin) & (sample.start < begin + window)]
    finished = sample.v_end >= 0
    end = np.where(finished, sample.v_end, state.run.installed)
    head = (end - sample.v_start).astype(float)
    tokens = np.where(finished, end - sample.versions / sample.work, head / 2.0)
    return [head, tokens, sample.work]


def stamped(table: str, column: str, stamp: Callable[[Timeline], np.ndarray]) -> Plant:
    """Plant that replaces a column of a timeline's "samples" or "groups" by the values that `stamp` returns."""

    def timeline(system: Any, *arguments: Any, **options: Any) -> Timeline:
        record = system.timeline(*arguments, **options)
        getattr(record, table)[column] = stamp(record)
        return record

    return overriding(timeline=timeline)


late_stamp = stamped(
    "samples",
    "v_start",
    lambda record: np.where(record.samples["v_ready"] < 0, record.samples["v_start"], record.samples["v_ready"]),
)
"""Samples are stamped with the version current at their end instead of their start."""


def ticket_lost(system: Any) -> Any:
    """Plant that loses one of the system's permits, as a defect."""
    return system.replace(tickets=system.tickets - 1)


def slow_installs(system: System) -> System:
    """Plant in which a weight install takes a tenth of a publish period, and the trainer waits for it."""
    return system.replace(sync_time=0.1 * system.mean_train_time(1), generator_pauses=False)
