"""A bound of list scheduling over all small instances."""

import itertools
from fractions import Fraction

import pytest

from asyncsim import claims


def predict(id: str, **point: object) -> dict[str, float]:
    return claims.claim(id).predict(point)


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
