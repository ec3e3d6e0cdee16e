"""The event kernel: one realization of a system on flat arrays, resumable at every point where a caller may be asked.

`MODEL.md` is the contract. Helpers take the arrays they use, not the state: reading a field of a tuple of arrays counts
references atomically, which costs more than the event does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim.systems import _engine
from asyncsim.systems._buffer import choose
from asyncsim.systems._compile import compiled, digest, inlined, kept
from asyncsim.systems._engine import (
    ROW_MASK,
    account,
    completion,
    end_of_turn,
    fail,
    pop_key,
    push_key,
    put_event,
    repaired,
    serve,
    server_of,
    set_speed,
    submit,
    target_of,
    write,
)
from asyncsim.systems._groups import admit, cut, dispatch_rest, ended, finished, scored, train, unblock
from asyncsim.systems._heaps import ring_put, timed_sift
from asyncsim.systems._state import *
from asyncsim.systems._weights import install, pause, train_end

OVER = 2
"""Value of SYNCING when the seconds of a synchronization have passed and the install is due."""


@inlined
def _release(n, load, s):
    """A slot of a server is free."""
    load[s, HELD] -= 1
    n[HOLDING] -= 1


@inlined
def _next_time(n, x, engine, load, keys, times):
    """Time of the next event, infinite where there is none."""
    time = np.inf
    for s in range(n[SERVERS]):
        if load[s, HEAP] > 0 and engine[s, SPEED] > 0.0:
            time = min(time, completion(n, engine, keys, s))
    if n[TIMED] > 0:
        time = min(time, times[0])
    if n[BUSY]:
        time = min(time, x[TRAIN_END])
    if n[SYNCING]:
        time = min(time, x[INSTALL_AT])
    return time


@inlined
def _pass(n, x, now):
    """Integrate what is summed over time up to now."""
    seconds = now - x[NOW]
    x[SUM_FLYING] += n[FLYING] * seconds
    x[SUM_OUTSTANDING] += (n[ADMITTED] - n[GONE]) * seconds
    x[SUM_BUSY] += n[BUSY] * seconds
    if not n[PAUSED]:
        x[SUM_ACTIVE] += n[ACTIVE_ALL] * seconds
        x[SUM_RUNNING] += n[FLYING] * seconds
    x[TIME] += seconds
    x[NOW] = now


@inlined
def _complete(
    n, x, rate, decode, engine, load, keys, codes, queue, times, orders, whats, free, pending, item, stamp, group,
    moment, segment, segmented, s, now,
):
    """A stretch ends: a failure, a turn, or the sample; the sample's row where its reward is there, or -1."""
    code, at = codes[s * n[ROOM]] & ROW_MASK, keys[s * n[ROOM]]
    if decode.size > 0:
        engine[s, W_ZERO], engine[s, T_ZERO] = at, now
    done = target_of(n, item, stamp, code)
    account(n, x, engine, rate, group, item, stamp, code, s, at, done)
    pop_key(n, load, keys, codes, s)
    load[s, ACTIVE] -= 1
    n[ACTIVE_ALL] -= 1
    turn = stamp[code, TURN]
    complete = -1
    if x[FAILURE] > 0.0 and done < end_of_turn(n, item, stamp, code):
        if fail(n, x, times, orders, whats, group, item, stamp, code, now):
            repaired(
                n, x, rate, decode, engine, load, keys, codes, pending, group, item, stamp, segment, segmented, code, s,
                now,
            )
    elif turn < n[TURNS]:
        stamp[code, TURN] = turn + 1
        seconds = item[code, STEPS + turn - 1]
        if seconds > 0.0:
            stamp[code, PHASE] = STEPPING
            put_event(n, times, orders, whats, now + seconds, 0, code * 4 + EVENT_STEP)
            if not n[STEP_HOLDS]:
                _release(n, load, s)
        else:
            write(
                n, rate, decode, engine, load, keys, codes, pending, group, item, stamp, segment, segmented, code, s,
                now,
            )
    else:
        if not (n[REWARD_HOLDS] and item[code, REWARD] > 0.0):
            _release(n, load, s)
        if ended(n, x, times, orders, whats, free, group, moment, item, stamp, code, now):
            complete = code
    if load[s, WAITING] > 0:
        serve(
            n, x, rate, decode, engine, load, keys, codes, queue, pending, group, item, stamp, segment, segmented, s,
            now,
        )
    set_speed(n, decode, engine, load, s, now)
    return complete


@compiled
def _timed(
    n, x, rate, decode, engine, load, keys, codes, queue, times, orders, whats, free, pending, item, stamp, group,
    moment, segment, segmented, now,
):
    """The next event of the wall clock; the sample's row where it is a reward, or -1."""
    what = whats[0]
    code, kind, last = what >> 2, what & 3, n[TIMED] - 1
    times[0], orders[0], whats[0] = times[last], orders[last], whats[last]
    n[TIMED] = last
    timed_sift(times, orders, whats, last, 0)
    if kind == EVENT_PLACE:
        ring_put(free, 0, free.shape[0], n[FREE_HEAD], n[FREE], code)
        n[FREE] += 1
        return -1
    s = server_of(n, group, code)
    if kind == EVENT_STEP:
        if n[STEP_HOLDS]:
            write(
                n, rate, decode, engine, load, keys, codes, pending, group, item, stamp, segment, segmented, code, s,
                now,
            )
        else:
            stamp[code, PHASE] = QUEUED
            submit(
                n, x, rate, decode, engine, load, keys, codes, queue, pending, group, item, stamp, segment, segmented,
                code, s, now,
            )
        return -1
    if kind == EVENT_REPAIR:
        repaired(
            n, x, rate, decode, engine, load, keys, codes, pending, group, item, stamp, segment, segmented, code, s,
            now,
        )
        return -1
    if n[REWARD_HOLDS]:
        n[PERMITTED] -= 1
        _release(n, load, s)
        serve(
            n, x, rate, decode, engine, load, keys, codes, queue, pending, group, item, stamp, segment, segmented, s,
            now,
        )
        set_speed(n, decode, engine, load, s, now)
    return code


@compiled
def _launch(n, rate, load, keys, codes, pending, group, item, stamp):
    """Put started samples, whose work is known by now, into the heaps."""
    for i in range(n[PENDING]):
        code = pending[i]
        push_key(n, rate, load, keys, codes, group, item, stamp, code, server_of(n, group, code))
    n[PENDING] = 0


@compiled
def _advance(state, stop_started, stop_finished):
    """Run on until so many batches have started or finished, or until the caller is asked; returns why.

    STARTS: fill in the work of the samples in `pending`; PUBLISHED: change the work of samples in flight and call
    `rekey`; both only where ASK is set. TRAINING, DONE_RUN: the wanted batch started, finished. STALLED: nothing can
    happen any more; STARVED: much happens, but no batch. FULL: go on with the `grown` state. SUPPLY: draw more.
    """
    (n, x, rate, decode, engine, load, keys, codes, queue, times, orders, whats, ranks, picks, hidden, blocked, free,
     rows, again, factors, targets, pending, item, stamp, group, moment, batch, taken, publish, level, marks, segment,
     segmented, histogram, supply, prompts, scratch) = state
    ask, drain, instant, stretches = n[ASK] == 1, n[MODE] == DRAIN, n[INSTANT] == 1, n[SEGMENTED] == 1
    reask = ask and n[MODE] in (KEEP, RESTART, REPREFILL)
    if n[ASKED]:
        # Only now is the work of the samples known that had started when the caller was asked.
        n[ASKED] = 0
        _launch(n, rate, load, keys, codes, pending, group, item, stamp)
    step, now, why = n[POINT], x[NOW], GOING
    while why == GOING:
        # No step adds more than three stretches for each sample in flight, or, between events, an event.
        if stretches and n[SEGMENTS] + 3 * codes.size >= len(segment):
            why = FULL
        elif n[STARTED] >= n[TIMES_DRAWN]:
            why = SUPPLY
        elif step == EVENTS:
            if n[TIMED] + codes.size >= times.size:
                why = FULL
                break
            time = _next_time(n, x, engine, load, keys, times)
            if time == np.inf:
                why = STALLED
                break
            now = max(time, now)
            _pass(n, x, now)
            n[IDLE_EVENTS] += 1
            if n[IDLE_EVENTS] > n[PATIENCE]:
                if not n[BUSY] and not n[SYNCING]:
                    why = STARVED
                    break
                n[IDLE_EVENTS] = 0
            step, one = SETTLE, False
            for s in range(n[SERVERS]):
                while not one and load[s, HEAP] > 0 and engine[s, SPEED] > 0.0:
                    if completion(n, engine, keys, s) > now:
                        break
                    code = _complete(
                        n, x, rate, decode, engine, load, keys, codes, queue, times, orders, whats, free, pending, item,
                        stamp, group, moment, segment, segmented, s, now,
                    )
                    if code >= 0 and scored(n, group, item, stamp, code, now):
                        finished(
                            n, x, ranks, picks, hidden, blocked, free, rows, again, factors, targets, group, moment,
                            item, code, now,
                        )
                    one = instant
            while not one and n[TIMED] > 0 and times[0] <= now:
                one = instant
                code = _timed(
                    n, x, rate, decode, engine, load, keys, codes, queue, times, orders, whats, free, pending, item,
                    stamp, group, moment, segment, segmented, now,
                )
                if code >= 0 and scored(n, group, item, stamp, code, now):
                    finished(
                        n, x, ranks, picks, hidden, blocked, free, rows, again, factors, targets, group, moment, item,
                        code, now,
                    )
            if one:
                continue
            if n[BUSY] and x[TRAIN_END] <= now:
                train_end(n, x, batch, publish, now)
            if n[SYNCING] and x[INSTALL_AT] <= now:
                n[SYNCING] = OVER
        elif step == SETTLE:
            if n[WANTED] and not n[SYNCING] and (not drain or n[FLYING] == 0):
                n[WANTED] = 0
                n[SYNCING] = OVER
                if x[SYNC] > 0.0:
                    n[SYNCING] = 1
                    x[INSTALL_AT] = now + x[SYNC]
                    if n[PAUSES]:
                        pause(n, decode, engine, load, 1, now)
            if n[SYNCING] == OVER:
                install(
                    n, x, rate, decode, engine, load, keys, codes, queue, times, orders, whats, ranks, picks, hidden,
                    blocked, free, rows, again, factors, targets, pending, item, stamp, group, moment, segment,
                    segmented, publish, level, marks, scratch, now,
                )
                if reask:
                    why = PUBLISHED
                    continue
                if n[WANTED]:
                    continue
            if n[FINISHED] >= stop_finished and not n[WANTED] and not n[SYNCING]:
                why = DONE_RUN
                continue
            if n[INLINE] == 1:
                n[INLINE] = 2
                step = ADMIT
                continue
            if n[BLOCKED] > 0:
                unblock(n, ranks, picks, hidden, blocked, free, group, moment, now)
            can = not n[BUSY] and not n[DUE] and not (n[TRAINER_WAITS] and (n[WANTED] or n[SYNCING]))
            step = ADMIT
            waiting = n[PACKS] - n[STARTED]
            if n[PACKS] < n[TOTAL] and (waiting < n[PREFETCH] or (waiting == 0 and can)):
                if n[AT_PACK] and cut(
                    n, x, rate, decode, engine, load, keys, codes, queue, times, orders, whats, ranks, picks, hidden,
                    blocked, free, rows, again, factors, targets, pending, item, stamp, group, moment, segment,
                    segmented, scratch, now,
                ):
                    step = SETTLE
                if choose(n, x, ranks, picks, group, taken, scratch):
                    batch[n[PACKS] % len(batch), T_PACK] = now
                    n[PACKS] += 1
                    if not n[AT_PUBLISH]:
                        n[TICKETS] += n[GROUPS]
                    step = SETTLE
            if can and n[PACKS] > n[STARTED]:
                seconds = train(n, x, rows, group, moment, item, stamp, batch, taken, histogram, now)
                n[IDLE_EVENTS] = 0
                step = SETTLE
                if instant:
                    train_end(n, x, batch, publish, now)
                    n[INLINE] = 1
                else:
                    x[TRAIN_END] = now + seconds
                if n[STARTED] >= stop_started:
                    why = TRAINING
        else:
            if n[OUTSIDE_FROM] < n[OUTSIDE_TO] and n[PERMITTED] < n[PERMITS]:
                dispatch_rest(
                    n, x, rate, decode, engine, load, keys, codes, queue, pending, group, item, stamp, segment,
                    segmented, now,
                )
            if not n[PAUSED] and not (drain and (n[WANTED] or n[SYNCING])) and admit(
                n, x, rate, decode, engine, load, keys, codes, queue, pending, free, rows, again, factors, targets,
                group, moment, item, stamp, segment, segmented, supply, prompts, now,
            ):
                why = SUPPLY if n[ADMITTED] + n[QUANTUM] - n[SUPPLIED] > prompts.shape[0] else FULL
                continue
            step = SETTLE if n[INLINE] == 2 else EVENTS
            n[INLINE] = 0
            if n[PENDING] > 0:
                n[ASKED] = 1
                why = STARTS
    n[POINT] = step
    return why


def _entry_points(sources: int) -> tuple[Any, Any]:
    @kept
    def advance(state, stop_started, stop_finished):
        if sources == 0:
            return GOING
        return _advance(state, stop_started, stop_finished)

    @kept
    def rekey(state):
        s = state
        if sources > 0:
            _engine.rekey(s.n, s.rate, s.engine, s.load, s.keys, s.codes, s.group, s.item, s.stamp, s.x[NOW])

    return advance, rekey


advance, rekey = _entry_points(digest())
"""`advance(state, stop_started, stop_finished)` as told above; `rekey(state)` gives every sample in flight the end that
its work asks for, and orders the heaps anew."""
