"""The way of weights, compiled: end of training, snapshot, install, and what that does to samples in flight."""

from __future__ import annotations

from asyncsim.systems._buffer import show
from asyncsim.systems._compile import compiled, inlined
from asyncsim.systems._engine import (
    ROW_MASK,
    areas_to,
    begin_stretch,
    clock,
    packed,
    rekey,
    server_of,
    set_speed,
    stamp_start,
    submit,
    waste,
    write,
    written,
)
from asyncsim.systems._groups import cut
from asyncsim.systems._heaps import sort, timed_heapify
from asyncsim.systems._state import *


@compiled
def begin_again(n, x, engine, group, item, stamp, segment, segmented, code, s, now, at):
    """A sample in a slot throws its tokens away and starts anew."""
    waste(x, item, code)
    stamp[code, ATTEMPT] += 1
    stamp_start(n, x, group, item, stamp, code, now)
    begin_stretch(n, engine, item, stamp, segment, segmented, code, s, at)


@compiled
def leave_steps(n, times, orders, whats, group, found):
    """Take all samples out of their environment steps; how many, and their heap codes in order in `found`."""
    count = kept = 0
    for i in range(n[TIMED]):
        if whats[i] & 3 == EVENT_STEP:
            found[count] = packed(n, group, whats[i] >> 2)
            count += 1
        else:
            times[kept], orders[kept], whats[kept] = times[i], orders[i], whats[i]
            kept += 1
    n[TIMED] = kept
    timed_heapify(times, orders, whats, kept)
    sort(found, count)
    return count


@compiled
def restart(
    n, x, rate, decode, engine, load, keys, codes, queue, times, orders, whats, pending, group, item, stamp, segment,
    segmented, scratch, now,
):
    """Mode restart at an install: whoever has begun begins again."""
    for s in range(n[SERVERS]):
        at = clock(engine, s, now)
        for i in range(load[s, HEAP]):
            code = codes[s * n[ROOM] + i] & ROW_MASK
            done = written(rate, group, item, code, n[SAMPLES], at)
            x[GENERATED] += done - item[code, DONE]
            item[code, DONE] = done
            begin_again(n, x, engine, group, item, stamp, segment, segmented, code, s, now, at)
        for i in range(load[s, WAITING]):
            code = queue[s * n[ROOM] + (load[s, WAITING_HEAD] + i) % n[ROOM]]
            if stamp[code, PHASE] == QUEUED:
                waste(x, item, code)
                stamp[code, ATTEMPT] += 1
                stamp[code, PHASE] = UNSTARTED
    for i in range(n[PENDING]):
        code = pending[i]
        s = server_of(n, group, code)
        begin_again(n, x, engine, group, item, stamp, segment, segmented, code, s, now, clock(engine, s, now))
    rekey(n, rate, engine, load, keys, codes, group, item, stamp, now)
    for i in range(leave_steps(n, times, orders, whats, group, scratch)):
        code = scratch[i] & ROW_MASK
        waste(x, item, code)
        stamp[code, ATTEMPT] += 1
        s = server_of(n, group, code)
        if n[STEP_HOLDS]:
            stamp_start(n, x, group, item, stamp, code, now)
            write(
                n, rate, decode, engine, load, keys, codes, pending, group, item, stamp, segment, segmented, code, s,
                now,
            )
        else:
            stamp[code, PHASE] = UNSTARTED
            submit(
                n, x, rate, decode, engine, load, keys, codes, queue, pending, group, item, stamp, segment, segmented,
                code, s, now,
            )


@compiled
def read_again(n, x, rate, engine, group, item, stamp, segment, segmented, code, s, at):
    """One sample's stretch begins anew after what it has to read."""
    cost = (x[PROMPT_TOKENS] + item[code, DONE]) / x[SPEEDUP]
    base = at + cost / rate[group[code // n[SAMPLES], PLACE]]
    begin_stretch(n, engine, item, stamp, segment, segmented, code, s, base)


@compiled
def prefill_again(n, x, rate, engine, load, keys, codes, pending, group, item, stamp, segment, segmented, now):
    """Mode reprefill at an install: active samples read their prompt and tokens again before they go on."""
    samples = n[SAMPLES]
    for s in range(n[SERVERS]):
        at = clock(engine, s, now)
        for i in range(load[s, HEAP]):
            code = codes[s * n[ROOM] + i] & ROW_MASK
            done = written(rate, group, item, code, samples, at)
            x[GENERATED] += done - item[code, DONE]
            # The version has just changed: these tokens are of the one before.
            item[code, VERSIONS] += (n[INSTALLED] - 1) * (done - item[code, DONE])
            item[code, DONE] = done
            read_again(n, x, rate, engine, group, item, stamp, segment, segmented, code, s, at)
    for i in range(n[PENDING]):
        s = server_of(n, group, pending[i])
        at = clock(engine, s, now)
        read_again(n, x, rate, engine, group, item, stamp, segment, segmented, pending[i], s, at)
    rekey(n, rate, engine, load, keys, codes, group, item, stamp, now)


@compiled
def pause(n, decode, engine, load, paused, now):
    """Stop the clocks of all servers, or let them go on."""
    n[PAUSED] = paused
    for s in range(n[SERVERS]):
        set_speed(n, decode, engine, load, s, now)


@inlined
def snapshot(n, publish, now):
    publish[n[SNAPSHOTS] % len(publish), SNAPSHOT] = now
    n[SNAPSHOTS] += 1
    n[WANTED] = 1
    n[DUE] = 0


@inlined
def train_end(n, x, batch, publish, now):
    batch[n[FINISHED] % len(batch), TRAIN_TO] = now
    n[BUSY] = 0
    n[FINISHED] += 1
    if n[BATCHES] == 1 or n[FINISHED] % n[BATCHES] == 0:
        if n[WANTED] or n[SYNCING]:
            n[DUE] = 1
        else:
            snapshot(n, publish, now)
    if n[FINISHED] == n[WARM]:
        x[FIRST_SUM:LAST_SUM] = 0.0


@inlined
def levels(n, x, picks, group, level):
    """Note who is where at an install, before tickets return."""
    row = n[INSTALLED] % len(level)
    outstanding = n[ADMITTED] - n[GONE]
    level[row, LEVEL_FLYING], level[row, LEVEL_SCORING] = n[FLYING], n[SCORING]
    level[row, LEVEL_BLOCKED], level[row, LEVEL_READY] = n[BLOCKED], n[READY]
    level[row, LEVEL_PACKED] = (n[PACKS] - n[STARTED]) * n[GROUPS]
    level[row, LEVEL_OUTSTANDING], level[row, LEVEL_UNSTARTED] = outstanding, n[NOT_STARTED]
    if n[USES] != 1:
        # Under replay only groups that have not been trained yet are outstanding.
        ready = n[HIDDEN]
        for i in range(n[VISIBLE]):
            ready += group[picks[i], USED] == 0
        level[row, LEVEL_READY] = ready
        level[row, LEVEL_PACKED] = outstanding - ready - n[FLYING] - n[SCORING] - n[BLOCKED]
    x[SUM_INSTALLS] += 1.0
    x[SUM_LEVEL] += outstanding


@inlined
def install(
    n, x, rate, decode, engine, load, keys, codes, queue, times, orders, whats, ranks, picks, hidden, blocked, free,
    rows, again, factors, targets, pending, item, stamp, group, moment, segment, segmented, publish, level, marks,
    scratch, now,
):
    """The generators take over the trainer's weights."""
    version = n[INSTALLED]
    publish[version % len(publish), INSTALL] = now
    levels(n, x, picks, group, level)
    areas_to(n, engine, now)
    for s in range(n[SERVERS]):
        marks[version % len(marks), s] = engine[s, AREA_TO]
    n[INSTALLED] = version + 1
    n[SYNCING] = 0
    if n[PAUSED]:
        pause(n, decode, engine, load, 0, now)
    if n[AT_PUBLISH]:
        n[TICKETS] += n[GROUPS] * n[BATCHES]
    n[TICKETS] += n[LATER_TICKETS]
    n[LATER_TICKETS] = 0
    for i in range(n[HIDDEN]):
        group[hidden[i], SHOWN] = n[INSTALLED]
        show(n, ranks, picks, group, hidden[i])
    n[HIDDEN] = 0
    if n[AT_INSTALL]:
        cut(
            n, x, rate, decode, engine, load, keys, codes, queue, times, orders, whats, ranks, picks, hidden, blocked,
            free, rows, again, factors, targets, pending, item, stamp, group, moment, segment, segmented, scratch, now,
        )
    if n[MODE] == RESTART:
        restart(
            n, x, rate, decode, engine, load, keys, codes, queue, times, orders, whats, pending, group, item, stamp,
            segment, segmented, scratch, now,
        )
    elif n[MODE] == REPREFILL:
        prefill_again(
            n, x, rate, engine, load, keys, codes, pending, group, item, stamp, segment, segmented, now,
        )
    if n[DUE]:
        snapshot(n, publish, now)
