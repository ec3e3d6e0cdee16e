"""Draws of a system: every purpose has numbers of its own, which depend on nothing but their key."""

from functools import partial

import numpy as np
import pytest

from asyncsim.base import rng
from asyncsim.base.laws import exponential
from asyncsim.systems import _build
from asyncsim.systems._system import System
from tests.systems import settings

COUNT = 400
ONE = exponential(1.0)
SYSTEM = System(
    "x",
    {},
    ONE,
    (1.0,) * 4,
    groups_per_batch=2,
    tickets=4,
    difficulty=ONE,
    accept=0.5,
    reward=ONE,
    turns=2,
    environment=ONE,
    failure_rate=1.0,
    train_time=ONE,
)
"""Everything random has one law, so that equal numbers come from equal draws."""

PURPOSES = {
    "work": lambda s, numbers: _build.works(s, numbers, 0, 7),
    "reward": lambda s, numbers: _build.rewards(s, numbers, 0, 7),
    "environment": lambda s, numbers: _build.environments(s, numbers, np.array(1), 0, 7),
    "difficulty": lambda s, numbers: _build.difficulties(s, numbers, 0, 7),
    "failure": lambda s, numbers: settings.failures_of(s, numbers, np.array(0), 0, 7),
    "training": lambda s, numbers: _build.train_times(s, len(numbers), 1, 0, 7),
    "order": lambda s, numbers: -np.log1p(-settings.choices_of(numbers, np.array(0), 0, 7)),
    "acceptance": lambda s, numbers: -np.log1p(-_build.acceptances(numbers, 0, 7)),
}


def common(first, second):
    """Numbers that two purposes share, up to rounding."""
    near = np.sort(np.concatenate([first, second]))
    return int((np.diff(near) <= 1e-11 * near[1:]).sum())


def test_no_two_purposes_share_a_draw():
    numbers = np.arange(COUNT)
    drawn = {name: draw(SYSTEM, numbers) for name, draw in PURPOSES.items()}
    shared = [(a, b) for a in drawn for b in drawn if a < b and common(drawn[a], drawn[b])]
    assert shared == []
    # The planted defect: training times from the stream of works.
    assert common(drawn["work"], ONE.sample(rng.Stream(7, "work"), 0, numbers, compiled=True)) >= COUNT


@pytest.mark.parametrize("purpose", [name for name in PURPOSES if name != "acceptance"])
def test_draws_depend_on_realization_and_seed(purpose):
    numbers = np.arange(50)
    draw = {
        "work": partial(_build.works, SYSTEM),
        "reward": partial(_build.rewards, SYSTEM),
        "difficulty": partial(_build.difficulties, SYSTEM),
        "environment": lambda n, m, seed: _build.environments(SYSTEM, n, np.array(1), m, seed),
        "failure": lambda n, m, seed: settings.failures_of(SYSTEM, n, np.array(0), m, seed),
        "training": lambda n, m, seed: _build.train_times(SYSTEM, len(n), 1, m, seed),
        "order": lambda n, m, seed: settings.choices_of(n, np.array(0), m, seed),
    }[purpose]
    first = draw(numbers, 0, 0)
    assert common(first, draw(numbers, 1, 0)) == common(first, draw(numbers, 0, 1)) == 0
    assert np.array_equal(first, draw(numbers, 0, 0))


def test_a_run_trains_for_seconds_that_are_no_works():
    record = SYSTEM.replace(failure_rate=0.0, difficulty=None).timeline(60, 2)
    seconds = record.batches["t_end"] - record.batches["t_start"]
    works = record.samples["work"]
    # Times are differences of larger numbers: equal ones differ by their rounding.
    near = np.abs(works[:, None] - seconds).min(axis=0)
    assert (near > 1e-9).all()


def test_training_times_from_a_later_batch_are_those_of_one_draw():
    whole = _build.train_times(SYSTEM, 50, 1, 0, 3)
    assert np.array_equal(whole[20:], _build.train_times(SYSTEM, 30, 1, 0, 3, 20))
