"""The state of one realization: what the kernel's functions and its readers share.

Tables are arrays of records, a row for each sample, group, server and so on, read as `state.group[row].v_head` in the
kernel and as `state.group.v_head` outside. With a full record a group's row is its number. For a summary alone, rows
are reused after a group has left. Sample k of the group in row r has row r * N + k.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from asyncsim.base.columns import FATES as FATES

UNLIMITED = 1 << 60
"""Stands for None where a count has no limit."""


# Phases of a sample.
(OUTSIDE, UNSTARTED, STARTING, WRITING, QUEUED, STEPPING, REPAIRING, REWARDED, OVER_SAMPLE) = range(9)
# Out before they were over: with their group, for its age; alone, since enough others of their group were in.
CUT_SAMPLE, CANCELLED = 9, 10
# Stages and fates of a group.
IN_GENERATION, IN_SCORING, IN_QUEUE, IN_BUFFER, IN_PACK, LEFT = range(6)
UNFINISHED, TRAINED, DROPPED_AGE, DROPPED_OVERFLOW, REJECTED = range(5)
# Values of settings: mode, order, age_reference, age_at_pack and age_at_install, returns.
DRAIN, KEEP, RESTART, PIN, REPREFILL = range(5)
DONE_FIRST, OLDEST, STRICT, TARGETED_ORDER, FRESHEST, RANDOM, LATEST = range(7)
AT_SUBMIT, AT_START, AT_END = range(3)
REACH_NONE, REACH_READY, REACH_ALL = range(3)
NOW_BACK, PUBLISH_BACK, NEVER_BACK = range(3)
# Timed events: what a code of the wall clock's heap stands for.
EVENT_REWARD, EVENT_STEP, EVENT_PLACE, EVENT_REPAIR = range(4)
# Points at which `advance` goes on, and why it came back.
EVENTS, SETTLE, ADMIT = range(3)
GOING, DONE_RUN, TRAINING, STARTS, PUBLISHED, STALLED, STARVED, FULL, SUPPLY = range(9)


def _record(integers: str = "", reals: str = "", small: str = "") -> Any:
    """Dtype of a record with reals (float64), integers (int64) and small integers (int32), aligned."""
    names = ((name, kind) for kind, group in (("f8", reals), ("i8", integers), ("i4", small)) for name in group.split())
    return np.dtype((np.record, np.dtype(list(names), align=True)))


SETTINGS = _record(
    integers="""groups_per_batch samples redundant batches_per_publish tickets_at_publish returns quantum lead capacity
    drops_oldest hides initial_fill max_uses order window max_age age_waits requeues age_at_pack age_at_install
    age_reference mode prefetch servers slots turns environment_holds reward_holds place_holds trainer_waits
    publish_waits generator_pauses failure_keeps instant external_work records stretched realization failure_key_0
    failure_key_1 choice_key_0 choice_key_1 interrupts warm_up patience room batches closes_at epoch permits rounds
    rewarded slowed rolling adapts colocated""",
    reals="""sync_time token_time recent accept prompt prefill_speedup failure_rate restart_delay
    target_staleness""",
)
"""Constants of a run; counts without a limit are `UNLIMITED`, flags are 1 or 0."""
PLAIN: dict[str, float] = {
    **dict.fromkeys(("turns", "servers", "quantum", "max_uses"), 1),
    **dict.fromkeys(("failure_rate", "failure_keeps", "instant", "external_work", "stretched", "interrupts"), 0),
    **dict.fromkeys(("age_at_pack", "age_at_install", "publish_waits", "age_waits", "requeues", "hides", "recent"), 0),
    **dict.fromkeys(
        ("place_holds", "reward_holds", "drops_oldest", "redundant", "rounds", "rolling", "adapts", "colocated"), 0
    ),
    **dict.fromkeys(("lead", "capacity", "closes_at", "epoch", "permits"), UNLIMITED),
}
"""Settings of a plain system. The kernel is compiled for them apart, without what they leave out."""
RUN = _record(
    integers="""point snapshots installed wanted syncing due busy paused packs started finished tickets later_tickets
    admitted gone in_flight scoring blocked ready visible hidden entries free free_head rows blocked_head again
    again_head targets targets_head targeted pending timed serial first_row last_row untrained stretches supplied inline
    idle_events active holding launch_due unstarted times_drawn permitted outside_from outside_to rolled
    allowed stale stale_groups""",
    reals="now train_end install_at",
)
"""Where a run stands: clocks, counts, lengths and heads of queues."""
SUMS = _record(
    reals="""in_flight outstanding active running busy generated trained_work wasted_work begun begun_work
    trained_samples staleness squares staleness_in_flight token_staleness tokens newest publish_lag groups dropped_age
    dropped_overflow rejected seconds installs outstanding_at_installs"""
)
"""Sums over time and over groups, of what happened after the warm-up."""
SAMPLE = _record(
    reals="work start end scored wasted clock done limit versions mark reward", small="v_start v_end attempt turn phase"
)
GROUP = _record(
    small="""number place missing unscored v_submit v_head v_done v_left v_trained fate batch prompt target entry
    v_visible used references stage before after accepted"""
)
SERVER = _record(
    reals="t_zero w_zero speed area area_to", integers="active held heap waiting waiting_head version paused"
)
TIMED = _record(reals="time", integers="order what")
MOMENT = _record(reals="t_submit t_done t_ready t_left t_free factor")
"""Times of a group and the factor of its prompt; apart, so that searches through groups touch less memory."""
AGAIN = _record(reals="factor", small="prompt")
BATCH = _record(reals="train_time t_pack t_start t_end", integers="version installed")
PUBLISH = _record(reals="t_snapshot t_install", integers="in_flight scoring blocked ready packed outstanding unstarted")
STRETCH = _record(reals="clock done", integers="sample version")
SUPPLIED = _record(reals="work reward")
PROMPT = _record(reals="factor accept")


def has(settings: Any, constants: Mapping[str, float]) -> bool:
    # All at once: a record is slow to read field by field.
    values = dict(zip(SETTINGS.names, settings.item(), strict=True))
    return all(values[name] == value for name, value in constants.items())


Table = Any
"""A record, or an array of records (`np.recarray`), whose fields are attributes."""

_REAL, _INTEGER, _SMALL = np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.int32)
LAYOUT: dict[str, tuple[np.dtype, int]] = {
    **{name: (kind, 0) for name, kind in (("settings", SETTINGS), ("run", RUN), ("sums", SUMS))},
    **dict.fromkeys(("rate", "decode", "keys"), (_REAL, 1)),
    **dict.fromkeys(("codes", "queue", "ranks", "free", "targets", "pending", "histogram", "scratch"), (_INTEGER, 1)),
    **dict.fromkeys(("picks", "hidden", "blocked", "rows"), (_SMALL, 1)),
    **dict.fromkeys(("steps", "marks", "supply_steps"), (_REAL, 2)),
    "taken": (_SMALL, 2),
    **{name: (kind, 1) for name, kind in (("server", SERVER), ("timed", TIMED), ("again", AGAIN))},
    **{name: (kind, 1) for name, kind in (("sample", SAMPLE), ("group", GROUP), ("moment", MOMENT), ("batch", BATCH))},
    **{name: (kind, 1) for name, kind in (("publish", PUBLISH), ("stretch", STRETCH))},
    **{name: (kind, 1) for name, kind in (("supply", SUPPLIED), ("prompts", PROMPT))},
}
"""Kind and number of axes of every table of `State`, in the order in which compiled code finds their addresses."""
SLOT = 3
"""Numbers that stand for a table in the list of addresses: where it begins, and two lengths."""

RECORDS: dict[str, int] = {}
for _name, (_kind, _axes) in LAYOUT.items():
    # One after the other behind the list.
    if _axes == 0:
        RECORDS[_name] = 8 * SLOT * len(LAYOUT) + sum(LAYOUT[each][0].itemsize for each in RECORDS)
"""Where settings, run and sums stand, in bytes: compiled code reaches them without a look into the list."""


class State:
    """Kernel state of one realization: its tables under the fixed names of `LAYOUT`.

    `settings`, `run`, `sums`: constants, where it stands, sums. `decode` and `rate`: speeds by active samples and of
    places. `keys`, `codes` (a heap) and `queue` belong to the servers, one behind the other; `timed` is the heap of the
    wall clock; `ranks`, `picks` that of finished groups. `steps` `[samples, turns - 1]`: seconds of environments;
    `marks` `[V, servers]`: clocks at installs; `taken` `[B, G]`: rows of batches. `supply`, `supply_steps` and
    `prompts` are draws for groups to be admitted. `addresses` `[tables, SLOT]` is what compiled code takes of it;
    `plain`: whether the settings are those of `PLAIN`.
    """

    addresses: np.ndarray
    plain: bool

    def __init__(self, **tables: Table) -> None:
        vars(self).update({name: tables.pop(name) for name in LAYOUT})
        if tables:
            raise TypeError(f"a state has no {', '.join(tables)}")
        vars(self).update(addresses=_gathered(self), plain=has(self.settings, PLAIN))

    def __getattr__(self, name: str) -> Table:
        raise AttributeError(name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name} of a state is not assigned: compiled code has the addresses of its tables")

    def replace(self, **tables: Table) -> "State":
        """Kernel state with some tables replaced."""
        return State(**{name: vars(self)[name] for name in LAYOUT} | tables)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the tables only, since a copy has its own addresses."""
        return _restored, ({name: vars(self)[name] for name in LAYOUT},)


def _gathered(state: State) -> np.ndarray:
    """List of addresses, followed by the records, which are moved into the same block of memory."""
    slots = np.array([_slot(state, name) for name in LAYOUT])
    block = np.empty(slots.nbytes + sum(LAYOUT[name][0].itemsize for name in RECORDS), dtype=np.uint8)
    for name, begin in RECORDS.items():
        kind = LAYOUT[name][0]
        place = block[begin : begin + kind.itemsize]
        place[:] = np.frombuffer(getattr(state, name), np.uint8)
        vars(state)[name] = place.view(kind).view(np.recarray)[0]
        slots[list(LAYOUT).index(name), 0] = place.ctypes.data
    addresses = block[: slots.nbytes].view(np.int64).reshape(slots.shape)
    addresses[:] = slots
    return addresses


def _restored(tables: dict[str, Any]) -> State:
    """State from copied tables; records read from a file are made rows of a table, to share memory."""
    rows = {name: np.array([tables[name]]).view(np.recarray)[0] for name in RECORDS}
    return State(**tables | rows)


def _slot(state: State, name: str) -> tuple[int, int, int]:
    """Address and lengths of a table; another layout raises here, because compiled code trusts them."""
    (dtype, axes), array = LAYOUT[name], getattr(state, name)
    shared = array.flags.c_contiguous and (axes > 0 or not array.flags.owndata)
    if array.dtype != dtype or array.ndim != axes or not shared:
        raise TypeError(f"the state's {name} is not as LAYOUT says: {array.dtype}, {array.shape}")
    first, second = (*array.shape, 1, 1)[:2]
    return (array if axes else np.frombuffer(array, np.uint8)).ctypes.data, first, second
