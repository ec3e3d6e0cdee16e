"""Coupled systems drawn late and early: the same trajectories to the bit, over random systems and known corners."""

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim import claims
from asyncsim.base.laws import constant, exponential
from asyncsim.systems._system import StalledError, System
from tests.systems.settings import FEATURES, systems

PARTS = tuple(name for name in FEATURES if name not in ("turns", "work", "replay", "visible"))


def ran(system, drawing, updates=16, seed=0):
    """A run on a task whose responses end by themselves, so that lengths depend on weights."""
    task = sim.tasks.token_bandit(actions=3, horizon=8, ends=True, logits=[[0.0, 0.0, -1.5]])
    options = {"samples_per_group": 2, "updates": updates, "replicates": 2, "drawing": drawing}
    method, update = sim.methods.reinforce(sim.advantages.none()), sim.chain(sim.updates.sgd(2.0))
    return sim.run(sim.Spec(task, sim.schedules.coupled(system), method, update, **options), seed=seed)


def same(system, **options):
    late, early = ran(system, "late", **options), ran(system, "early", **options)
    for name in ("version", "trajectory", "work"):
        assert np.array_equal(getattr(late.schedule, name), getattr(early.schedule, name)), name
    assert np.array_equal(late.parameters, early.parameters)


@settings(max_examples=25)
@given(system=systems(features=PARTS), seed=st.integers(0, 2))
def test_late_and_early_are_the_same(system, seed):
    system = system.replace(length=constant(6.0), failure_keeps=False)
    try:
        same(system, updates=8, seed=seed)
    except StalledError:
        reject()


@pytest.mark.parametrize(
    ("system", "seed"),
    [
        # An install falls into the last token; a restart under the same weights; a start at the instant of an install.
        (sim.systems.areal(2, 2, 3, length=1.0, train_time=2.3), 1),
        (sim.systems.areal(2, 1, 4, length=1.0, train_time=0.7).replace(sync_time=0.7), 0),
        (sim.systems.one_step_off(2, train_time=1.5).replace(failure_rate=0.2), 0),
        (System("tie", {}, constant(6.0), (1.0, 1.0), batches_per_publish=2, train_time=10.0, slots=1), 0),
    ],
)
def test_corners_where_nothing_is_to_be_drawn_again(system, seed):
    same(system, updates=24, seed=seed)


def test_replay_is_drawn_late_only():
    system = sim.systems.torchforge(2, max_resample_count=2, length=1.0, train_time=5.0)
    assert np.isfinite(ran(system, "late", updates=8).parameters).all()
    with pytest.raises(sim.InputError, match="max_uses"):
        ran(system, "early", updates=8)
    packed = System(
        "p", {}, constant(6.0), (1.0, 1.0), batches_per_publish=2, train_time=3.0, prefetch=2, max_uses=2, slots=2
    )
    assert np.isfinite(ran(packed, "late", updates=40).parameters).all()


def test_no_law_is_claimed_where_groups_overtake():
    options = {"groups_per_batch": 2, "tickets": 4, "train_time": 20.0, "mode": "drain", "reward_holds": True}
    drained = System("d", {}, exponential(10.0), (1.0,) * 8, reward=exponential(20.0), **options)
    assert claims.predicted_staleness(drained.describe_at(1), 1).support is None
    settings = {"groups_per_batch": 2, "tickets": 4, "train_time": 0.0, "order": "target", "sync_time": 5.0}
    delayed = System("i", {}, exponential(10.0), (1.0,) * 8, **settings)
    found = claims.predicted_staleness(delayed.describe_at(1), 1)
    assert found.mean is None and found.support == (0, 1)
    # What was claimed before, a mean of 1 and a support of 1 alone, is far from what happens.
    assert delayed.summary(2000)["staleness"]["mean"] < 0.8
