"""Groups from admission to the end of their training, compiled."""

from __future__ import annotations

import numpy as np

from asyncsim.systems._buffer import cut_buffer, discard, drop_first_entered, enter, free_place, over_age, unlink
from asyncsim.systems._compile import compiled, inlined
from asyncsim.systems._engine import (
    ROW_MASK,
    account,
    clock,
    put_event,
    serve,
    server_of,
    set_speed,
    submit,
    target_of,
    written,
)
from asyncsim.systems._heaps import heapify, ring_next, ring_put, timed_heapify
from asyncsim.systems._state import *


@inlined
def new_sample(n, x, item, stamp, supply, code, line, factor):
    """A sample that has not begun."""
    item[code, WORK] = supply[line, SUPPLY_WORK] * factor
    item[code, DONE] = 0.0
    x[BEGUN] += 1.0
    x[BEGUN_WORK] += item[code, WORK]
    if n[RECORD]:
        item[code, START] = item[code, END] = item[code, SCORED] = item[code, BASE] = np.nan
        item[code, WASTED] = 0.0
    item[code, REWARD] = supply[line, SUPPLY_REWARD]
    for j in range(STEPS, item.shape[1]):
        item[code, j] = supply[line, SUPPLY_STEPS + j - STEPS]
    stamp[code, V_START] = stamp[code, V_END] = -1
    stamp[code, ATTEMPT] = 0
    stamp[code, TURN] = 1
    stamp[code, PHASE] = OUTSIDE


@inlined
def new_group(n, x, free, rows, again, factors, targets, group, moment, prompts, now):
    """A group takes a place; its row."""
    number = n[ADMITTED]
    n[ADMITTED] = number + 1
    if n[RECORD]:
        row = number
    else:
        n[ROWS] -= 1
        row = rows[n[ROWS]]
    group[row, NUMBER] = number
    group[row, PLACE] = free[n[FREE_HEAD]]
    n[FREE_HEAD] = ring_next(free.shape[0], n[FREE_HEAD])
    n[FREE] -= 1
    group[row, MISSING] = group[row, UNSCORED] = n[SAMPLES]
    group[row, V_SUBMIT] = n[INSTALLED]
    group[row, V_HEAD] = group[row, V_DONE] = group[row, AFTER] = -1
    group[row, FATE] = group[row, USED] = group[row, REFERENCES] = 0
    group[row, STAGE] = IN_GENERATION
    group[row, BEFORE] = n[LAST_ROW]
    if n[LAST_ROW] >= 0:
        group[n[LAST_ROW], AFTER] = row
    else:
        n[FIRST_ROW] = row
    n[LAST_ROW] = row
    moment[row, T_SUBMIT] = now
    if n[RECORD]:
        group[row, V_LEFT] = group[row, V_TRAINED] = group[row, BATCH] = group[row, ENTRY] = group[row, TARGET] = -1
        moment[row, T_DONE] = moment[row, T_READY] = moment[row, T_LEFT] = moment[row, T_PLACE] = np.nan
    line = number - n[SUPPLIED]
    group[row, KEPT] = prompts[line, SUPPLY_ACCEPT] < x[ACCEPT]
    if n[AGAIN] > 0:
        group[row, PROMPT], moment[row, FACTOR] = again[n[AGAIN_HEAD]], factors[n[AGAIN_HEAD]]
        n[AGAIN_HEAD] = ring_next(again.shape[0], n[AGAIN_HEAD])
        n[AGAIN] -= 1
    else:
        group[row, PROMPT], moment[row, FACTOR] = number, prompts[line, SUPPLY_FACTOR]
    if n[ORDER] == TARGETED_ORDER:
        if n[TARGETS] > 0:
            group[row, TARGET] = targets[n[TARGETS_HEAD]]
            n[TARGETS_HEAD] = ring_next(targets.shape[0], n[TARGETS_HEAD])
            n[TARGETS] -= 1
        else:
            group[row, TARGET] = n[TARGETED]
            n[TARGETED] += 1
    return row


@inlined
def dispatch(
    n, x, rate, decode, engine, load, keys, codes, queue, pending, group, item, stamp, segment, segmented, now
):
    """The samples of the group that was admitted last go to their servers, as far as there are permits."""
    while n[OUTSIDE_FROM] < n[OUTSIDE_TO] and n[PERMITTED] < n[PERMITS]:
        code = n[OUTSIDE_FROM]
        n[OUTSIDE_FROM] = code + 1
        n[PERMITTED] += 1
        stamp[code, PHASE] = UNSTARTED
        submit(
            n, x, rate, decode, engine, load, keys, codes, queue, pending, group, item, stamp, segment, segmented, code,
            server_of(n, group, code), now,
        )


@compiled
def dispatch_rest(
    n, x, rate, decode, engine, load, keys, codes, queue, pending, group, item, stamp, segment, segmented, now
):
    """`dispatch`, for permits that have come back."""
    dispatch(n, x, rate, decode, engine, load, keys, codes, queue, pending, group, item, stamp, segment, segmented, now)


@inlined
def epoch_is_full(n):
    """Whether the next quantum belongs to an epoch that has not begun; lost groups are asked for again."""
    begun = n[FINISHED] // n[EPOCH] + 1
    if n[FINISHED] == (begun - 1) * n[EPOCH] and (n[WANTED] or n[SYNCING]):
        begun -= 1
    lost = n[GONE] - n[STARTED] * n[GROUPS]
    return n[ADMITTED] - lost + n[QUANTUM] > begun * n[EPOCH] * n[GROUPS]


@inlined
def admit(
    n, x, rate, decode, engine, load, keys, codes, queue, pending, free, rows, again, factors, targets, group, moment,
    item, stamp, segment, segmented, supply, prompts, now,
):
    """Admit groups while a quantum of tickets and of places is free and drawn; True where the draws or rows run out."""
    quantum, samples = n[QUANTUM], n[SAMPLES]
    while n[TICKETS] >= quantum and n[FREE] >= quantum:
        if n[LEAD] < UNLIMITED and n[PACKS] // n[BATCHES] - n[INSTALLED] > n[LEAD]:
            break
        if n[PERMITTED] >= n[PERMITS] or n[READY] >= n[CLOSE_AT] or (n[EPOCH] < UNLIMITED and epoch_is_full(n)):
            break
        room = group.shape[0] - n[ADMITTED] if n[RECORD] else n[ROWS]
        if room < quantum or n[ADMITTED] + quantum - n[SUPPLIED] > prompts.shape[0]:
            return True
        for _ in range(quantum):
            row = new_group(n, x, free, rows, again, factors, targets, group, moment, prompts, now)
            n[TICKETS] -= 1
            n[FLYING] += 1
            n[NOT_STARTED] += 1
            line = (group[row, NUMBER] - n[SUPPLIED]) * samples
            for k in range(samples):
                new_sample(n, x, item, stamp, supply, row * samples + k, line + k, moment[row, FACTOR])
            n[OUTSIDE_FROM], n[OUTSIDE_TO] = row * samples, (row + 1) * samples
            dispatch(
                n, x, rate, decode, engine, load, keys, codes, queue, pending, group, item, stamp, segment, segmented,
                now,
            )
    return False


@inlined
def finished(
    n, x, ranks, picks, hidden, blocked, free, rows, again, factors, targets, group, moment, item, code, now
):
    """The group of a sample is scored: rejected, into the buffer, or blocked."""
    row = code if n[SAMPLES] == 1 else code // n[SAMPLES]
    n[SCORING] -= 1
    if group[row, KEPT] and n[READY] < n[CAPACITY]:
        enter(n, ranks, picks, hidden, free, group, moment, row, now)
    else:
        refused(
            n, x, ranks, picks, hidden, blocked, free, rows, again, factors, targets, group, moment, item, row, now,
        )


@compiled
def refused(
    n, x, ranks, picks, hidden, blocked, free, rows, again, factors, targets, group, moment, item, row, now
):
    """A finished group that is rejected or finds no room in the buffer."""
    if group[row, KEPT] == 0:
        unlink(n, group, row)
        if n[PLACE_HOLDS]:
            free_place(n, free, group, moment, row, now)
        discard(n, x, rows, again, factors, targets, group, moment, item, row, REJECTED, now)
    elif n[OVERFLOWS]:
        drop_first_entered(n, x, ranks, picks, hidden, rows, again, factors, targets, group, moment, item, now)
        enter(n, ranks, picks, hidden, free, group, moment, row, now)
    else:
        ring_put(blocked, 0, blocked.shape[0], n[BLOCKED_HEAD], n[BLOCKED], row)
        group[row, STAGE] = IN_QUEUE
        n[BLOCKED] += 1


@inlined
def unblock(n, ranks, picks, hidden, blocked, free, group, moment, now):
    """Blocked groups enter the buffer while it has room."""
    while n[BLOCKED] > 0 and n[READY] < n[CAPACITY]:
        row = blocked[n[BLOCKED_HEAD]]
        n[BLOCKED_HEAD] = ring_next(blocked.shape[0], n[BLOCKED_HEAD])
        n[BLOCKED] -= 1
        enter(n, ranks, picks, hidden, free, group, moment, row, now)


@inlined
def ended(n, x, times, orders, whats, free, group, moment, item, stamp, code, now):
    """A sample has all its tokens; True where its reward is there at once."""
    item[code, END] = now
    stamp[code, V_END] = n[INSTALLED]
    row = code if n[SAMPLES] == 1 else code // n[SAMPLES]
    group[row, MISSING] -= 1
    if group[row, MISSING] == 0:
        group[row, V_DONE], moment[row, T_DONE] = n[INSTALLED], now
        group[row, STAGE] = IN_SCORING
        n[FLYING] -= 1
        n[SCORING] += 1
        if not n[PLACE_HOLDS]:
            free_place(n, free, group, moment, row, now)
    if item[code, REWARD] == 0.0 or not n[REWARD_HOLDS]:
        n[PERMITTED] -= 1
    if item[code, REWARD] > 0.0:
        stamp[code, PHASE] = REWARDED
        put_event(n, times, orders, whats, now + item[code, REWARD], 0, code * 4 + EVENT_REWARD)
        return False
    return True


@inlined
def scored(n, group, item, stamp, code, now):
    """A sample has its reward; True where its group is finished by it."""
    item[code, SCORED] = now
    stamp[code, PHASE] = OVER_SAMPLE
    row = code if n[SAMPLES] == 1 else code // n[SAMPLES]
    group[row, UNSCORED] -= 1
    return group[row, UNSCORED] == 0


@compiled
def leave_server(n, x, rate, engine, load, group, item, stamp, code, now):
    """A sample of a group that is cut gives up what it holds; heaps and queues are cleaned afterwards."""
    s, phase = server_of(n, group, code), stamp[code, PHASE]
    holds = phase in (WRITING, STARTING, REPAIRING)
    if phase in (WRITING, STARTING):
        at = clock(engine, s, now)
        done = min(written(rate, group, item, code, n[SAMPLES], at), target_of(n, item, stamp, code))
        if phase == WRITING:
            account(n, x, engine, rate, group, item, stamp, code, s, at, done)
        load[s, ACTIVE] -= 1
        n[ACTIVE_ALL] -= 1
    if (phase == STEPPING and n[STEP_HOLDS]) or (phase == REWARDED and n[REWARD_HOLDS]):
        holds = True
    if holds:
        load[s, HELD] -= 1
        n[HOLDING] -= 1
    if phase == OUTSIDE:
        # Only the group that was admitted last has samples outside.
        n[OUTSIDE_FROM] = n[OUTSIDE_TO]
    elif phase < REWARDED or (phase == REWARDED and n[REWARD_HOLDS]):
        n[PERMITTED] -= 1
    if phase != OVER_SAMPLE:
        if phase != REWARDED:
            item[code, WASTED] += item[code, DONE]
        stamp[code, PHASE] = CUT_SAMPLE


@compiled
def sweep(n, load, keys, codes, queue, times, orders, whats, pending, stamp, waiting):
    """Take cut samples out of heaps and queues."""
    for s in range(n[SERVERS]):
        o, kept = s * n[ROOM], 0
        for i in range(load[s, HEAP]):
            if stamp[codes[o + i] & ROW_MASK, PHASE] != CUT_SAMPLE:
                keys[o + kept], codes[o + kept] = keys[o + i], codes[o + i]
                kept += 1
        load[s, HEAP] = kept
        heapify(keys, codes, o, kept)
        kept = 0
        for i in range(load[s, WAITING]):
            code = queue[o + (load[s, WAITING_HEAD] + i) % n[ROOM]]
            if stamp[code, PHASE] != CUT_SAMPLE:
                waiting[kept] = code
                kept += 1
        for i in range(kept):
            queue[o + i] = waiting[i]
        load[s, WAITING], load[s, WAITING_HEAD] = kept, 0
    kept = 0
    for i in range(n[PENDING]):
        if stamp[pending[i], PHASE] != CUT_SAMPLE:
            pending[kept] = pending[i]
            kept += 1
    n[PENDING] = kept
    kept = 0
    for i in range(n[TIMED]):
        if whats[i] & 3 == EVENT_PLACE or stamp[whats[i] >> 2, PHASE] != CUT_SAMPLE:
            times[kept], orders[kept], whats[kept] = times[i], orders[i], whats[i]
            kept += 1
    n[TIMED] = kept
    timed_heapify(times, orders, whats, kept)


@compiled
def cut_group(n, x, rate, engine, load, free, rows, again, factors, targets, group, moment, item, stamp, row, now):
    """A group that has not entered the buffer is dropped for its age."""
    for code in range(row * n[SAMPLES], (row + 1) * n[SAMPLES]):
        leave_server(n, x, rate, engine, load, group, item, stamp, code, now)
    stage = group[row, STAGE]
    if stage == IN_GENERATION or n[PLACE_HOLDS]:
        free_place(n, free, group, moment, row, now)
    if stage == IN_GENERATION:
        n[FLYING] -= 1
        n[NOT_STARTED] -= group[row, V_HEAD] < 0
    elif stage == IN_SCORING:
        n[SCORING] -= 1
    unlink(n, group, row)
    discard(n, x, rows, again, factors, targets, group, moment, item, row, DROPPED_AGE, now)


@compiled
def cut(
    n, x, rate, decode, engine, load, keys, codes, queue, times, orders, whats, ranks, picks, hidden, blocked, free,
    rows, again, factors, targets, pending, item, stamp, group, moment, segment, segmented, scratch, now,
):
    """The age rule: groups older than the planned version allows are dropped; whether there are any."""
    planned = n[PACKS] // n[BATCHES]
    changed = cut_buffer(
        n, x, ranks, picks, hidden, rows, again, factors, targets, group, moment, item, scratch, planned, now,
    )
    if not n[REACH]:
        return changed
    found, waiting = 0, n[BLOCKED]
    n[BLOCKED] = 0
    for i in range(waiting):
        row = blocked[(n[BLOCKED_HEAD] + i) % blocked.shape[0]]
        if over_age(n, group, row, planned):
            cut_group(
                n, x, rate, engine, load, free, rows, again, factors, targets, group, moment, item, stamp, row, now,
            )
            found += 1
        else:
            ring_put(blocked, 0, blocked.shape[0], n[BLOCKED_HEAD], n[BLOCKED], row)
            n[BLOCKED] += 1
    row = n[FIRST_ROW]
    while row >= 0:
        after = group[row, AFTER]
        if group[row, STAGE] != IN_QUEUE and over_age(n, group, row, planned):
            cut_group(
                n, x, rate, engine, load, free, rows, again, factors, targets, group, moment, item, stamp, row, now,
            )
            found += 1
        row = after
    if found == 0:
        return changed
    sweep(n, load, keys, codes, queue, times, orders, whats, pending, stamp, scratch)
    for s in range(n[SERVERS]):
        set_speed(n, decode, engine, load, s, now)
        serve(
            n, x, rate, decode, engine, load, keys, codes, queue, pending, group, item, stamp, segment, segmented, s,
            now,
        )
    return True


@inlined
def train(n, x, rows, group, moment, item, stamp, batch, taken, histogram, now):
    """The next packed batch starts to train; its seconds."""
    number = n[STARTED]
    line, row_of_batch = number % len(taken), number % len(batch)
    samples, version, work = n[SAMPLES], n[SNAPSHOTS], 0.0
    for k in range(n[GROUPS]):
        row = taken[line, k]
        own = 0.0
        for code in range(row * samples, (row + 1) * samples):
            own += item[code, WORK]
        work += own
        if group[row, FATE] != TRAINED:
            group[row, FATE], group[row, BATCH], moment[row, T_LEFT] = TRAINED, number, now
            group[row, V_LEFT], group[row, V_TRAINED] = n[INSTALLED], version
            n[GONE] += 1
            x[TRAINED_WORK] += own
        if number >= n[WARM]:
            summarize(n, x, group, item, stamp, histogram, row, version)
        group[row, REFERENCES] -= 1
        if group[row, STAGE] == IN_PACK:
            group[row, STAGE] = LEFT
        if not n[RECORD] and group[row, REFERENCES] == 0 and group[row, STAGE] == LEFT:
            rows[n[ROWS]] = row
            n[ROWS] += 1
    n[STARTED] = number + 1
    n[BUSY] = 1
    batch[row_of_batch, TRAIN_FROM] = now
    batch[row_of_batch, BATCH_VERSION], batch[row_of_batch, BATCH_INSTALLED] = version, n[INSTALLED]
    return batch[row_of_batch, TRAIN_TIME] + (x[TOKEN_TIME] * work if x[TOKEN_TIME] > 0.0 else 0.0)


@inlined
def summarize(n, x, group, item, stamp, histogram, row, version):
    """Add a trained group to the sums: staleness of its head and of its tokens, and where it comes from."""
    stale = version - np.int64(group[row, V_HEAD])
    histogram[min(stale, histogram.shape[0] - 1)] += 1
    x[SUM_STALENESS] += stale
    x[SUM_SQUARE] += float(stale) * stale
    x[SUM_IN_FLIGHT] += group[row, V_DONE] - group[row, V_HEAD]
    x[SUM_LAG] += version - n[INSTALLED]
    x[SUM_GROUPS] += 1.0
    x[TRAINED_SAMPLES] += n[SAMPLES]
    for code in range(row * n[SAMPLES], (row + 1) * n[SAMPLES]):
        x[SUM_TOKEN] += version * item[code, WORK] - item[code, VERSIONS]
        x[SUM_TOKENS] += item[code, WORK]
        newest = stamp[code, V_START] if n[MODE] == PIN else stamp[code, V_END]
        x[SUM_NEWEST] += version - newest
