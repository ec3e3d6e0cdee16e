"""The arrays of one realization and the names of their entries: what the kernel's functions and its readers share.

Rows of groups are their numbers where everything is recorded, and are used again after a group has left where only a
summary is asked for; sample k of the group in row r has row r * N + k.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from asyncsim.columns import FATES as FATES

UNLIMITED = 1 << 60
LATE = UNLIMITED
"""Stands for None where a count has no limit."""


def _names(count: int) -> range:
    return range(count)


# Entries of `n`, int64: the settings, then the counts.
(GROUPS, SAMPLES, BATCHES, AT_PUBLISH, RETURNS, QUANTUM, LEAD, CAPACITY, OVERFLOWS, HIDES, FILL, USES, ORDER, WINDOW,
 AGE, WAITS_AGE, REQUEUES, AT_PACK, AT_INSTALL, REACH, REFERENCE, MODE, PREFETCH, SERVERS, SLOTS, TURNS, STEP_HOLDS,
 REWARD_HOLDS, PLACE_HOLDS, TRAINER_WAITS, PAUSES, KEEPS, INSTANT, ASK, RECORD, SEGMENTED, REALIZATION, FAILURE_KEY_0,
 FAILURE_KEY_1, CHOICE_KEY_0, CHOICE_KEY_1, WARM, PATIENCE, ROOM, TOTAL, CLOSE_AT, EPOCH, PERMITS) = _names(48)
SETTINGS = 48
(POINT, SNAPSHOTS, INSTALLED, WANTED, SYNCING, DUE, BUSY, PAUSED, PACKS, STARTED, FINISHED, TICKETS, LATER_TICKETS,
 ADMITTED, GONE, FLYING, SCORING, BLOCKED, READY, VISIBLE, HIDDEN, ENTRIES, FREE, FREE_HEAD, ROWS,
 BLOCKED_HEAD, AGAIN, AGAIN_HEAD, TARGETS, TARGETS_HEAD, TARGETED, PENDING, TIMED, SERIAL, FIRST_ROW, LAST_ROW,
 SEGMENTS, SUPPLIED, INLINE, IDLE_EVENTS, ACTIVE_ALL, HOLDING, ASKED, NOT_STARTED, TIMES_DRAWN,
 PERMITTED, OUTSIDE_FROM, OUTSIDE_TO) = (
    SETTINGS + i for i in _names(48))
COUNTS = SETTINGS + 48

# Entries of `x`, float64: settings, clocks, sums over time, sums after the warm-up.
(SYNC, TOKEN_TIME, RECENT, ACCEPT, PROMPT_TOKENS, SPEEDUP, FAILURE, DELAY, NOW, TRAIN_END, INSTALL_AT) = _names(11)
(SUM_FLYING, SUM_OUTSTANDING, SUM_ACTIVE, SUM_RUNNING, SUM_BUSY, GENERATED, TRAINED_WORK, WASTED_WORK,
 BEGUN, BEGUN_WORK, TRAINED_SAMPLES, SUM_STALENESS, SUM_SQUARE, SUM_IN_FLIGHT, SUM_TOKEN, SUM_TOKENS, SUM_NEWEST,
 SUM_LAG, SUM_GROUPS, CUT_AGE, CUT_OVERFLOW, REJECTED_GROUPS, TIME, SUM_INSTALLS, SUM_LEVEL) = (
    11 + i for i in _names(25))
REALS = 36
FIRST_SUM, LAST_SUM = SUM_FLYING, REALS

# Columns of `item` (float64) and `stamp` (int32), a row for each sample; environment seconds follow in `item`.
(WORK, START, END, SCORED, WASTED, BASE, DONE, LIMIT, VERSIONS, MARK, REWARD, STEPS) = _names(12)
V_START, V_END, ATTEMPT, TURN, PHASE = _names(5)
(OUTSIDE, UNSTARTED, STARTING, WRITING, QUEUED, STEPPING, REPAIRING, REWARDED, OVER_SAMPLE,
 CUT_SAMPLE) = _names(10)

# Columns of `group` (int32) and `moment` (float64), a row for each group.
(NUMBER, PLACE, MISSING, UNSCORED, V_SUBMIT, V_HEAD, V_DONE, V_LEFT, V_TRAINED, FATE, BATCH, PROMPT, TARGET, ENTRY,
 SHOWN, USED, REFERENCES, STAGE, BEFORE, AFTER, KEPT) = _names(21)
T_SUBMIT, T_DONE, T_READY, T_LEFT, T_PLACE, FACTOR = _names(6)
IN_GENERATION, IN_SCORING, IN_QUEUE, IN_BUFFER, IN_PACK, LEFT = _names(6)
UNFINISHED, TRAINED, DROPPED_AGE, DROPPED_OVERFLOW, REJECTED = _names(5)

# Columns of `engine` (float64) and `load` (int64), a row for each server.
T_ZERO, W_ZERO, SPEED, AREA, AREA_TO = _names(5)
ACTIVE, HELD, HEAP, WAITING, WAITING_HEAD = _names(5)

# Columns of `batch`, `publish` (float64) and `level` (int64).
TRAIN_TIME, T_PACK, TRAIN_FROM, TRAIN_TO, BATCH_VERSION, BATCH_INSTALLED = _names(6)
SNAPSHOT, INSTALL = _names(2)
(LEVEL_FLYING, LEVEL_SCORING, LEVEL_BLOCKED, LEVEL_READY, LEVEL_PACKED, LEVEL_OUTSTANDING,
 LEVEL_UNSTARTED) = _names(7)

DRAIN, KEEP, RESTART, PIN, REPREFILL = _names(5)
DONE_FIRST, OLDEST, STRICT, TARGETED_ORDER, FRESHEST, RANDOM = _names(6)
AT_SUBMIT, AT_START, AT_END = _names(3)
NOW_BACK, PUBLISH_BACK, NEVER_BACK = _names(3)
# Timed events: what a code of the wall clock's heap stands for.
EVENT_REWARD, EVENT_STEP, EVENT_PLACE, EVENT_REPAIR = _names(4)
# Points at which `advance` goes on, and why it came back.
EVENTS, SETTLE, ADMIT = _names(3)
GOING, DONE_RUN, TRAINING, STARTS, PUBLISHED, STALLED, STARVED, FULL, SUPPLY = _names(9)
# Columns of `supply` (one row a sample) and `prompts` (one row a group).
SUPPLY_WORK, SUPPLY_REWARD, SUPPLY_STEPS = _names(3)
SUPPLY_FACTOR, SUPPLY_ACCEPT = _names(2)


class State(NamedTuple):
    """One realization. `n`, `x`: settings and counts; tables as described above; heaps and queues of the servers
    (`keys`, `codes`, `queue`), of the wall clock (`times`, `orders`, `whats`) and of the buffer (`ranks`, `picks`).
    """

    n: np.ndarray
    x: np.ndarray
    rate: np.ndarray
    decode: np.ndarray
    engine: np.ndarray
    load: np.ndarray
    keys: np.ndarray
    codes: np.ndarray
    queue: np.ndarray
    times: np.ndarray
    orders: np.ndarray
    whats: np.ndarray
    ranks: np.ndarray
    picks: np.ndarray
    hidden: np.ndarray
    blocked: np.ndarray
    free: np.ndarray
    rows: np.ndarray
    again: np.ndarray
    factors: np.ndarray
    targets: np.ndarray
    pending: np.ndarray
    item: np.ndarray
    stamp: np.ndarray
    group: np.ndarray
    moment: np.ndarray
    batch: np.ndarray
    taken: np.ndarray
    publish: np.ndarray
    level: np.ndarray
    marks: np.ndarray
    segment: np.ndarray
    segmented: np.ndarray
    histogram: np.ndarray
    supply: np.ndarray
    prompts: np.ndarray
    scratch: np.ndarray
