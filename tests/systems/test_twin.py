"""The plain program by itself: cases by hand."""

from types import SimpleNamespace

import pytest

from asyncsim.base.laws import constant
from asyncsim.systems._system import System
from tests.systems.twin import Endless, Stalled, Twin

EVENTS = 1000


def by_hand(works, train_times, batches, samples=1, rewards=(), environments=(), failures=(), **changes):
    """A run with the given draws, in the order of the samples; the last of each goes on."""

    def at(values):
        return lambda number, *_: values[min(number, len(values) - 1)]

    draws = SimpleNamespace(
        work=at(works),
        reward=at(rewards),
        environment=at(environments),
        accepted=lambda group: True,
        failure=lambda sample, attempt: failures[attempt] if attempt < len(failures) else 1e9,
        uniform=lambda batch, draw: 0.0,
        difficulty=lambda group: 1.0,
        train_times=train_times,
    )
    base = {"length": constant(1.0), "rates": (1.0,), "tickets": 2, "train_time": train_times[0]}
    return Twin(System("hand", {}, **{**base, **changes}), samples, draws).run(batches, EVENTS)


def ends(twin):
    return [sample.t_end for sample in twin.samples.values()]


def test_a_shared_server_slows_by_its_curve():
    # Two at half speed until the shorter is done at 2, then the other's second half unit at full speed; the third
    # waits for a slot.
    twin = by_hand([1.0, 1.5, 2.0], [0.5], 1, samples=3, slots=2, decode=(1.0, 0.5))
    assert [s.t_start for s in twin.samples.values()][:3] == [0.0, 0.0, 2.0]
    # From 2 on two are active again: the second's half unit takes 1 s, then the third is alone with 1.5 units.
    assert ends(twin)[:3] == [2.0, 3.0, 4.5]


def test_a_group_begins_with_the_first_permit_and_its_samples_follow_as_they_return():
    # Two groups of 2 on 3 permits: the fourth sample begins when the first ends, at 1, the fifth, of group 2, at 2.
    works = [1.0, 4.0, 2.0, 3.0, 5.0, 50.0]
    twin = by_hand(works, [9.0], 1, samples=2, rates=(1.0,) * 9, tickets=9, permits=3)
    starts = [sample.t_start for sample in list(twin.samples.values())[:6]]
    assert starts == [0.0, 0.0, 0.0, 1.0, 2.0, 4.0]
    assert [twin.groups[n].t_submit for n in range(3)] == [0.0, 0.0, 2.0]
    # With two places instead a group waits for both samples of another.
    placed = by_hand(works, [9.0], 1, samples=2, rates=(1.0,) * 2, tickets=9)
    assert [placed.groups[n].t_submit for n in range(3)] == [0.0, 0.0, 3.0]


def test_reading_again_takes_its_time_and_a_pause_more():
    # Place 0 ends at 1, trains until 2, installs until 2.5; place 1 has done 2 of 4 then and reads 2 + 2 at fourfold.
    options = {
        "rates": (1.0, 1.0),
        "tickets": 2,
        "mode": "reprefill",
        "prompt": 2.0,
        "prefill_speedup": 4.0,
        "sync_time": 0.5,
    }
    twin = by_hand([1.0, 4.0, 50.0], [1.0, 1.0], 2, **options)
    assert ends(twin)[1] == 4.0 + 0.5 + 1.0
    assert twin.samples[1].breakpoints == [(0.0, 0), (2.0, 1)]


def test_restart_loses_what_was_written():
    twin = by_hand([1.0, 4.0, 50.0], [1.0, 1.0], 2, rates=(1.0, 1.0), tickets=2, mode="restart", sync_time=0.5)
    sample = twin.samples[1]
    assert (sample.t_start, sample.t_end, sample.wasted, sample.attempt, sample.v_start) == (2.5, 6.5, 2.0, 1, 1)


def test_turns_without_a_slot_let_others_in():
    # Pieces of 1; the environment takes 2; one slot: the second's piece runs from 1 to 2, the first goes on at 3.
    options = {"samples": 2, "slots": 1, "turns": 2, "environments": [2.0], "environment_holds": False}
    twin = by_hand([2.0], [0.5], 1, environment=constant(2.0), **options)
    assert ends(twin)[:2] == [4.0, 5.0]
    held = by_hand([2.0], [0.5], 1, samples=2, slots=1, turns=2, environment=constant(2.0), environments=[2.0])
    assert ends(held)[:2] == [4.0, 8.0]


def test_a_failure_costs_what_was_written_or_only_the_repair():
    lost = by_hand([3.0], [0.5], 1, failures=[2.0], failure_rate=1.0, restart_delay=0.5)
    kept = by_hand([3.0], [0.5], 1, failures=[2.0, 0.5], failure_rate=1.0, restart_delay=0.5, failure_keeps=True)
    first, second = lost.samples[0], kept.samples[0]
    assert (first.t_start, first.t_end, first.wasted, first.attempt) == (2.5, 5.5, 2.0, 1)
    assert (second.t_start, second.t_end, second.wasted, second.attempt) == (0.0, 4.0, 0.0, 2)


def test_a_publish_that_the_trainer_does_not_await():
    # Batches of 1 s end at 2, 3, 4 ...; a sync of 2.5 s: the snapshot of batch 1 waits for the install at 4.5.
    twin = by_hand(
        [1.0], [1.0] * 3, 3, rates=(1.0,) * 4, tickets=4, sync_time=2.5, trainer_waits=False, generator_pauses=False
    )
    assert [(b.t_start, b.t_end, b.v_t, b.v_g) for b in twin.batches] == [
        (1.0, 2.0, 0, 0),
        (2.0, 3.0, 1, 0),
        (4.5, 5.5, 2, 1),
    ]
    assert [(p.t_snapshot, p.t_install) for p in twin.publishes] == [(2.0, 4.5), (4.5, 7.0), (7.0, 9.5)]


def test_a_full_buffer_blocks_the_place_or_pushes_the_oldest_out():
    works, times = [1.0, 2.0, 3.0, 100.0], [10.0, 1.0]
    blocked = by_hand(works, times, 2, rates=(1.0,) * 3, tickets=5, capacity=1)
    # Group 0 trains from 1 to 11; group 1 fills the buffer at 2; group 2 is blocked at 3 until batch 1 is packed at 11.
    assert [blocked.groups[n].t_ready for n in (0, 1, 2)] == [1.0, 2.0, 11.0]
    assert blocked.publishes[0].levels["blocked"] == 1
    pushed = by_hand(works, times, 2, rates=(1.0,) * 3, tickets=5, capacity=1, overflow="drop_oldest")
    assert [pushed.groups[n].fate for n in (0, 1, 2)] == ["trained", "dropped_overflow", "trained"]


def test_the_window_is_anchored_at_the_first_missing_group():
    # Group 0 takes 10: with a window of 2 only group 1 may go before it, without a window all may.
    works, times = [10.0, 1.0, 1.0, 1.0, 50.0], [0.25] * 3
    settings = {"rates": (1.0,) * 4, "tickets": 4, "order": "oldest_start"}
    narrow, wide = by_hand(works, times, 3, window=2, **settings), by_hand(works, times, 3, **settings)
    assert [b.taken for b in narrow.batches] == [[1], [0], [2]]
    assert [b.taken for b in wide.batches] == [[1], [2], [3]]


def test_random_with_recent_prefers_what_the_last_install_showed():
    options = {
        "rates": (1.0,),
        "tickets": None,
        "order": "random",
        "recent": 1.0,
        "visible": "publish",
        "initial_fill": 1,
        "max_uses": None,
        "capacity": 9,
    }
    twin = by_hand([1.0], [2.0] * 3, 3, **options)
    # Batch 1 at 3: groups 1 and 2 became visible then; draw 0 is 0 and takes the first of them by entry.
    assert [b.taken for b in twin.batches] == [[0], [1], [3]]


def test_a_requeued_prompt_is_asked_again_and_its_target_given_again():
    works = [1.0, 1.0, 8.0, 1.0]
    options = {
        "rates": (1.0,) * 3,
        "tickets": 3,
        "max_age": 0,
        "age_action": "requeue",
        "age_at_pack": "none",
        "age_at_publish": "all",
    }
    twin = by_hand(works, [1.0] * 6, 6, **options)
    cut = [g for g in twin.groups.values() if g.fate == "dropped_age"]
    assert cut and all(g.t_left in [p.t_install for p in twin.publishes] for g in cut)
    again = [g.prompt for g in twin.groups.values() if g.prompt != g.number]
    assert again[: len(cut)] == [g.prompt for g in cut][: len(again)]


def test_a_standstill_and_an_endless_run_are_named(monkeypatch):
    # Both systems are refused by name when they are made; the twin has to tell them apart by itself.
    monkeypatch.setattr("asyncsim.systems._settings._buffer", lambda system: None)
    # Group 1 fills the buffer, group 0 is blocked, and the window lets nothing go before group 0.
    with pytest.raises(Stalled, match="after 0 batches"):
        by_hand([10.0, 1.0], [1.0], 1, rates=(1.0, 1.0), capacity=1, order="oldest_start", window=1)
    # Groups that nobody sees before the next publish push the visible one out, for ever.
    with pytest.raises(Endless, match="after 1 batches"):
        options = {
            "tickets": None,
            "capacity": 1,
            "overflow": "drop_oldest",
            "visible": "publish",
            "initial_fill": 1,
            "max_uses": None,
            "batches_per_publish": 2,
        }
        by_hand([1.0], [8.0] * 3, 3, **options)
