"""The loop of workers, compiled: one sample to a group, one group to a batch, every batch published at once.

What `_kernel` does in passes until nothing changes is known here: after a completion or an end of training at most one
install, one batch and the admissions that they allow. The server's clock is the time, as nothing stops or slows it.
Every sample under way writes, so one count stands for all, and the others are brought up to date at the end.
"""

import numpy as np

from asyncsim.systems import _state
from asyncsim.systems._buffer import choose, enter
from asyncsim.systems._compile import compiled
from asyncsim.systems._engine import ROW_MASK, account, begin_stretch, heap_code, key_of, stamp_start
from asyncsim.systems._groups import end_sample, new_group, new_sample, score_sample, train
from asyncsim.systems._heaps import heapify, line_of
from asyncsim.systems._weights import install, train_end


@compiled
def _next(state):
    """Advance to the next event; STALLED if there is none, STARVED if events bring no batch."""
    run, sums, time = state.run, state.sums, state.tree[1].key
    if run.busy:
        time = min(time, run.train_end)
    if time == np.inf:
        return _state.STALLED
    time = max(time, run.now)
    seconds = time - run.now
    sums.in_flight += run.in_flight * seconds
    sums.outstanding += (run.admitted - run.gone) * seconds
    sums.busy += run.busy * seconds
    sums.seconds += seconds
    run.now = time
    run.idle_events += 1
    if run.idle_events > state.settings.patience:
        if not run.busy:
            return _state.STARVED
        run.idle_events = 0
    return _state.GOING


@compiled
def _put(state, place, key, code):
    """Enter the completion of a slot into the tree, or infinity if it is idle."""
    i = (state.tree.size >> 1) + place
    state.tree[i].key, state.tree[i].code = key, code
    while i > 1:
        # No branch on which of two is first: it could not be foretold.
        other = state.tree[i ^ 1]
        above, other_code = other.key, other.code
        first = (above < key) | ((above == key) & (other_code < code))
        key = min(key, above)
        code = other_code if first else code
        i >>= 1
        state.tree[i].key, state.tree[i].code = key, code


@compiled
def _next_but(state, place):
    """Time of the first completion in any other slot."""
    i, time = (state.tree.size >> 1) + place, np.inf
    while i > 1:
        time = min(time, state.tree[i ^ 1].key)
        i >>= 1
    return time


@compiled
def _plant(state):
    server, size = state.server[0], state.tree.size
    for i in range(size):
        state.tree[i].key, state.tree[i].code = np.inf, 0
    for i in range(server.heap):
        _put(state, state.group[state.codes[i] & ROW_MASK].place, state.keys[i], state.codes[i])


@compiled
def _fell(state):
    server, size, end = state.server[0], state.tree.size, 0
    for i in range(size >> 1, size):
        if state.tree[i].key < np.inf:
            state.keys[end], state.codes[end] = state.tree[i].key, state.tree[i].code
            end += 1
    server.heap = end
    heapify(state.keys, state.codes, 0, end)


@compiled
def _complete(state, now):
    """End the first sample in the tree, which stays there until the next one replaces it; return its slot."""
    code = state.tree[1].code & ROW_MASK
    account(state, code, 0, now, state.sample[code].work)
    end_sample(state, code, now)
    score_sample(state, code, now)
    state.run.scoring -= 1
    enter(state, code, now)
    return state.group[code].place


@compiled
def _start_training(state, now):
    """Train the next finished sample if the trainer is idle."""
    run = state.run
    if run.packs < state.settings.batches and choose(state):
        state.batch[line_of(run.packs, len(state.batch))].t_pack = now
        run.packs += 1
        if not state.settings.tickets_at_publish:
            run.tickets += 1
        run.train_end = now + train(state, now)
        run.idle_events = 0
        return True
    return False


@compiled
def _settle(state, stop_started, stop_finished, now):
    """Install and train; return the reason to stop."""
    run = state.run
    if run.started >= run.times_drawn:
        return _state.SUPPLY
    if run.wanted:
        run.wanted = 0
        install(state, now)
    if run.finished >= stop_finished:
        return _state.DONE_RUN
    if not run.busy and _start_training(state, now):
        if run.started >= stop_started:
            return _state.TRAINING
        if run.started >= run.times_drawn:
            return _state.SUPPLY
    return _state.GOING


@compiled
def _admit(state, now, over):
    """Start idle workers while permits last; False if draws or rows run out.

    The sample in the place `over` has ended, but is still in the tree.
    """
    settings, run = state.settings, state.run
    enough = True
    while run.tickets >= 1 and run.free >= 1:
        room = state.group.shape[0] - run.admitted if settings.records else run.rows
        if room < 1 or run.admitted + 1 - run.supplied > state.prompts.shape[0]:
            enough = False
            break
        code = new_group(state, now)
        run.tickets -= 1
        run.in_flight += 1
        run.unstarted += 1
        new_sample(state, code, run.admitted - 1 - run.supplied, state.moment[code].factor)
        stamp_start(state, code, now)
        begin_stretch(state, code, 0, now)
        state.sample[code].phase = _state.WRITING
        place = np.int64(state.group[code].place)
        _put(state, place, key_of(state, code), heap_code(state, code))
        over = -1 if place == over else over
    if over >= 0:
        _put(state, over, np.inf, 0)
    return enough


@compiled
def _run_events(state, now):
    """Process all events at this time; return the slot of the last ended sample, still in the tree, or -1."""
    run, over = state.run, -1
    while state.tree[1].key <= now:
        over = _complete(state, now)
        if _next_but(state, over) > now:
            break
        _put(state, over, np.inf, 0)
        over = -1
    if run.busy and run.train_end <= now:
        train_end(state, now)
    return over


@compiled
def _loop(state, stop_started, stop_finished):
    run, over = state.run, -1
    while True:
        if run.point == _state.EVENTS:
            reason = _next(state)
            if reason != _state.GOING:
                return reason
            run.point = _state.SETTLE
            over = _run_events(state, run.now)
        if run.point == _state.SETTLE:
            reason = _settle(state, stop_started, stop_finished, run.now)
            if reason != _state.GOING:
                if over >= 0:
                    _put(state, over, np.inf, 0)
                return reason
            run.point = _state.ADMIT
        if not _admit(state, run.now, over):
            return _state.SUPPLY if run.admitted + 1 - run.supplied > state.prompts.shape[0] else _state.FULL
        over = -1
        run.point = _state.EVENTS


@compiled
def run_workers(state, stop_started, stop_finished):
    """`_kernel._advance` for a system of workers whose slots are all open."""
    _plant(state)
    reason = _loop(state, stop_started, stop_finished)
    _fell(state)
    # Write the counts and sums that are the same as others.
    run, sums, server = state.run, state.sums, state.server[0]
    run.active = run.holding = run.permitted = server.active = server.held = run.in_flight
    sums.active = sums.running = sums.in_flight
    return reason
