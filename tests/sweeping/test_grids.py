"""Grids: every name reaches the part that it means, numbers of knobs ride, and what does not fit is refused at once."""

import json

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.base import store as storing
from asyncsim.base.checks import InputError
from asyncsim.comparing import settings
from asyncsim.sweeping import grids, plans
from tests.refusals import refused
from tests.sweeping.laboratory import bandit


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("updates", 7, lambda s: s.updates),
        ("samples_per_group", 3, lambda s: s.samples),
        ("staleness", 9, lambda s: s.system.knobs["staleness"]),
        ("schedule.staleness", 9, lambda s: s.system.knobs["staleness"]),
        ("task.arms", 3, lambda s: s.task.describe()["actions"]),
        ("method.shift", 0.5, None),
        ("sgd.lr", 0.7, lambda s: s.update.links[0].lr),
        ("lr", 0.7, lambda s: s.update.links[0].lr),
    ],
)
def test_a_name_means_a_field_an_argument_or_a_knob(name, value, read):
    if read is None:
        refused("shift", settings.with_setting, bandit(), name, value)
    else:
        assert read(settings.with_setting(bandit(), name, value)) == value


def test_a_changed_part_still_remembers_how_it_was_made():
    spec = settings.with_setting(settings.with_setting(bandit(), "task.arms", 3), "sgd.lr", 0.3)
    assert spec.to_dict()["task"] == {"tasks.softmax_bandit": {"arms": 3}}
    assert spec.to_dict()["update"] == [{"updates.sgd": {"lr": 0.3}}]


def test_the_second_link_of_a_kind_has_its_number():
    spec = bandit().replace(
        update=sim.chain(sim.updates.clip_norm(1.0), sim.updates.sgd(0.1), sim.updates.clip_norm(2))
    )
    changed = settings.with_setting(spec, "clip_norm2.limit", 5.0)
    assert [getattr(link, "limit", None) for link in changed.update.links] == [1.0, None, 5.0]


def test_structures_come_first_knobs_ride_and_labels_name_parts():
    methods = {"a": sim.methods.grpo(), "b": sim.methods.reinforce()}
    grid = grids.grid_of(bandit(), {"lr": np.array([0.1, 0.2]), "method": methods, "staleness": range(3)})
    assert grid.names == ("method", "staleness", "lr") and grid.size == 12
    assert [tuple(cell.setting.values()) for cell in grid.cells()] == [(m, s) for m in "ab" for s in range(3)]
    assert grid.riders == [[{"lr": 0.1}, {"lr": 0.2}]]


def test_many_knobs_ride_in_several_units_without_loss():
    lrs, shifts = np.linspace(0.1, 0.5, 9).tolist(), [0.0, 0.1, 0.2]
    spec = bandit().replace(method=sim.methods.reinforce(advantage=sim.advantages.group_mean(shift=0.0)))
    grid = grids.grid_of(spec, {"lr": lrs, "advantage.shift": shifts})
    flat = [tuple(each.values()) for group in grid.riders for each in group]
    assert flat == [(a, b) for a in lrs for b in shifts]
    assert [len(group) for group in grid.riders] == [16, 11]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "values by name"),
        ([1, 2], "values by name"),
        ({"staleness": []}, "at least one value"),
        ({"staleness": 3}, "several values"),
        ({"staleness": [1, 1]}, "different values"),
        ({"staleness": [0, -1]}, "staleness=-1"),
        ({"nothing": [1]}, "one of"),
        ({"task.nothing": [1]}, "nothing"),
        ({"lr": [0.1, "x"]}, "numbers"),
        ({"lr": [0.1, -1.0]}, "lr"),
        ({"method": [sim.methods.grpo(), sim.methods.grpo(low=0.1)]}, "different values"),
        ({"adam.lr": [0.1]}, "one of"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_done(tmp_path, given, reason):
    with pytest.raises(InputError) as refused:
        sim.sweep(bandit(), given, store=str(tmp_path / "s"), workers=1)
    assert reason in str(refused.value) and "\n" not in str(refused.value)
    assert not (tmp_path / "s").exists()


def test_a_part_without_a_call_is_refused_by_the_way_to_make_it():
    changed = bandit().task.__class__  # a part of which nothing is remembered
    assert changed
    spec = bandit().replace(method=sim.methods.from_loss(lambda log_prob, advantage: -log_prob * advantage))
    refused("put it into a file", sim.sweep, spec, {"staleness": [0]}, workers=1)


def test_what_a_unit_is_told_is_json_and_its_key_its_content():
    question = plans.Question(
        grids.grid_of(bandit(), {"staleness": [0, 4], "lr": [0.1]}),
        plans.reading_of(["batch_return"], "mean", None, "higher"), 100, 3,
    )  # fmt: skip
    every = list(question.units())
    assert len(every) == 4 and len({unit.key for unit in every}) == 4
    for unit in every:
        again = json.loads(json.dumps(unit.content))
        assert storing.keys_of(again)[1] == unit.key
    assert [unit.content["replicates"] for unit in every] == [64, 36, 64, 36]
    seeds = [unit.content["seed"] for unit in every]
    # Settings share the seeds of a block: they are compared on the same draws.
    assert seeds[:2] == seeds[2:] and seeds[0] != seeds[1]


def test_the_training_time_of_a_load_stays_where_a_knob_moves_the_places():
    knobs = {"consumer_batch_size": 4, "max_concurrent_rollouts": 64, "length": 1.0}
    system = sim.systems.areal(max_head_offpolicyness=1, load=1.5, **knobs)
    grid = grids.grid_of(system, {"max_head_offpolicyness": [1, 4]})
    times = [cell.subject.mean_train_time(1) for cell in grid.cells()]
    assert times[0] == times[1] == system.mean_train_time(1)
    # Without that, the same load is another time at another value.
    moved = sim.systems.areal(max_head_offpolicyness=4, load=1.5, **knobs)
    assert moved.mean_train_time(1) != times[0]
    loads = grids.grid_of(system, {"load": [1.0, 2.0]})
    assert len({cell.subject.mean_train_time(1) for cell in loads.cells()}) == 2


def test_settings_of_the_event_model_are_reached_in_specs_and_systems():
    system = sim.systems.areal(
        max_head_offpolicyness=1, consumer_batch_size=4, max_concurrent_rollouts=64, length=1.0, load=1.5
    )
    spec = settings.with_setting(bandit().replace(system=system), "model.rate", 2.0)
    assert set(spec.system.rates) == {2.0}
    grid = grids.grid_of(system, {"model.rate": [1.0, 2.0], "max_head_offpolicyness": [1, 2]})
    assert [set(cell.subject.rates) for cell in grid.cells()] == [{1.0}, {1.0}, {2.0}, {2.0}]
