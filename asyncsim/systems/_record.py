"""From the kernel's arrays to the records that leave this folder: schedules, timelines, versions of single tokens."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import records
from asyncsim.base.columns import CANCELLED
from asyncsim.base.compiling import kept
from asyncsim.systems import _state as k
from asyncsim.systems._settings import Settings
from asyncsim.systems._state import State, Table

FATES = np.array((*k.FATES, CANCELLED))
"""Fates of groups, and the one that a sample may have alone."""
SAMPLES = """sample group attempt place server rate work done wasted t_submit t_start t_end t_scored t_ready t_pack
t_train v_submit v_start v_end v_ready batch fate clock"""
"""Columns of the table of samples, in their order."""
Columns = dict[str, np.ndarray]


def trained(state: State, tokens: int) -> tuple[np.ndarray, ...]:
    """Trained samples of a finished simulation, by id inside each batch; one token column if versions agree."""
    code = kept_codes(state, groups_of_batches(state))
    start, end = state.sample.v_start[code], state.sample.v_end[code]
    work = state.sample.work[code]
    moving = state.settings.mode in (k.KEEP, k.REPREFILL)
    changes = moving and tokens > 1 and bool((end > start).any())
    version = versions_of_tokens(state, code, work, tokens) if changes else start[..., None]
    return version, code, work, state.batch.t_start[: len(code)].copy()


def join(system: Settings, parts: Iterable[tuple[np.ndarray, ...]], header: dict[str, Any]) -> records.Schedule:
    """Schedule of several realizations, each given as `trained` returns it."""
    versions, *others = zip(*parts, strict=True)
    tokens = max(each.shape[-1] for each in versions)
    version = np.stack([np.broadcast_to(each, (*each.shape[:-1], tokens)) for each in versions])
    trajectory, work, seconds = map(np.stack, others)
    publish, random = system.batches_per_publish, system.random
    return records.Schedule(version, trajectory, publish, random, work, header, seconds)


def groups_of_batches(state: State) -> np.ndarray:
    """Group numbers [B, G] of every trained batch, in ascending order inside a batch."""
    return np.sort(state.taken[: state.run.started].astype(np.int64), axis=1)


def codes_of(state: State, groups: np.ndarray) -> np.ndarray:
    samples = state.settings.samples
    return groups[..., None] * samples + np.arange(samples)


def kept_codes(state: State, groups: np.ndarray) -> np.ndarray:
    """Rows of the samples that finished groups keep, by number, on an additional last axis."""
    code = codes_of(state, groups)
    if state.settings.redundant == 0:
        return code
    kept = state.sample.phase[code] != k.CANCELLED
    return code[kept].reshape(*groups.shape, -1)


def head_staleness(state: State) -> np.ndarray:
    """Staleness of the first token of every trained group, in versions, float64 `[B, G]`."""
    head = state.group.v_head[groups_of_batches(state)]
    version = state.batch.version[: len(head)]
    return (version[:, None] - head).astype(np.float64)


def timeline(system: Settings, state: State, header: dict[str, Any]) -> records.Timeline:
    """Full timeline of a finished simulation, with times in seconds."""
    seconds = float(state.run.now)
    header = {**header, "seconds": seconds}
    members = groups_of_batches(state)
    table, count = state.batch[: state.run.started], int(state.run.installed)
    times = _columns(table, ("version", "installed", "t_pack", "t_start", "t_end"))
    batches = {"batch": np.arange(len(table)), **times}
    clocks = {f"clock_{s}": state.marks[:count, s].copy() for s in range(state.marks.shape[1])}
    levels = _columns(state.publish[:count], k.PUBLISH.names)
    publishes = {"version": np.arange(1, count + 1), **levels, **clocks}
    renamed, admitted = {"v_head": "v_start", "v_trained": "v_train"}, int(state.run.admitted)
    names = ("place", "prompt", "target", "v_submit", "v_head", "v_done", "v_left", "v_trained", "entry", "batch")
    stamps = {renamed.get(each, each): own for each, own in _columns(state.group[:admitted], names).items()}
    used = {"group": np.arange(admitted), "uses": np.bincount(members.reshape(-1), minlength=admitted)}
    groups = {**used, **stamps, **_columns(state.moment[:admitted], k.MOMENT.names)}
    groups["fate"] = FATES.take(state.group.fate[:admitted])
    samples = _samples(state, groups, batches)
    uses = {"batch": np.repeat(batches["batch"], members.shape[1]), "group": members.reshape(-1)}
    resources = _resources(system, state, groups, batches, publishes, seconds)
    stretches = _columns(state.stretch[: state.run.stretches], ("sample", "version", "clock", "done"))
    return records.Timeline(samples, groups, batches, publishes, resources, header, uses, stretches)


def _samples(state: State, groups: Columns, batches: Columns) -> Columns:
    size, count = int(state.settings.samples), int(state.run.admitted)
    code = np.arange(count * size)
    names = ("attempt", "work", "done", "wasted", "start", "end", "scored", "v_start", "v_end", "clock", "phase")
    sample = _columns(state.sample[: code.size], names)

    def shared(name: str) -> np.ndarray:
        return groups[name] if size == 1 else np.repeat(groups[name], size)

    place, batch, v_start, v_ready = shared("place"), shared("batch"), sample["v_start"], sample["v_end"]
    fate = shared("fate")
    if state.settings.redundant > 0:
        alone = sample["phase"] == k.CANCELLED
        batch, fate = np.where(alone, -1, batch), np.where(alone, CANCELLED, fate)
    rate, servers = state.rate.take(place), int(state.settings.servers)
    server = place % servers if servers > 1 else np.zeros_like(place)
    # What is written at the end of the record has done as much as its server's clock says.
    clocks = state.server.w_zero + (state.run.now - state.server.t_zero) * state.server.speed
    done, writing = sample["done"], np.flatnonzero(sample["phase"] == k.WRITING)
    written = np.maximum(clocks[server[writing]] - sample["clock"][writing], 0.0) * rate[writing]
    done[writing] = np.minimum(done[writing] + written, sample["work"][writing])
    # Batch -1 (not trained) selects the NaN at the end.
    t_pack, t_train = (np.append(batches[name], np.nan).take(batch) for name in ("t_pack", "t_start"))
    own = {"sample": code, "place": place, "server": server, "rate": rate, "batch": batch, "fate": fate}
    v_end = np.where(v_ready < 0, -1, v_start) if state.settings.mode == k.PIN else v_ready
    own |= {"t_pack": t_pack, "t_train": t_train, "v_end": v_end, "v_ready": v_ready}
    own |= {f"t_{name}": sample[name] for name in ("start", "end", "scored")}
    columns = sample | own | {name: shared(name) for name in ("group", "t_submit", "t_ready", "v_submit")}
    return {name: columns[name] for name in SAMPLES.split()}


def _resources(
    system: Settings, state: State, groups: Columns, batches: Columns, publishes: Columns, seconds: float
) -> Columns:
    """Seconds for which every slot and the trainer are busy, blocked, idle and synchronizing.

    A place is busy with a group's generation, blocked by a finished group that keeps it, syncing while generators stand
    still for an install. A trainer that awaits a publish is syncing.
    """
    size = state.rate.size
    done = _before(groups["t_done"], groups["t_left"], seconds)
    free = np.maximum(_before(groups["t_free"], groups["t_free"], seconds), done)
    ends = publishes["t_install"]
    pauses = (system.sync_time > 0.0 and system.generator_pauses and ends.size > 0) or system.colocated
    stops, goes = ends - system.sync_time, ends
    if system.colocated:
        # From the start of a batch to its end, or to the install of the publish that it ends.
        stops, goes = batches["t_start"], batches["t_end"].copy()
        goes[system.batches_per_publish - 1 :: system.batches_per_publish] = ends

    # Servers that take weights in turn pause one after the other, the last until the install.
    turns = system.servers - 1 - groups["place"] % system.servers if system.rolling else np.zeros(len(done))

    def pause_before(time: np.ndarray, turns: np.ndarray) -> np.ndarray:
        """Seconds of generator pauses before each time, in turns of servers before the install."""
        if not pauses:
            return np.zeros_like(time)
        time = time + turns * system.sync_time
        stood = np.arange(ends.size + 1) * system.sync_time
        if system.colocated:
            stood = np.concatenate([[0.0], np.cumsum(goes - stops)])
        return np.interp(time, np.sort(np.concatenate([stops, goes])), np.repeat(stood, 2)[1:-1])

    def sum_by_place(start: np.ndarray, end: np.ndarray) -> np.ndarray:
        if pauses:
            start, end = start - pause_before(start, turns), end - pause_before(end, turns)
        # Seconds inside a pause are equal but for rounding.
        return np.bincount(groups["place"], weights=np.maximum(end - start, 0.0), minlength=size)

    pause = float(pause_before(np.array([seconds]), np.zeros(1))[0])
    trainer = float(np.nansum(batches["t_end"] - batches["t_start"]))
    waiting = float((ends - publishes["t_snapshot"]).sum()) if system.trainer_waits else 0.0
    busy = np.append(sum_by_place(groups["t_submit"], done), trainer)
    blocked = np.append(sum_by_place(done, free), 0.0)
    syncing = np.append(np.full(size, pause), waiting)
    # A place that is never idle has 0 here, up to rounding.
    idle = np.maximum(seconds - busy - blocked - syncing, 0.0)
    names = np.array([*(f"place {p}" for p in range(size)), "trainer"])
    return {"resource": names, "busy": busy, "blocked": blocked, "idle": idle, "syncing": syncing}


def _before(time: np.ndarray, otherwise: np.ndarray, end: float) -> np.ndarray:
    """Times of an event, else of the alternative event, else the end of the record."""
    times = time.copy()
    unknown = np.flatnonzero(np.isnan(times))
    times[unknown] = otherwise[unknown]
    times[np.isnan(times)] = end
    return times


def _columns(table: Table, names: Iterable[str]) -> Columns:
    return {name: table[name].copy() for name in names}


class Writing(NamedTuple):
    """Generation of s samples: server, rate, first and last version of each, and their stretches of generation.

    Stretches `first_stretch[s] .. first_stretch[s + 1]` of sample s begin at server clock `clock` with `done` units of
    work written; `marks` `[V, servers]` are the clocks at the installs.
    """

    server: np.ndarray
    rate: np.ndarray
    first: np.ndarray
    last: np.ndarray
    first_stretch: np.ndarray
    clock: np.ndarray
    done: np.ndarray
    marks: np.ndarray


@kept(nogil=True, error_model="numpy")
def emit(writing, whole, version):
    """Write the versions of samples' tokens to `version` int32 [s, T], with token t at work `whole * t / T`."""
    server, rate, first, last, first_stretch, clock, done, marks = writing
    tokens = version.shape[1]
    for i in range(version.shape[0]):
        stretch, current = first_stretch[i], first[i]
        version[i, 0] = current
        for t in range(1, tokens):
            target = whole[i] * t / tokens
            while stretch + 1 < first_stretch[i + 1] and done[stretch + 1] <= target:
                stretch += 1
            emission = clock[stretch] + (target - done[stretch]) / rate[i]
            while current < last[i] and marks[current, server[i]] <= emission:
                current += 1
            version[i, t] = current


def stretches_of(
    code: np.ndarray, sample: np.ndarray, clock: np.ndarray, done: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Stretches of generation in the last attempts of given samples, from a log in order of time."""
    rank = np.zeros(int(max(code.max(initial=-1), sample.max(initial=-1))) + 2, dtype=np.int64)
    rank[code] = np.arange(1, code.size + 1)
    entries = np.flatnonzero(rank[sample] > 0)
    owner = rank[sample[entries]] - 1
    order = entries[np.argsort(owner, kind="stable")]
    owner, done, clock = np.sort(owner), done[order], clock[order]
    # Stretches before the last one that begins without work belong to attempts that were thrown away. An attempt may
    # begin so twice: after a failure before its first token, or an install right at its start. The last one counts.
    position = np.arange(owner.size)
    fresh = np.full(code.size, 0)
    np.maximum.at(fresh, owner[done == 0.0], position[done == 0.0])
    in_last_attempt = position >= fresh[owner]
    first = np.concatenate([[0], np.cumsum(np.bincount(owner[in_last_attempt], minlength=code.size))])
    return first, clock[in_last_attempt], done[in_last_attempt]


def writing_of(state: State, code: np.ndarray) -> Writing:
    """Generation of the samples in given rows; samples in flight as if no further install followed."""
    row = code // state.settings.samples
    place = state.group.place[row]
    first, last = state.sample.v_start[code], state.sample.v_end[code]
    if state.settings.stretched:
        log = state.stretch[: int(state.run.stretches)]
        stretches = stretches_of(code, log.sample, log.clock, log.done)
    else:
        stretches = np.arange(code.size + 1), state.sample.clock[code], np.zeros(code.size)
    server = place % int(state.settings.servers)
    # Of samples in flight the last version so far is that of their server.
    version = state.server.version if state.settings.rolling else np.full(len(state.server), state.run.installed)
    last = np.where(last < 0, version.astype(np.int32)[server], last)
    return Writing(server, state.rate[place], first, last, *stretches, state.marks)


def versions_of_tokens(state: State, code: np.ndarray, whole: np.ndarray, tokens: int) -> np.ndarray:
    """Version of every token, int32 `[..., T]`; token t is generated when `whole * t / T` of the work is done.

    A token emitted exactly at an install has the new version; the first is emitted at the start, whatever is installed
    at that instant. Samples in flight are versioned as if no install followed. `code` and `whole` of shape `[...]`.
    """
    flat = code.reshape(-1)
    version = np.empty((flat.size, tokens), dtype=np.int32)
    emit(writing_of(state, flat), np.ascontiguousarray(whole).reshape(-1), version)
    return version.reshape(*code.shape, tokens)
