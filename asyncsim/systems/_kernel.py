"""The event kernel: one realization of a system on flat arrays, resumable wherever the caller supplies work.

`MODEL.md` is the contract. Helpers take the state, the row of a group (`row`), a sample (`code`) or a server (`s`), and
the time (`now`).
"""

from typing import Any

import numpy as np

from asyncsim.systems import _engine, _state
from asyncsim.systems._buffer import choose, drop_rest
from asyncsim.systems._compile import compiled, digest, entry_point, plain_entry_point, state_at
from asyncsim.systems._groups import admit, dispatch, end_sample, finish_group, permits_of, score_sample, train, unblock
from asyncsim.systems._heaps import line_of, ring_put, timed_move, timed_sift
from asyncsim.systems._leaving import cut
from asyncsim.systems._state import State
from asyncsim.systems._weights import begin_roll, install, pause, roll, train_end

OVER = 2
"""Value of SYNCING when the seconds of a synchronization have passed and the install is due."""


@compiled
def _release(state, s):
    run = state.run
    state.server[s].held -= 1
    run.holding -= 1


@compiled
def _next_time(state):
    settings, run = state.settings, state.run
    time = np.inf
    for s in range(settings.servers):
        if state.server[s].heap > 0 and state.server[s].speed > 0.0:
            time = min(time, _engine.completion(state, s))
    if run.timed > 0:
        time = min(time, state.timed[0].time)
    if run.busy:
        time = min(time, run.train_end)
    if run.syncing:
        time = min(time, run.install_at)
    return time


@compiled
def _integrate_to(state, now):
    """Update all time integrals to now."""
    settings, run, sums = state.settings, state.run, state.sums
    seconds = now - run.now
    sums.in_flight += run.in_flight * seconds
    sums.outstanding += (run.admitted - run.gone) * seconds
    sums.busy += run.busy * seconds
    if not run.paused:
        active = run.active
        if settings.rolling and run.syncing and state.server[run.rolled].paused:
            active -= state.server[run.rolled].active
        sums.active += active * seconds
        sums.running += run.in_flight * seconds
    sums.seconds += seconds
    run.now = now


@compiled
def _complete(state, s, now):
    """End a stretch by a failure, a turn or the sample's end; return the sample's row if it has its reward, else -1."""
    settings, run, server = state.settings, state.run, state.server[s]
    code, at = state.codes[s * settings.room] & _engine.ROW_MASK, state.keys[s * settings.room]
    if state.decode.size > 0:
        server.w_zero, server.t_zero = at, now
    done = _engine.target_of(state, code)
    _engine.account(state, code, s, at, done)
    _engine.pop_key(state, s)
    server.active -= 1
    run.active -= 1
    turn = state.sample[code].turn
    complete = -1
    if settings.failure_rate > 0.0 and done < _engine.end_of_turn(state, code):
        if _engine.fail(state, code, now):
            _engine.resume(state, code, s, now)
    elif turn < settings.turns:
        state.sample[code].turn = turn + 1
        seconds = state.steps[code, turn - 1]
        if seconds > 0.0:
            state.sample[code].phase = _state.STEPPING
            _engine.put_event(state, now + seconds, 0, code * 4 + _state.EVENT_STEP)
            if not settings.environment_holds:
                _release(state, s)
        else:
            _engine.write(state, code, s, now)
    else:
        if not (settings.reward_holds and state.sample[code].reward > 0.0):
            _release(state, s)
        if end_sample(state, code, now):
            complete = code
    if server.waiting > 0:
        _engine.serve(state, s, now)
    _engine.set_speed(state, s, now)
    return complete


@compiled
def _next_wall_clock_event(state, now):
    """Process the next wall-clock event; return the sample's row if it is a reward, else -1."""
    settings, run = state.settings, state.run
    what = state.timed[0].what
    code, kind, last = what >> 2, what & 3, run.timed - 1
    timed_move(state.timed, 0, last)
    run.timed = last
    timed_sift(state.timed, last, 0)
    if kind == _state.EVENT_PLACE:
        ring_put(state.free, 0, state.free.shape[0], run.free_head, run.free, code)
        run.free += 1
        return -1
    s = _engine.server_of(state, code)
    if kind == _state.EVENT_STEP:
        if settings.environment_holds:
            _engine.write(state, code, s, now)
        else:
            state.sample[code].phase = _state.QUEUED
            _engine.submit(state, code, s, now)
        return -1
    if kind == _state.EVENT_REPAIR:
        _engine.resume(state, code, s, now)
        return -1
    # Release the slot of a scored sample.
    if settings.reward_holds:
        run.permitted -= 1
        _release(state, s)
        _engine.serve(state, s, now)
        _engine.set_speed(state, s, now)
    return code


@compiled
def _launch(state):
    """Push started samples, whose work is known by now, into the heaps."""
    run = state.run
    for i in range(run.pending):
        code = state.pending[i]
        _engine.push_key(state, code, _engine.server_of(state, code))
    run.pending = 0


@compiled
def _is_full(state):
    """Whether the list of stretches might overflow in a step, which adds at most three per sample in flight."""
    return state.settings.stretched and state.run.stretches + 3 * state.codes.size >= len(state.stretch)


@compiled
def _go_to_next(state):
    """Advance to the time of the next event; STALLED if there is none, STARVED if events bring no batch."""
    settings, run = state.settings, state.run
    # Until the next event every sample in flight may enter one.
    if run.timed + state.codes.size >= state.timed.size:
        return _state.FULL
    time = _next_time(state)
    if time == np.inf:
        return _state.STALLED
    _integrate_to(state, max(time, run.now))
    run.idle_events += 1
    if run.idle_events > settings.patience:
        if not run.busy and not run.syncing:
            return _state.STARVED
        run.idle_events = 0
    return _state.GOING


@compiled
def _run_events(state, now):
    """Process all events at this time in order, or only the first if training is instant."""
    settings, run = state.settings, state.run
    run.point = _state.SETTLE
    for s in range(settings.servers):
        while state.server[s].heap > 0 and state.server[s].speed > 0.0 and _engine.completion(state, s) <= now:
            code = _complete(state, s, now)
            if code >= 0 and score_sample(state, code, now):
                finish_group(state, code, now)
            if settings.instant:
                return
    while run.timed > 0 and state.timed[0].time <= now:
        code = _next_wall_clock_event(state, now)
        if code >= 0 and score_sample(state, code, now):
            finish_group(state, code, now)
        if settings.instant:
            return
    if run.busy and run.train_end <= now:
        train_end(state, now)
    if run.syncing and run.install_at <= now:
        run.syncing = OVER


@compiled
def _publish_waits(state):
    """Whether the publish waits until generation has drained, or the next batch is packed."""
    settings, run = state.settings, state.run
    if settings.mode == _state.DRAIN and run.in_flight > 0:
        return True
    return settings.publish_waits and run.packs == run.started and run.packs < settings.batches


@compiled
def _synchronize(state, now):
    """Begin a wanted publish, and install it once its seconds have passed. True after an install on any server."""
    settings, run = state.settings, state.run
    if run.wanted and not run.syncing and not _publish_waits(state):
        run.wanted = 0
        run.syncing = OVER
        if settings.rolling:
            begin_roll(state, 0, now)
        elif settings.sync_time > 0.0:
            run.syncing = 1
            run.install_at = now + settings.sync_time
            if settings.generator_pauses:
                pause(state, 1, now)
    if run.syncing == OVER:
        if not settings.rolling or not roll(state, now):
            install(state, now)
        return True
    return False


@compiled
def _pack(state, can_train, now):
    """Apply the age rule, and pack a batch if the order allows one; True if anything changed."""
    settings, run = state.settings, state.run
    waiting = run.packs - run.started
    if run.packs == settings.batches or not (waiting < settings.prefetch or (waiting == 0 and can_train)):
        return False
    changed = settings.age_at_pack > _state.REACH_NONE and cut(state, settings.age_at_pack, now)
    if choose(state):
        state.batch[line_of(run.packs, len(state.batch))].t_pack = now
        run.packs += 1
        if not settings.tickets_at_publish:
            run.tickets += settings.groups_per_batch
        if settings.rounds:
            drop_rest(state, now)
        changed = True
    return changed


@compiled
def _start_training(state, now):
    """Train the next packed batch; an instant batch ends at once, followed by its publish and admission."""
    run = state.run
    seconds = train(state, now)
    run.idle_events = 0
    if state.settings.instant:
        train_end(state, now)
        run.inline = 1
    else:
        run.train_end = now + seconds
        if state.settings.colocated:
            pause(state, 1, now)


@compiled
def _settle(state, stop_started, stop_finished, now):
    """One pass over everything that takes no time, except admission; set the next point, return the reason to stop."""
    settings, run = state.settings, state.run
    if run.started >= run.times_drawn:
        return _state.SUPPLY
    if _synchronize(state, now):
        return (
            _state.PUBLISHED
            if settings.external_work and settings.mode in (_state.KEEP, _state.RESTART, _state.REPREFILL)
            else _state.GOING
        )
    if run.finished >= stop_finished and not run.wanted and not run.syncing:
        return _state.DONE_RUN
    run.point = _state.ADMIT
    if run.inline == 1:
        run.inline = 2
        return _state.GOING
    if run.blocked > 0:
        unblock(state, now)
    can_train = not run.busy and not run.due and not (settings.trainer_waits and (run.wanted or run.syncing))
    if _pack(state, can_train, now):
        run.point = _state.SETTLE
    if can_train and run.packs > run.started:
        _start_training(state, now)
        run.point = _state.SETTLE
        if run.started >= stop_started:
            return _state.TRAINING
    return _state.GOING


@compiled
def _admit(state, now):
    """Dispatch by permits, then admit unless a publish blocks it; STARTS if the caller has to supply work."""
    settings, run = state.settings, state.run
    if run.outside_from < run.outside_to and run.permitted < permits_of(state):
        dispatch(state, now)
    closed = run.paused or (settings.mode == _state.DRAIN and (run.wanted or run.syncing))
    if not closed and admit(state, now):
        return _state.SUPPLY if run.admitted + settings.quantum - run.supplied > state.prompts.shape[0] else _state.FULL
    run.point = _state.SETTLE if run.inline == 2 else _state.EVENTS
    run.inline = 0
    if run.pending > 0:
        run.launch_due = 1
        return _state.STARTS
    return _state.GOING


@compiled
def _advance(state, stop_started, stop_finished):
    """Run until the given numbers of batches have started or finished, or the caller must act; return the reason.

    STARTS: fill in the work of the samples in `pending`; PUBLISHED: change the work of samples in flight and call
    `rekey`; both only where `external_work` is set. TRAINING, DONE_RUN: the wanted batch started, finished. STALLED: no
    event is left; STARVED: events go on, but no batch is formed. FULL: go on after `grow`. SUPPLY: draw more.
    """
    run = state.run
    if run.launch_due:
        # The caller has supplied the work of the samples that started.
        run.launch_due = 0
        _launch(state)
    reason = _state.GOING
    while reason == _state.GOING:
        if _is_full(state):
            return _state.FULL
        if run.point == _state.EVENTS:
            reason = _go_to_next(state)
            if reason == _state.GOING:
                _run_events(state, run.now)
        elif run.point == _state.SETTLE:
            reason = _settle(state, stop_started, stop_finished, run.now)
        else:
            reason = _admit(state, run.now)
    return reason


def _entry_points(sources: int) -> tuple[Any, ...]:
    @entry_point
    def advance_at(addresses, stop_started, stop_finished):
        if sources == 0:
            return _state.GOING
        return _advance(state_at(addresses), stop_started, stop_finished)

    @plain_entry_point
    def advance_plain_at(addresses, stop_started, stop_finished):
        if sources == 0:
            return _state.GOING
        return _advance(state_at(addresses), stop_started, stop_finished)

    @entry_point
    def rekey_at(addresses):
        if sources > 0:
            state = state_at(addresses)
            _engine.rekey(state, state.run.now)

    return advance_at, advance_plain_at, rekey_at


advance_at, advance_plain_at, rekey_at = _entry_points(digest())


def advance(state: State, stop_started: int, stop_finished: int) -> int:
    """Run the event model until enough batches have started or finished, or the caller must act; return why."""
    at = advance_plain_at if state.plain else advance_at
    return int(at(state.addresses, stop_started, stop_finished))


def rekey(state: State) -> None:
    """Recompute when every sample in flight ends, after its work became known, and rebuild the heaps."""
    rekey_at(state.addresses)
