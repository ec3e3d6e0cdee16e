"""The event kernel stepped at random, and its whole state counted again after every step: admission and queueing."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from asyncsim.base.laws import empirical, lognormal
from asyncsim.systems import _build, _kernel
from asyncsim.systems import _state as k
from asyncsim.systems._system import System, stepped
from tests.systems.recount import LAWS, Counted, broken, may_stall
from tests.systems.settings import systems

BATCHES = 12
STANDSTILL = {k.STALLED, k.STARVED}


class Stepper:
    """A system's state, moved on by batches, by training ends, or to the next question about a length."""

    def __init__(self, system, samples, seed, drawn=True, record=True):
        self.system, self.seed, self.drawn = system, seed, drawn
        self.state = system.start(BATCHES, samples, 0, seed, drawn=drawn, record=record)
        self.why, self.now = k.GOING, 0.0
        # Who starves is seen to within fewer events than a user would have to wait.
        self.state.settings.patience = 6_000

    @property
    def going(self):
        return self.why not in STANDSTILL and self.state.run.finished < BATCHES

    def go(self, started=k.UNLIMITED, finished=BATCHES, questions=1 << 30):
        while questions > 0:
            self.state, self.why = stepped(self.system, self.state, started, finished, self.seed)
            self.answer()
            questions -= 1
            if self.why not in (k.STARTS, k.PUBLISHED):
                break
        earlier, self.now = self.now, float(self.state.run.now)
        assert self.now >= earlier

    def answer(self):
        if self.why == k.STARTS:
            codes = self.state.pending[: self.state.run.pending]
            row, inside = np.divmod(codes, self.state.settings.samples)
            number = self.state.group.number[row].astype(np.int64) * self.state.settings.samples + inside
            self.state.sample.work[codes] = _build.works(self.system, number, 0, self.seed)
        elif self.why == k.PUBLISHED:
            _kernel.rekey(self.state)


class Kernel(RuleBasedStateMachine):
    """Steps of random size; nothing but time makes a difference to what is counted."""

    @initialize(
        system=systems(), samples=st.integers(1, 3), seed=st.integers(0, 3), drawn=st.booleans(), record=st.booleans()
    )
    def begin(self, system, samples, seed, drawn, record):
        self.run = Stepper(system, samples, seed, drawn or system.turns > 1, record)

    @precondition(lambda self: self.run.going)
    @rule(more=st.integers(1, 4))
    def train(self, more):
        self.run.go(started=self.run.state.run.started + more)

    @precondition(lambda self: self.run.going)
    @rule(more=st.integers(1, 4))
    def finish(self, more):
        self.run.go(finished=min(self.run.state.run.finished + more, BATCHES))

    @precondition(lambda self: self.run.going and not self.run.drawn)
    @rule(questions=st.integers(1, 6))
    def answer(self, questions):
        self.run.go(questions=questions)

    @rule()
    def look(self):
        before = [getattr(self.run.state, name).tobytes() for name in k.LAYOUT]
        broken(self.run.system, self.run.state)
        assert before == [getattr(self.run.state, name).tobytes() for name in k.LAYOUT]

    @invariant()
    def the_state_counts_up(self):
        assert broken(self.run.system, self.run.state) == []

    @invariant()
    def nobody_starves(self):
        assert self.run.why not in STANDSTILL or may_stall(self.run.system), self.run.system


# Whole systems shrink for minutes; what is broken is named, and the seed is fixed.
Kernel.TestCase.settings = settings(max_examples=120, stateful_step_count=12, phases=(Phase.generate,))
TestKernel = Kernel.TestCase


@settings(max_examples=400, phases=(Phase.generate,))
@given(system=systems(most=5), samples=st.integers(1, 3), seed=st.integers(0, 3))
def test_nobody_starves(system, samples, seed):
    if not may_stall(system):
        run = Stepper(system, samples, seed)
        run.go()
        assert run.why == k.DONE_RUN and broken(system, run.state) == []


BUSY = System(
    "busy",
    {},
    lognormal(1.0, 0.8),
    (1.0,) * 6,
    groups_per_batch=2,
    batches_per_publish=2,
    tickets=12,
    mode="keep",
    release="publish",
    train_time=6.0,
    reward=empirical([0.5, 2.0]),
    reward_holds=True,
    slots=3,
    servers=2,
    turns=2,
    environment=empirical([0.25, 1.0]),
    prefetch=1,
    capacity=3,
    failure_rate=0.2,
    restart_delay=0.5,
    offsets=(0.0,) * 5 + (99.0,),
)
"""Something of everything: waiting, writing, rewarded, blocked, ready, packed."""


def reached(system=BUSY, samples=3):
    """A state, free to be damaged, in which every kind of thing is there."""
    run = Stepper(system, samples, 0)
    while run.going:
        run.go(finished=run.state.run.finished + 1)
        c = Counted(system, run.state)
        heap, waiting = run.state.server.heap.max(), run.state.server.waiting.sum()
        stages = {k.IN_GENERATION, k.IN_BUFFER, k.IN_PACK} <= set(c.stage.tolist())
        if stages and {k.WRITING, k.REWARDED} <= set(c.phase.tolist()) and heap > 1 and waiting:
            break
    assert run.going and broken(system, run.state) == []
    state = copy.deepcopy(run.state)
    return state, Counted(system, state)


def place_freed_twice(state, c):
    place = state.group.place[c.at(k.IN_GENERATION)[0]]
    state.free[(state.run.free_head + state.run.free) % len(state.free)] = place
    state.run.free += 1


def ticket_lost(state, c):
    state.run.tickets -= 1


def ticket_returned_twice(state, c):
    state.run.later_tickets += 1


def group_in_two_queues(state, c):
    state.ranks[state.run.visible], state.picks[state.run.visible] = 1 << 40, c.at(k.IN_PACK)[0]
    state.run.visible += 1
    state.run.ready += 1


def group_buffered_twice(state, c):
    state.ranks[state.run.visible], state.picks[state.run.visible] = 1 << 40, state.picks[0]
    state.run.visible += 1
    state.run.ready += 1


def group_forgotten(state, c):
    state.group.stage[c.at(k.IN_BUFFER)[0]] = k.LEFT


def untrained_forgotten(state, c):
    state.run.untrained -= 1


def group_counted_as_gone(state, c):
    state.run.gone += 1


def permit_leaked(state, c):
    state.run.permitted -= 1


def slot_leaked(state, c):
    s = int(np.flatnonzero(state.server.held)[0])
    state.server.held[s] -= 1
    state.run.holding -= 1


def slot_taken_twice(state, c):
    state.server.held[0] += 1
    state.run.holding += 1


def heap_out_of_order(state, c):
    s = int(np.argmax(state.server.heap))
    assert state.server.heap[s] > 1
    state.keys[s * state.settings.room] = np.inf


def timer_out_of_order(state, c):
    state.timed.time[0] = np.inf


def sample_forgotten(state, c):
    state.sample.phase[c.samples(k.REWARDED)[0]] = k.OVER_SAMPLE


def link_cut(state, c):
    state.group.after[state.run.first_row] = -1


def link_wrong_way(state, c):
    state.group.before[state.run.last_row] = -1


def buffer_over_full(state, c):
    state.settings.capacity = state.run.ready - 1


def installed_twice(state, c):
    state.run.installed += 1


def prompt_asked_twice(state, c):
    unfinished = c.rows[c.fate == k.UNFINISHED]
    state.group.prompt[unfinished[0]] = state.group.prompt[unfinished[1]]


def tokens_lost(state, c):
    state.sample.done[c.at(k.IN_BUFFER)[0] * state.settings.samples] = 0.0


@pytest.mark.parametrize(
    ("damage", "law"),
    [
        (place_freed_twice, "places"),
        (ticket_lost, "tickets"),
        (ticket_returned_twice, "tickets"),
        (group_in_two_queues, "stages"),
        (group_buffered_twice, "stages"),
        (group_forgotten, "stages"),
        (untrained_forgotten, "stages"),
        (group_counted_as_gone, "groups"),
        (permit_leaked, "permits"),
        (slot_leaked, "slots"),
        (slot_taken_twice, "limits"),
        (heap_out_of_order, "heaps"),
        (timer_out_of_order, "heaps"),
        (sample_forgotten, "samples"),
        (link_cut, "links"),
        (link_wrong_way, "links"),
        (buffer_over_full, "limits"),
        (installed_twice, "publishes"),
        (prompt_asked_twice, "targets"),
        (tokens_lost, "work"),
    ],
)
def test_damage_is_seen(damage, law):
    state, counted = reached()
    damage(state, counted)
    assert law in broken(BUSY, state)


def test_every_law_has_a_damage_that_it_sees():
    named = {mark.args[1][i][1] for mark in test_damage_is_seen.pytestmark for i in range(len(mark.args[1]))}
    assert named == {law.__name__ for law in LAWS}


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"accept": 0.5, "release_dropped": "publish"}, "tickets of lost groups come too late or never"),
        (
            {"accept": 0.3, "quantum": 3, "tickets": 4, "order": "target"},
            "lost groups leave less than a quantum of tickets",
        ),
    ],
)
def test_kinds_that_stall_are_real(changes, kind):
    options = {"groups_per_batch": 2, "tickets": 8, "release": "publish", "mode": "keep", "train_time": 0.1}
    system = System("stalls", {}, lognormal(1.0, 0.8), (1.0,) * 6, **options).replace(**changes)
    assert may_stall(system) == [kind]
    run = Stepper(system, 1, 0)
    run.go()
    assert run.why in STANDSTILL
