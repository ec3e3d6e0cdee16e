"""Timelines of independent realizations behind a warm-up: rates, means, their errors, and the limits of trials."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from asyncsim import systems
from asyncsim.base import laws, uncertainty
from asyncsim.base.records import Estimate, Point, Timeline
from asyncsim.claims._trial import replaced, units_for
from asyncsim.systems._system import System

_ROUNDING = 1e-9
"""Relative rounding of a mean over thousands of differences of times."""
_FEWEST = 16
"""Realizations at least, for a reliable error estimate."""
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
    return {"groups_per_second": allowed(rate, tolerance)}


def allowed(estimate: Estimate, tolerance: float = 0.0) -> Estimate:
    """The estimate with a systematic allowance of that share of it, and with rounding."""
    return estimate._replace(tolerance=(tolerance + _ROUNDING) * abs(estimate.value))


def means(
    records: Iterable[Timeline], numbers: Callable[[Timeline], Mapping[str, float]], tolerance: float = 0.0
) -> dict[str, Estimate]:
    """Means over realizations of the `numbers` of each record, by name."""
    rows = [numbers(record) for record in records]
    return {name: mean_of((row[name] for row in rows), tolerance) for name in rows[0]}


def mean_of(values: Iterable[float], tolerance: float = 0.0) -> Estimate:
    """Mean of one number for each realization, with its error between them."""
    rows = np.fromiter(values, dtype=np.float64)
    return allowed(uncertainty.between(rows, np.arange(len(rows)), random=True), tolerance)


def overproduced(point: Point) -> str | None:
    """Why a generator is too fast for a run of reasonable length: nearly all that it generates is dropped."""
    train, work = (laws.as_law(name, point[name]).mean() for name in ("train_time", "length"))
    most = 40.0 * point["groups_per_batch"] * work / point["places"]
    return f"train_time of at most {most:.3g} seconds; shorten it" if train > most else None


blocks = replaced(overflow="block")
"""A full buffer makes its generators wait."""
