"""Servers and the samples they write, compiled: clocks, starts, stretches of writing, failures, installs.

A stretch begins at (clock, done) and reaches x units of work at clock + (x - done) / rate on its server's clock. Heap
codes carry the sample's number above its row, so that ties are broken by number whatever the row.
"""

import math

import numpy as np

from asyncsim.base.rng_compiled import uniform_at
from asyncsim.systems._compile import compiled
from asyncsim.systems._heaps import heapify, line_of, ring_next, ring_put, sift_down, sift_up, timed_push
from asyncsim.systems._state import EVENT_REPAIR, KEEP, PIN, REPAIRING, STARTING, UNSTARTED, WRITING

ROW_BITS = 31
ROW_MASK = (1 << ROW_BITS) - 1
LATER_CLASS = 1 << 60


@compiled
def clock(state, s, now):
    """Virtual clock W of a server, which advances with the server's speed."""
    server = state.server[s]
    return server.w_zero + (now - server.t_zero) * server.speed


@compiled
def completion(state, s):
    """Time in seconds at which the next sample on a running server completes its stretch of generation."""
    settings, server = state.settings, state.server[s]
    rest = state.keys[s * settings.room] - server.w_zero
    if server.speed != 1.0:
        rest /= server.speed
    return server.t_zero + rest


@compiled
def version_of(state, s):
    """Version with which a server generates: the installed one, or its own during rolling updates."""
    return state.server[s].version if state.settings.rolling else state.run.installed


@compiled
def set_speed(state, s, now):
    """Set the speed of a server's virtual clock from its number of active samples and pauses."""
    run, server = state.run, state.server[s]
    if run.paused or (state.settings.rolling and server.paused):
        speed = 0.0
    elif state.decode.size == 0:
        speed = 1.0
    else:
        speed = state.decode[min(max(server.active, 1), state.decode.size) - 1]
    if speed != server.speed:
        server.w_zero = clock(state, s, now)
        server.t_zero = now
        server.speed = speed


@compiled
def row_of(state, code):
    return code if state.settings.samples == 1 else code // state.settings.samples


@compiled
def rate_of(state, code):
    return state.rate[state.group[row_of(state, code)].place]


@compiled
def server_of(state, code):
    servers = state.settings.servers
    return 0 if servers == 1 else state.group[row_of(state, code)].place % servers


@compiled
def heap_code(state, code):
    """Code of a sample in the heaps: its number in the bits above its row."""
    settings = state.settings
    if settings.samples == 1:
        return (np.int64(state.group[code].number) << ROW_BITS) | code
    row = code // settings.samples
    return ((np.int64(state.group[row].number) * settings.samples + code - row * settings.samples) << ROW_BITS) | code


@compiled
def end_of_turn(state, code):
    """Work that a sample has completed at the end of its current turn."""
    settings, sample = state.settings, state.sample[code]
    turn, work = sample.turn, sample.work
    return work * turn / settings.turns if turn < settings.turns else work


@compiled
def target_of(state, code):
    """Work at which a sample's current stretch of generation ends: the end of the turn, or a failure."""
    end = end_of_turn(state, code)
    return min(end, state.sample[code].limit) if state.settings.failure_rate > 0.0 else end


@compiled
def key_of(state, code):
    """Server clock W at which a sample's current stretch of generation ends."""
    sample = state.sample[code]
    speed = rate_of(state, code)
    return sample.clock + (target_of(state, code) - sample.done) / speed


@compiled
def failure_after(state, code, attempt):
    """Work that an attempt of a sample generates before it fails, drawn from the failure rate."""
    settings = state.settings
    number = heap_code(state, code) >> ROW_BITS
    draw = uniform_at(settings.failure_key_0, settings.failure_key_1, settings.realization, number, attempt, 0)
    return -math.log1p(-draw) / settings.failure_rate


@compiled
def begin_stretch(state, code, s, base):
    """Begin a stretch of a sample's generation at server clock W = base, with the work done so far."""
    settings, run, sample, server = state.settings, state.run, state.sample[code], state.server[s]
    sample.clock = base
    version = version_of(state, s)
    sample.mark = server.area + version * (base - server.area_to)
    if settings.stretched:
        i = run.stretches
        state.stretch[i].clock, state.stretch[i].done = base, sample.done
        state.stretch[i].sample, state.stretch[i].version = code, version
        run.stretches = i + 1


@compiled
def push_key(state, code, s):
    """Enter a sample with known work into its server's heap of completions."""
    settings, server = state.settings, state.server[s]
    state.sample[code].phase = WRITING
    size = server.heap
    server.heap = size + 1
    key = key_of(state, code)
    sift_up(state.keys, state.codes, s * settings.room, size, key, heap_code(state, code))


@compiled
def write(state, code, s, now):
    """Continue the generation of a sample that has a slot."""
    settings, run, sample = state.settings, state.run, state.sample[code]
    state.server[s].active += 1
    run.active += 1
    set_speed(state, s, now)
    begin_stretch(state, code, s, clock(state, s, now))
    if settings.external_work and sample.done == 0.0:
        sample.phase = STARTING
        state.pending[run.pending] = code
        run.pending += 1
    else:
        push_key(state, code, s)


@compiled
def stamp_start(state, code, now):
    """Begin an attempt of a sample, without tokens, under the installed version."""
    settings, run, sample = state.settings, state.run, state.sample[code]
    row = row_of(state, code)
    again = sample.v_start >= 0
    sample.start = now
    sample.done = sample.versions = 0.0
    version = version_of(state, server_of(state, code))
    sample.v_start = version
    sample.turn = 1
    if settings.failure_rate > 0.0:
        sample.limit = failure_after(state, code, sample.attempt)
    if state.group[row].v_head < 0:
        state.group[row].v_head = version
        run.unstarted -= 1
    elif again:
        head = sample.v_start
        for other in range(row * settings.samples, (row + 1) * settings.samples):
            if 0 <= state.sample[other].v_start < head:
                head = state.sample[other].v_start
        state.group[row].v_head = head


@compiled
def serve(state, s, now):
    """Assign free slots of a server to samples that wait for one."""
    settings, run, server = state.settings, state.run, state.server[s]
    while server.waiting > 0 and server.held < settings.slots:
        code = state.queue[s * settings.room + server.waiting_head]
        server.waiting_head = ring_next(settings.room, server.waiting_head)
        server.waiting -= 1
        server.held += 1
        run.holding += 1
        if state.sample[code].phase == UNSTARTED:
            stamp_start(state, code, now)
        write(state, code, s, now)


@compiled
def submit(state, code, s, now):
    """Give a sample a slot of its server, or let it wait for a free slot."""
    settings, run, server = state.settings, state.run, state.server[s]
    if server.held < settings.slots:
        server.held += 1
        run.holding += 1
        if state.sample[code].phase == UNSTARTED:
            stamp_start(state, code, now)
        write(state, code, s, now)
    else:
        ring_put(state.queue, s * settings.room, settings.room, server.waiting_head, server.waiting, code)
        server.waiting += 1


@compiled
def account(state, code, s, at, done):
    """Add a sample's tokens since its stretch began, `done` in total at server clock W = at, and their versions."""
    settings, sums, sample, server = state.settings, state.sums, state.sample[code], state.server[s]
    speed = rate_of(state, code)
    if settings.mode == KEEP:
        area = server.area + version_of(state, s) * (at - server.area_to)
        sample.versions += (area - sample.mark) * speed
    else:
        version = sample.v_start if settings.mode == PIN else version_of(state, s)
        sample.versions += version * (done - sample.done)
    sums.generated += done - sample.done
    sample.done = done


@compiled
def work_written(state, code, at):
    """Work that a sample in generation has done at server clock W = at."""
    sample = state.sample[code]
    return sample.done + max(0.0, at - sample.clock) * rate_of(state, code)


@compiled
def waste(state, code):
    sums, sample = state.sums, state.sample[code]
    sample.wasted += sample.done
    sums.wasted_work += sample.done
    sample.done = sample.versions = 0.0


@compiled
def put_event(state, time, later_class, what):
    """Enter an event on the wall clock, after events of equal time and class."""
    run = state.run
    timed_push(state.timed, run.timed, time, later_class | run.serial, what)
    run.timed += 1
    run.serial += 1


@compiled
def fail(state, code, now):
    """Let a sample in generation fail; True if it continues at once."""
    settings, sample = state.settings, state.sample[code]
    sample.attempt += 1
    sample.phase = REPAIRING
    if settings.failure_keeps:
        sample.limit = sample.done + failure_after(state, code, sample.attempt)
    else:
        waste(state, code)
    if settings.restart_delay == 0.0:
        return True
    put_event(state, now + settings.restart_delay, LATER_CLASS, code * 4 + EVENT_REPAIR)
    return False


@compiled
def resume(state, code, s, now):
    """Continue a sample after its failure, with its tokens so far or without tokens."""
    settings = state.settings
    if not settings.failure_keeps:
        stamp_start(state, code, now)
    write(state, code, s, now)


@compiled
def area_to(state, s, now):
    """Integrate a server's version over its clock up to now, before the version changes, and record the clock."""
    at = clock(state, s, now)
    state.server[s].area += version_of(state, s) * (at - state.server[s].area_to)
    state.server[s].area_to = at
    state.marks[line_of(state.run.installed, len(state.marks)), s] = at


@compiled
def rekey(state, now):
    """Recompute when every sample in generation ends its stretch, not before now, and rebuild the heaps."""
    settings = state.settings
    for s in range(settings.servers):
        at, o = clock(state, s, now), s * settings.room
        for i in range(state.server[s].heap):
            state.keys[o + i] = max(key_of(state, state.codes[o + i] & ROW_MASK), at)
        heapify(state.keys, state.codes, o, state.server[s].heap)


@compiled
def pop_key(state, s):
    settings, server = state.settings, state.server[s]
    last = server.heap - 1
    server.heap = last
    o = s * settings.room
    sift_down(state.keys, state.codes, o, last, 0, state.keys[o + last], state.codes[o + last])
