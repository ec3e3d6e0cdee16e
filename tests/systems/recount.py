"""The whole state of the event kernel counted again from its rows: laws of admission and queueing by name."""

from __future__ import annotations

from collections import Counter

import numpy as np

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
        self.system, self.state, self.n = system, state, state.n
        if self.n[k.RECORD]:
            self.rows = np.arange(self.n[k.ADMITTED])
        else:
            spare = state.rows[: self.n[k.ROWS]]
            assert len(set(spare.tolist())) == len(spare), "a row is spare twice"
            self.rows = np.setdiff1d(np.arange(len(state.group)), spare)
        self.stage, self.fate = state.group[self.rows, k.STAGE], state.group[self.rows, k.FATE]
        size = int(self.n[k.SAMPLES])
        self.codes = (self.rows[:, None] * size + np.arange(size)).reshape(-1)
        self.phase = state.stamp[self.codes, k.PHASE]
        self.server = np.repeat(state.group[self.rows, k.PLACE] % self.n[k.SERVERS], size)

    def at(self, *stages):
        return self.rows[np.isin(self.stage, stages)]

    def samples(self, *phases):
        return self.codes[np.isin(self.phase, phases)]

    def timed(self, kind):
        what = self.state.whats[: self.n[k.TIMED]]
        return sorted((what[what & 3 == kind] >> 2).tolist())

    @property
    def outstanding(self):
        return int((self.fate == k.UNFINISHED).sum())

    @property
    def lost(self):
        if self.n[k.RECORD]:
            return int(np.isin(self.fate, (k.DROPPED_AGE, k.DROPPED_OVERFLOW, k.REJECTED)).sum())
        return int(self.state.x[[k.CUT_AGE, k.CUT_OVERFLOW, k.REJECTED_GROUPS]].sum())

    def packed(self):
        lines = np.arange(self.n[k.STARTED], self.n[k.PACKS]) % len(self.state.taken)
        return self.state.taken[lines].reshape(-1).tolist()


def groups(c):
    """Admitted = trained + dropped + rejected + unfinished, and trained groups are those of the batches."""
    n = c.n
    trained = n[k.STARTED] * n[k.GROUPS]
    whole = n[k.GONE] == n[k.ADMITTED] - c.outstanding
    return whole and (n[k.USES] != 1 or n[k.ADMITTED] == trained + c.lost + c.outstanding)


def stages(c):
    """Every group is in one place only, and the counts are those of the places."""
    n, state = c.n, c.state
    buffered = [*state.picks[: n[k.VISIBLE]].tolist(), *state.hidden[: n[k.HIDDEN]].tolist()]
    blocked = ring(state.blocked, n[k.BLOCKED_HEAD], n[k.BLOCKED])
    gone = Counter(c.packed()) if n[k.USES] == 1 else Counter(c.at(k.IN_PACK).tolist())
    return (
        len(c.at(k.IN_GENERATION)) == n[k.FLYING] and len(c.at(k.IN_SCORING)) == n[k.SCORING]
        and Counter(blocked) == Counter(c.at(k.IN_QUEUE).tolist()) and Counter(c.at(k.IN_PACK).tolist()) == gone
        and Counter(buffered) == Counter(c.at(k.IN_BUFFER).tolist()) and n[k.READY] == len(buffered)
        and n[k.NOT_STARTED] == (state.group[c.at(k.IN_GENERATION), k.V_HEAD] < 0).sum()
    )


def limits(c):
    """In generation at most C, in the buffer at most its capacity, in the slots at most so many."""
    n = c.n
    slots = (c.state.load[:, k.HELD] <= n[k.SLOTS]).all()
    return n[k.FLYING] <= len(c.system.rates) and n[k.READY] <= n[k.CAPACITY] and slots


def tickets(c):
    """Free + returning + held by groups + held by what was trained since the install + lost = K."""
    n, out = c.n, c.outstanding
    if c.system.tickets is None:
        return True
    if n[k.AT_PUBLISH]:
        out += n[k.GROUPS] * (n[k.STARTED] - n[k.BATCHES] * n[k.INSTALLED])
    else:
        out -= n[k.GROUPS] * (n[k.PACKS] - n[k.STARTED])
    never = c.lost if n[k.RETURNS] == k.NEVER_BACK else 0
    free, later = n[k.TICKETS], n[k.LATER_TICKETS]
    return min(free, later) >= 0 and free + later + out + never == c.system.tickets


def places(c):
    """Every place is free, held by one group, or not yet open."""
    held = c.at(k.IN_GENERATION, k.IN_SCORING, k.IN_QUEUE) if c.n[k.PLACE_HOLDS] else c.at(k.IN_GENERATION)
    found = c.state.group[held, k.PLACE].tolist() + ring(c.state.free, c.n[k.FREE_HEAD], c.n[k.FREE])
    return sorted(found + c.timed(k.EVENT_PLACE)) == list(range(len(c.system.rates)))


def slots(c):
    """What servers hold, write and let wait is what the samples say."""
    n, load = c.n, c.state.load
    holding = [k.STARTING, k.WRITING, k.REPAIRING]
    holding += [k.STEPPING] * bool(n[k.STEP_HOLDS]) + [k.REWARDED] * bool(n[k.REWARD_HOLDS])
    for s in range(n[k.SERVERS]):
        here, o = c.server == s, s * n[k.ROOM]
        heap = (c.state.codes[o : o + load[s, k.HEAP]] & ROW_MASK).tolist()
        wait = ring(c.state.queue, load[s, k.WAITING_HEAD], load[s, k.WAITING], o, int(n[k.ROOM]))
        queued = c.codes[here & np.isin(c.phase, (k.UNSTARTED, k.QUEUED))]
        if sorted(heap) != c.codes[here & (c.phase == k.WRITING)].tolist() or sorted(wait) != queued.tolist():
            return False
        if load[s, k.HELD] != (here & np.isin(c.phase, holding)).sum() or (wait and load[s, k.HELD] < n[k.SLOTS]):
            return False
        if load[s, k.ACTIVE] != (here & np.isin(c.phase, (k.STARTING, k.WRITING))).sum():
            return False
    pending = sorted(c.state.pending[: n[k.PENDING]].tolist())
    totals = n[k.HOLDING] == load[:, k.HELD].sum() and n[k.ACTIVE_ALL] == load[:, k.ACTIVE].sum()
    return totals and pending == c.samples(k.STARTING).tolist()


def permits(c):
    """Samples between their dispatch and their end have a permit each; only one group has samples outside."""
    n = c.n
    under_way = [k.UNSTARTED, k.STARTING, k.WRITING, k.QUEUED, k.STEPPING, k.REPAIRING]
    held = c.samples(*under_way, *[k.REWARDED] * bool(n[k.REWARD_HOLDS]))
    outside = list(range(n[k.OUTSIDE_FROM], n[k.OUTSIDE_TO]))
    return n[k.PERMITTED] == len(held) <= n[k.PERMITS] and c.samples(k.OUTSIDE).tolist() == outside


def samples(c):
    """Groups miss the samples that are not over; timed events are those of the samples that wait for them."""
    size = int(c.n[k.SAMPLES])
    phase = c.phase.reshape(-1, size)
    missing = (phase < k.REWARDED).sum(axis=1)
    unscored = (phase < k.OVER_SAMPLE).sum(axis=1)
    alive = c.stage != k.LEFT
    told = c.state.group[c.rows]
    kinds = ((k.EVENT_REWARD, k.REWARDED), (k.EVENT_STEP, k.STEPPING), (k.EVENT_REPAIR, k.REPAIRING))
    return (
        (told[alive, k.MISSING] == missing[alive]).all() and (told[alive, k.UNSCORED] == unscored[alive]).all()
        and ((missing > 0) == (c.stage == k.IN_GENERATION))[alive].all()
        and all(c.timed(kind) == c.samples(phase).tolist() for kind, phase in kinds)
    )


def heaps(c):
    """Heaps are heaps, with the numbers of the samples and the ranks of the order."""
    n, state = c.n, c.state
    for s in range(n[k.SERVERS]):
        part = slice(s * n[k.ROOM], s * n[k.ROOM] + state.load[s, k.HEAP])
        row, inside = np.divmod(state.codes[part] & ROW_MASK, n[k.SAMPLES])
        number = state.group[row, k.NUMBER].astype(np.int64) * n[k.SAMPLES] + inside
        if not is_heap(state.keys[part], state.codes[part]) or (state.codes[part] >> 31 != number).any():
            return False
    shown = n[k.ORDER] == k.RANDOM or is_heap(state.ranks[: n[k.VISIBLE]], state.picks[: n[k.VISIBLE]])
    return shown and is_heap(state.times[: n[k.TIMED]], state.orders[: n[k.TIMED]])


def links(c):
    """The list of groups that have neither entered the buffer nor left is whole, both ways, in the order of numbers."""
    table, row, before, found = c.state.group, int(c.n[k.FIRST_ROW]), -1, []
    while row >= 0 and len(found) <= len(c.rows):
        if table[row, k.BEFORE] != before:
            return False
        found.append(row)
        row, before = int(table[row, k.AFTER]), row
    numbers = table[found, k.NUMBER].tolist()
    listed = sorted(found) == c.at(k.IN_GENERATION, k.IN_SCORING, k.IN_QUEUE).tolist()
    return listed and c.n[k.LAST_ROW] == before and numbers == sorted(numbers)


def publishes(c):
    """Batches start, end and are published in order; at most one publish is on its way."""
    n = c.n
    done = n[k.FINISHED] // n[k.BATCHES] == n[k.SNAPSHOTS] + n[k.DUE]
    return done and n[k.SNAPSHOTS] - n[k.INSTALLED] in (0, 1) and n[k.STARTED] - n[k.FINISHED] == n[k.BUSY] and (
        0 <= n[k.PACKS] - n[k.STARTED] <= max(n[k.PREFETCH], 1)
    )


def targets(c):
    """No target and no prompt is with two groups, or with a group and in its queue."""
    n, state = c.n, c.state
    waiting = state.group[c.rows[c.fate == k.UNFINISHED], k.PROMPT].tolist()
    waiting += ring(state.again, n[k.AGAIN_HEAD], n[k.AGAIN])
    if n[k.ORDER] != k.TARGETED_ORDER or not n[k.RECORD]:
        return len(waiting) == len(set(waiting))
    alive = np.isin(c.fate, (k.UNFINISHED, k.TRAINED))
    owned = state.group[c.rows[alive], k.TARGET].tolist() + ring(state.targets, n[k.TARGETS_HEAD], n[k.TARGETS])
    return len(waiting) == len(set(waiting)) and sorted(owned) == list(range(n[k.TARGETED]))


def work(c):
    """Generated = trained + wasted + what unfinished groups hold, of the stretches that are over."""
    x = c.state.x
    kept = c.state.item[c.codes[np.repeat(c.fate == k.UNFINISHED, c.n[k.SAMPLES])], k.DONE].sum()
    return abs(x[k.GENERATED] - x[k.TRAINED_WORK] - x[k.WASTED_WORK] - kept) <= 1e-9 * max(x[k.GENERATED], 1.0)


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
