"""Lengths in tokens and speeds in tokens per second: what `rate` does to seconds, loads and staleness, by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.base import laws
from asyncsim.base.checks import InputError
from tests.systems.preset_table import REQUIRED
from tests.systems.test_presets import built

TICKETS = {"max_head_offpolicyness": 2, "consumer_batch_size": 1, "max_concurrent_rollouts": 1}


def areal(rate=30, length=300.0, **more):
    """Three tickets, one slot, batches of one group that train for 25 seconds."""
    return sim.systems.areal(**TICKETS, length=length, **({"train_time": 25.0} | more), model={"rate": rate})


def test_a_train_time_in_seconds_meets_lengths_in_tokens():
    """300 tokens at 30 per second take 10 s. Groups 0, 1, 2 are written by 10, 20, 30 under version 0 and train from
    10, 35, 60; each publish, at 35, 60, 85, ..., admits one group, which is written long before its turn."""
    system = areal()
    record = system.timeline(6, 1)
    assert record.batches["t_start"].tolist() == [10.0, 35.0, 60.0, 85.0, 110.0, 135.0]
    assert system.staleness(6, 1, 0)[0, :, 0].tolist() == [0, 1, 2, 2, 2, 2]


@pytest.mark.parametrize(
    ("rate", "staleness"),
    # Forgotten: 300 s a sample. Inverted: 9,000 s. At 15 per second it takes 20 s and the cap still binds; at 10 per
    # second (30 s) the slot is the slower side: group 1 trains at 60, when version 1 stands since 55.
    [(1, [0, 1, 1, 1, 1, 1]), (1 / 30, [0, 1, 1, 1, 1, 1]), (15, [0, 1, 2, 2, 2, 2]), (10, [0, 1, 1, 1, 1, 1])],
)
def test_wrong_speeds_have_another_staleness(rate, staleness):
    assert areal(rate).staleness(6, 1, 0)[0, :, 0].tolist() == staleness


def test_a_load_fixes_the_training_time_in_seconds():
    """Load = generation over training rate: one group in 10 s against one in load x 10 s."""
    assert areal(load=2.0, train_time=None).mean_train_time(1) == 20.0
    assert areal(load=2.0, train_time=None, rate=1).mean_train_time(1) == 600.0


def test_training_by_the_token_adds_to_the_time_of_a_batch():
    """2 groups of 3 samples of 300 tokens at 0.01 s each: 18 s beside the 25 of a batch."""
    system = areal(rate=1).replace(token_time=0.01, groups_per_batch=2)
    assert system.mean_train_time(3) == pytest.approx(25.0 + 18.0)


def test_a_load_where_places_differ_adds_what_each_place_makes():
    """300 tokens in 10 s and in 5 s, and an environment step of 5 s: 1/15 + 1/10 groups per second, so 1.5 x 3 / (1/6)
    = 27 s. A place of the mean speed would wait as if there were two of it: 2 / (300/45 + 5) groups, 26.25 s."""
    system = sim.systems.areal(2, 3, 2, length=300.0, load=1.5)
    unlike = system.replace(rates=(30.0, 60.0), turns=2, environment=5.0)
    assert unlike.mean_train_time(1) == pytest.approx(27.0)
    assert system.replace(rates=(30.0, 60.0)).mean_train_time(1) == pytest.approx(15.0)
    # What the generators make when nothing stops them is what the load counts with.
    free = unlike.replace(load=None, train_time=0.0, tickets=None, groups_per_batch=1)
    assert free.summary(4000)["throughput"] == pytest.approx(1 / 6, rel=0.01)


SCALES = st.integers(-20, 20).map(lambda k: 2.0**k)


@given(scale=SCALES, seed=st.integers(0, 9), sigma=st.sampled_from([0.0, 0.5, 2.0]), time=st.floats(0.1, 10.0))
def test_tokens_and_their_speed_are_one_unit(scale, seed, sigma, time):
    """c times the tokens at c times the speed are the same seconds: to the bit for powers of two."""
    usual = sim.systems.areal(2, 2, 5, length=laws.lognormal(1.0, sigma), train_time=time)
    scaled = usual.replace(length=laws.lognormal(scale, sigma), rate=scale)
    one, other = (system.timeline(12, 2, seed=seed) for system in (usual, scaled))
    for name in ("t_submit", "t_done", "t_ready", "t_left", "v_start"):
        assert np.array_equal(one.groups[name], other.groups[name], equal_nan=True), name
    loads = (system.replace(load=time, train_time=None).mean_train_time(2) for system in (usual, scaled))
    assert next(loads) == pytest.approx(next(loads), rel=1e-9)


@pytest.mark.parametrize("name", REQUIRED)
def test_every_preset_takes_settings_of_the_model_in_its_one_call(name):
    system = built(name, REQUIRED[name], model={"rate": 30, "reward": "exponential:2.0"})
    assert set(system.rates) == {30.0} and system.reward == laws.exponential(2.0)
    assert system == built(name, REQUIRED[name]).replace(rate=30, reward="exponential:2.0")


def test_a_spec_with_settings_of_the_model_is_written_and_made_again(tmp_path):
    system = sim.systems.areal(**TICKETS, length=300.0, train_time=25.0, model={"rate": 30, "slots": 2})
    spec = sim.Spec(sim.tasks.softmax_bandit(), system, sim.methods.grpo(), sim.chain(sim.updates.sgd(0.1)), updates=4)
    spec.save(tmp_path / "s.json")
    assert sim.Spec.load(tmp_path / "s.json").system == system


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"rat": 30}, "did you mean rate"),
        ({"rate": 0}, "rate = 0"),
        ({"rate": -3.0}, "rate = -3.0"),
        ({"rate": np.nan}, "rate = nan"),
        ({"rate": np.inf}, "rate = inf"),
        ({"rate": True}, "rate"),
        ({"rate": "fast"}, "rates"),
        ({"rate": 3, "rates": 3}, "one of them"),
        ({"name": "other"}, "must be one of"),
        ({"updates_per_batch": 3}, "must be one of"),
        (3, "settings by name"),
    ],
)
def test_other_settings_are_refused_in_one_line(model, message):
    with pytest.raises(InputError, match=message) as caught:
        sim.systems.areal(**TICKETS, length=1.0, load=1.0, model=model)
    assert "\n" not in str(caught.value)


def test_a_load_and_a_train_time_replace_each_other():
    timed = sim.systems.areal(**TICKETS, length=300.0, load=1.0, model={"train_time": 5.0})
    assert (timed.load, timed.train_time) == (None, 5.0)
    loaded = sim.systems.areal(**TICKETS, length=300.0, train_time=1.0, model={"load": 2.0})
    assert (loaded.load, loaded.train_time) == (2.0, None)
