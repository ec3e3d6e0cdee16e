"""The whole state of the event kernel counted again from its rows: laws of admission and queueing by name."""

from __future__ import annotations

from collections import Counter

import numpy as np

from asyncsim.systems import _record
from asyncsim.systems import _state as k
from asyncsim.systems._engine import ROW_MASK


def ring(values, head, count, start=0, room=None):
    """The entries of a queue."""
    room = len(values) if room is None else room
    return values[start + (head + np.arange(count)) % room].tolist()


def is_heap(*columns):
    """Whether no entry is smaller than its parent, by the first column, then the second."""
    entries = list(zip(*(column.tolist() for column in columns), strict=True))
    return all(entries[i] >= entries[(i - 1) // 2] for i in range(1, len(entries)))


class Counted:
    """A state, with the rows of groups that are in it."""

    def __init__(self, system, state):
        self.system, self.state = system, state
        self.settings, self.run, self.sums = state.settings, state.run, state.sums
        if self.settings.records:
            self.rows = np.arange(self.run.admitted)
        else:
            spare = state.rows[: self.run.rows]
            assert len(set(spare.tolist())) == len(spare), "a row is spare twice"
            self.rows = np.setdiff1d(np.arange(len(state.group)), spare)
        self.stage, self.fate = state.group.stage[self.rows], state.group.fate[self.rows]
        size = int(self.settings.samples)
        self.codes = (self.rows[:, None] * size + np.arange(size)).reshape(-1)
        self.phase = state.sample.phase[self.codes]
        self.server = np.repeat(state.group.place[self.rows] % self.settings.servers, size)

    def at(self, *stages):
        return self.rows[np.isin(self.stage, stages)]

    def samples(self, *phases):
        return self.codes[np.isin(self.phase, phases)]

    def timed(self, kind):
        what = self.state.timed.what[: self.run.timed]
        return sorted((what[what & 3 == kind] >> 2).tolist())

    @property
    def outstanding(self):
        return int((self.fate == k.UNFINISHED).sum())

    @property
    def lost(self):
        if self.settings.records:
            return int(np.isin(self.fate, (k.DROPPED_AGE, k.DROPPED_OVERFLOW, k.REJECTED)).sum())
        return int(self.sums.dropped_age + self.sums.dropped_overflow + self.sums.rejected)

    def packed(self):
        lines = np.arange(self.run.started, self.run.packs) % len(self.state.taken)
        return self.state.taken[lines].reshape(-1).tolist()


def groups(c):
    """Admitted = trained + dropped + rejected + unfinished, and trained groups are those of the batches."""
    settings, run = c.settings, c.run
    trained = run.started * settings.groups_per_batch
    whole = run.gone == run.admitted - c.outstanding
    return whole and (settings.max_uses != 1 or run.admitted == trained + c.lost + c.outstanding)


def stages(c):
    """Every group is in one place only, and the counts are those of the places."""
    settings, run, state = c.settings, c.run, c.state
    buffered = [*state.picks[: run.visible].tolist(), *state.hidden[: run.hidden].tolist()]
    blocked = ring(state.blocked, run.blocked_head, run.blocked)
    gone = Counter(c.packed()) if settings.max_uses == 1 else Counter(c.at(k.IN_PACK).tolist())
    return (
        len(c.at(k.IN_GENERATION)) == run.in_flight
        and len(c.at(k.IN_SCORING)) == run.scoring
        and Counter(blocked) == Counter(c.at(k.IN_QUEUE).tolist())
        and Counter(c.at(k.IN_PACK).tolist()) == gone
        and Counter(buffered) == Counter(c.at(k.IN_BUFFER).tolist())
        and run.ready == len(buffered)
        and run.untrained == (state.group.used[state.picks[: run.visible]] == 0).sum()
        and run.unstarted == (state.group.v_head[c.at(k.IN_GENERATION)] < 0).sum()
    )


def limits(c):
    """In generation at most C, in the buffer at most its capacity, in the slots at most so many."""
    settings, run = c.settings, c.run
    slots = (c.state.server.held <= settings.slots).all()
    return run.in_flight <= len(c.system.rates) and run.ready <= settings.capacity and slots


def tickets(c):
    """Free + returning + held by groups + held by what was trained since the install + lost = K."""
    settings, run, out = c.settings, c.run, c.outstanding
    if c.system.tickets is None:
        return True
    if settings.tickets_at_publish:
        out += settings.groups_per_batch * (run.started - settings.batches_per_publish * run.installed)
    else:
        out -= settings.groups_per_batch * (run.packs - run.started)
    never = c.lost if settings.returns == k.NEVER_BACK else 0
    free, later = run.tickets, run.later_tickets
    return min(free, later) >= 0 and free + later + out + never == c.system.tickets


def places(c):
    """Every place is free, held by one group, or not yet open."""
    held = c.at(k.IN_GENERATION, k.IN_SCORING, k.IN_QUEUE) if c.settings.place_holds else c.at(k.IN_GENERATION)
    found = c.state.group.place[held].tolist() + ring(c.state.free, c.run.free_head, c.run.free)
    return sorted(found + c.timed(k.EVENT_PLACE)) == list(range(len(c.system.rates)))


def slots(c):
    """What servers hold, write and let wait is what the samples say."""
    settings, run, server = c.settings, c.run, c.state.server
    holding = [k.STARTING, k.WRITING, k.REPAIRING]
    holding += [k.STEPPING] * bool(settings.environment_holds) + [k.REWARDED] * bool(settings.reward_holds)
    for s in range(settings.servers):
        here, o = c.server == s, s * settings.room
        heap = (c.state.codes[o : o + server.heap[s]] & ROW_MASK).tolist()
        wait = ring(c.state.queue, server.waiting_head[s], server.waiting[s], o, int(settings.room))
        queued = c.codes[here & np.isin(c.phase, (k.UNSTARTED, k.QUEUED))]
        if sorted(heap) != c.codes[here & (c.phase == k.WRITING)].tolist() or sorted(wait) != queued.tolist():
            return False
        if server.held[s] != (here & np.isin(c.phase, holding)).sum() or (wait and server.held[s] < settings.slots):
            return False
        if server.active[s] != (here & np.isin(c.phase, (k.STARTING, k.WRITING))).sum():
            return False
    pending = sorted(c.state.pending[: run.pending].tolist())
    totals = run.holding == server.held.sum() and run.active == server.active.sum()
    return totals and pending == c.samples(k.STARTING).tolist()


def permits(c):
    """Samples between their dispatch and their end have a permit each; only one group has samples outside."""
    settings, run = c.settings, c.run
    under_way = [k.UNSTARTED, k.STARTING, k.WRITING, k.QUEUED, k.STEPPING, k.REPAIRING]
    held = c.samples(*under_way, *[k.REWARDED] * bool(settings.reward_holds))
    outside = list(range(run.outside_from, run.outside_to))
    return run.permitted == len(held) <= settings.permits and c.samples(k.OUTSIDE).tolist() == outside


def samples(c):
    """Groups miss the samples that are not over; timed events are those of the samples that wait for them."""
    size = int(c.settings.samples)
    phase = c.phase.reshape(-1, size)
    # A group that has enough cancels the others.
    missing = (phase < k.REWARDED).sum(axis=1)
    unscored = size - int(c.settings.redundant) - (phase == k.OVER_SAMPLE).sum(axis=1)
    alive = c.stage != k.LEFT
    told = c.state.group[c.rows]
    kinds = ((k.EVENT_REWARD, k.REWARDED), (k.EVENT_STEP, k.STEPPING), (k.EVENT_REPAIR, k.REPAIRING))
    return (
        (told.missing[alive] == missing[alive]).all()
        and (told.unscored[alive] == unscored[alive]).all()
        and ((missing > 0) == (c.stage == k.IN_GENERATION))[alive].all()
        and all(c.timed(kind) == c.samples(phase).tolist() for kind, phase in kinds)
    )


def heaps(c):
    """Heaps are heaps, with the numbers of the samples and the ranks of the order."""
    settings, run, state = c.settings, c.run, c.state
    for s in range(settings.servers):
        part = slice(s * settings.room, s * settings.room + state.server.heap[s])
        row, inside = np.divmod(state.codes[part] & ROW_MASK, settings.samples)
        number = state.group.number[row].astype(np.int64) * settings.samples + inside
        if not is_heap(state.keys[part], state.codes[part]) or (state.codes[part] >> 31 != number).any():
            return False
    shown = settings.order == k.RANDOM or is_heap(state.ranks[: run.visible], state.picks[: run.visible])
    return shown and is_heap(state.timed.time[: run.timed], state.timed.order[: run.timed])


def links(c):
    """The list of groups that have neither entered the buffer nor left is whole, both ways, in the order of numbers."""
    table, row, before, found = c.state.group, int(c.run.first_row), -1, []
    while row >= 0 and len(found) <= len(c.rows):
        if table.before[row] != before:
            return False
        found.append(row)
        row, before = int(table.after[row]), row
    numbers = table.number[found].tolist()
    listed = sorted(found) == c.at(k.IN_GENERATION, k.IN_SCORING, k.IN_QUEUE).tolist()
    return listed and c.run.last_row == before and numbers == sorted(numbers)


def publishes(c):
    """Batches start, end and are published in order; at most one publish is on its way."""
    settings, run = c.settings, c.run
    done = run.finished // settings.batches_per_publish == run.snapshots + run.due
    return (
        done
        and run.snapshots - run.installed in (0, 1)
        and run.started - run.finished == run.busy
        and (0 <= run.packs - run.started <= max(settings.prefetch, 1))
    )


def targets(c):
    """No target and no prompt is with two groups, or with a group and in its queue."""
    settings, run, state = c.settings, c.run, c.state
    waiting = state.group.prompt[c.rows[c.fate == k.UNFINISHED]].tolist()
    waiting += ring(state.again.prompt, run.again_head, run.again)
    if settings.order != k.TARGETED_ORDER or not settings.records:
        return len(waiting) == len(set(waiting))
    alive = np.isin(c.fate, (k.UNFINISHED, k.TRAINED))
    owned = state.group.target[c.rows[alive]].tolist() + ring(state.targets, run.targets_head, run.targets)
    return len(waiting) == len(set(waiting)) and sorted(owned) == list(range(run.targeted))


def work(c):
    """Generated = trained + wasted + what unfinished groups hold, of the stretches that are over."""
    sums = c.sums
    held = np.repeat(c.fate == k.UNFINISHED, c.settings.samples) & (c.phase != k.CANCELLED)
    kept = c.state.sample.done[c.codes[held]].sum()
    return abs(sums.generated - sums.trained_work - sums.wasted_work - kept) <= 1e-9 * max(sums.generated, 1.0)


LAWS = (groups, stages, limits, tickets, places, permits, slots, samples, heaps, links, publishes, targets, work)


def broken(system, state):
    """Names of the laws that a state breaks."""
    counted = Counted(system, state)
    return [law.__name__ for law in LAWS if not law(counted)]


def may_stall(s):
    """Why these settings may come to a standstill, although each of them is accepted; empty where they cannot."""
    cuts = s.max_age is not None and s.age_action != "wait"
    overflows = s.capacity is not None and s.overflow == "drop_oldest"
    loses = cuts or overflows or s.accept < 1.0
    # Under these orders a batch may have to wait for a certain group.
    waits = s.window is not None or s.order in ("version_strict", "target") or s.age_action == "wait"
    kinds = {
        "tickets of lost groups come too late or never": loses and s.tickets is not None and s.release_dropped != "now",
        "lost groups leave less than a quantum of tickets": loses and s.tickets is not None and s.quantum > 1 and waits,
    }
    return [kind for kind, found in kinds.items() if found]


def token_versions(record, tokens=None):
    """Version of every token of a timeline, int32 `[samples, T]`; -1 for tokens not generated by its end."""
    tokens = int(record.header["tokens"]) if tokens is None else tokens
    samples = record.samples
    begun = np.flatnonzero(samples["v_start"] >= 0)
    version = np.full((samples["sample"].size, tokens), -1, dtype=np.int32)
    first, whole = samples["v_start"][begun], samples["work"][begun]
    if record.header["mode"] in ("keep", "reprefill"):
        installs = len(record.publishes["version"])
        last = np.where(samples["v_ready"][begun] < 0, installs, samples["v_ready"][begun]).astype(np.int32)
        servers = int(record.header["servers"])
        marks = np.stack([record.publishes[f"clock_{s}"] for s in range(servers)], axis=1)
        log = record.stretches
        if len(log["sample"]):
            stretches = _record.stretches_of(begun, log["sample"], log["clock"], log["done"])
        else:
            stretches = np.arange(begun.size + 1), samples["clock"][begun], np.zeros(begun.size)
        writing = _record.Writing(samples["server"][begun], samples["rate"][begun], first, last, *stretches, marks)
        versions = _record.emit(writing, whole, tokens)
    else:
        versions = np.repeat(first[:, None].astype(np.int32), tokens, axis=1)
    written = whole[:, None] * np.arange(tokens) / tokens <= samples["done"][begun][:, None]
    version[begun] = np.where(written, versions, np.int32(-1))
    return version
