"""Servers and the samples they write, compiled: clocks, starts, stretches of writing, failures, installs.

A stretch begins at (BASE, DONE) and reaches x units of work at BASE + (x - DONE) / rate on its server's clock. Heap
codes carry the sample's number above its row, so that ties are broken by number whatever the row.
"""

from __future__ import annotations

import math

import numpy as np

from asyncsim.rng_compiled import uniform_at
from asyncsim.systems._compile import compiled, inlined
from asyncsim.systems._heaps import heapify, ring_next, ring_put, sift_down, sift_up, timed_push
from asyncsim.systems._state import *

ROW_BITS = 31
ROW_MASK = (1 << ROW_BITS) - 1
LATER_CLASS = 1 << 60


@inlined
def clock(engine, s, now):
    """W of a server."""
    return engine[s, W_ZERO] + (now - engine[s, T_ZERO]) * engine[s, SPEED]


@inlined
def completion(n, engine, keys, s):
    """Time of the next completion of a server that runs and writes."""
    rest = keys[s * n[ROOM]] - engine[s, W_ZERO]
    if engine[s, SPEED] != 1.0:
        rest /= engine[s, SPEED]
    return engine[s, T_ZERO] + rest


@inlined
def set_speed(n, decode, engine, load, s, now):
    """Let the server's clock run as fast as its active samples and a pause allow."""
    if n[PAUSED]:
        speed = 0.0
    elif decode.size == 0:
        speed = 1.0
    else:
        speed = decode[min(max(load[s, ACTIVE], 1), decode.size) - 1]
    if speed != engine[s, SPEED]:
        engine[s, W_ZERO] = clock(engine, s, now)
        engine[s, T_ZERO] = now
        engine[s, SPEED] = speed


@inlined
def server_of(n, group, code):
    """The server that writes a sample."""
    place = group[code if n[SAMPLES] == 1 else code // n[SAMPLES], PLACE]
    return 0 if n[SERVERS] == 1 else place % n[SERVERS]


@inlined
def packed(n, group, code):
    """The heap code of a sample: its number above its row."""
    if n[SAMPLES] == 1:
        return (np.int64(group[code, NUMBER]) << ROW_BITS) | code
    row = code // n[SAMPLES]
    return ((np.int64(group[row, NUMBER]) * n[SAMPLES] + code - row * n[SAMPLES]) << ROW_BITS) | code


@inlined
def end_of_turn(n, item, stamp, code):
    """Work that is done when the present turn of a sample ends."""
    turn, work = stamp[code, TURN], item[code, WORK]
    return work * turn / n[TURNS] if turn < n[TURNS] else work


@inlined
def target_of(n, item, stamp, code):
    """Work at which the present stretch ends: the end of the turn, or a failure."""
    return min(end_of_turn(n, item, stamp, code), item[code, LIMIT])


@inlined
def key_of(n, rate, group, item, stamp, code):
    """W at which the present stretch ends."""
    speed = rate[group[code if n[SAMPLES] == 1 else code // n[SAMPLES], PLACE]]
    return item[code, BASE] + (target_of(n, item, stamp, code) - item[code, DONE]) / speed


@compiled
def failure_after(n, x, group, code, attempt):
    """Units of work that an attempt writes until it fails."""
    number = packed(n, group, code) >> ROW_BITS
    draw = uniform_at(n[FAILURE_KEY_0], n[FAILURE_KEY_1], n[REALIZATION], number, attempt, 0)
    return -math.log1p(-draw) / x[FAILURE]


@inlined
def begin_stretch(n, engine, item, stamp, segment, segmented, code, s, base):
    """A stretch of writing begins at W = base with what is done."""
    item[code, BASE] = base
    item[code, MARK] = engine[s, AREA] + n[INSTALLED] * (base - engine[s, AREA_TO])
    if n[SEGMENTED]:
        i = n[SEGMENTS]
        segment[i, 0], segment[i, 1] = base, item[code, DONE]
        segmented[i, 0], segmented[i, 1] = code, n[INSTALLED]
        n[SEGMENTS] = i + 1


@inlined
def push_key(n, rate, load, keys, codes, group, item, stamp, code, s):
    """A sample whose work is known enters its server's heap of completions."""
    stamp[code, PHASE] = WRITING
    size = load[s, HEAP]
    load[s, HEAP] = size + 1
    key = key_of(n, rate, group, item, stamp, code)
    sift_up(keys, codes, s * n[ROOM], size, key, packed(n, group, code))


@inlined
def write(n, rate, decode, engine, load, keys, codes, pending, group, item, stamp, segment, segmented, code, s, now):
    """A sample that holds a slot goes on writing."""
    load[s, ACTIVE] += 1
    n[ACTIVE_ALL] += 1
    set_speed(n, decode, engine, load, s, now)
    begin_stretch(n, engine, item, stamp, segment, segmented, code, s, clock(engine, s, now))
    if n[ASK] and item[code, DONE] == 0.0:
        stamp[code, PHASE] = STARTING
        pending[n[PENDING]] = code
        n[PENDING] += 1
    else:
        push_key(n, rate, load, keys, codes, group, item, stamp, code, s)


@inlined
def stamp_start(n, x, group, item, stamp, code, now):
    """An attempt begins at nothing under the installed version."""
    row = code if n[SAMPLES] == 1 else code // n[SAMPLES]
    again = stamp[code, V_START] >= 0
    item[code, START] = now
    item[code, DONE] = item[code, VERSIONS] = 0.0
    stamp[code, V_START] = n[INSTALLED]
    stamp[code, TURN] = 1
    item[code, LIMIT] = failure_after(n, x, group, code, stamp[code, ATTEMPT]) if x[FAILURE] > 0.0 else np.inf
    if group[row, V_HEAD] < 0:
        group[row, V_HEAD] = n[INSTALLED]
        n[NOT_STARTED] -= 1
    elif again:
        head = stamp[code, V_START]
        for other in range(row * n[SAMPLES], (row + 1) * n[SAMPLES]):
            if 0 <= stamp[other, V_START] < head:
                head = stamp[other, V_START]
        group[row, V_HEAD] = head


@compiled
def serve(
    n, x, rate, decode, engine, load, keys, codes, queue, pending, group, item, stamp, segment, segmented, s, now
):
    """Give free slots of a server to the samples that wait for one."""
    while load[s, WAITING] > 0 and load[s, HELD] < n[SLOTS]:
        code = queue[s * n[ROOM] + load[s, WAITING_HEAD]]
        load[s, WAITING_HEAD] = ring_next(n[ROOM], load[s, WAITING_HEAD])
        load[s, WAITING] -= 1
        load[s, HELD] += 1
        n[HOLDING] += 1
        if stamp[code, PHASE] == UNSTARTED:
            stamp_start(n, x, group, item, stamp, code, now)
        write(n, rate, decode, engine, load, keys, codes, pending, group, item, stamp, segment, segmented, code, s, now)


@inlined
def submit(
    n, x, rate, decode, engine, load, keys, codes, queue, pending, group, item, stamp, segment, segmented, code, s, now
):
    """A sample takes a slot of its server, or waits for one."""
    if load[s, HELD] < n[SLOTS]:
        load[s, HELD] += 1
        n[HOLDING] += 1
        if stamp[code, PHASE] == UNSTARTED:
            stamp_start(n, x, group, item, stamp, code, now)
        write(n, rate, decode, engine, load, keys, codes, pending, group, item, stamp, segment, segmented, code, s, now)
    else:
        ring_put(queue, s * n[ROOM], n[ROOM], load[s, WAITING_HEAD], load[s, WAITING], code)
        load[s, WAITING] += 1


@inlined
def account(n, x, engine, rate, group, item, stamp, code, s, at, done):
    """Tokens written since the stretch began, `done` in all at W = at, and the versions they were written under."""
    speed = rate[group[code if n[SAMPLES] == 1 else code // n[SAMPLES], PLACE]]
    if n[MODE] == KEEP:
        area = engine[s, AREA] + n[INSTALLED] * (at - engine[s, AREA_TO])
        item[code, VERSIONS] += (area - item[code, MARK]) * speed
    else:
        version = stamp[code, V_START] if n[MODE] == PIN else n[INSTALLED]
        item[code, VERSIONS] += version * (done - item[code, DONE])
    x[GENERATED] += done - item[code, DONE]
    item[code, DONE] = done


@inlined
def written(rate, group, item, code, samples, at):
    """Work that a writing sample has done at W = at."""
    return item[code, DONE] + max(0.0, at - item[code, BASE]) * rate[group[code // samples, PLACE]]


@compiled
def waste(x, item, code):
    """What a sample has written is thrown away."""
    item[code, WASTED] += item[code, DONE]
    x[WASTED_WORK] += item[code, DONE]
    item[code, DONE] = item[code, VERSIONS] = 0.0


@inlined
def put_event(n, times, orders, whats, time, later_class, what):
    """Enter an event of the wall clock behind those of the same time and class."""
    timed_push(times, orders, whats, n[TIMED], time, later_class | n[SERIAL], what)
    n[TIMED] += 1
    n[SERIAL] += 1


@compiled
def fail(n, x, times, orders, whats, group, item, stamp, code, now):
    """A writing sample fails; True when it goes on at once."""
    stamp[code, ATTEMPT] += 1
    stamp[code, PHASE] = REPAIRING
    if n[KEEPS]:
        item[code, LIMIT] = item[code, DONE] + failure_after(n, x, group, code, stamp[code, ATTEMPT])
    else:
        waste(x, item, code)
    if x[DELAY] == 0.0:
        return True
    put_event(n, times, orders, whats, now + x[DELAY], LATER_CLASS, code * 4 + EVENT_REPAIR)
    return False


@compiled
def repaired(
    n, x, rate, decode, engine, load, keys, codes, pending, group, item, stamp, segment, segmented, code, s, now
):
    """A sample goes on after its failure: where it was, or at nothing."""
    if not n[KEEPS]:
        stamp_start(n, x, group, item, stamp, code, now)
    write(n, rate, decode, engine, load, keys, codes, pending, group, item, stamp, segment, segmented, code, s, now)


@compiled
def areas_to(n, engine, now):
    """Bring the integrals of the installed version up to now, before it changes."""
    for s in range(n[SERVERS]):
        at = clock(engine, s, now)
        engine[s, AREA] += n[INSTALLED] * (at - engine[s, AREA_TO])
        engine[s, AREA_TO] = at


@compiled
def rekey(n, rate, engine, load, keys, codes, group, item, stamp, now):
    """Give every writing sample the key that its stretch asks for, not before now, and order the heaps anew."""
    for s in range(n[SERVERS]):
        at, o = clock(engine, s, now), s * n[ROOM]
        for i in range(load[s, HEAP]):
            keys[o + i] = max(key_of(n, rate, group, item, stamp, codes[o + i] & ROW_MASK), at)
        heapify(keys, codes, o, load[s, HEAP])


@inlined
def pop_key(n, load, keys, codes, s):
    """Take the next completion of a server from its heap."""
    last = load[s, HEAP] - 1
    load[s, HEAP] = last
    o = s * n[ROOM]
    sift_down(keys, codes, o, last, 0, keys[o + last], codes[o + last])
