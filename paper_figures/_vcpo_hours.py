"""What the figure of hours reads from its rows, and what it predicts."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from asyncsim import claims
from asyncsim.base import uncertainty
from experiments import _vcpo_hours as racing
from experiments import vcpo_hours
from paper_figures import _script


def pick(rows: Any, quantity: str, **place: Any) -> Any:
    """Rows of a quantity at a place."""
    return _script.pick(rows, **{"quantity": quantity, "trainer": 1.0, **place})


def machine(sigma: float, train: float) -> dict[str, Any]:
    """A machine by its spread of lengths and its training time."""
    return {"sigma": sigma, "train": train}


def step_of(rows: Any, place: dict[str, Any]) -> float:
    """The step that an arm was given on the realizations that choose; NaN where it is an edge of the grid."""
    found = pick(rows, "chosen", **place)
    return float(found.value.iloc[0]) if len(found) else math.nan


def hours_of(rows: Any, place: dict[str, Any], step: float) -> np.ndarray:
    """Hours of the reported replicates at a step."""
    return pick(rows, "hours", step=step, **place).sort_values("replicate").value.to_numpy(dtype=float)


def gain(
    rows: Any, place: dict[str, Any], step: float | None = None, trainer: float = 1.0, draws: int = 1000
) -> tuple[float, ...] | None:
    """Ratio of median hours, synchronous at its chosen step over this arm at its own (or `step`), with its interval."""
    base = {**machine(place["sigma"], place["train"]), "staleness": 0, "method": "tis", "trainer": trainer}
    own, reference = (step_of(rows, place) if step is None else step), step_of(rows, base)
    return ratio_of(hours_of(rows, base, reference), hours_of(rows, place, own), draws)


def ratio_of(before: np.ndarray, after: np.ndarray, draws: int = 1000) -> tuple[float, ...] | None:
    """Ratio of median hours on the same realizations with its interval; None where too few arrive."""
    if not 0 < len(before) == len(after):
        return None
    return _ratio_of(before.tobytes(), after.tobytes(), draws)


@functools.lru_cache(maxsize=256)
def _ratio_of(before: bytes, after: bytes, draws: int) -> tuple[float, ...] | None:
    found = racing.speed_up(np.frombuffer(before), np.frombuffer(after), draws)
    return None if found is None else spread(found)


def spread(found: Any) -> tuple[float, ...]:
    """A ratio with its interval, from its logarithm with an error."""
    half = found.error * uncertainty.critical(0.05, found.freedom)
    return tuple(math.exp(found.value + sign * half) for sign in (0, -1, 1))


def throughput(rows: Any, sigma: float, train: float, staleness: int) -> tuple[float, ...] | None:
    """Ratio of seconds per update, synchronous over asynchronous, with its interval."""
    base = pick(rows, "step_seconds", staleness=0, **machine(sigma, train))
    own = pick(rows, "step_seconds", staleness=staleness, **machine(sigma, train))
    if base.empty or own.empty:
        return None
    one, two = base.iloc[0], own.iloc[0]
    ratio = one.value / two.value
    half = math.hypot((one.high - one.low) / one.value, (two.high - two.low) / two.value) / 2.0
    return ratio, ratio * math.exp(-half), ratio * math.exp(half)


@functools.lru_cache(maxsize=256)
def predicted(sigma: float, train: float) -> float:
    """Ratio of throughputs when nothing limits how far generation runs ahead; NaN outside the domain of the laws."""
    each = vcpo_hours.GROUPS * vcpo_hours.SAMPLES
    point: dict[str, Any] = {
        "groups_per_batch": each,
        "samples_per_group": 1,
        "length": f"lognormal:1.0:{sigma}" if sigma else 1.0,
        "train_time": train,
        "sync_time": 0.0,
    }
    loop = {"places": each, "batches_per_publish": 1, "generator_pauses": True, "capacity": 16 * each}
    free = claims.claim("systems/asynchronous-throughput")
    if free.domain(point | loop | {"overflow": "block"}) is not None:
        return math.nan
    rate = free.predict(point | loop | {"overflow": "block"})["groups_per_second"]
    return claims.claim("systems/synchronous-throughput").predict(point | {"rate": 1.0})["step_seconds"] * rate / each
