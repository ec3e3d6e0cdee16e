"""From the kernel's arrays to the records that leave this folder: schedules, timelines, versions of tokens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from asyncsim import records
from asyncsim.systems import _kernel as kernel
from asyncsim.systems import _tokens

if TYPE_CHECKING:
    from asyncsim.systems._kernel import State
    from asyncsim.systems._system import System


FATES = np.array(["unfinished", "trained"])


class Trained(NamedTuple):
    """The trained samples of one realization: versions `[B, G, N, T or 1]`, ids and works `[B, G, N]`."""

    version: np.ndarray
    trajectory: np.ndarray
    work: np.ndarray


def trained(state: State, tokens: int) -> Trained:
    """What a finished state trained, by id inside every batch; one token column where no version differs."""
    code = _codes(state, _groups_of_batches(state))
    start, end = state.stamp[code, kernel.VERSION_START], state.stamp[code, kernel.VERSION_END]
    work = state.item[code, kernel.WORK]
    changes = state.setting[kernel.MODE] == kernel.KEEP and tokens > 1 and bool((end > start).any())
    version = _tokens.versions_of_tokens(state, code, work, tokens) if changes else start[..., None]
    return Trained(version, code, work)


def joined(system: System, parts: Iterable[Trained], header: dict[str, Any]) -> records.Schedule:
    """The schedule of several realizations."""
    parts = list(parts)
    tokens = max(part.version.shape[-1] for part in parts)
    version = np.stack([np.broadcast_to(p.version, (*p.version.shape[:-1], tokens)) for p in parts])
    return records.Schedule(
        version, np.stack([p.trajectory for p in parts]), system.batches_per_publish, system.updates_per_batch,
        system.random, np.stack([p.work for p in parts]), header,
    )


def head_staleness(state: State) -> np.ndarray:
    """Staleness of the earliest sample of every trained group, float64 `[B, G]`."""
    groups = _groups_of_batches(state)
    head = state.stamp[_codes(state, groups), kernel.VERSION_START].min(axis=-1)
    train_version = np.arange(len(groups)) // state.setting[kernel.BATCHES_PER_PUBLISH]
    return (train_version[:, None] - head).astype(np.float64)


def timeline(system: System, state: State, header: dict[str, Any]) -> records.Timeline:
    """The full record of a finished state; times in wall seconds, `clock_*` columns on the generation clock."""
    sync = system.sync_time
    versions = int(state.tally[kernel.VERSION])
    clock = float(state.clock[kernel.NOW])
    header = {**header, "clock": clock, "seconds": clock + sync * versions}
    batches = _batches(state, sync)
    samples = _samples(state, sync, batches)
    publishes = _publishes(state, sync)
    resources = _resources(state, samples, batches, publishes, header)
    return records.Timeline(samples, _groups(state, samples), batches, publishes, resources, header)


def _groups_of_batches(state: State) -> np.ndarray:
    """Group numbers [B, G] of every trained batch, ascending inside a batch."""
    taken = np.flatnonzero(state.group[: state.tally[kernel.ADMITTED], kernel.BATCH] >= 0)
    order = np.argsort(state.group[taken, kernel.BATCH], kind="stable")
    return taken[order].reshape(-1, state.setting[kernel.GROUPS])


def _codes(state: State, groups: np.ndarray) -> np.ndarray:
    samples = state.setting[kernel.SAMPLES]
    return groups[..., None] * samples + np.arange(samples)


def _wall(clock: np.ndarray, installed: np.ndarray, sync: float) -> np.ndarray:
    """Wall seconds of instants on the generation clock, each after so many synchronizations."""
    return clock + sync * installed if sync else clock


def _of_samples(column: np.ndarray, size: int) -> np.ndarray:
    return column if size == 1 else np.repeat(column, size)


def _over_groups(ufunc: np.ufunc, column: np.ndarray, size: int) -> np.ndarray:
    # NumPy reduces an axis of length one element by element.
    return column if size == 1 else ufunc.reduce(column.reshape(-1, size), axis=1)


def _samples(state: State, sync: float, batches: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    size, groups = int(state.setting[kernel.SAMPLES]), int(state.tally[kernel.ADMITTED])
    code, group = np.arange(groups * size), _of_samples(np.arange(groups), size)
    item, stamp = state.item[: groups * size], state.stamp[: groups * size]
    owner = state.group[:groups] if size == 1 else state.group[group]
    v_start, v_ready = stamp[:, kernel.VERSION_START], stamp[:, kernel.VERSION_END]
    clock_start, clock_end = item[:, kernel.START], item[:, kernel.END]
    t_end = _wall(clock_end, v_ready, sync)
    batch = owner[:, kernel.BATCH]
    # A group is ready with its slowest sample; NaN, a sample that is not finished, wins the maximum.
    t_ready = _of_samples(_over_groups(np.maximum, t_end, size), size)
    # Batch -1, the unfinished, picks the NaN at the end.
    t_train = np.append(batches["t_start"], np.nan)[batch]
    return {
        "sample": code, "group": group, "attempt": stamp[:, kernel.ATTEMPT], "place": owner[:, kernel.PLACE],
        "rate": state.rate[owner[:, kernel.PLACE]], "work": item[:, kernel.WORK], "wasted": item[:, kernel.WASTED],
        "t_submit": _wall(item[:, kernel.FIRST], owner[:, kernel.VERSION_ADMITTED], sync),
        "t_start": _wall(clock_start, v_start, sync), "t_end": t_end, "t_ready": t_ready, "t_pack": t_train,
        "t_train": t_train,
        "v_submit": owner[:, kernel.VERSION_ADMITTED], "v_start": v_start,
        "v_end": np.where(v_ready < 0, -1, v_start) if state.setting[kernel.MODE] == kernel.PIN else v_ready,
        "v_ready": v_ready, "batch": batch, "fate": FATES[(batch >= 0).astype(np.int8)],
        "clock_submit": item[:, kernel.FIRST], "clock_start": clock_start, "clock_end": clock_end,
    }


def _groups(state: State, samples: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    first = slice(None, None, int(state.setting[kernel.SAMPLES]))
    shared = ("group", "place", "t_submit", "t_ready", "v_submit", "batch", "fate")
    columns = {name: samples[name][first] for name in shared}
    head = _over_groups(np.minimum, samples["v_start"], int(state.setting[kernel.SAMPLES]))
    train_version = np.where(columns["batch"] >= 0, columns["batch"] // state.setting[kernel.BATCHES_PER_PUBLISH], -1)
    return {**columns, "v_start": head, "v_train": train_version}


def _batches(state: State, sync: float) -> dict[str, np.ndarray]:
    number = np.arange(state.tally[kernel.STARTED])
    version = number // state.setting[kernel.BATCHES_PER_PUBLISH]
    table = state.batch[: len(number)]
    return {
        "batch": number, "version": version,
        "t_start": table[:, kernel.TRAIN_FROM] + sync * version, "t_end": table[:, kernel.TRAIN_TO] + sync * version,
    }


def _publishes(state: State, sync: float) -> dict[str, np.ndarray]:
    version = np.arange(1, state.tally[kernel.VERSION] + 1)
    table, level = state.publish[: len(version)], state.level[: len(version)]
    in_flight, ready = level[:, kernel.LEVEL_IN_FLIGHT], level[:, kernel.LEVEL_READY]
    return {
        "version": version, "t_snapshot": table[:, kernel.SNAPSHOT] + sync * (version - 1),
        "t_install": table[:, kernel.INSTALLED] + sync * version, "in_flight": in_flight, "ready": ready,
        "outstanding": in_flight + ready, "clock": table[:, kernel.INSTALLED],
    }


def _resources(
    state: State, samples: dict[str, np.ndarray], batches: dict[str, np.ndarray], publishes: dict[str, np.ndarray],
    header: dict[str, Any],
) -> dict[str, np.ndarray]:
    """Seconds that every place and the trainer are busy, idle and syncing; a trainer that awaits a drain is syncing."""
    first = slice(None, None, int(state.setting[kernel.SAMPLES]))
    clock, seconds = header["clock"], header["seconds"]
    ends = _over_groups(np.maximum, samples["clock_end"], int(state.setting[kernel.SAMPLES]))
    held = np.where(np.isnan(ends), clock, ends) - samples["clock_submit"][first]
    places = np.bincount(samples["place"][first], weights=held, minlength=state.rate.size)
    trainer = float((batches["t_end"] - batches["t_start"]).sum())
    waiting = float((publishes["t_install"] - publishes["t_snapshot"]).sum())
    busy = np.append(places, trainer)
    syncing = np.append(np.full(places.size, seconds - clock), waiting)
    return {
        "resource": np.array([f"place {n}" for n in range(places.size)] + ["trainer"]),
        "busy": busy, "idle": seconds - busy - syncing, "syncing": syncing,
    }
