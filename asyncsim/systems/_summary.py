"""Summary of a run of the event model: staleness, losses, lengths, throughput, utilization."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from asyncsim.base import calls, feeds, quantiles, uncertainty
from asyncsim.systems import _limits
from asyncsim.systems._settings import Settings
from asyncsim.systems._state import State


def warm_up(system: Settings, batches: int, samples: int) -> int:
    """Number of warm-up batches left out of statistics: `ramp`, but at most half of the run."""
    return min(ramp(system, samples), batches // 2)


def ramp(system: Settings, samples: int) -> int:
    """Warm-up of 2 ceil(K / P) batches of P groups for K permits, or for as many slots, buffered and packed groups.

    The groups admitted on version 0, or while those are trained, are trained by then. A buffer that generators fill
    slowly takes longer: twice its groups over those that a batch leaves there.
    """
    size, out, filled = system.groups_per_batch, system.tickets, 0
    if out is None:
        out = len(system.rates) + min(system.capacity or 0, len(system.rates)) + system.prefetch * size
        span = system.batches_per_publish
        room = min(system.capacity or 0, math.inf if system.max_age is None else (system.max_age + 1) * size * span)
        filled = math.ceil(2.0 * fill(system, room, samples))
    return max(2 * math.ceil(out / size), filled)


def fill(system: Settings, room: float, samples: int) -> float:
    """Batches until C groups wait: C / ((load - 1) P), or C^2 / 2 P at load 1; 0 at clearly lower loads."""
    size, span = system.groups_per_batch, system.batches_per_publish
    used = 0.0 if system.max_uses is None else 1.0 / system.max_uses
    excess = system.accept * _limits.generation(system, span, 1, samples, True)[0] / (size * span) - used
    return room / (max(excess, 2.0 / room) * size) if room and excess > -2.0 / room else 0.0


def tail(
    system: Any, batches: int, samples: int, count: Callable[[int, int], np.ndarray], realizations: int, most: int
) -> quantiles.Tail:
    """99th percentile k of staleness, the smallest with F(k) >= 0.99, with longer realizations until it is stable.

    F(k), the mean over realizations of the share <= k, has a t interval, since realizations are independent; that of
    the percentile has every k whose interval of F reaches 0.99 (Woodruff 1952). The rarest numbers come last, so short
    runs give too little. Lengths are doubled until the intervals of two of them, or one without a width, hold the value
    of the next; `count` leaves out first halves. Arguments: `count`, numbers of each staleness in so many batches of a
    realization; `most` samples of all together.
    """
    before, length = list[quantiles.Tail](), max(batches // 2, 2 * ramp(system, samples), 2)
    most = max(batches, most // (realizations * system.groups_per_batch * samples))
    while True:
        rows = [count(length, realization) for realization in range(realizations)]
        table = np.array([np.pad(row, (0, max(map(len, rows)) - len(row))) for row in rows])
        shares = np.cumsum(table, axis=1) / table.sum(axis=1, keepdims=True)
        found = [uncertainty.between(share) for share in shares.T] if realizations > 1 else []
        half = np.array([quantiles.critical(0.05, each.freedom) * each.error for each in found] or 0.0)
        value, low, high = (int(np.argmax(shares.mean(0) + way * half >= 0.99 * (1.0 - 1e-12))) for way in (0, 1, -1))
        same = [each.low <= value <= each.high for each in before[-2:]]
        stands = all(same) and (len(same) > 1 or (bool(same) and before[-1].low == before[-1].high))
        before.append(quantiles.Tail(value, low, high, length, stands))
        if stands:
            return before[-1]
        if 2 * length > most:
            # The interval says how far shorter realizations are from this.
            values = [each.value for each in before[-3:]]
            return before[-1]._replace(low=min(low, *values, high), high=max(low, *values, high))
        length *= 2


def summary(system: Settings, state: State) -> dict[str, Any]:
    """Statistics of one realization after the warm-up: staleness, lost groups, lengths, throughput and utilization.

    `staleness`: mean, std, p99, max and pmf of the head staleness of trained groups in versions; `token_staleness`,
    mean over tokens; `newest`, mean over samples of that of the last token; `in_flight` and `in_queue`, the parts of
    the mean until the group's generation is over and after that; `dropped_fraction` of the groups that were dropped or
    trained, `rejected_fraction` of all that left; `wasted_token_fraction` in [0, 1], work thrown away over work thrown
    away or trained for the first time. Work counts when it is thrown away or trained after the warm-up, whenever it was
    written. `mean_length_generated` is of admitted samples, since finished ones would leave out what is cut in flight;
    beside it `mean_length_trained`. `throughput` is in trained groups per second, `seconds_per_update` with the
    recommended epochs. `group_slots` and `sample_slots` count the slots that the settings name, see `_slots`.
    `trainer_utilization` and `generator_utilization` are shares of time, that of generators over all named slots for
    samples. `outstanding` counts groups at an install, `publish_lag` versions when batches start to train. `steady`:
    whether the warm-up that the system needs fits into the run.
    """
    settings, run, sums = state.settings, state.run, state.sums
    groups = float(sums.groups)
    cells = state.histogram[: int(np.flatnonzero(state.histogram)[-1]) + 1]
    mean = sums.staleness / groups
    seconds = float(sums.seconds)
    batches = int(run.finished - settings.warm_up)
    lost = float(sums.dropped_age + sums.dropped_overflow)
    slots = _slots(system, int(settings.samples), sums)
    start = ramp(system, int(settings.samples))
    return calls.Keyed(
        {
            "staleness": {
                "mean": float(mean),
                "std": float(np.sqrt(max(0.0, sums.squares / groups - mean**2))),
                "p99": int(np.searchsorted(np.cumsum(cells), 0.99 * cells.sum())),
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
            "generator_utilization": slots["sample_slots"]["busy"],
            **slots,
            "outstanding": _ratio(sums.outstanding_at_installs, sums.installs),
            "publish_lag": float(sums.publish_lag / groups),
            "steady": bool(settings.warm_up >= start),
            "ramp_batches": start,
            "warm_up_batches": int(settings.warm_up),
            "seconds": float(run.now),
        }
    )


def _slots(system: Settings, started: int, sums: Any) -> dict[str, Any]:
    """Slots by group and by sample: `named` by the settings, maximum `used`, and `busy` fraction of time.

    A generator slot is busy while its group is in generation, whatever its samples do; where sample permits admit
    groups there are none (None). Slots for samples, busy while they write, are those of the servers, else the sample
    permits, else one for every sample of a generator slot. Group permits may leave some of either unused.
    """
    groups, permits = len(system.rates), system.permits
    held = groups if system.tickets is None else min(groups, system.tickets)
    named = system.sample_slots(started)
    used = min(named, held * started, named if permits is None else permits)
    by_sample = {"named": named, "used": used, "busy": _ratio(sums.active, named * sums.seconds)}
    by_group = {"named": groups, "used": held, "busy": _ratio(sums.running, groups * sums.seconds)}
    return {"group_slots": by_group if permits is None else None, "sample_slots": by_sample}


def _ratio(part: float, whole: float) -> float:
    """part / whole, or 0 if whole is 0."""
    return float(part / whole) if whole > 0 else 0.0
