"""From the kernel's arrays to the records that leave this folder: schedules, timelines, heads of groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from asyncsim import records
from asyncsim.systems import _state as k
from asyncsim.systems import _tokens

if TYPE_CHECKING:
    from asyncsim.systems._state import State
    from asyncsim.systems._system import System


FATES = np.array(k.FATES)


class Trained(NamedTuple):
    """Trained samples of one realization: versions `[B, G, N, T or 1]`, ids and works `[B, G, N]`, seconds `[B]`."""

    version: np.ndarray
    trajectory: np.ndarray
    work: np.ndarray
    seconds: np.ndarray


def trained(state: State, tokens: int) -> Trained:
    """What a finished state trained, by id inside every batch; one token column where no version differs."""
    code = codes_of(state, groups_of_batches(state))
    start, end = state.stamp[code, k.V_START], state.stamp[code, k.V_END]
    work = state.item[code, k.WORK]
    moving = state.n[k.MODE] in (k.KEEP, k.REPREFILL)
    changes = moving and tokens > 1 and bool((end > start).any())
    version = _tokens.versions_of_tokens(state, code, work, tokens) if changes else start[..., None]
    return Trained(version, code, work, state.batch[: len(code), k.TRAIN_FROM].copy())


def joined(system: System, parts: Iterable[Trained], header: dict[str, Any]) -> records.Schedule:
    """The schedule of several realizations."""
    parts = list(parts)
    tokens = max(part.version.shape[-1] for part in parts)
    version = np.stack([np.broadcast_to(p.version, (*p.version.shape[:-1], tokens)) for p in parts])
    return records.Schedule(
        version, np.stack([p.trajectory for p in parts]), system.batches_per_publish, system.updates_per_batch,
        system.random, np.stack([p.work for p in parts]), header, np.stack([p.seconds for p in parts]),
    )


def groups_of_batches(state: State) -> np.ndarray:
    """Group numbers [B, G] of every trained batch, ascending inside a batch."""
    return np.sort(state.taken[: state.n[k.STARTED]].astype(np.int64), axis=1)


def codes_of(state: State, groups: np.ndarray) -> np.ndarray:
    """Rows of the samples of groups, with one axis more."""
    samples = state.n[k.SAMPLES]
    return groups[..., None] * samples + np.arange(samples)


def head_staleness(state: State) -> np.ndarray:
    """Staleness of the head of every trained group, float64 `[B, G]`."""
    head = state.group[groups_of_batches(state), k.V_HEAD]
    version = state.batch[: len(head), k.BATCH_VERSION]
    return version[:, None] - head


def timeline(system: System, state: State, header: dict[str, Any]) -> records.Timeline:
    """The full record of a finished state, times in seconds."""
    seconds = float(state.x[k.NOW])
    header = {**header, "seconds": seconds}
    used = groups_of_batches(state)
    batches, publishes, groups = _batches(state), _publishes(state), _groups(state, used)
    samples = _samples(state, groups, batches)
    uses = {"batch": np.repeat(batches["batch"], used.shape[1]), "group": used.reshape(-1)}
    resources = _resources(system, state, groups, batches, publishes, seconds)
    return records.Timeline(samples, groups, batches, publishes, resources, header, uses, _stretches(state))


def _samples(
    state: State, groups: dict[str, np.ndarray], batches: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    size, count = int(state.n[k.SAMPLES]), int(state.n[k.ADMITTED])
    code = np.arange(count * size)
    item, stamp = state.item[: code.size], state.stamp[: code.size]

    def shared(name: str) -> np.ndarray:
        return groups[name] if size == 1 else np.repeat(groups[name], size)

    place, batch, v_start, v_ready = shared("place"), shared("batch"), stamp[:, k.V_START], stamp[:, k.V_END]
    rate, server = state.rate[place], place % int(state.n[k.SERVERS])
    # Batch -1, what was not trained, picks the NaN at the end.
    pick, train = np.append(batches["t_pack"], np.nan)[batch], np.append(batches["t_start"], np.nan)[batch]
    return {
        "sample": code, "group": shared("group"), "attempt": stamp[:, k.ATTEMPT], "place": place, "server": server,
        "rate": rate, "work": item[:, k.WORK], "done": _done(state, item, stamp, server, rate),
        "wasted": item[:, k.WASTED], "t_submit": shared("t_submit"), "t_start": item[:, k.START],
        "t_end": item[:, k.END], "t_scored": item[:, k.SCORED], "t_ready": shared("t_ready"), "t_pack": pick,
        "t_train": train, "v_submit": shared("v_submit"), "v_start": v_start,
        "v_end": np.where(v_ready < 0, -1, v_start) if state.n[k.MODE] == k.PIN else v_ready, "v_ready": v_ready,
        "batch": batch, "fate": shared("fate"), "clock": item[:, k.BASE],
    }


def _done(state: State, item: np.ndarray, stamp: np.ndarray, server: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Work of every sample that is written at the end of the record."""
    engine, now = state.engine, state.x[k.NOW]
    clock = engine[:, k.W_ZERO] + (now - engine[:, k.T_ZERO]) * engine[:, k.SPEED]
    done = item[:, k.DONE].copy()
    writing = np.flatnonzero(stamp[:, k.PHASE] == k.WRITING)
    more = np.maximum(clock[server[writing]] - item[writing, k.BASE], 0.0) * rate[writing]
    done[writing] = np.minimum(done[writing] + more, item[writing, k.WORK])
    return done


def _groups(state: State, used: np.ndarray) -> dict[str, np.ndarray]:
    count = int(state.n[k.ADMITTED])
    group, moment = state.group[:count], state.moment[:count]
    columns = {
        "place": k.PLACE, "prompt": k.PROMPT, "target": k.TARGET, "v_submit": k.V_SUBMIT, "v_start": k.V_HEAD,
        "v_done": k.V_DONE, "v_left": k.V_LEFT, "v_train": k.V_TRAINED, "entry": k.ENTRY, "batch": k.BATCH,
    }
    times = {
        "t_submit": k.T_SUBMIT, "t_done": k.T_DONE, "t_ready": k.T_READY, "t_left": k.T_LEFT, "t_free": k.T_PLACE,
        "factor": k.FACTOR,
    }
    uses = np.bincount(used.reshape(-1), minlength=count)
    return {
        "group": np.arange(count), "uses": uses, **{name: group[:, column] for name, column in columns.items()},
        **{name: moment[:, column] for name, column in times.items()}, "fate": FATES[group[:, k.FATE]],
    }


def _batches(state: State) -> dict[str, np.ndarray]:
    table = state.batch[: state.n[k.STARTED]]
    return {
        "batch": np.arange(len(table)), "version": table[:, k.BATCH_VERSION].astype(np.int64),
        "installed": table[:, k.BATCH_INSTALLED].astype(np.int64), "t_pack": table[:, k.T_PACK],
        "t_start": table[:, k.TRAIN_FROM], "t_end": table[:, k.TRAIN_TO],
    }


def _publishes(state: State) -> dict[str, np.ndarray]:
    count = int(state.n[k.INSTALLED])
    table, level = state.publish[:count], state.level[:count]
    names = ("in_flight", "scoring", "blocked", "ready", "packed", "outstanding", "unstarted")
    clocks = {f"clock_{s}": state.marks[:count, s] for s in range(state.marks.shape[1])}
    return {
        "version": np.arange(1, count + 1), "t_snapshot": table[:, k.SNAPSHOT], "t_install": table[:, k.INSTALL],
        **{name: level[:, column] for column, name in enumerate(names)}, **clocks,
    }


def _stretches(state: State) -> dict[str, np.ndarray]:
    count = int(state.n[k.SEGMENTS])
    return {
        "sample": state.segmented[:count, 0], "version": state.segmented[:count, 1],
        "clock": state.segment[:count, 0], "done": state.segment[:count, 1],
    }


def _resources(
    system: System, state: State, groups: dict[str, np.ndarray], batches: dict[str, np.ndarray],
    publishes: dict[str, np.ndarray], seconds: float,
) -> dict[str, np.ndarray]:
    """Seconds that every place and the trainer are busy, blocked, idle and syncing.

    A place is busy with a group's generation, blocked by a finished group that keeps it, syncing while generators stand
    still for an install. A trainer that awaits a publish is syncing.
    """
    size = state.rate.size
    done = _before(groups["t_done"], groups["t_left"], seconds)
    free = np.maximum(_before(groups["t_free"], groups["t_free"], seconds), done)
    ends = publishes["t_install"]
    pauses = system.sync_time > 0.0 and system.generator_pauses

    def paused(time: np.ndarray) -> np.ndarray:
        """Seconds for which generators stood still before each time."""
        if not (pauses and ends.size):
            return np.zeros_like(time)
        edges = np.sort(np.concatenate([ends - system.sync_time, ends]))
        return np.interp(time, edges, np.repeat(np.arange(ends.size + 1) * system.sync_time, 2)[1:-1])

    def summed(start: np.ndarray, end: np.ndarray) -> np.ndarray:
        # Seconds inside a pause are equal but for rounding.
        running = np.maximum((end - paused(end)) - (start - paused(start)), 0.0)
        return np.bincount(groups["place"], weights=running, minlength=size)

    stopped = float(paused(np.array([seconds]))[0])
    trainer = float(np.nansum(batches["t_end"] - batches["t_start"]))
    waiting = float((ends - publishes["t_snapshot"]).sum()) if system.trainer_waits else 0.0
    busy = np.append(summed(groups["t_submit"], done), trainer)
    blocked = np.append(summed(done, free), 0.0)
    syncing = np.append(np.full(size, stopped), waiting)
    # What is left of a place that never rests is 0 but for the rounding of the sums.
    idle = np.maximum(seconds - busy - blocked - syncing, 0.0)
    return {
        "resource": np.array([f"place {p}" for p in range(size)] + ["trainer"]),
        "busy": busy, "blocked": blocked, "idle": idle, "syncing": syncing,
    }


def _before(time: np.ndarray, otherwise: np.ndarray, end: float) -> np.ndarray:
    """Times of what happened, or of what happened instead, or the end of the record."""
    known = np.where(np.isnan(time), otherwise, time)
    return np.where(np.isnan(known), end, known)
