"""The state of one realization: what the kernel's functions and its readers share.

Tables are arrays of records, a row for each sample, group, server and so on, read as `state.group[row].v_head` in the
kernel and as `state.group.v_head` outside. With a full record a group's row is its number. For a summary alone, rows
are reused after a group has left. Sample k of the group in row r has row r * N + k.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from asyncsim.base.columns import FATES as FATES

UNLIMITED = 1 << 60
"""Stands for None where a count has no limit."""


def _names(count: int) -> range:
    return range(count)


# Phases of a sample.
(OUTSIDE, UNSTARTED, STARTING, WRITING, QUEUED, STEPPING, REPAIRING, REWARDED, OVER_SAMPLE, CUT_SAMPLE) = _names(10)
# Stages and fates of a group.
IN_GENERATION, IN_SCORING, IN_QUEUE, IN_BUFFER, IN_PACK, LEFT = _names(6)
UNFINISHED, TRAINED, DROPPED_AGE, DROPPED_OVERFLOW, REJECTED = _names(5)
# Values of settings: mode, order, age_reference, returns.
DRAIN, KEEP, RESTART, PIN, REPREFILL = _names(5)
DONE_FIRST, OLDEST, STRICT, TARGETED_ORDER, FRESHEST, RANDOM = _names(6)
AT_SUBMIT, AT_START, AT_END = _names(3)
NOW_BACK, PUBLISH_BACK, NEVER_BACK = _names(3)
# Timed events: what a code of the wall clock's heap stands for.
EVENT_REWARD, EVENT_STEP, EVENT_PLACE, EVENT_REPAIR = _names(4)
# Points at which `advance` goes on, and why it came back.
EVENTS, SETTLE, ADMIT = _names(3)
GOING, DONE_RUN, TRAINING, STARTS, PUBLISHED, STALLED, STARVED, FULL, SUPPLY = _names(9)


def _record(integers: str = "", reals: str = "", small: str = "") -> Any:
    """A record of reals (float64), integers (int64) and small integers (int32), at aligned places."""
    names = ((name, kind) for kind, group in (("f8", reals), ("i8", integers), ("i4", small)) for name in group.split())
    return np.dtype((np.record, list(names)), align=True)


SETTINGS = _record(
    integers="""groups_per_batch samples batches_per_publish tickets_at_publish returns quantum lead capacity
    drops_oldest hides initial_fill max_uses order window max_age age_waits requeues cuts_at_pack cuts_at_install
    reaches_all age_reference mode prefetch servers slots turns environment_holds reward_holds place_holds trainer_waits
    generator_pauses failure_keeps instant external_work records stretched realization failure_key_0 failure_key_1
    choice_key_0 choice_key_1 warm_up patience room batches closes_at epoch permits""",
    reals="sync_time token_time recent accept prompt prefill_speedup failure_rate restart_delay",
)
"""Constants of a run; counts without a limit are `UNLIMITED`, flags are 1 or 0."""
RUN = _record(
    integers="""point snapshots installed wanted syncing due busy paused packs started finished tickets later_tickets
    admitted gone in_flight scoring blocked ready visible hidden entries free free_head rows blocked_head again
    again_head targets targets_head targeted pending timed serial first_row last_row untrained stretches supplied inline
    idle_events active holding launch_due unstarted times_drawn permitted outside_from outside_to""",
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
SERVER = _record(reals="t_zero w_zero speed area area_to", integers="active held heap waiting waiting_head")
TIMED = _record(reals="time", integers="order what")
MOMENT = _record(reals="t_submit t_done t_ready t_left t_free factor")
"""Times of a group and the factor of its prompt; apart, so that searches through groups touch less memory."""
AGAIN = _record(reals="factor", small="prompt")
BATCH = _record(reals="train_time t_pack t_start t_end", integers="version installed")
PUBLISH = _record(reals="t_snapshot t_install", integers="in_flight scoring blocked ready packed outstanding unstarted")
STRETCH = _record(reals="clock done", integers="sample version")
SUPPLIED = _record(reals="work reward")
PROMPT = _record(reals="factor accept")


Table = Any
"""A record, or an array of records (`np.recarray`), whose fields are attributes."""


class State(NamedTuple):
    """One realization: settings, where it stands, sums; tables; heaps, queues and rings.

    `totals` are the sums as one array. `decode` and `rate`: speeds by active samples and of places. `keys`, `codes` (a
    heap) and `queue` belong to the servers, one behind the other; `timed` is the heap of the wall clock; `ranks`,
    `picks` that of finished groups. `steps` `[samples, turns - 1]`: seconds of environments; `marks` `[V, servers]`:
    clocks at installs; `taken` `[B, G]`: rows of batches. `supply`, `supply_steps` and `prompts` are draws for groups
    to be admitted.
    """

    settings: Table
    run: Table
    sums: Table
    totals: np.ndarray
    rate: np.ndarray
    decode: np.ndarray
    server: Table
    keys: np.ndarray
    codes: np.ndarray
    queue: np.ndarray
    timed: Table
    ranks: np.ndarray
    picks: np.ndarray
    hidden: np.ndarray
    blocked: np.ndarray
    free: np.ndarray
    rows: np.ndarray
    again: Table
    targets: np.ndarray
    pending: np.ndarray
    sample: Table
    steps: np.ndarray
    group: Table
    moment: Table
    batch: Table
    taken: np.ndarray
    publish: Table
    marks: np.ndarray
    stretch: Table
    histogram: np.ndarray
    supply: Table
    supply_steps: np.ndarray
    prompts: Table
    scratch: np.ndarray
