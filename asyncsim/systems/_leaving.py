"""Samples and groups that leave before they are over, compiled: cancelled samples, and groups cut for their age."""

import numpy as np

from asyncsim.systems import _engine, _state
from asyncsim.systems._buffer import cut_buffer, discard, free_place, over_age, unlink
from asyncsim.systems._compile import compiled
from asyncsim.systems._heaps import heapify, ring_put, timed_heapify, timed_move


@compiled
def end_generation(state, row, now):
    """End a group's generation, once all its samples have ended or enough of them are finished."""
    settings, run, group = state.settings, state.run, state.group[row]
    group.v_done = _engine.version_of(state, _engine.server_of(state, row * settings.samples))
    state.moment[row].t_done = now
    group.stage = _state.IN_SCORING
    run.in_flight -= 1
    run.scoring += 1
    if not settings.place_holds:
        free_place(state, row, now)


@compiled
def leave_server(state, code, now):
    """Release the slot and permit of a discarded sample; heaps and queues are cleaned afterwards."""
    settings, run, sample = state.settings, state.run, state.sample[code]
    s, phase = _engine.server_of(state, code), sample.phase
    holds = phase in (_state.WRITING, _state.STARTING, _state.REPAIRING)
    if phase in (_state.WRITING, _state.STARTING):
        at = _engine.clock(state, s, now)
        done = min(_engine.work_written(state, code, at), _engine.target_of(state, code))
        if phase == _state.WRITING:
            _engine.account(state, code, s, at, done)
        state.server[s].active -= 1
        run.active -= 1
    if (phase == _state.STEPPING and settings.environment_holds) or (
        phase == _state.REWARDED and settings.reward_holds
    ):
        holds = True
    if holds:
        state.server[s].held -= 1
        run.holding -= 1
    if phase == _state.OUTSIDE:
        # Only the group that was admitted last has samples outside.
        run.outside_from = run.outside_to
    elif phase < _state.REWARDED or (phase == _state.REWARDED and settings.reward_holds):
        run.permitted -= 1
    if phase < _state.OVER_SAMPLE:
        if phase != _state.REWARDED:
            sample.wasted += sample.done
        sample.phase = _state.CUT_SAMPLE


@compiled
def sweep_server(state, s):
    """Remove cut and cancelled samples from a server's heap of completions and its queue."""
    settings, server = state.settings, state.server[s]
    o, end = s * settings.room, 0
    for i in range(server.heap):
        if state.sample[state.codes[o + i] & _engine.ROW_MASK].phase < _state.CUT_SAMPLE:
            state.keys[o + end], state.codes[o + end] = state.keys[o + i], state.codes[o + i]
            end += 1
    server.heap = end
    heapify(state.keys, state.codes, o, end)
    end = 0
    for i in range(server.waiting):
        code = state.queue[o + (server.waiting_head + i) % settings.room]
        if state.sample[code].phase < _state.CUT_SAMPLE:
            state.scratch[end] = code
            end += 1
    for i in range(end):
        state.queue[o + i] = state.scratch[i]
    server.waiting, server.waiting_head = end, 0


@compiled
def sweep_clock(state):
    """Remove discarded samples from the list that awaits their work, and from the wall clock's events."""
    run = state.run
    end = 0
    for i in range(run.pending):
        if state.sample[state.pending[i]].phase < _state.CUT_SAMPLE:
            state.pending[end] = state.pending[i]
            end += 1
    run.pending = end
    end = 0
    for i in range(run.timed):
        if (
            state.timed[i].what & 3 == _state.EVENT_PLACE
            or state.sample[state.timed[i].what >> 2].phase < _state.CUT_SAMPLE
        ):
            timed_move(state.timed, end, i)
            end += 1
    run.timed = end
    timed_heapify(state.timed, end)


@compiled
def cancel_rest(state, row, now):
    """Cancel the remaining samples of a group that has enough; the tokens that they generated are wasted."""
    settings, sums, group = state.settings, state.sums, state.group[row]
    timed, head = 0, state.run.snapshots
    for code in range(row * settings.samples, (row + 1) * settings.samples):
        sample = state.sample[code]
        phase = sample.phase
        if phase == _state.OVER_SAMPLE:
            head = min(head, np.int64(sample.v_start))
        else:
            leave_server(state, code, now)
            sums.wasted_work += sample.done
            sample.phase = _state.CANCELLED
            timed += phase >= _state.STEPPING or phase == _state.STARTING
    # The group has the head of those that it keeps.
    group.v_head = head
    if group.missing > 0:
        group.missing = 0
        end_generation(state, row, now)
    # Clean the queues they stood in and serve the freed slots.
    s = np.int64(group.place) % settings.servers
    sweep_server(state, s)
    if timed > 0:
        sweep_clock(state)
    _engine.set_speed(state, s, now)
    _engine.serve(state, s, now)


@compiled
def cut_group(state, row, now):
    """Drop a group for its staleness, before it has entered the buffer."""
    settings, run, group = state.settings, state.run, state.group[row]
    for code in range(row * settings.samples, (row + 1) * settings.samples):
        leave_server(state, code, now)
    stage = group.stage
    if stage == _state.IN_GENERATION or settings.place_holds:
        free_place(state, row, now)
    if stage == _state.IN_GENERATION:
        run.in_flight -= 1
        run.unstarted -= group.v_head < 0
    elif stage == _state.IN_SCORING:
        run.scoring -= 1
    unlink(state, row)
    discard(state, row, _state.DROPPED_AGE, now)


@compiled
def cut(state, reach, now):
    """Apply the staleness limit: drop groups that exceed it at the planned version; return whether there were any."""
    settings, run = state.settings, state.run
    planned = run.packs // settings.batches_per_publish
    changed = cut_buffer(state, planned, now)
    if reach < _state.REACH_ALL:
        return changed
    # Cut groups blocked before the buffer.
    dropped, waiting = 0, run.blocked
    run.blocked = 0
    for i in range(waiting):
        row = state.blocked[(run.blocked_head + i) % state.blocked.shape[0]]
        if over_age(state, row, planned):
            cut_group(state, row, now)
            dropped += 1
        else:
            ring_put(state.blocked, 0, state.blocked.shape[0], run.blocked_head, run.blocked, row)
            run.blocked += 1
    # Cut groups in generation and scoring.
    row = run.first_row
    while row >= 0:
        after = state.group[row].after
        if state.group[row].stage != _state.IN_QUEUE and over_age(state, row, planned):
            cut_group(state, row, now)
            dropped += 1
        row = after
    if dropped == 0:
        return changed
    # Clean queues and serve the freed slots.
    sweep_clock(state)
    for s in range(settings.servers):
        sweep_server(state, s)
        _engine.set_speed(state, s, now)
        _engine.serve(state, s, now)
    return True
