"""From a system to the kernel's arrays: the state at time 0, room for more, further draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from asyncsim import checks, rng
from asyncsim.systems import _checking as names
from asyncsim.systems import _draws, _limits
from asyncsim.systems import _state as k
from asyncsim.systems._state import State

if TYPE_CHECKING:
    from asyncsim.systems._system import System

LEVELS = 7
CELLS = 4097
"""Cells of the staleness histogram; the last one holds what is beyond."""
DRAWN = 1 << 16
"""Samples whose draws are made at once, at most."""
BATCHES = 1 << 12
"""Batches whose training times are drawn at once, at most, where nothing is recorded."""
PATIENCE = 100_000
"""Events, and a thousand more for each sample of a batch, after which a trainer without a batch starves."""


def new_state(
    system: System, batches: int, samples: int, realization: int, seed: int, *, drawn: bool = True,
    record: bool = True, warm: int = 0,
) -> State:
    """State at time 0 under version 0, before the first admission.

    `drawn` false: every start asks for its work; `record` false: rows of groups are used again; sums over time begin
    when `warm` batches have trained.
    """
    s, places = system, len(system.rates)
    groups = _rows(system, batches, record)
    chunk = max(s.quantum, min(_rows(system, batches, True), max(1, DRAWN // samples)))
    room = -(-places // s.servers) * samples
    timed = places * (samples + 1) + places + 16 + room * s.servers
    segments = 6 * room * s.servers + 16 if record and _segmented(system) else 1
    n = np.zeros(k.COUNTS, dtype=np.int64)
    n[: k.SETTINGS] = _settings(system, samples, realization, seed, drawn, record, warm, room, batches)
    n[k.POINT] = k.ADMIT
    n[k.TICKETS] = k.UNLIMITED if s.tickets is None else s.tickets
    n[k.FIRST_ROW] = n[k.LAST_ROW] = -1
    n[k.SUPPLIED] = -chunk
    x = np.zeros(k.REALS)
    x[k.SYNC], x[k.TOKEN_TIME], x[k.RECENT], x[k.ACCEPT] = s.sync_time, s.token_time, s.recent, s.accept
    x[k.PROMPT_TOKENS], x[k.SPEEDUP], x[k.FAILURE] = s.prompt, s.prefill_speedup, s.failure_rate
    x[k.DELAY] = s.restart_delay
    # Without a record tables of batches and publishes are rings: at most one publish is on its way.
    versions = batches // s.batches_per_publish + 1 if record else 2
    lines = batches if record else min(batches, s.prefetch + 2)
    engine = np.zeros((s.servers, 5))
    engine[:, k.SPEED] = 1.0 if s.decode is None else s.decode[0]
    width, integer = k.STEPS + s.turns - 1, np.int64
    batch = np.full((batches if record else min(batches, BATCHES), 6), np.nan)
    state = State(
        n, x, np.asarray(s.rates, dtype=np.float64), np.asarray(s.decode or (), dtype=np.float64), engine,
        np.zeros((s.servers, 5), dtype=integer), np.empty(room * s.servers), np.empty(room * s.servers, dtype=integer),
        np.empty(room * s.servers, dtype=integer), np.empty(timed), np.empty(timed, dtype=integer),
        np.empty(timed, dtype=integer), np.empty(groups, dtype=integer), np.empty(groups, dtype=np.int32),
        np.empty(groups, dtype=np.int32), np.empty(places + 1, dtype=np.int32), np.empty(places, dtype=integer),
        np.arange(groups, dtype=np.int32)[::-1].copy(), np.empty(groups, dtype=np.int32), np.empty(groups),
        np.empty(groups, dtype=integer), np.empty(room * s.servers, dtype=integer),
        np.empty((groups * samples, width)), np.empty((groups * samples, 5), dtype=np.int32),
        np.empty((groups, 21), dtype=np.int32), np.empty((groups, 6)), batch,
        np.empty((lines, s.groups_per_batch), dtype=np.int32), np.empty((versions, 2)),
        np.empty((versions, LEVELS), dtype=integer), np.empty((versions, s.servers)), np.empty((segments, 2)),
        np.empty((segments, 2), dtype=integer), np.zeros(CELLS, dtype=integer),
        np.empty((chunk * samples, k.SUPPLY_STEPS + s.turns - 1)), np.empty((chunk, 2)),
        np.empty(max(groups, timed, s.groups_per_batch), dtype=integer),
    )
    n[k.ROWS] = 0 if record else groups
    _open_places(system, state)
    _draw_times(system, state, realization, seed)
    return state


def _settings(
    s: System, samples: int, realization: int, seed: int, drawn: bool, record: bool, warm: int, room: int, batches: int
) -> list[int]:
    """The entries of `n` up to SETTINGS, in their order."""
    no = k.UNLIMITED
    failure, choice = rng.Stream(seed, _draws.FAILURE).key, rng.Stream(seed, _draws.CHOICE).key
    checked, waits = s.max_age is not None, s.age_action == "wait"
    capacity = no if s.capacity is None else s.capacity
    holds_up, closes = (no, capacity) if s.overflow == "close" else (capacity, no)
    holds = s.reward_holds or (s.capacity is not None and s.overflow == "block")
    return [
        s.groups_per_batch, samples, s.batches_per_publish, s.release == "publish",
        names.RETURNS.index(s.release_dropped), s.quantum, no if s.lead is None else s.lead,
        holds_up, s.overflow == "drop_oldest", s.visible == "publish", s.initial_fill,
        no if s.max_uses is None else s.max_uses, names.ORDERS.index(s.order), no if s.window is None else s.window,
        no if s.max_age is None else s.max_age, checked and waits, s.age_action == "requeue",
        checked and not waits and "pack" in s.age_checks, checked and not waits and "publish" in s.age_checks,
        s.age_reach == "all", names.REFERENCES.index(s.age_reference),
        (k.DRAIN, k.KEEP, k.RESTART, k.PIN, k.REPREFILL)[names.MODES.index(s.mode)], s.prefetch, s.servers,
        no if s.slots is None else s.slots, s.turns, s.environment_holds, s.reward_holds, holds, s.trainer_waits,
        s.generator_pauses, s.failure_keeps, s.instant, not drawn, record, record and _segmented(s), realization,
        *failure, *choice, warm, PATIENCE + 1000 * s.groups_per_batch * samples * s.turns, room, batches,
        closes, no if s.epoch is None else s.epoch, no if s.permits is None else s.permits,
    ]


def _segmented(s: System) -> bool:
    """Whether a sample may be written in several stretches."""
    return s.turns > 1 or s.mode == "reprefill" or s.failure_rate > 0.0


def _rows(s: System, batches: int, record: bool) -> int:
    """Room for groups: a guess that `grown` mends."""
    places = len(s.rates)
    out = places + (s.tickets or 4 * places) + s.groups_per_batch * (s.prefetch + 2)
    return out + s.quantum + (batches * s.groups_per_batch if record else 0)


def _open_places(s: System, state: State) -> None:
    """Places that open at 0 are free, the others open at their second, in the order of their numbers."""
    offsets = np.zeros(len(s.rates)) if s.offsets is None else np.asarray(s.offsets, dtype=np.float64)
    late = np.flatnonzero(offsets > 0.0)
    late = late[np.argsort(offsets[late], kind="stable")]
    n, count = state.n, late.size
    # An ascending array is a heap.
    state.times[:count], state.whats[:count] = offsets[late], late * 4 + k.EVENT_PLACE
    state.orders[:count] = (1 << 60) + np.arange(count)
    n[k.TIMED], n[k.SERIAL] = count, count
    early = np.flatnonzero(offsets <= 0.0)
    state.free[: early.size], n[k.FREE] = early, early.size


def refill(system: System, state: State, realization: int, seed: int, drawn: bool) -> None:
    """Draw for the groups to be admitted next, and for the batches to be trained next, where draws have run out."""
    if state.n[k.STARTED] >= state.n[k.TIMES_DRAWN]:
        _draw_times(system, state, realization, seed)
    if state.n[k.ADMITTED] + state.n[k.QUANTUM] - state.n[k.SUPPLIED] > len(state.prompts):
        _draw_groups(system, state, realization, seed, drawn)


def _draw_times(system: System, state: State, realization: int, seed: int) -> None:
    """Seconds of training on as many batches as the table has rows for."""
    n = state.n
    first = int(n[k.TIMES_DRAWN])
    count = min(len(state.batch), int(n[k.TOTAL]) - first)
    state.batch[:count, k.TRAIN_TIME] = system.train_times(count, int(n[k.SAMPLES]), realization, seed, first)
    drawn = first + count
    n[k.TIMES_DRAWN] = drawn if drawn < n[k.TOTAL] else k.UNLIMITED


def _draw_groups(system: System, state: State, realization: int, seed: int, drawn: bool) -> None:
    n, chunk = state.n, len(state.prompts)
    samples, first = int(n[k.SAMPLES]), int(n[k.ADMITTED])
    if drawn:
        _limits.refuse_more(system, int(n[k.TOTAL]), samples, first, int(n[k.FINISHED]))
    n[k.SUPPLIED] = first
    groups = np.arange(first, first + chunk)
    ids = np.arange(first * samples, (first + chunk) * samples)
    state.prompts[:, k.SUPPLY_FACTOR] = _draws.difficulties(system, groups, realization, seed)
    state.prompts[:, k.SUPPLY_ACCEPT] = (
        _draws.acceptances(groups, realization, seed) if system.accept < 1.0 else 0.0
    )
    state.supply[:, k.SUPPLY_WORK] = _draws.works(system, ids, realization, seed) if drawn else np.nan
    state.supply[:, k.SUPPLY_REWARD] = _draws.rewards(system, ids, realization, seed)
    for turn in range(1, system.turns):
        step = _draws.environments(system, ids, np.array(turn), realization, seed)
        state.supply[:, k.SUPPLY_STEPS + turn - 1] = step
    finite = not drawn or bool(np.isfinite(state.supply).all())
    checks.require(finite, "length", str(system.length), "finite in every draw", "choose a law of a lighter tail")
    positive = not drawn or bool((state.supply[:, k.SUPPLY_WORK] > 0.0).all())
    remedy = "choose a law of less extreme shape"
    checks.require(positive, "length", str(system.length), "positive in every draw", remedy)


_GROUP_TABLES = ("ranks", "picks", "hidden", "again", "factors", "targets", "item", "stamp", "group", "moment")
_TIMED_TABLES = ("times", "orders", "whats")
_SEGMENT_TABLES = ("segment", "segmented")


def grown(state: State) -> State:
    """The same state with twice the room for what has run out of it."""
    n = state.n
    wanted: list[str] = []
    if n[k.TIMED] + state.codes.size >= state.times.size:
        wanted += _TIMED_TABLES
    if n[k.SEGMENTED] and n[k.SEGMENTS] + 3 * state.codes.size >= len(state.segment):
        wanted += _SEGMENT_TABLES
    room = len(state.group) - n[k.ADMITTED] if n[k.RECORD] else n[k.ROWS]
    if room < n[k.QUANTUM]:
        wanted += _GROUP_TABLES
    # What chance asks for beyond the estimate is bounded too.
    checks.memory({"events": (3 * sum(getattr(state, name).nbytes for name in wanted), _limits.LOWER)})
    made = {name: _doubled(getattr(state, name)) for name in wanted}
    made["scratch"] = np.empty(2 * max(len(state.group), len(state.times)) + state.n[k.GROUPS], dtype=np.int64)
    if "group" in made and not n[k.RECORD]:
        old = len(state.group)
        rows = np.empty(2 * old, dtype=np.int32)
        rows[: n[k.ROWS]] = state.rows[: n[k.ROWS]]
        rows[n[k.ROWS] : n[k.ROWS] + old] = np.arange(2 * old - 1, old - 1, -1)
        n[k.ROWS] += old
        made["rows"] = rows
    if "again" in made:
        made |= _unrolled(state, made)
    return state._replace(**made)


def _unrolled(state: State, made: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Rings begin at their head again when they grow."""
    n = state.n
    out = {}
    rings = ((("again", "factors"), k.AGAIN_HEAD, k.AGAIN), (("targets",), k.TARGETS_HEAD, k.TARGETS))
    for names_, head, count in rings:
        order = (n[head] + np.arange(n[count])) % len(state.again)
        for name in names_:
            ring = made[name]
            ring[: n[count]] = getattr(state, name)[order]
            out[name] = ring
        n[head] = 0
    return out


def _doubled(array: np.ndarray) -> np.ndarray:
    return np.concatenate([array, np.empty_like(array)])
