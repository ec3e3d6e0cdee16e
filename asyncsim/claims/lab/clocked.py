"""Completions of an open loop whose trainer never waits, chosen by when they started."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from asyncsim.base import laws, uncertainty
from asyncsim.base.records import Estimate, Point
from asyncsim.claims._trial import Plant
from asyncsim.claims.lab.windows import engine
from asyncsim.systems._system import System

RARE = 1e-6
"""Share of samples that is too long for a record's margin; they count with what they had at its end."""


class Completions(NamedTuple):
    """Samples that started in a window: installs seen by their heads, by their tokens on average, and their work."""

    head: np.ndarray
    tokens: np.ndarray
    work: np.ndarray


def lengths_of_warm_up(point: Point) -> float:
    """Mean lengths until samples that began together start at any phase of a period: their spread is a period then."""
    law = laws.as_law("length", point["length"])
    shape = law.parameters[-1]
    spread = {"gamma": shape**-0.5, "lognormal": math.sqrt(math.expm1(min(shape, 20.0) ** 2))}.get(law.kind, 1.0)
    return max(20.0, (point["period"] / law.mean() / spread) ** 2)


def crowded(point: Point) -> str | None:
    """Why a run would be too long; None where it is not."""
    lengths, places = lengths_of_warm_up(point), point["places"]
    if places > 4096:
        return f"at most 4096 places, not {places}; take fewer"
    if lengths > 2000.0:
        return (
            f"a warm-up of at most 2000 mean lengths, not {lengths:.3g}; take more varied lengths, or a shorter period"
        )
    return None


def open_loop(point: Point) -> System:
    """Places that start again at once, a trainer under a clock, a buffer that overflows."""
    capacity = 2 * point["groups_per_batch"]
    return engine(point, train_time=point["period"], capacity=capacity, overflow="drop_oldest", mode="keep")


def slow_installs(system: System) -> System:
    """Installs take a tenth of a period, for which the trainer waits."""
    return system.replace(sync_time=0.1 * system.mean_train_time(1), generator_pauses=False)


def completions(point: Point, window: float, realization: int, seed: int, plant: Plant) -> Completions:
    """What started behind a warm-up in `window` seconds, or in so many more as are whole periods.

    Installs come with the clock, so that a part of a period would count some phases twice.
    """
    period, system = point["period"], open_loop(point)
    window = period * math.ceil(window / period)
    margin = system.length.mean()
    while float(system.length.survival(margin)) > RARE:
        margin *= 1.25
    begin = lengths_of_warm_up(point) * system.length.mean() + 4.0 * period
    batches = int((begin + window + margin) / period) + 2
    state = plant(system).simulate(batches, 1, realization, seed)
    sample = state.sample[: state.run.admitted]
    inside = (sample.start >= begin) & (sample.start < begin + window)
    sample = sample[inside]
    finished = sample.v_end >= 0
    end = np.where(finished, sample.v_end, state.run.installed)
    head = (end - sample.v_start).astype(float)
    tokens = np.where(finished, end - sample.versions / sample.work, head / 2.0)
    return Completions(head, tokens, sample.work)


def per_sample(values: Sequence[np.ndarray], weights: Sequence[np.ndarray] | None = None) -> Estimate:
    """Mean over all samples of all realizations, each counted by its weight, with its error between realizations."""
    weights = [np.ones(len(v)) for v in values] if weights is None else weights
    tops = np.array([float(v @ w) for v, w in zip(values, weights, strict=True)])
    return uncertainty.ratio(tops, np.array([w.sum() for w in weights]), np.arange(len(tops)), random=True)
