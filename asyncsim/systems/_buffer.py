"""Finished groups, compiled: the buffer, the orders in which a batch is chosen, what leaves without being trained.

Visible groups are a heap by rank, or under order random an array in the order of entry.
"""

from __future__ import annotations

import numpy as np

from asyncsim.rng_compiled import uniform_at
from asyncsim.systems._compile import compiled, inlined
from asyncsim.systems._heaps import heapify, ring_put, sift_down, sift_up, sort
from asyncsim.systems._state import *


@inlined
def free_place(n, free, group, moment, row, now):
    """The place of a group goes to the end of the queue of free ones."""
    ring_put(free, 0, free.shape[0], n[FREE_HEAD], n[FREE], group[row, PLACE])
    n[FREE] += 1
    moment[row, T_PLACE] = now


@inlined
def unlink(n, group, row):
    """Take a group out of the list of those that have neither entered the buffer nor left."""
    before, after = group[row, BEFORE], group[row, AFTER]
    if before >= 0:
        group[before, AFTER] = after
    else:
        n[FIRST_ROW] = after
    if after >= 0:
        group[after, BEFORE] = before
    else:
        n[LAST_ROW] = before


@inlined
def rank_of(n, group, row):
    """What the buffer is ordered by, smallest first."""
    order = n[ORDER]
    if order == OLDEST:
        return np.int64(group[row, NUMBER])
    if order == STRICT:
        return (np.int64(group[row, V_SUBMIT]) << 32) | np.int64(group[row, ENTRY])
    if order == TARGETED_ORDER:
        return np.int64(group[row, TARGET])
    if order == FRESHEST:
        return -np.int64(group[row, NUMBER])
    return np.int64(group[row, ENTRY])


@inlined
def show(n, ranks, picks, group, row):
    """A group becomes visible to the order."""
    if n[ORDER] == RANDOM:
        picks[n[VISIBLE]] = row
    else:
        sift_up(ranks, picks, 0, n[VISIBLE], rank_of(n, group, row), row)
    n[VISIBLE] += 1


@inlined
def enter(n, ranks, picks, hidden, free, group, moment, row, now):
    """A finished group enters the buffer."""
    unlink(n, group, row)
    group[row, ENTRY] = n[ENTRIES]
    group[row, STAGE] = IN_BUFFER
    moment[row, T_READY] = now
    n[ENTRIES] += 1
    n[READY] += 1
    if n[PLACE_HOLDS]:
        free_place(n, free, group, moment, row, now)
    if n[HIDES] and group[row, ENTRY] >= n[FILL]:
        hidden[n[HIDDEN]] = row
        n[HIDDEN] += 1
    else:
        group[row, SHOWN] = -1
        show(n, ranks, picks, group, row)


@compiled
def discard(n, x, rows, again, factors, targets, group, moment, item, row, fate, now):
    """A group leaves without (further) training: its ticket, target and prompt go where the settings say."""
    group[row, STAGE] = LEFT
    if group[row, USED] == 0:
        group[row, FATE], group[row, V_LEFT], moment[row, T_LEFT] = fate, n[INSTALLED], now
        n[GONE] += 1
        for code in range(row * n[SAMPLES], (row + 1) * n[SAMPLES]):
            x[WASTED_WORK] += item[code, DONE]
        if n[STARTED] >= n[WARM]:
            x[CUT_AGE] += fate == DROPPED_AGE
            x[CUT_OVERFLOW] += fate == DROPPED_OVERFLOW
            x[REJECTED_GROUPS] += fate == REJECTED
        if n[RETURNS] == NOW_BACK:
            n[TICKETS] += 1
        elif n[RETURNS] == PUBLISH_BACK:
            n[LATER_TICKETS] += 1
        if n[ORDER] == TARGETED_ORDER:
            ring_put(targets, 0, targets.shape[0], n[TARGETS_HEAD], n[TARGETS], group[row, TARGET])
            n[TARGETS] += 1
        if n[REQUEUES] and fate == DROPPED_AGE:
            ring_put(again, 0, again.shape[0], n[AGAIN_HEAD], n[AGAIN], group[row, PROMPT])
            ring_put(factors, 0, again.shape[0], n[AGAIN_HEAD], n[AGAIN], moment[row, FACTOR])
            n[AGAIN] += 1
    if not n[RECORD] and group[row, REFERENCES] == 0:
        rows[n[ROWS]] = row
        n[ROWS] += 1


@compiled
def drop_first_entered(n, x, ranks, picks, hidden, rows, again, factors, targets, group, moment, item, now):
    """The group that entered the buffer first leaves it."""
    if n[ORDER] == DONE_FIRST and n[VISIBLE] > 0:
        oldest = 0
    else:
        oldest = -1
        for i in range(n[VISIBLE]):
            if oldest < 0 or group[picks[i], ENTRY] < group[picks[oldest], ENTRY]:
                oldest = i
    if oldest < 0:
        row = hidden[0]
        n[HIDDEN] -= 1
        for i in range(n[HIDDEN]):
            hidden[i] = hidden[i + 1]
        n[READY] -= 1
    else:
        row = picks[oldest]
        take_out(n, ranks, picks, oldest)
    discard(n, x, rows, again, factors, targets, group, moment, item, row, DROPPED_OVERFLOW, now)


@compiled
def take_out(n, ranks, picks, i):
    """Remove the visible group at place i."""
    last = n[VISIBLE] - 1
    if n[ORDER] == RANDOM:
        for j in range(i, last):
            picks[j] = picks[j + 1]
    else:
        rank, row = ranks[last], picks[last]
        if i < last:
            if rank < ranks[i]:
                sift_up(ranks, picks, 0, i, rank, row)
            else:
                sift_down(ranks, picks, 0, last, i, rank, row)
    n[VISIBLE] = last
    n[READY] -= 1


@inlined
def over_age(n, group, row, planned):
    """Whether a group is older than the age rule allows at the planned version; missing stamps are not."""
    stamp = V_SUBMIT if n[REFERENCE] == AT_SUBMIT else (V_DONE if n[REFERENCE] == AT_END else V_HEAD)
    return group[row, stamp] >= 0 and planned - group[row, stamp] > n[AGE]


@compiled
def cut_buffer(
    n, x, ranks, picks, hidden, rows, again, factors, targets, group, moment, item, found, planned, now
):
    """Groups over age leave the buffer, in the order of entry; whether there are any."""
    count = kept = 0
    for i in range(n[VISIBLE]):
        row = picks[i]
        if over_age(n, group, row, planned):
            found[count] = (np.int64(group[row, ENTRY]) << 32) | row
            count += 1
        else:
            ranks[kept], picks[kept] = ranks[i], row
            kept += 1
    shown, kept_hidden = kept, 0
    for i in range(n[HIDDEN]):
        row = hidden[i]
        if over_age(n, group, row, planned):
            found[count] = (np.int64(group[row, ENTRY]) << 32) | row
            count += 1
        else:
            hidden[kept_hidden] = row
            kept_hidden += 1
    if count == 0:
        return False
    n[VISIBLE], n[HIDDEN], n[READY] = shown, kept_hidden, shown + kept_hidden
    if n[ORDER] != RANDOM:
        heapify(ranks, picks, 0, shown)
    sort(found, count)
    for i in range(count):
        row = found[i] & 0xFFFFFFFF
        discard(n, x, rows, again, factors, targets, group, moment, item, row, DROPPED_AGE, now)
    return True


@inlined
def eligible(n, group, row, batch_index):
    """Whether the order allows a group whose turn it is."""
    first = n[FIRST_ROW]
    if n[ORDER] == TARGETED_ORDER:
        return group[row, TARGET] < (batch_index + 1) * n[GROUPS]
    if first < 0:
        return True
    if n[ORDER] == OLDEST:
        return group[row, NUMBER] - group[first, NUMBER] < n[WINDOW]
    if n[ORDER] == STRICT:
        return group[row, V_SUBMIT] <= group[first, V_SUBMIT]
    return True


@inlined
def hopeless(n, picks, group):
    """Whether no batch can be formed, seen without trying."""
    if n[VISIBLE] < n[GROUPS]:
        return True
    first = n[FIRST_ROW]
    if first < 0:
        return False
    if n[WAITS_AGE] and n[PACKS] // n[BATCHES] - group[first, V_SUBMIT] >= n[AGE]:
        return True
    if n[ORDER] == OLDEST and n[WINDOW] < (1 << 31):
        older = max(0, group[first, NUMBER] - group[picks[0], NUMBER])
        return older + n[WINDOW] - 1 < n[GROUPS]
    return False


@inlined
def choose(n, x, ranks, picks, group, taken, scratch):
    """Choose a batch: its rows go into `taken`, uses are counted; False where the order allows none."""
    if hopeless(n, picks, group):
        return False
    size = n[GROUPS]
    line = n[PACKS] % len(taken)
    if n[ORDER] == RANDOM:
        choose_random(n, x, picks, group, taken, line, scratch)
        return True
    count = 0
    while count < size and n[VISIBLE] > 0 and eligible(n, group, picks[0], n[PACKS]):
        taken[line, count] = picks[0]
        count += 1
        last = n[VISIBLE] - 1
        n[VISIBLE] = last
        sift_down(ranks, picks, 0, last, 0, ranks[last], picks[last])
    for k in range(count):
        row = taken[line, k]
        if count == size:
            group[row, USED] += 1
            group[row, REFERENCES] += 1
        if count < size or group[row, USED] < n[USES]:
            sift_up(ranks, picks, 0, n[VISIBLE], rank_of(n, group, row), row)
            n[VISIBLE] += 1
        else:
            group[row, STAGE] = IN_PACK
            n[READY] -= 1
    return count == size


@compiled
def choose_random(n, x, picks, group, taken, line, below):
    """One after the other without replacement; `below` are the places chosen so far, in order."""
    size = n[GROUPS]
    # Those that became visible last lie side by side; behind them what was visible at once.
    high = n[VISIBLE]
    while high > 0 and group[picks[high - 1], SHOWN] != n[INSTALLED]:
        high -= 1
    low = high
    while low > 0 and group[picks[low - 1], SHOWN] == n[INSTALLED]:
        low -= 1
    recent_left = high - low
    for k in range(size):
        draw = uniform_at(n[CHOICE_KEY_0], n[CHOICE_KEY_1], n[REALIZATION], n[PACKS], 0, 2 * k + 1)
        from_recent = False
        if x[RECENT] > 0.0 and recent_left > 0:
            from_recent = (
                uniform_at(n[CHOICE_KEY_0], n[CHOICE_KEY_1], n[REALIZATION], n[PACKS], 0, 2 * k) < x[RECENT]
            )
        if from_recent:
            place = low + int(draw * recent_left)
        else:
            place = int(draw * (n[VISIBLE] - k))
        j = 0
        while j < k and (below[j] <= place):
            if not from_recent or below[j] >= low:
                place += 1
            j += 1
        i = k
        while i > 0 and below[i - 1] > place:
            below[i] = below[i - 1]
            i -= 1
        below[i] = place
        recent_left -= low <= place < high
        taken[line, k] = picks[place]
    exhausted = 0
    for k in range(size):
        row = taken[line, k]
        group[row, USED] += 1
        group[row, REFERENCES] += 1
        if group[row, USED] >= n[USES]:
            group[row, STAGE] = IN_PACK
            exhausted += 1
    if exhausted:
        kept = 0
        for i in range(n[VISIBLE]):
            if group[picks[i], STAGE] == IN_BUFFER:
                picks[kept] = picks[i]
                kept += 1
        n[VISIBLE] = kept
        n[READY] -= exhausted
