"""Finished groups, compiled: the buffer, the orders in which a batch is chosen, groups that leave untrained.

Visible groups are a heap by rank, or under order random an array in the order of entry.
"""

import numpy as np

from asyncsim.base.rng_compiled import uniform_at
from asyncsim.systems import _state
from asyncsim.systems._compile import compiled
from asyncsim.systems._heaps import heapify, line_of, ring_end, ring_put, sift_down, sift_up, sort


@compiled
def free_place(state, row, now):
    """Return a group's slot to the end of the queue of free slots."""
    run, group = state.run, state.group[row]
    ring_put(state.free, 0, state.free.shape[0], run.free_head, run.free, group.place)
    run.free += 1
    state.moment[row].t_free = now


@compiled
def unlink(state, row):
    """Remove a group from the list of those that have neither entered the buffer nor left."""
    run, group = state.run, state.group[row]
    before, after = group.before, group.after
    if before >= 0:
        state.group[before].after = after
    else:
        run.first_row = after
    if after >= 0:
        state.group[after].before = before
    else:
        run.last_row = before


@compiled
def rank_of(state, row):
    """Sort key of a group in the buffer, by the buffer's order; the smallest key is trained first."""
    settings, group = state.settings, state.group[row]
    order = settings.order
    if order == _state.OLDEST:
        return np.int64(group.number)
    if order == _state.STRICT:
        return (np.int64(group.v_submit) << 32) | np.int64(group.entry)
    if order == _state.TARGETED_ORDER:
        return np.int64(group.target)
    if order == _state.FRESHEST:
        return -np.int64(group.number)
    return -np.int64(group.entry) if order == _state.LATEST else np.int64(group.entry)


@compiled
def show(state, row):
    settings, run = state.settings, state.run
    if settings.order == _state.RANDOM:
        state.picks[run.visible] = row
    else:
        sift_up(state.ranks, state.picks, 0, run.visible, rank_of(state, row), row)
    run.visible += 1
    run.untrained += state.group[row].used == 0


@compiled
def enter(state, row, now):
    settings, run, group = state.settings, state.run, state.group[row]
    unlink(state, row)
    group.entry = run.entries
    group.stage = _state.IN_BUFFER
    state.moment[row].t_ready = now
    run.entries += 1
    run.ready += 1
    if settings.place_holds:
        free_place(state, row, now)
    if settings.hides and group.entry >= settings.initial_fill:
        state.hidden[run.hidden] = row
        run.hidden += 1
    else:
        group.v_visible = -1
        show(state, row)


@compiled
def discard(state, row, fate, now):
    """Remove a group without (further) training; its permit, target step and prompt are reused as the settings say."""
    settings, run, sums, group = state.settings, state.run, state.sums, state.group[row]
    group.stage = _state.LEFT
    if group.used == 0:
        group.fate, group.v_left, state.moment[row].t_left = fate, run.installed, now
        run.gone += 1
        for code in range(row * settings.samples, (row + 1) * settings.samples):
            # The work of a cancelled sample was wasted before.
            if settings.redundant == 0 or state.sample[code].phase != _state.CANCELLED:
                sums.wasted_work += state.sample[code].done
        if run.started >= settings.warm_up:
            sums.dropped_age += fate == _state.DROPPED_AGE
            sums.dropped_overflow += fate == _state.DROPPED_OVERFLOW
            sums.rejected += fate == _state.REJECTED
        if settings.returns == _state.NOW_BACK:
            run.tickets += 1
        elif settings.returns == _state.PUBLISH_BACK:
            run.later_tickets += 1
        if settings.order == _state.TARGETED_ORDER:
            ring_put(state.targets, 0, state.targets.shape[0], run.targets_head, run.targets, group.target)
            run.targets += 1
        if settings.requeues and fate == _state.DROPPED_AGE:
            again = state.again[ring_end(len(state.again), run.again_head, run.again)]
            again.prompt, again.factor = group.prompt, state.moment[row].factor
            run.again += 1
    # Free the row for another group.
    if not settings.records and group.references == 0:
        state.rows[run.rows] = row
        run.rows += 1


@compiled
def drop_first_entered(state, now):
    """Drop the group that entered the buffer first, because the buffer is full."""
    settings, run = state.settings, state.run
    if settings.order == _state.DONE_FIRST and run.visible > 0:
        oldest = 0
    else:
        oldest = -1
        for i in range(run.visible):
            if oldest < 0 or state.group[state.picks[i]].entry < state.group[state.picks[oldest]].entry:
                oldest = i
    if oldest < 0:
        row = state.hidden[0]
        run.hidden -= 1
        for i in range(run.hidden):
            state.hidden[i] = state.hidden[i + 1]
        run.ready -= 1
    else:
        row = state.picks[oldest]
        take_out(state, oldest)
    discard(state, row, _state.DROPPED_OVERFLOW, now)


@compiled
def take_out(state, i):
    settings, run = state.settings, state.run
    last = run.visible - 1
    run.untrained -= state.group[state.picks[i]].used == 0
    if settings.order == _state.RANDOM:
        for j in range(i, last):
            state.picks[j] = state.picks[j + 1]
    else:
        rank, row = state.ranks[last], state.picks[last]
        if i < last:
            if rank < state.ranks[i]:
                sift_up(state.ranks, state.picks, 0, i, rank, row)
            else:
                sift_down(state.ranks, state.picks, 0, last, i, rank, row)
    run.visible = last
    run.ready -= 1


@compiled
def first_end(state, row):
    """Version at which the first of a group's samples ended, -1 while other samples are in generation."""
    settings, version = state.settings, np.int64(state.group[row].v_done)
    for code in range(row * settings.samples, (row + 1) * settings.samples):
        if version >= 0 and state.sample[code].phase != _state.CANCELLED:
            version = min(version, np.int64(state.sample[code].v_end))
    return version


@compiled
def over_age(state, row, planned):
    """Whether a group exceeds the staleness limit at the planned version; false for a group without a stamp."""
    settings, group = state.settings, state.group[row]
    if settings.age_reference == _state.AT_SUBMIT:
        version = group.v_submit
    else:
        version = first_end(state, row) if settings.age_reference == _state.AT_END else group.v_head
    return version >= 0 and planned - version > settings.max_age


@compiled
def cut_buffer(state, planned, now):
    """Drop too stale groups from the buffer in order of entry; return whether there were any."""
    settings, run = state.settings, state.run
    count = end = 0
    for i in range(run.visible):
        row = state.picks[i]
        if over_age(state, row, planned):
            state.scratch[count] = (np.int64(state.group[row].entry) << 32) | row
            count += 1
            run.untrained -= state.group[row].used == 0
        else:
            state.ranks[end], state.picks[end] = state.ranks[i], row
            end += 1
    visible, hidden = end, 0
    for i in range(run.hidden):
        row = state.hidden[i]
        if over_age(state, row, planned):
            state.scratch[count] = (np.int64(state.group[row].entry) << 32) | row
            count += 1
        else:
            state.hidden[hidden] = row
            hidden += 1
    if count == 0:
        return False
    run.visible, run.hidden, run.ready = visible, hidden, visible + hidden
    if settings.order != _state.RANDOM:
        heapify(state.ranks, state.picks, 0, visible)
    # Discard old groups in order of entry.
    sort(state.scratch, count)
    for i in range(count):
        row = state.scratch[i] & 0xFFFFFFFF
        discard(state, row, _state.DROPPED_AGE, now)
    return True


@compiled
def eligible(state, row, batch_index):
    """Whether the buffer's order allows training the given group next."""
    settings, run, group = state.settings, state.run, state.group[row]
    first = run.first_row
    if settings.order == _state.TARGETED_ORDER:
        return group.target < (batch_index + 1) * settings.groups_per_batch
    if first < 0:
        return True
    if settings.order == _state.OLDEST:
        return group.number - state.group[first].number < settings.window
    if settings.order == _state.STRICT:
        return group.v_submit <= state.group[first].v_submit
    return True


@compiled
def hopeless(state):
    """Whether the buffer certainly cannot supply a batch, as a cheap test before trying."""
    settings, run = state.settings, state.run
    if run.visible < settings.groups_per_batch or (settings.rounds and run.in_flight + run.scoring > 0):
        return True
    first = run.first_row
    if first < 0:
        return False
    if (
        settings.age_waits
        and run.packs // settings.batches_per_publish - state.group[first].v_submit >= settings.max_age
    ):
        return True
    if settings.order == _state.OLDEST and settings.window < (1 << 31):
        older = max(0, state.group[first].number - state.group[state.picks[0]].number)
        return older + settings.window - 1 < settings.groups_per_batch
    return False


@compiled
def choose(state):
    """Choose the groups of a batch: write their rows to `taken` and count uses; False if the order allows none."""
    settings, run = state.settings, state.run
    if hopeless(state):
        return False
    size = settings.groups_per_batch
    line = line_of(run.packs, len(state.taken))
    if settings.order == _state.RANDOM:
        choose_random(state, line)
        return True
    count = 0
    while count < size and run.visible > 0 and eligible(state, state.picks[0], run.packs):
        state.taken[line, count] = state.picks[0]
        count += 1
        last = run.visible - 1
        run.visible = last
        sift_down(state.ranks, state.picks, 0, last, 0, state.ranks[last], state.picks[last])
    # Count uses; put back what stays visible.
    for k in range(count):
        row = state.taken[line, k]
        if count == size:
            state.group[row].used += 1
            state.group[row].references += 1
            run.untrained -= state.group[row].used == 1
        if count < size or state.group[row].used < settings.max_uses:
            sift_up(state.ranks, state.picks, 0, run.visible, rank_of(state, row), row)
            run.visible += 1
        else:
            state.group[row].stage = _state.IN_PACK
            run.ready -= 1
    return count == size


@compiled
def drop_rest(state, now):
    """Drop all groups left in the buffer after a round's batch, since a round may generate more groups."""
    run = state.run
    while run.visible > 0:
        row = state.picks[run.visible - 1]
        take_out(state, run.visible - 1)
        discard(state, row, _state.DROPPED_OVERFLOW, now)


@compiled
def choose_random(state, line):
    """Choose a batch's groups at random without replacement; `scratch` holds the positions chosen so far, sorted."""
    settings, run = state.settings, state.run
    size = settings.groups_per_batch
    # Groups of the latest publish are adjacent; groups that were visible at once come after them.
    high, installed = run.visible, run.installed
    while high > 0 and state.group[state.picks[high - 1]].v_visible != installed:
        high -= 1
    low = high
    while low > 0 and state.group[state.picks[low - 1]].v_visible == installed:
        low -= 1
    recent_count = high - low
    for k in range(size):
        draw = uniform_at(settings.choice_key_0, settings.choice_key_1, settings.realization, run.packs, 0, 2 * k + 1)
        from_recent = False
        if settings.recent > 0.0 and recent_count > 0:
            from_recent = (
                uniform_at(settings.choice_key_0, settings.choice_key_1, settings.realization, run.packs, 0, 2 * k)
                < settings.recent
            )
        place = low + int(draw * recent_count) if from_recent else int(draw * (run.visible - k))
        # Skip the positions chosen so far.
        j = 0
        while j < k and (state.scratch[j] <= place):
            if not from_recent or state.scratch[j] >= low:
                place += 1
            j += 1
        # Insert the position in sorted order.
        i = k
        while i > 0 and state.scratch[i - 1] > place:
            state.scratch[i] = state.scratch[i - 1]
            i -= 1
        state.scratch[i] = place
        recent_count -= low <= place < high
        state.taken[line, k] = state.picks[place]
    exhausted = 0
    for k in range(size):
        row = state.taken[line, k]
        group = state.group[row]
        group.used += 1
        group.references += 1
        run.untrained -= group.used == 1
        if group.used >= settings.max_uses:
            group.stage = _state.IN_PACK
            exhausted += 1
    # Remove groups without uses left.
    if exhausted:
        end = 0
        for i in range(run.visible):
            if state.group[state.picks[i]].stage == _state.IN_BUFFER:
                state.picks[end] = state.picks[i]
                end += 1
        run.visible = end
        run.ready -= exhausted
