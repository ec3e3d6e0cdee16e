"""The way of weights, compiled: end of training, snapshot, install, and what that does to samples in flight."""

from asyncsim.systems import _engine
from asyncsim.systems._buffer import show
from asyncsim.systems._compile import clear, compiled
from asyncsim.systems._groups import adapt
from asyncsim.systems._heaps import line_of, sort, timed_heapify, timed_move
from asyncsim.systems._leaving import cut
from asyncsim.systems._state import EVENT_STEP, QUEUED, REACH_NONE, RESTART, UNSTARTED


@compiled
def begin_again(state, code, s, now, at):
    _engine.waste(state, code)
    state.sample[code].attempt += 1
    _engine.stamp_start(state, code, now)
    _engine.begin_stretch(state, code, s, at)


@compiled
def leave_steps(state, first, last):
    """Remove all samples of some servers from their environment steps; return how many, with codes in `scratch`."""
    run = state.run
    count = end = 0
    for i in range(run.timed):
        if state.timed[i].what & 3 == EVENT_STEP and first <= _engine.server_of(state, state.timed[i].what >> 2) < last:
            state.scratch[count] = _engine.heap_code(state, state.timed[i].what >> 2)
            count += 1
        else:
            timed_move(state.timed, end, i)
            end += 1
    run.timed = end
    timed_heapify(state.timed, end)
    sort(state.scratch, count)
    return count


@compiled
def restart(state, first, last, now):
    """Apply mode restart at an install: every started sample on the servers begins again without tokens."""
    settings, run, sums = state.settings, state.run, state.sums
    for s in range(first, last):
        at = _engine.clock(state, s, now)
        for i in range(state.server[s].heap):
            code = state.codes[s * settings.room + i] & _engine.ROW_MASK
            done = _engine.work_written(state, code, at)
            sums.generated += done - state.sample[code].done
            state.sample[code].done = done
            begin_again(state, code, s, now, at)
        for i in range(state.server[s].waiting):
            code = state.queue[s * settings.room + (state.server[s].waiting_head + i) % settings.room]
            if state.sample[code].phase == QUEUED:
                _engine.waste(state, code)
                state.sample[code].attempt += 1
                state.sample[code].phase = UNSTARTED
    for i in range(run.pending):
        code = state.pending[i]
        s = _engine.server_of(state, code)
        if first <= s < last:
            begin_again(state, code, s, now, _engine.clock(state, s, now))
    _engine.rekey(state, now)
    for i in range(leave_steps(state, first, last)):
        code = state.scratch[i] & _engine.ROW_MASK
        _engine.waste(state, code)
        state.sample[code].attempt += 1
        s = _engine.server_of(state, code)
        if settings.environment_holds:
            _engine.stamp_start(state, code, now)
            _engine.write(state, code, s, now)
        else:
            state.sample[code].phase = UNSTARTED
            _engine.submit(state, code, s, now)


@compiled
def read_again(state, code, s, at):
    """Begin a new stretch of a sample's generation, after the time to read its prefix again."""
    settings = state.settings
    cost = (settings.prompt + state.sample[code].done) / settings.prefill_speedup
    base = at + cost / _engine.rate_of(state, code)
    _engine.begin_stretch(state, code, s, base)


@compiled
def prefill_again(state, first, last, now):
    """Apply mode reprefill at an install: active samples read prompt and tokens again before they continue."""
    settings, run, sums = state.settings, state.run, state.sums
    for s in range(first, last):
        at = _engine.clock(state, s, now)
        for i in range(state.server[s].heap):
            code = state.codes[s * settings.room + i] & _engine.ROW_MASK
            done = _engine.work_written(state, code, at)
            sums.generated += done - state.sample[code].done
            # The version has just changed: these tokens are of the one before.
            state.sample[code].versions += (_engine.version_of(state, s) - 1) * (done - state.sample[code].done)
            state.sample[code].done = done
            read_again(state, code, s, at)
    for i in range(run.pending):
        s = _engine.server_of(state, state.pending[i])
        if first <= s < last:
            read_again(state, state.pending[i], s, _engine.clock(state, s, now))
    _engine.rekey(state, now)


@compiled
def pause(state, paused, now):
    settings, run = state.settings, state.run
    run.paused = paused
    for s in range(settings.servers):
        _engine.set_speed(state, s, now)


@compiled
def snapshot(state, now):
    run = state.run
    state.publish[line_of(run.snapshots, len(state.publish))].t_snapshot = now
    run.snapshots += 1
    run.wanted = 1
    run.due = 0


@compiled
def train_end(state, now):
    settings, run = state.settings, state.run
    state.batch[line_of(run.finished, len(state.batch))].t_end = now
    run.busy = 0
    run.finished += 1
    if settings.batches_per_publish == 1 or run.finished % settings.batches_per_publish == 0:
        if run.wanted or run.syncing:
            run.due = 1
        else:
            snapshot(state, now)
    elif settings.colocated:
        pause(state, 0, now)
    if run.finished == settings.warm_up:
        clear(state.sums)


@compiled
def note_levels(state):
    """Record the number of groups in each stage at an install, before permits return."""
    settings, run, sums = state.settings, state.run, state.sums
    row = line_of(run.installed, len(state.publish))
    outstanding = run.admitted - run.gone
    state.publish[row].in_flight, state.publish[row].scoring = run.in_flight, run.scoring
    state.publish[row].blocked, state.publish[row].ready = run.blocked, run.ready
    state.publish[row].packed = (run.packs - run.started) * settings.groups_per_batch
    state.publish[row].outstanding, state.publish[row].unstarted = outstanding, run.unstarted
    if settings.max_uses != 1:
        # Under replay only groups that have not been trained yet are outstanding.
        ready = run.hidden + run.untrained
        state.publish[row].ready = ready
        state.publish[row].packed = outstanding - ready - run.in_flight - run.scoring - run.blocked
    sums.installs += 1.0
    sums.outstanding_at_installs += outstanding


@compiled
def switch(state, first, last, now):
    """Restart or prefill again the samples in flight on servers whose weights were just installed."""
    if state.settings.mode == RESTART:
        restart(state, first, last, now)
    else:
        prefill_again(state, first, last, now)


@compiled
def begin_roll(state, s, now):
    """Start sending new weights to one server, which may pause for them."""
    settings, run = state.settings, state.run
    run.rolled, run.syncing = s, 1
    run.install_at = now + settings.sync_time
    if settings.generator_pauses:
        state.server[s].paused = 1
        _engine.set_speed(state, s, now)


@compiled
def roll(state, now):
    """Install the trainer's weights on the next server of a rolling update; return whether others are left."""
    settings, s = state.settings, state.run.rolled
    _engine.area_to(state, s, now)
    state.server[s].version += 1
    state.server[s].paused = 0
    _engine.set_speed(state, s, now)
    if settings.interrupts:
        switch(state, s, s + 1, now)
    if s + 1 == settings.servers:
        return False
    begin_roll(state, s + 1, now)
    return True


@compiled
def install(state, now):
    """Install the trainer's weights on all generators."""
    settings, run = state.settings, state.run
    version = run.installed
    state.publish[line_of(version, len(state.publish))].t_install = now
    note_levels(state)
    if not settings.rolling:
        for s in range(settings.servers):
            _engine.area_to(state, s, now)
    run.installed = version + 1
    run.syncing = 0
    if run.paused:
        pause(state, 0, now)
    if settings.tickets_at_publish:
        run.tickets += settings.groups_per_batch * settings.batches_per_publish
    run.tickets += run.later_tickets
    run.later_tickets = 0
    if settings.adapts:
        adapt(state)
    # Show groups that waited for the publish.
    for i in range(run.hidden):
        state.group[state.hidden[i]].v_visible = run.installed
        show(state, state.hidden[i])
    run.hidden = 0
    if settings.age_at_install > REACH_NONE:
        cut(state, settings.age_at_install, now)
    if settings.interrupts and not settings.rolling:
        switch(state, 0, settings.servers, now)
    if run.due:
        snapshot(state, now)
