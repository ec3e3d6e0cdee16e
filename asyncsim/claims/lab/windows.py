"""Timelines of realizations behind a warm-up: heads, rates, means, their errors, and the limits of trials."""

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
    """Realizations that see the effect beside a tolerance, which a verdict counts twice.

    `spread`: the relative standard deviation of one realization's number, at most, at the points of a claim; measured
    and rounded up.
    """
    net_effect = max(effect - 2.0 * tolerance, effect / 4.0)
    return max(_FEWEST, units_for(spread, net_effect, comparisons, kind))


def spread_of(point: Point, spread: float) -> float:
    """The relative standard deviation of one realization, 0 where neither works nor training vary."""
    texts = [str(point[name]) for name in ("length", "train_time")]
    return spread if any(":" in text and not text.startswith("constant") for text in texts) else 0.0


def timelines(system: Any, batches: int, samples: int, realizations: int, seed: int) -> Iterator[Timeline]:
    """The records of so many realizations, one after the other."""
    return (system.timeline(batches, samples, seed=seed, realization=m) for m in range(realizations))


def seconds_or_law(name: str, value: Any) -> Any:
    """Seconds as a number, or the law that a text names."""
    return laws.as_law(name, value) if isinstance(value, str) else float(value)


def engine(point: Point, **settings: Any) -> System:
    """The system of a point's settings, with "places" that write one unit a second; `settings` beside or in place."""
    given = {name: point[name] for name in _SETTINGS if name in point} | settings
    rates, train_time = (1.0,) * given.pop("places"), seconds_or_law("train_time", given.pop("train_time"))
    return System("places", {}, laws.as_law("length", given.pop("length")), rates, train_time=train_time, **given)


def synchronous(point: Point, **settings: Any) -> System:
    """A synchronous system of the point's work, training and synchronization."""
    return systems.synchronous(
        point["groups_per_batch"],
        length=laws.as_law("length", point["length"]),
        train_time=seconds_or_law("train_time", point["train_time"]),
        sync_time=float(point["sync_time"]),
    ).replace(**settings)


def publishes_for(out: int, groups: int) -> int:
    """Publishes of so many groups in a run whose warm-up, its first tenth, renews all groups that are out ten times."""
    return max(200, math.ceil(6_000 / groups), math.ceil(100 * out / groups))


def staggered(system: System, samples: int) -> System:
    """The system with places that open one after the other: works that do not vary would stay in step for ever."""
    seconds, count = system.length.expected_max(samples), len(system.rates)
    return system.replace(offsets=tuple(seconds * p / count for p in range(count)))


def stationary_heads(
    system: Any, batches: int, warm_up: int, realizations: int, seed: int, samples_per_group: int = 1
) -> np.ndarray:
    """Head staleness of every group trained after the warm-up, `[M, groups]`."""
    stalenesses = system.staleness(batches, realizations, seed, samples_per_group)
    return np.asarray(stalenesses[:, warm_up:].reshape(realizations, -1))


def mean_over_realizations(values: np.ndarray) -> Estimate:
    """Mean of numbers `[M, ...]` with its error between realizations; exact where all are equal."""
    estimate = uncertainty.between(values, np.arange(len(values)), random=True)
    return estimate._replace(tolerance=1e-12 * max(1.0, abs(estimate.value)))


def law_of(heads: np.ndarray, cells: int) -> dict[str, Estimate]:
    """Shares of the values 0 .. cells - 1 among heads `[M, ...]`, and what is left."""
    shares = {f"p[{k}]": mean_over_realizations((heads == k).astype(float)) for k in range(cells)}
    return shares | {"tail": mean_over_realizations((heads >= cells).astype(float))}


def interval(record: Timeline, warm: int) -> tuple[int, float]:
    """Batches that were published behind the first `warm` publishes, and the seconds between their installs."""
    installs = record.publishes["t_install"]
    count = len(record.batches["batch"]) // len(installs) * (len(installs) - warm)
    return count, float(installs[-1] - installs[warm - 1])


def groups_per_second(
    system: System, batches: int, samples: int, warm: int, realizations: int, seed: int, tolerance: float = 0.0
) -> dict[str, Estimate]:
    """Groups trained a second behind the warm-up, over all realizations; `tolerance` is a share of it."""
    intervals = [interval(record, warm) for record in timelines(system, batches, samples, realizations, seed)]
    counts, seconds = np.array(intervals, dtype=np.float64).T
    groups = system.groups_per_batch * counts
    rate = uncertainty.ratio(groups, seconds, np.arange(realizations), random=True)
    return {"groups_per_second": _allowed(rate, tolerance)}


def _allowed(estimate: Estimate, tolerance: float) -> Estimate:
    """The estimate with a systematic allowance of that share of it, and with rounding."""
    return estimate._replace(tolerance=(tolerance + _ROUNDING) * abs(estimate.value))


def means(
    records: Iterable[Timeline], numbers: Callable[[Timeline], Mapping[str, float]], tolerance: float = 0.0
) -> dict[str, Estimate]:
    """Means over realizations of the `numbers` of each record, by name."""
    rows = [numbers(record) for record in records]
    return {name: average([row[name] for row in rows], tolerance) for name in rows[0]}


def average(rows: Sequence[float], tolerance: float = 0.0) -> Estimate:
    """Mean of one number for each realization, with its error between them."""
    return _allowed(uncertainty.between(np.array(rows), np.arange(len(rows)), random=True), tolerance)


def per_sample(values: Sequence[np.ndarray], weights: Sequence[np.ndarray] | None = None) -> Estimate:
    """Mean over all samples of all realizations, each counted by its weight, with its error between realizations."""
    weights = [np.ones(len(v)) for v in values] if weights is None else weights
    tops = np.array([float(v @ w) for v, w in zip(values, weights, strict=True)])
    return uncertainty.ratio(tops, np.array([w.sum() for w in weights]), np.arange(len(tops)), random=True)


def overproduced(point: Point) -> str | None:
    """Why a generator is too fast for a run of reasonable length: nearly all that it generates is dropped."""
    train, work = (laws.as_law(name, point[name]).mean() for name in ("train_time", "length"))
    most = 40.0 * point["groups_per_batch"] * work / point["places"]
    return f"train_time of at most {most:.3g} seconds; shorten it" if train > most else None


def _lengths_of_warm_up(point: Point) -> float:
    """Mean lengths until samples that began together start at any phase of a period: their spread is a period then."""
    law = laws.as_law("length", point["length"])
    shape = law.parameters[-1]
    spread = {"gamma": shape**-0.5, "lognormal": math.sqrt(math.expm1(min(shape, 20.0) ** 2))}.get(law.kind, 1.0)
    return max(20.0, (point["period"] / law.mean() / spread) ** 2)


def crowded(point: Point) -> str | None:
    """Why a run of `completions` would be too long; None where it is not."""
    lengths, places = _lengths_of_warm_up(point), point["places"]
    if places > 4096:
        return f"at most 4096 places, not {places}; take fewer"
    remedy = "take more varied lengths, or a shorter period"
    return f"a warm-up of at most 2000 mean lengths, not {lengths:.3g}; {remedy}" if lengths > 2000.0 else None


def completions(point: Point, window: float, realization: int, seed: int, plant: Plant) -> list[np.ndarray]:
    """Installs seen by heads, by tokens on average, and works, of what started behind a warm-up in `window` seconds.

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
    """A plant: what `stamp` makes of a record in place of a column of its "samples" or "groups"."""

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


def restarts_early(system: Any) -> Any:
    """A spare ticket and a moment of training: a worker reads the weights before its own update is in them."""
    return system.replace(tickets=system.tickets + 1, train_time=1e-9)


def ticket_lost(system: Any) -> Any:
    """One ticket fewer than the system should have."""
    return system.replace(tickets=system.tickets - 1)


def slow_installs(system: System) -> System:
    """Installs take a tenth of a period, for which the trainer waits."""
    return system.replace(sync_time=0.1 * system.mean_train_time(1), generator_pauses=False)
