"""Throughput, overflow and open loops: numbers known by hand, theorems replayed another way, refusals."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest

from asyncsim import claims
from asyncsim.claims import _events
from tests.theory import drawing


def predict(id: str, **point: object) -> dict[str, float]:
    return claims.claim(id).predict(point)


def test_synchronous_steps_of_harmonic_and_gamma_functions() -> None:
    point = {"rate": 2.0, "train_time": 1.0, "sync_time": 0.5, "samples_per_group": 1}
    three = predict("systems/synchronous-throughput", groups_per_batch=3, length="exponential:4", **point)
    assert three["step_seconds"] == pytest.approx(4 * (1 + 1 / 2 + 1 / 3) / 2 + 1.5, rel=1e-14)
    two = predict("systems/synchronous-throughput", groups_per_batch=2, length="pareto:1:2", **point)
    assert two["step_seconds"] == pytest.approx(8 / 3 / 2 + 1.5, rel=1e-13)


OPEN = {
    "places": 8,
    "samples_per_group": 2,
    "groups_per_batch": 4,
    "batches_per_publish": 2,
    "length": "constant:2",
    "sync_time": 0.4,
    "capacity": 40,
    "overflow": "block",
}


def test_a_synchronization_costs_an_open_loop_what_it_stops() -> None:
    """Four groups a second from the places, 0.05 seconds a group for installs: hidden where the generators go on."""
    one = predict("systems/asynchronous-throughput", train_time=0.5, generator_pauses=True, **OPEN)
    other = predict("systems/asynchronous-throughput", train_time=0.5, generator_pauses=False, **OPEN)
    assert [one["groups_per_second"], other["groups_per_second"]] == pytest.approx([1 / 0.3, 4.0], rel=1e-14)
    slow = [
        predict("systems/asynchronous-throughput", train_time=2.0, generator_pauses=pauses, **OPEN)["groups_per_second"]
        for pauses in (True, False)
    ]
    assert slow == pytest.approx([1 / 0.55, 1 / 0.55], rel=1e-14)


@pytest.mark.parametrize(("release", "bound"), [("publish", 8 / 1.9), ("dequeue", 8.0)])
def test_a_ticket_returned_at_the_dequeue_does_not_wait_for_training(release: str, bound: float) -> None:
    """Equal works attain both bounds, so the shorter hold is no slack: K/(T + t_T) would be exceeded by 90 percent."""
    point = {
        "places": 8,
        "samples_per_group": 1,
        "groups_per_batch": 8,
        "batches_per_publish": 1,
        "tickets": 8,
        "length": "constant:1",
        "train_time": 0.9,
        "sync_time": 0.0,
        "generator_pauses": True,
        "release": release,
    }
    assert predict("systems/ticket-throughput", **point)["groups_per_second"] == pytest.approx(bound, rel=1e-14)
    settings = _events.Settings(8, 8, tickets=8, early=release == "dequeue")
    ends = _events.Loop(settings, itertools.repeat(1.0), itertools.repeat(0.9)).run(30)
    assert 8 * 20 / (ends[-1] - ends[-21]) == pytest.approx(bound, rel=1e-12)


def test_closed_loop_by_mean_value_analysis() -> None:
    """Exact recursion over the number of tickets: an arriving group finds the mean queue of one ticket less."""
    train, generation, queue = 0.3, 25 / 12, 0.0
    for tickets in range(1, 31):
        stay = train * (1.0 + queue)
        rate = tickets / (generation + stay)
        queue = rate * stay
        point = {"tickets": tickets, "places": tickets, "samples_per_group": 4, "length": "exponential:1"}
        found = predict("systems/closed-loop", train_time="exponential:0.3", **point)["groups_per_second"]
        assert found == pytest.approx(rate, rel=1e-12)
    two = {"places": 2, "tickets": 2, "samples_per_group": 1, "length": "constant:1", "train_time": "exponential:1"}
    pair = predict("systems/closed-loop", **two)
    assert pair["groups_per_second"] == pytest.approx(0.8, rel=1e-14)


def scheduled(works: tuple[int, ...], slots: int) -> int:
    """Second at which unit steps of time have served all works in order: no heap, no free times."""
    waiting, active, now = list(works), [0] * slots, 0
    while waiting or any(active):
        active = [left or (waiting.pop(0) if waiting else 0) for left in active]
        active, now = [max(left - 1, 0) for left in active], now + 1
    return now


def test_list_scheduling_over_all_small_instances() -> None:
    """Every list of one to six works of 1 to 3 on three slots: all bounds hold and all are attained."""
    point = {"slots": 3, "groups_per_batch": 1, "samples_per_group": 1, "length": "constant:1", "train_time": 0.0}
    bound = predict("systems/list-scheduling", sync_time=0.0, **point)
    excess, busy, longest = [], [], []
    for works in itertools.chain(*(itertools.product((1, 2, 3), repeat=n) for n in range(1, 7))):
        seconds, load = scheduled(works, 3), Fraction(sum(works), 3)
        excess.append((seconds - load) / max(works))
        busy.append(load / seconds)
        longest.append(Fraction(max(works), seconds))
    found = {"excess": max(excess), "load": max(busy), "longest": max(longest)}
    assert {name: float(value) for name, value in found.items()} == pytest.approx(
        {name: bound[name] for name in found}, rel=1e-14
    )
    assert found["load"] == found["longest"] == 1 and found["excess"] == Fraction(2, 3)


def test_the_pool_form_with_a_maximum_fails_without_overlap() -> None:
    """Five unit works on four slots take 2 seconds and train for 1: 3, above the maximum and below the sum."""
    point = {"slots": 4, "groups_per_batch": 5, "samples_per_group": 1, "ahead": 0, "length": "constant:1"}
    point |= {"train_time": 1.0}
    assert predict("systems/list-scheduling-pool", **point) == pytest.approx({"batch_seconds": 3.25})
    wrong = claims.claim("systems/list-scheduling-pool").formula_defects["training hidden behind generation"](point)
    assert wrong["batch_seconds"] == pytest.approx(2.25) and wrong["batch_seconds"] < 3.0


def test_overflow_at_twice_the_rate_loses_half() -> None:
    point = {"places": 16, "samples_per_group": 2, "groups_per_batch": 8, "length": "exponential:1", "capacity": 16}
    found = predict("systems/overflow", train_time=1.5, **point)
    assert found == pytest.approx({"dropped_fraction": 0.5, "mean_length": 1.0}, rel=1e-13)


def test_open_loop_mean_of_constant_and_exponential_works() -> None:
    """Ages in (0, 1/2) and t = 1/2 stay below a period, where the closed form says 1.25; a series for exponential t."""
    point = {"places": 16, "samples_per_group": 1, "groups_per_batch": 16, "capacity": 16, "train_time": 2.0}
    constant = predict("systems/open-loop-mean", length="constant:1", **point)
    assert constant == pytest.approx({"mean": 1.0, "in_queue": 1.0})
    closed = claims.claim("systems/open-loop-mean").formula_defects["rounding replaced by one half"]
    assert closed(point | {"length": "constant:1"})["mean"] == pytest.approx(1.25)
    many = point | {"places": 64, "train_time": 0.5, "length": "exponential:1"}
    high, unit = 0.5, 2.0
    floors = unit * math.expm1(high / unit) / high / math.expm1(1.0 / unit)
    assert predict("systems/open-loop-mean", **many)["mean"] == pytest.approx(1.0 + floors, rel=1e-12)
    slow = predict("systems/open-loop-mean", **many | {"train_time": 0.1, "capacity": 48})
    assert slow == pytest.approx({"mean": 4.4}, rel=1e-12)


@pytest.mark.parametrize(
    ("id", "change", "bound"),
    [
        ("systems/synchronous-throughput", {"length": "pareto:1:1"}, "finite mean"),
        ("systems/asynchronous-throughput", {"train_time": 0.7}, "a factor 1.25 or more"),
        ("systems/asynchronous-throughput", {"capacity": 7}, "at least 8, two batches"),
        ("systems/asynchronous-throughput", {"overflow": "wait"}, "block, drop_oldest"),
        ("systems/ticket-throughput", {"tickets": 3}, "an integer >= 4"),
        ("systems/closed-loop", {"train_time": "constant:0.2"}, "an exponential distribution"),
        ("systems/closed-loop", {"places": 7}, "an integer >= 8"),
        ("systems/list-scheduling", {"slots": 1}, "an integer >= 2"),
        ("systems/list-scheduling-pool", {"ahead": -1}, "an integer >= 0"),
        ("systems/little", {"release": "never"}, "publish, dequeue"),
        ("systems/overflow", {"train_time": 0.55}, "1.25 groups or more"),
        ("systems/overflow", {"capacity": 8, "train_time": 0.7}, "without a batch"),
        ("systems/open-loop-mean", {"train_time": 0.5}, "at least 1.5"),
        ("systems/open-loop-mean", {"capacity": 20}, "away from whole ones"),
        ("systems/open-loop-mean", {"length": "pareto:1:1.5", "places": 60, "train_time": 3.0}, "100000"),
        ("systems/open-loop-mean", {"places": 24, "train_time": 2.0}, "four times the groups"),
        (
            "systems/open-loop-mean",
            {"length": "constant:1", "train_time": 0.1, "capacity": 24},
            "a distribution that varies",
        ),
    ],
)
def test_throughput_domains_refuse_with_the_bound(id: str, change: dict[str, object], bound: str) -> None:
    reason = claims.claim(id).domain(drawing.stated(id) | change)
    assert reason is not None and bound in reason and "; " in reason
