"""Drawn schedules, controllers and logs: what the product accepts, every edge, shrunk, and sharp on a defect."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import find, given, settings

from asyncsim.base.checks import InputError
from asyncsim.base.records import Schedule
from asyncsim.conformance import ConformanceError, check_admission
from asyncsim.conformance._admission import Run
from asyncsim.schedules import replay
from asyncsim.testing import controllers, logs, schedules, sources
from asyncsim.testing.events import CONTRADICTIONS, KINDS, RETURNS
from tests.conformance import planted
from tests.conformance.controllers import ResetAtPublish, TicketsAtDequeue, TicketsAtPublish
from tests.testing.test_tensors import examples

# Schedules


def changes_inside(schedule):
    return bool((np.diff(schedule.version, axis=-1) > 0).any())


SCHEDULES = {
    **{kind: lambda s, kind=kind: s.header["name"] == ("drawn" if kind == "system" else kind) for kind in KINDS},
    "one batch": lambda s: s.trajectory.shape[1] == 1,
    "one sample": lambda s: s.trajectory.shape[3] == 1,
    "several samples": lambda s: s.trajectory.shape[3] == 3,
    "several realizations": lambda s: s.trajectory.shape[0] == 2,
    "several batches to a publish": lambda s: s.batches_per_publish > 1,
    "a version changes inside a sample": changes_inside,
    "on policy": lambda s: s.trajectory.shape[1] > 3 and s.staleness().max() == 0,
    "five versions old": lambda s: s.staleness().max() >= 5,
}


@pytest.fixture(scope="module")
def drawn_schedules():
    return examples(schedules(), 400)


@pytest.mark.parametrize("edge", SCHEDULES)
def test_edges_of_schedules_are_reached(drawn_schedules, edge):
    assert sum(map(SCHEDULES[edge], drawn_schedules)) >= 5


def test_schedules_and_their_sources_are_whole(drawn_schedules):
    assert all(isinstance(s, Schedule) and s.trajectory.shape[1] <= 12 for s in drawn_schedules)
    for source in examples(sources(), 30):
        assert source.schedule(20, 2, 3, 1, 0).trajectory.shape[1] == 20


def test_schedules_shrink():
    oldest = find(schedules(), lambda s: s.staleness().max() == 2)
    assert oldest.version.ravel().tolist() == [0, 0, 0]
    assert find(schedules("system"), changes_inside).version.size <= 8


def test_a_property_over_schedules_catches_staleness_counted_from_the_batch():
    """Trained versions are publishes: the number of the batch is another thing where a publish has several."""

    @given(schedules(realizations=1))
    def holds(schedule):
        batch = np.arange(schedule.trajectory.shape[1])[None, :, None, None, None]
        assert np.array_equal(batch - schedule.version, schedule.staleness())

    with pytest.raises(AssertionError):
        holds()


# Controllers

CONTROLLERS = {
    **{law: lambda c, law=law: c.returns == law for law in RETURNS},
    "on policy": lambda c: c.max_staleness == 0,
    "staleness that is not whole": lambda c: c.max_staleness % 1 > 0,
    "no limit of what runs": lambda c: c.max_concurrent is None,
    "fewer run than a batch": lambda c: c.max_concurrent is not None and c.max_concurrent < c.batch_size,
    "several batches to a publish": lambda c: c.batches_per_publish > 1,
    "no groups may be lost": lambda c: c.losses == 0,
    "two publishes": lambda c: played(c, c.make())[-1].version >= 2,
}
TWINS = {"publish": TicketsAtPublish, "dequeue": TicketsAtDequeue, "reset": ResetAtPublish}


def played(drawn, controller, twin=None):
    """The true counts along the drawn events; the twin must answer as the controller does."""
    run, twins = Run(drawn.rules, lambda: controller, {}), None
    if twin is not None:
        twins = Run(drawn.rules, lambda: twin, {})
    counts = []
    for event, n in (("", 0), *drawn.events):
        run.check()
        if twins is not None:
            twins.check()
            assert twins.capacity == run.capacity
        most = run.limits().get(event, 0)
        if most and event not in ("crash", "crash, data kept"):
            for each in filter(None, (run, twins)):
                each.happen(event, min(n, most))
        counts.append(run.counts)
    return counts


@pytest.fixture(scope="module")
def drawn_controllers():
    return examples(controllers(), 200)


@pytest.mark.parametrize("edge", CONTROLLERS)
def test_edges_of_controllers_are_reached(drawn_controllers, edge):
    assert sum(map(CONTROLLERS[edge], drawn_controllers)) >= 5


def test_drawn_controllers_are_right_and_answer_as_those_written_by_hand(drawn_controllers):
    for drawn in drawn_controllers:
        drawn.check(drawn.make)
        played(drawn, drawn.make(), TWINS[drawn.returns](**drawn.settings))
    for drawn in drawn_controllers[:12]:
        report = check_admission(drawn.make, **drawn.settings, losses=drawn.losses, examples=20)
        assert report.passed, str(report)


def law_of(kind):
    """A property: the staleness manager of this class keeps every rule, with any settings, along any events."""

    @settings(max_examples=150)
    @given(controllers("publish"))
    def holds(drawn):
        drawn.check(lambda: kind(**drawn.settings))

    return holds


def test_a_right_manager_holds():
    law_of(TicketsAtPublish)()


WRONG = ("KeepsRefused", "ReturnsTwice", "Greedy", "Reserving", "Leaking", "Negative", "Breaking", "Stuck", "Both")


@pytest.mark.parametrize("name", WRONG)
def test_a_property_over_controllers_catches_planted_ones(name):
    with pytest.raises(ConformanceError) as caught:
        law_of(getattr(planted, name))()
    assert len(caught.value.report.failure.events) <= 8


def test_the_failing_run_and_its_settings_are_small():
    wrong = planted.Leaking

    def fails(drawn):
        try:
            drawn.check(lambda: wrong(**drawn.settings))
        except ConformanceError as error:
            return "no starvation" in str(error)
        return False

    smallest = find(controllers("publish"), fails)
    assert smallest.settings == {
        "batch_size": 1,
        "max_staleness": 0.0,
        "max_concurrent": None,
        "batches_per_publish": 1,
    }
    with pytest.raises(ConformanceError) as caught:
        smallest.check(lambda: wrong(**smallest.settings))
    assert [line.split()[0] for line in caught.value.report.failure.events] == ["submit", "accept", "train", "publish"]


def test_mistakes_are_named_and_most_break_a_rule():
    found = examples(controllers(mistakes=True), 80)
    assert len({drawn.mistake for drawn in found}) > 8 and all(drawn.mistake for drawn in found)
    broken = 0
    for drawn in found:
        try:
            drawn.check(drawn.make)
        except ConformanceError:
            broken += 1
    assert broken > 40


# Logs


def read(log, **given):
    """The log as the product reads it."""
    with tempfile.TemporaryDirectory() as folder:
        return replay(log.save(Path(folder, "log.jsonl")), unit="publishes", **given)


@settings(max_examples=80)
@given(log=logs())
def test_a_log_gives_its_schedule_back(log):
    _, batches, _, samples, tokens = log.schedule.version.shape
    law = read(log, batches_per_publish=log.schedule.batches_per_publish)
    found = law.schedule(batches, samples, tokens, 1, 0)
    assert np.array_equal(*np.broadcast_arrays(found.staleness(), log.schedule.staleness()))
    assert log.refused == "" and len(log.rows) == log.schedule.trajectory.size


@settings(max_examples=150)
@given(log=logs(contradictions=True))
def test_a_contradiction_is_refused_by_its_field(log):
    with pytest.raises(InputError) as caught:
        read(log, batches_per_publish=log.schedule.batches_per_publish)
    assert caught.value.field.partition(",")[0] == log.refused


LOGS = {
    "versions by token": lambda log: all("versions" in row for row in log.rows),
    "ends alone": lambda log: all("versions" not in row for row in log.rows),
    "both": lambda log: all(set(row) >= {"versions", "start_version"} for row in log.rows),
    "a version changes inside a sample": lambda log: changes_inside(log.schedule),
    "several samples in a group": lambda log: log.schedule.trajectory.shape[3] > 1,
    "several batches": lambda log: log.rows[-1]["batch"] > 2,
}


@pytest.fixture(scope="module")
def drawn_logs():
    return examples(logs(), 150)


@pytest.mark.parametrize("edge", LOGS)
def test_edges_of_logs_are_reached(drawn_logs, edge):
    assert sum(map(LOGS[edge], drawn_logs)) >= 5


def test_every_contradiction_is_drawn_and_shrinks_to_one_row():
    assert {log.contradiction for log in examples(logs(contradictions=True), 200)} == set(CONTRADICTIONS)
    for name in CONTRADICTIONS:
        smallest = find(logs("fixed", contradictions=True), lambda log, name=name: log.contradiction == name)
        assert len(smallest.rows) == 1 and json.dumps(smallest.rows)


def test_a_property_over_logs_catches_an_importer_that_fills_in():
    """A start that is missing becomes 0, and what contradicts itself is taken as it stands."""

    @given(logs(contradictions=True))
    def refuses(log):
        started = [row["start_version"] or 0 for row in log.rows if "start_version" in row]
        assert not started or min(started) < 0

    with pytest.raises(AssertionError):
        refuses()


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("kinds", lambda: sources("fixd")),
        ("kinds", lambda: schedules("coupled")),
        ("batches", lambda: schedules(batches=0)),
        ("samples", lambda: schedules(samples=True)),
        ("tokens", lambda: schedules(tokens=-1)),
        ("realizations", lambda: schedules(realizations=0)),
        ("batches", lambda: logs(batches=0)),
        ("kinds", lambda: logs("replay")),
        ("contradictions", lambda: logs(contradictions="yes")),
        ("path", lambda: find(logs("fixed"), lambda log: True).save("log.csv")),
        ("returns", lambda: controllers("never")),
        ("batch", lambda: controllers(batch=0)),
        ("staleness", lambda: controllers(staleness=0.5)),
        ("staleness", lambda: controllers("dequeue", staleness=0)),
        ("mistakes", lambda: controllers(mistakes=1)),
    ],
)
def test_bad_input_is_refused_by_name(field, make):
    with pytest.raises(InputError) as caught:
        make()
    assert caught.value.field == field and caught.value.remedy and "\n" not in str(caught.value)
