"""From a system to the kernel's arrays: the state at time 0, room for more, further draws.

Everything random is keyed by (seed, purpose; realization, entity), so that no draw depends on another.
"""

from typing import Any

import numpy as np

from asyncsim.base import checks, rng, rng_compiled
from asyncsim.base.laws import Law
from asyncsim.systems import _limits
from asyncsim.systems import _settings as names
from asyncsim.systems import _state as k
from asyncsim.systems._settings import Settings
from asyncsim.systems._state import State

FAILURE, CHOICE = "failure", "choice"
CELLS = 4097
"""Cells of the staleness histogram; the last one counts everything beyond."""
DRAWN = 1 << 16
"""Samples whose draws are made at once, at most."""
BATCHES = 1 << 12
"""Batches whose training times are drawn at once, at most, where nothing is recorded."""
PATIENCE = 100_000
"""Events, and a thousand more for each sample of a batch, after which a trainer without a batch starves."""


def new_state(
    system: Settings, batches: int, samples: int, realization: int, seed: int, drawn: bool, record: bool, warm: int
) -> State:
    """Kernel state at time 0 with version 0, before the first group is admitted."""
    s, places = system, len(system.rates)
    samples += s.redundant
    groups = _rows(system, batches, record)
    chunk = max(s.quantum, min(_rows(system, batches, True), max(1, DRAWN // samples)))
    room = -(-places // s.servers) * samples
    slots, rows, turns = room * s.servers, groups * samples, s.turns - 1
    timed = places * (samples + 1) + places + 16 + slots
    segments = 6 * slots + 16 if record and _has_stretches(system) else 1
    own = {"batches": batches, "realization": realization, "warm_up": warm}
    settings = _settings(system, samples, seed, drawn, record, room, **own)
    run, sums = _table("run", 1, np.zeros), _table("sums", 1, np.zeros)
    run.point = k.ADMIT
    run.tickets = k.UNLIMITED if s.tickets is None else s.tickets
    run.first_row = run.last_row = -1
    run.allowed = _limit(s.permits)
    run.supplied = -chunk
    run.rows = 0 if record else groups
    # Without a record tables of batches and publishes are rings: at most one publish is on its way.
    versions = batches // s.batches_per_publish + 1 if record else 2
    lines = batches if record else min(batches, s.prefetch + 2)
    server = _table("server", s.servers, np.zeros)
    server.speed = 1.0 if s.decode is None else s.decode[0]
    batch = _table("batch", batches if record else min(batches, BATCHES), np.zeros)
    for name in ("train_time", "t_pack", "t_start", "t_end"):
        batch[name] = np.nan
    filled = {"settings": settings, "run": run[0], "sums": sums[0], "server": server, "batch": batch}
    filled |= {"rate": np.asarray(s.rates, dtype=np.float64), "decode": np.asarray(s.decode or (), dtype=np.float64)}
    filled["rows"] = np.arange(groups, dtype=np.int32)[::-1].copy()
    filled["histogram"] = _table("histogram", CELLS, np.zeros)
    sizes: dict[str, Any] = dict.fromkeys(("keys", "codes", "queue", "pending"), slots)
    sizes |= dict.fromkeys(("ranks", "picks", "hidden", "again", "targets", "group", "moment"), groups)
    sizes |= {"blocked": places + 1, "free": places, "sample": rows, "steps": (rows, turns), "stretch": segments}
    sizes["timed"] = timed
    sizes |= {"taken": (lines, s.groups_per_batch), "publish": versions, "marks": (versions, s.servers)}
    sizes |= {"supply": chunk * samples, "supply_steps": (chunk * samples, turns), "prompts": chunk}
    sizes["scratch"] = max(groups, timed, s.groups_per_batch)
    state = State(**filled, **{name: _table(name, size) for name, size in sizes.items()})
    _open_places(system, state)
    _draw_times(system, state, seed)
    return state


def _table(name: str, size: Any, allocate: Any = np.empty) -> Any:
    """Allocate a table as `LAYOUT` declares it, unfilled unless `allocate` fills it."""
    kind = k.LAYOUT[name][0]
    return allocate(size, dtype=kind).view(np.recarray if kind.names else np.ndarray)


def _settings(s: Settings, samples: int, seed: int, drawn: bool, record: bool, room: int, **own: int) -> np.record:
    """Constants of a run; `samples` per group, redundant ones included; `room` is samples per server."""
    failure, choice = rng.Stream(seed, FAILURE).key, rng.Stream(seed, CHOICE).key
    cuts = s.max_age is not None and s.age_action != "wait"
    limits = ("lead", "max_uses", "window", "max_age", "slots", "epoch", "permits")
    values = {
        # What is called alike here and there, limits apart.
        **{name: getattr(s, name) for name in k.SETTINGS.names if hasattr(s, name)},
        **{name: _limit(getattr(s, name)) for name in limits},
        **own,
        "samples": samples,
        "tickets_at_publish": s.release == "publish",
        "returns": names.RETURNS.index(s.release_dropped),
        "drops_oldest": s.overflow == "drop_oldest",
        "capacity": _limit(None if s.overflow == "close" else s.capacity),
        "closes_at": _limit(s.capacity if s.overflow == "close" else None),
        "hides": s.visible == "publish",
        "order": names.ORDERS.index(s.order),
        "age_waits": s.max_age is not None and s.age_action == "wait",
        "requeues": s.age_action == "requeue",
        "age_at_pack": cuts * names.REACHES.index(s.age_at_pack),
        "age_at_install": cuts * names.REACHES.index(s.age_at_publish),
        "age_reference": names.REFERENCES.index(s.age_reference),
        "mode": (k.DRAIN, k.KEEP, k.RESTART, k.PIN, k.REPREFILL)[names.MODES.index(s.mode)],
        "place_holds": s.reward_holds or (s.capacity is not None and s.overflow == "block"),
        "external_work": not drawn,
        "records": record,
        "stretched": record and _has_stretches(s),
        "failure_key_0": failure[0],
        "failure_key_1": failure[1],
        "choice_key_0": choice[0],
        "choice_key_1": choice[1],
        "interrupts": s.mode in ("restart", "reprefill"),
        "patience": PATIENCE + 1000 * s.groups_per_batch * samples * s.turns,
        "room": room,
        "rewarded": s.reward is not None,
        "slowed": s.decode is not None,
        "adapts": s.target_staleness is not None,
        "target_staleness": s.target_staleness or 0.0,
    }
    return np.array([tuple(values[name] for name in k.SETTINGS.names)], dtype=k.SETTINGS).view(np.recarray)[0]


def _limit(value: int | None) -> int:
    return k.UNLIMITED if value is None else value


def _has_stretches(s: Settings) -> bool:
    return s.turns > 1 or s.mode == "reprefill" or s.failure_rate > 0.0


def _rows(s: Settings, batches: int, record: bool) -> int:
    """Estimated number of group rows, which `grow` corrects."""
    places = len(s.rates)
    out = places + (s.tickets or 4 * places) + s.groups_per_batch * (s.prefetch + 2)
    return out + s.quantum + (batches * s.groups_per_batch if record else 0)


def _open_places(s: Settings, state: State) -> None:
    """Free the slots that open at time 0, and schedule the others at their offsets, in order of their numbers."""
    offsets = np.zeros(len(s.rates)) if s.offsets is None else np.asarray(s.offsets, dtype=np.float64)
    late = np.flatnonzero(offsets > 0.0)
    late = late[np.argsort(offsets[late], kind="stable")]
    count = late.size
    # An ascending array is a heap.
    timed = state.timed[:count]
    timed.time, timed.what = offsets[late], late * 4 + k.EVENT_PLACE
    timed.order = (1 << 60) + np.arange(count)
    state.run.timed, state.run.serial = count, count
    early = np.flatnonzero(offsets <= 0.0)
    state.free[: early.size], state.run.free = early, early.size


def refill(system: Settings, state: State, seed: int) -> None:
    """Draw random values for the next admitted groups and batches, if the previous draws have run out."""
    run = state.run
    if run.started >= run.times_drawn:
        _draw_times(system, state, seed)
    settings, chunk = state.settings, len(state.prompts)
    if run.admitted + settings.quantum - run.supplied <= chunk:
        return
    samples, realization, first = int(settings.samples), int(settings.realization), int(run.admitted)
    drawn = not settings.external_work
    if drawn:
        _limits.refuse_more(system, int(settings.batches), samples - system.redundant, first, int(run.finished))
    run.supplied = first
    groups = np.arange(first, first + chunk)
    ids = np.arange(first * samples, (first + chunk) * samples)
    entities = ids if system.work_by == "sample" else np.repeat(groups, samples)
    state.prompts.factor[:] = difficulties(system, groups, realization, seed)
    state.prompts.accept[:] = acceptances(groups, realization, seed) if system.accept < 1.0 else 0.0
    supply, steps = state.supply, state.supply_steps
    supply.work[:] = works(system, entities, realization, seed) if drawn else np.nan
    supply.reward[:] = rewards(system, ids, realization, seed)
    for turn in range(1, system.turns):
        steps[:, turn - 1] = environments(system, ids, np.array(turn), realization, seed)
    finite = not drawn or all(bool(np.isfinite(draws).all()) for draws in (supply.work, supply.reward, steps))
    remedy = "choose a distribution of a lighter tail"
    checks.require(finite, "length", str(system.length), "finite in every draw", remedy)
    positive = not drawn or bool((supply.work > 0.0).all())
    remedy = "choose a distribution of less extreme shape"
    checks.require(positive, "length", str(system.length), "positive in every draw", remedy)


def _draw_times(system: Settings, state: State, seed: int) -> None:
    """Draw the seconds of training for as many batches as the table has rows."""
    settings, run = state.settings, state.run
    first, total = int(run.times_drawn), int(settings.batches)
    count = min(len(state.batch), total - first)
    samples, realization = int(settings.samples - settings.redundant), int(settings.realization)
    state.batch.train_time[:count] = train_times(system, count, samples, realization, seed, first)
    drawn = first + count
    run.times_drawn = drawn if drawn < total else k.UNLIMITED


_GROUP_TABLES = ("ranks", "picks", "hidden", "again", "targets", "sample", "steps", "group", "moment")


def grow(state: State) -> State:
    """Kernel state with twice the space in tables that are full."""
    settings, run = state.settings, state.run
    tables: list[str] = []
    if run.timed + state.codes.size >= len(state.timed):
        tables += ["timed"]
    if settings.stretched and run.stretches + 3 * state.codes.size >= len(state.stretch):
        tables += ["stretch"]
    room = len(state.group) - run.admitted if settings.records else run.rows
    if room < settings.quantum:
        tables += _GROUP_TABLES
    # Growth beyond the estimate is bounded too.
    checks.memory({"events": (3 * sum(getattr(state, name).nbytes for name in tables), _limits.LOWER)})
    arrays = {}
    for name in tables:
        table = getattr(state, name)
        # Joining records gives a plain array.
        arrays[name] = np.concatenate([table, np.empty_like(table)]).view(type(table))
    longest = 2 * max(len(state.group), len(state.timed)) + settings.groups_per_batch
    arrays["scratch"] = np.empty(longest, dtype=np.int64)
    if "group" in arrays and not settings.records:
        old = len(state.group)
        rows = np.empty(2 * old, dtype=np.int32)
        rows[: run.rows] = state.rows[: run.rows]
        rows[run.rows : run.rows + old] = np.arange(2 * old - 1, old - 1, -1)
        run.rows += old
        arrays["rows"] = rows
    if "again" in arrays:
        for name in ("again", "targets"):
            old, head, count = getattr(state, name), run[f"{name}_head"], run[name]
            arrays[name][:count] = old[(head + np.arange(count)) % len(old)]
            run[f"{name}_head"] = 0
    return state.replace(**arrays)


def works(system: Settings, entities: np.ndarray, realization: int, seed: int) -> np.ndarray:
    """Random work of samples (or of groups whose samples share it), before the difficulty of their prompt."""
    return system.length.sample(rng.Stream(seed, "work"), realization, entities, compiled=True)


def train_times(
    system: Settings, batches: int, samples_per_group: int, realization: int, seed: int, first: int = 0
) -> np.ndarray:
    """Seconds of training per batch from batch `first` on, without the time per token, float64 `[B]`."""
    if isinstance(system.train_time, Law):
        stream = rng.Stream(seed, "train_time")
        return system.train_time.sample(stream, realization, np.arange(first, first + batches), compiled=True)
    whole = system.mean_train_time(samples_per_group) if system.load is not None else float(system.train_time or 0.0)
    return np.full(batches, whole)


def rewards(system: Settings, samples: np.ndarray, realization: int, seed: int) -> np.ndarray:
    """Random seconds from the end of each sample to its reward."""
    return _of(system.reward, seed, "reward seconds", realization, samples)


def environments(system: Settings, samples: np.ndarray, turns: np.ndarray, realization: int, seed: int) -> np.ndarray:
    """Random seconds of each sample's environment step after the given turn, counted from 1."""
    return _of(system.environment, seed, "environment", realization, samples, turns)


def difficulties(system: Settings, groups: np.ndarray, realization: int, seed: int) -> np.ndarray:
    """Random difficulty of each group's original prompt, a factor on the work of its samples."""
    law = system.difficulty
    return np.ones(np.shape(groups)) if law is None else _of(law, seed, "difficulty", realization, groups)


def acceptances(groups: np.ndarray, realization: int, seed: int) -> np.ndarray:
    """Uniform draws of groups; a group is accepted if its draw is below the acceptance probability."""
    return rng_compiled.uniform(rng.Stream(seed, "accept"), realization, groups)


def _of(law: Law | None, seed: int, name: str, realization: int, first: np.ndarray, second: Any = 0) -> np.ndarray:
    if law is None:
        return np.zeros(np.broadcast_shapes(np.shape(first), np.shape(second)))
    return law.sample(rng.Stream(seed, name), realization, first, second, compiled=True)
