"""Summary of a run of the event model: staleness, losses, lengths, throughput, utilization."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from asyncsim.base import feeds
from asyncsim.systems._settings import Settings
from asyncsim.systems._state import State


def warm_up(system: Settings, batches: int) -> int:
    """Batches that are left out: 2 ceil(K / M), K the tickets; where there are none places, capacity and packed groups.

    The groups admitted on version 0 age one batch after the other. Of a short run half is left out.
    """
    return min(ramp(system), batches // 2)


def ramp(system: Settings) -> int:
    """2 ceil(K / M) batches: groups that start on version 0, or while those are trained, are trained by then."""
    out = system.tickets
    if out is None:
        # A queue that is longer than what is in flight need not fill up.
        out = len(system.rates) + min(system.capacity or 0, len(system.rates))
        out += system.prefetch * system.groups_per_batch
    return 2 * math.ceil(out / (system.groups_per_batch * system.batches_per_publish))


def summary(system: Settings, state: State) -> dict[str, Any]:
    """Numbers of one realization, of what happened after the warm-up.

    `staleness`: mean, std, max and pmf of the head staleness of trained groups in versions; `token_staleness`, mean
    over tokens; `newest`, mean over samples of that of the last token; `in_flight` and `in_queue`, the parts of the
    mean until the group's generation is over and after that; `dropped_fraction` of the groups that were dropped or
    trained, `rejected_fraction` of all that left; `wasted_token_fraction` in [0, 1], work thrown away over work thrown
    away or trained for the first time. Work counts when it is thrown away or trained after the warm-up, whenever it was
    written. `mean_length_generated` is of admitted samples, since finished ones would leave out what is cut in flight;
    beside it `mean_length_trained`. `throughput` is in trained groups a second, `seconds_per_update` with the
    recommended epochs. Utilization is that of the trainer, and of generators: the share of slots or sample permits that
    write, or else of generator slots with a group. `outstanding` counts groups at an install, `publish_lag` versions
    when batches start to train. `steady`: whether the warm-up that the system needs fits into the run.
    """
    settings, run, sums = state.settings, state.run, state.sums
    # Average staleness over trained groups.
    groups = float(sums.groups)
    cells = state.histogram[: int(np.flatnonzero(state.histogram)[-1]) + 1]
    mean = sums.staleness / groups
    # Count seconds, batches and losses.
    seconds = float(sums.seconds)
    batches = int(run.finished - settings.warm_up)
    lost = float(sums.dropped_age + sums.dropped_overflow)
    # Choose the capacity that limits generators.
    limits = [system.servers * system.slots] if system.slots is not None else []
    limits += [system.permits] if system.permits is not None else []
    capacity, busy = (min(limits), sums.active) if limits else (len(system.rates), sums.running)
    return {
        "staleness": {
            "mean": float(mean),
            "std": float(np.sqrt(max(0.0, sums.squares / groups - mean**2))),
            "max": len(cells) - 1,
            "pmf": (cells / cells.sum()).tolist(),
        },
        # Rounding of a sum of versions may fall below what it stands for, never below 0.
        "token_staleness": max(0.0, _ratio(sums.token_staleness, sums.tokens)),
        "newest": _ratio(sums.newest, sums.trained_samples),
        "in_flight": float(sums.staleness_in_flight / groups),
        "in_queue": float((sums.staleness - sums.staleness_in_flight) / groups),
        "dropped_fraction": _ratio(lost, lost + groups),
        "rejected_fraction": _ratio(sums.rejected, sums.rejected + lost + groups),
        "wasted_token_fraction": _ratio(sums.wasted_work, sums.wasted_work + sums.trained_work),
        "mean_length_generated": _ratio(sums.begun_work, sums.begun),
        "mean_length_trained": _ratio(sums.tokens, sums.trained_samples),
        "throughput": _ratio(batches * system.groups_per_batch, seconds),
        "seconds_per_update": seconds / (batches * feeds.updates_of(system)),
        "trainer_utilization": _ratio(sums.busy, seconds),
        "generator_utilization": _ratio(busy, capacity * seconds),
        "outstanding": _ratio(sums.outstanding_at_installs, sums.installs),
        "publish_lag": float(sums.publish_lag / groups),
        "steady": bool(settings.warm_up >= ramp(system)),
        "ramp_batches": ramp(system),
        "warm_up_batches": int(settings.warm_up),
        "seconds": float(run.now),
    }


def _ratio(part: float, whole: float) -> float:
    """part / whole, 0 where there is nothing."""
    return float(part / whole) if whole > 0 else 0.0
