"""Groups from admission to the end of their training, compiled."""

import numpy as np

from asyncsim.systems import _state
from asyncsim.systems._buffer import discard, drop_first_entered, enter, free_place, unlink
from asyncsim.systems._compile import compiled
from asyncsim.systems._engine import put_event, row_of, server_of, submit, version_of
from asyncsim.systems._heaps import line_of, ring_next, ring_put
from asyncsim.systems._leaving import cancel_rest, end_generation


@compiled
def new_sample(state, code, line, factor):
    """Initialize a sample whose generation has not started."""
    settings, sums, sample = state.settings, state.sums, state.sample[code]
    sample.work = state.supply[line].work * factor
    sample.done = 0.0
    sums.begun += 1.0
    sums.begun_work += sample.work
    if settings.records:
        sample.start = sample.end = sample.scored = sample.clock = np.nan
        sample.wasted = 0.0
    sample.reward = state.supply[line].reward
    for j in range(state.steps.shape[1]):
        state.steps[code, j] = state.supply_steps[line, j]
    sample.v_start = sample.v_end = -1
    sample.attempt = 0
    sample.turn = 1
    sample.phase = _state.OUTSIDE


@compiled
def new_group(state, now):
    """Give an admitted group a slot, and return its row."""
    settings, run = state.settings, state.run
    number = run.admitted
    run.admitted = number + 1
    if settings.records:
        row = number
    else:
        run.rows -= 1
        row = state.rows[run.rows]
    group, moment = state.group[row], state.moment[row]
    group.number = number
    group.place = state.free[run.free_head]
    run.free_head = ring_next(state.free.shape[0], run.free_head)
    run.free -= 1
    group.missing = settings.samples
    group.unscored = settings.samples - settings.redundant
    group.v_submit = run.installed
    group.v_head = group.v_done = group.after = -1
    group.fate = group.used = group.references = 0
    group.stage = _state.IN_GENERATION
    group.before = run.last_row
    if run.last_row >= 0:
        state.group[run.last_row].after = row
    else:
        run.first_row = row
    run.last_row = row
    moment.t_submit = now
    if settings.records:
        group.v_left = group.v_trained = group.batch = group.entry = group.target = -1
        moment.t_done = moment.t_ready = moment.t_left = moment.t_free = np.nan
    prompt = state.prompts[number - run.supplied]
    group.accepted = prompt.accept < settings.accept
    if run.again > 0:
        again = state.again[run.again_head]
        group.prompt, moment.factor = again.prompt, again.factor
        run.again_head = ring_next(state.again.shape[0], run.again_head)
        run.again -= 1
    else:
        group.prompt, moment.factor = number, prompt.factor
    # Assign the batch it is meant for.
    if settings.order == _state.TARGETED_ORDER:
        if run.targets > 0:
            group.target = state.targets[run.targets_head]
            run.targets_head = ring_next(state.targets.shape[0], run.targets_head)
            run.targets -= 1
        else:
            group.target = run.targeted
            run.targeted += 1
    return row


@compiled
def permits_of(state):
    """Number of samples that may be in progress at once: the setting, or its adapted value."""
    return state.run.allowed if state.settings.adapts else state.settings.permits


@compiled
def adapt(state):
    """Permit one more group if groups trained since the last install were fresh enough, else half as many."""
    settings, run = state.settings, state.run
    if run.stale > settings.target_staleness * run.stale_groups:
        run.allowed = max(1, run.allowed // 2)
    else:
        run.allowed = min(settings.permits, run.allowed + settings.samples)
    run.stale = run.stale_groups = 0


@compiled
def leads(state):
    """Whether packed batches are so far ahead of the generators' version that no new sample may start."""
    settings, run = state.settings, state.run
    # The limit first: where there is none the rest is left out.
    ahead = run.packs // settings.batches_per_publish - run.installed
    return settings.lead < _state.UNLIMITED and ahead > settings.lead


@compiled
def dispatch(state, now):
    """Send the samples of the last admitted group to their servers, as permits and the maximum lead allow."""
    run = state.run
    while run.outside_from < run.outside_to and run.permitted < permits_of(state) and not leads(state):
        code = run.outside_from
        run.outside_from = code + 1
        run.permitted += 1
        state.sample[code].phase = _state.UNSTARTED
        submit(state, code, server_of(state, code), now)


@compiled
def epoch_is_full(state):
    """Whether the next groups to admit belong to an epoch that has not begun; lost groups are replaced."""
    settings, run = state.settings, state.run
    begun = run.finished // settings.epoch + 1
    if run.finished == (begun - 1) * settings.epoch and (run.wanted or run.syncing):
        begun -= 1
    lost = run.gone - run.started * settings.groups_per_batch
    return run.admitted - lost + settings.quantum > begun * settings.epoch * settings.groups_per_batch


@compiled
def round_is_on(state):
    """Whether a round is in progress: waiting for its groups, its batch, or the resulting weights."""
    run = state.run
    waiting = run.in_flight + run.scoring > 0 or run.ready >= state.settings.groups_per_batch
    return waiting or run.packs > run.finished or run.wanted or run.syncing or run.due


@compiled
def admit(state, now):
    """Admit groups while enough permits and slots are free; True if drawn values or table rows run out."""
    settings, run = state.settings, state.run
    quantum, samples = settings.quantum, settings.samples
    while run.tickets >= quantum and run.free >= quantum:
        if (
            leads(state)
            or run.permitted >= permits_of(state)
            or run.ready >= settings.closes_at
            or (settings.epoch < _state.UNLIMITED and epoch_is_full(state))
            or (settings.rounds and round_is_on(state))
        ):
            break
        room = state.group.shape[0] - run.admitted if settings.records else run.rows
        if room < quantum or run.admitted + quantum - run.supplied > state.prompts.shape[0]:
            return True
        for _ in range(quantum):
            row = new_group(state, now)
            run.tickets -= 1
            run.in_flight += 1
            run.unstarted += 1
            line = (run.admitted - 1 - run.supplied) * samples
            for k in range(samples):
                new_sample(state, row * samples + k, line + k, state.moment[row].factor)
            run.outside_from, run.outside_to = row * samples, (row + 1) * samples
            dispatch(state, now)
    return False


@compiled
def finish_group(state, code, now):
    """Handle a group whose samples are all scored: reject it, put it into the buffer, or block it."""
    settings, run = state.settings, state.run
    row = row_of(state, code)
    if settings.redundant > 0:
        cancel_rest(state, row, now)
    run.scoring -= 1
    if state.group[row].accepted and run.ready < settings.capacity:
        enter(state, row, now)
    else:
        refuse_group(state, row, now)


@compiled
def refuse_group(state, row, now):
    """Handle a finished group that is rejected or finds no room in the buffer."""
    settings, run, group = state.settings, state.run, state.group[row]
    if group.accepted == 0:
        unlink(state, row)
        if settings.place_holds:
            free_place(state, row, now)
        discard(state, row, _state.REJECTED, now)
    elif settings.drops_oldest:
        drop_first_entered(state, now)
        enter(state, row, now)
    else:
        ring_put(state.blocked, 0, state.blocked.shape[0], run.blocked_head, run.blocked, row)
        group.stage = _state.IN_QUEUE
        run.blocked += 1


@compiled
def unblock(state, now):
    settings, run = state.settings, state.run
    while run.blocked > 0 and run.ready < settings.capacity:
        row = state.blocked[run.blocked_head]
        run.blocked_head = ring_next(state.blocked.shape[0], run.blocked_head)
        run.blocked -= 1
        enter(state, row, now)


@compiled
def end_sample(state, code, now):
    """Finish a sample's generation; True if its reward is available at once."""
    settings, run, sample = state.settings, state.run, state.sample[code]
    sample.end = now
    sample.v_end = version_of(state, server_of(state, code))
    row = row_of(state, code)
    state.group[row].missing -= 1
    if state.group[row].missing == 0:
        end_generation(state, row, now)
    if sample.reward == 0.0 or not settings.reward_holds:
        run.permitted -= 1
    if sample.reward > 0.0:
        sample.phase = _state.REWARDED
        put_event(state, now + sample.reward, 0, code * 4 + _state.EVENT_REWARD)
        return False
    return True


@compiled
def score_sample(state, code, now):
    """Record a sample's reward; True if this finishes the sample's group."""
    sample = state.sample[code]
    sample.scored = now
    sample.phase = _state.OVER_SAMPLE
    row = row_of(state, code)
    state.group[row].unscored -= 1
    return state.group[row].unscored == 0


@compiled
def train(state, now):
    """Start training on the next packed batch, and return the seconds of training."""
    settings, run, sums = state.settings, state.run, state.sums
    number = run.started
    line, row_of_batch = line_of(number, len(state.taken)), line_of(number, len(state.batch))
    samples, version, work = settings.samples, run.snapshots, 0.0
    for k in range(settings.groups_per_batch):
        row = state.taken[line, k]
        group_work = 0.0
        for j in range(samples):
            if settings.redundant == 0 or state.sample[row * samples + j].phase != _state.CANCELLED:
                group_work += state.sample[row * samples + j].work
        work += group_work
        if state.group[row].fate != _state.TRAINED:
            state.group[row].fate, state.group[row].batch, state.moment[row].t_left = _state.TRAINED, number, now
            state.group[row].v_left, state.group[row].v_trained = run.installed, version
            run.gone += 1
            sums.trained_work += group_work
        if settings.adapts:
            run.stale += version - np.int64(state.group[row].v_head)
            run.stale_groups += 1
        if number >= settings.warm_up:
            summarize(state, row, version)
        # Release rows that are used up.
        state.group[row].references -= 1
        if state.group[row].stage == _state.IN_PACK:
            state.group[row].stage = _state.LEFT
        if not settings.records and state.group[row].references == 0 and state.group[row].stage == _state.LEFT:
            state.rows[run.rows] = row
            run.rows += 1
    run.started = number + 1
    run.busy = 1
    state.batch[row_of_batch].t_start = now
    state.batch[row_of_batch].version, state.batch[row_of_batch].installed = version, run.installed
    return state.batch[row_of_batch].train_time + (settings.token_time * work if settings.token_time > 0.0 else 0.0)


@compiled
def summarize(state, row, version):
    """Add a trained group to the summary: staleness of its first tokens and of all tokens, and how it arose."""
    settings, run, sums, group = state.settings, state.run, state.sums, state.group[row]
    stale = version - np.int64(group.v_head)
    state.histogram[min(stale, state.histogram.shape[0] - 1)] += 1
    sums.staleness += stale
    sums.squares += float(stale) * stale
    sums.staleness_in_flight += group.v_done - group.v_head
    sums.publish_lag += version - run.installed
    sums.groups += 1.0
    sums.trained_samples += settings.samples - settings.redundant
    for j in range(settings.samples):
        code = row * settings.samples + j
        if settings.redundant > 0 and state.sample[code].phase == _state.CANCELLED:
            continue
        sums.token_staleness += version * state.sample[code].work - state.sample[code].versions
        sums.tokens += state.sample[code].work
        newest = state.sample[code].v_start if settings.mode == _state.PIN else state.sample[code].v_end
        sums.newest += version - newest
