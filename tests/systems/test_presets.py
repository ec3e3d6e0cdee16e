"""Presets at the laws that the literature states for them, refused inputs, saved files."""

from __future__ import annotations

import numpy as np
import pytest

from asyncsim import records
from asyncsim import systems as presets
from asyncsim.checks import InputError
from asyncsim.laws import constant, exponential, lognormal, pareto
from asyncsim.systems._system import System
from tests.statistics import assert_rate


@pytest.mark.parametrize("law", [constant(1.0), lognormal(1.0, 0.8), pareto(0.5, 1.5)])
@pytest.mark.parametrize("train_time", [0.1, 3.0])
def test_synchronous_and_one_step_off_are_exact(law, train_time):
    synchronous = presets.synchronous(3, 2, length=law, train_time=train_time).schedule(12, 2, 1, 2, 0)
    assert (synchronous.staleness() == 0).all() and synchronous.updates_per_batch == 2
    ahead = presets.one_step_off(3, length=law, train_time=train_time).schedule(12, 2, 1, 2, 0)
    assert (ahead.staleness() == np.minimum(np.arange(12), 1)[None, :, None, None, None]).all()


def test_synchronous_never_trains_while_it_generates():
    """No sample is in flight while a batch trains, so nothing is selected by its length."""
    record = presets.synchronous(4, 2, length=exponential(1.0), train_time=0.5).timeline(40, 3)
    samples, batches = record.samples, record.batches
    for begin, end in zip(batches["t_start"], batches["t_end"], strict=True):
        assert not ((samples["t_start"] < end) & (samples["t_end"] > begin)).any()
    # The planted defect: two batches to a publish, of which the first takes whatever is ready.
    eager = presets.synchronous(4).replace(batches_per_publish=2, tickets=8, rates=(1.0,) * 8, length=exponential(1.0))
    work = eager.schedule(200, 1, 1, 1, 0).work[0, :, :, 0].mean(axis=1)
    assert work[::2].mean() < 0.7 * work[1::2].mean()


def test_constant_equal_service_gives_workers_less_one():
    for stagger in (False, True):
        staleness = presets.update_on_arrival(7, 1.0, stagger=stagger).staleness(60, 1, 0)
        assert (staleness[0, 7:] == 6).all() and staleness[0, 0] == 0


def test_mean_of_update_on_arrival_for_unequal_heavy_tailed_service():
    # L4 with L1: over a whole run the sum of staleness is (N - 1) publishes each, less what is still outstanding.
    workers, batches = 6, 4000
    timeline = presets.update_on_arrival(workers, pareto(1.0, 1.2), rates=[1, 2, 3, 4, 5, 9]).timeline(batches)
    assert (timeline.publishes["outstanding"] == workers - 1).all()
    groups = timeline.groups
    trained = groups["batch"] >= 0
    still = (batches - groups["v_start"][~trained]).sum()
    assert (groups["v_train"] - groups["v_start"])[trained].sum() + still == (workers - 1) * batches


def test_geometric_law_of_exponential_service():
    # P(s = 0 | worker) = 1/N for equal rates, from realizations that are independent: one batch late in each of them.
    # False alarm 1e-6 by the band; a rate of 1/N + 0.02 is missed with probability < 1e-6 (4000 trials, sd 0.0055).
    workers, runs = 4, 4000
    late = presets.update_on_arrival(workers, exponential(1.0)).staleness(40, runs, 1)[:, -1, 0]
    for k in range(4):
        assert_rate(int((late == k).sum()), runs, 0.25 * 0.75**k)
    with pytest.raises(AssertionError):
        assert_rate(int((late == 0).sum()), runs, 0.25 + 0.05)


@pytest.mark.parametrize(("eta", "places", "load"), [(0, 4, 0.5), (2, 24, 1.5), (4, 24, 0.7)])
def test_areal_cap_binds_exactly(eta, places, load):
    # L2 by L1: with places for every ticket, O = eta P at every publish.
    system = presets.areal(eta, 4, max(places, 4 * (eta + 1)), length=lognormal(1.0, 0.8), load=load)
    assert (system.timeline(200, 2).publishes["outstanding"] == 4 * eta).all()


def test_dequeue_release_without_training_time_loses_one_publish():
    settings = {"groups_per_batch": 2, "tickets": 6, "release": "dequeue", "mode": "pin"}
    for train_time, expected in ((0.0, 4), (3.0, 6)):
        system = System("dequeue", {}, exponential(1.0), (1.0,) * 6, train_time=train_time, **settings)
        assert (system.timeline(50).publishes["outstanding"] == expected).all()


def test_load_fixes_the_training_time():
    system = presets.areal(1, 4, 6, length=exponential(2.0), load=1.5)
    # C = min(6 places, 8 tickets) = 6; the slowest of two exponential samples takes 1.5 means.
    assert system.mean_train_time(2) == pytest.approx(1.5 * 4 * (2.0 * 1.5) / 6)
    assert system.timeline(2, 2).header["train_time"] == pytest.approx(3.0)


REFUSED = {
    "tickets": lambda: System("x", {}, constant(1.0), (1.0,) * 4, groups_per_batch=3, tickets=2, train_time=1.0),
    "tickets = 10": lambda: System(
        "x", {}, constant(1.0), (1.0,) * 9, groups_per_batch=8, tickets=10, quantum=5, train_time=1.0),
    "quantum": lambda: System("x", {}, constant(1.0), (1.0,), quantum=2, tickets=4, train_time=1.0),
    "tickets = None": lambda: System("x", {}, constant(1.0), (1.0,) * 4, train_time=1.0).schedule(3, 1, 1, 1, 0),
    "load, train_time = (None": lambda: presets.areal(1, 2, length=1.0),
    "load, train_time = (1.0": lambda: presets.areal(1, 2, length=1.0, train_time=1.0, load=1.0),
    "load": lambda: presets.areal(1, 2, length=1.0, load=0.0),
    "law": lambda: presets.areal(1, 2, length=pareto(1.0, 1.0), load=1.0).schedule(2, 1, 1, 1, 0),
    "max_head_offpolicyness": lambda: presets.areal(-1, 2, length=1.0, load=1.0),
    "workers": lambda: presets.update_on_arrival(0),
    "rates": lambda: presets.update_on_arrival(2, rates=[1.0, -1.0]),
    "groups_per_batch": lambda: presets.one_step_off(0),
    "batches_per_publish": lambda: presets.synchronous().replace(batches_per_publish=0),
    "updates_per_batch": lambda: presets.synchronous(1, 1.5),
    "length": lambda: presets.synchronous(length=-1.0),
    "mode": lambda: presets.synchronous().replace(mode="hope"),
    "sync_time": lambda: presets.synchronous(sync_time=float("nan")),
    "batches": lambda: presets.synchronous().schedule(0, 1, 1, 1, 0),
    "realizations": lambda: presets.synchronous().schedule(1, 1, 1, 0, 0),
    "samples_per_group": lambda: presets.synchronous().schedule(1, 0, 1, 1, 0),
    "tokens": lambda: presets.synchronous().schedule(1, 1, 0, 1, 0),
    "seed": lambda: presets.synchronous(length=exponential(1.0)).schedule(1, 1, 1, 1, -1),
}


@pytest.mark.parametrize("field", REFUSED)
def test_bad_input_is_refused_by_name(field):
    with pytest.raises(InputError) as caught:
        REFUSED[field]()
    assert str(caught.value).startswith(field)


def test_realizations():
    random = presets.areal(1, 2, length=exponential(1.0), train_time=1.0)
    assert [random.realizations(r) for r in (1, 10, 1000)] == [1, 10, 64]
    assert presets.areal(1, 2, length=1.0, train_time=1.0).realizations(1000) == 1
    assert presets.areal(1, 2, length=1.0, train_time=exponential(1.0)).realizations(1000) == 64


def test_saved_records_come_back_and_broken_files_are_named(tmp_path):
    system = presets.areal(2, 3, 7, length=lognormal(1.0, 0.8), load=1.2, sync_time=0.1)
    schedule, timeline = system.schedule(6, 2, 4, 2, 0), system.timeline(6, 2, 4)
    schedule.save(tmp_path / "schedule")
    timeline.save(tmp_path / "timeline")
    back = records.Schedule.load(tmp_path / "schedule")
    assert np.array_equal(back.version, schedule.version) and np.array_equal(back.work, schedule.work)
    assert back.header == schedule.header and back.random
    again = records.Timeline.load(tmp_path / "timeline")
    assert again.header == timeline.header
    for table in records.Timeline.TABLES:
        for name, column in getattr(timeline, table).items():
            np.testing.assert_array_equal(getattr(again, table)[name], column)
    with pytest.raises(InputError, match="path"):
        records.Schedule.load(tmp_path / "timeline")
    whole = (tmp_path / "schedule").read_bytes()
    (tmp_path / "schedule").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="whole schedule file"):
        records.Schedule.load(tmp_path / "schedule")
