"""The kernel against two programs that share no line with it, on whole histories, and its laws of conservation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsim import systems as presets
from asyncsim.laws import constant, lognormal
from asyncsim.systems._system import StalledError, System
from asyncsim.systems._tokens import token_versions
from tests.systems import processes
from tests.systems.settings import systems
from tests.systems.twin import Twin, history_of

SIZE = {"batches": st.sampled_from([14, 9, 5, 2, 1]), "samples": st.integers(1, 3), "seed": st.integers(0, 5)}


def twin_of(system, batches, samples, seed):
    def work(sample):
        return float(system.works(np.array([sample]), 0, seed)[0])

    return Twin(system, samples, work, system.train_times(batches, samples, 0, seed)).run(batches)


@settings(max_examples=250)
@given(system=systems(), **SIZE)
def test_the_whole_history_is_that_of_the_twin(system, batches, samples, seed):
    assert history_of(system.timeline(batches, samples, seed=seed)) == twin_of(system, batches, samples, seed).history()


@pytest.mark.parametrize(
    ("setting", "wrong"),
    [("order", "oldest_start"), ("release", "dequeue"), ("mode", "restart"), ("sync_time", 0.5), ("tickets", 9)],
)
def test_the_comparison_of_histories_sees_every_setting(setting, wrong):
    system = System(
        "plain", {}, lognormal(1.0, 0.8), (1.0,) * 6, groups_per_batch=2, tickets=6, release="publish", train_time=0.7,
    )
    changed = system.replace(**{setting: wrong})
    assert history_of(changed.timeline(12)) != twin_of(system, 12, 1, 0).history()


@settings(max_examples=60)
@given(system=systems(exact=False, modes=("keep", "pin")), **SIZE)
def test_the_history_is_that_of_a_simpy_program(system, batches, samples, seed):
    works = system.works(np.arange(10_000), 0, seed)
    rows, steps = processes.run(
        system, samples, lambda n: float(works[n]), system.train_times(batches, samples, 0, seed).tolist(), batches
    )
    timeline = system.timeline(batches, samples, seed=seed)
    groups = timeline.groups
    names = ("group", "place", "t_submit", "v_submit", "t_ready", "batch")
    kept = np.flatnonzero(groups["batch"] >= 0)
    assert list(zip(*(groups[name][kept].tolist() for name in names), strict=True)) == rows
    assert list(zip(timeline.batches["t_start"].tolist(), timeline.batches["t_end"].tolist(), strict=True)) == steps


@settings(max_examples=150)
@given(system=systems(), tokens=st.integers(1, 5), **SIZE)
def test_what_is_conserved(system, batches, samples, seed, tokens):
    timeline = system.timeline(batches, samples, tokens, seed)
    s, g, p = timeline.samples, timeline.groups, timeline.publishes
    trained = g["batch"] >= 0
    assert trained.sum() == batches * system.groups_per_batch
    assert (np.bincount(g["batch"][trained]) == system.groups_per_batch).all()
    assert (np.bincount(s["group"]) == samples).all()
    # Item 4: the order of a sample's instants, and versions that exist.
    done = s["batch"] >= 0
    for early, late in (("t_submit", "t_start"), ("t_start", "t_end"), ("t_end", "t_ready"), ("t_ready", "t_pack")):
        assert (s[early][done] <= s[late][done]).all(), (early, late)
    train_version = s["batch"][done] // system.batches_per_publish
    assert (s["v_submit"] <= s["v_start"]).all()
    assert (s["v_start"][done] <= s["v_end"][done]).all()
    assert (s["v_ready"][done] <= train_version).all()
    # Item 6: the span of a sample is what was installed while it ran, except under pin; drain and restart allow none.
    if system.mode != "keep":
        assert (s["v_end"][done] == s["v_start"][done]).all()
    versions = token_versions(timeline)
    assert (np.diff(versions[done], axis=1) >= 0).all() and (versions[done][:, 0] == s["v_start"][done]).all()
    assert (versions[done] <= s["v_end"][done][:, None]).all()
    # Item 3: tickets and places.
    if system.tickets is not None:
        assert (p["outstanding"] <= system.tickets).all()
    assert (p["in_flight"] <= len(system.rates)).all()
    # Item 8: publishes seen by groups while outstanding, counted from both ends.
    seen = np.where(trained, g["v_train"], len(p["version"])) - g["v_submit"]
    assert int(seen.sum()) == int(p["outstanding"].sum())
    # Seconds of every resource.
    r = timeline.resources
    assert (r["idle"] >= -1e-9).all()
    np.testing.assert_allclose(r["busy"] + r["idle"] + r["syncing"], timeline.header["seconds"], rtol=1e-12)


def test_the_integer_identity_sees_an_off_by_one():
    timeline = presets.areal(2, 3, 7, length=lognormal(1.0, 0.8), load=1.3).timeline(30)
    g, p = timeline.groups, timeline.publishes
    seen = np.where(g["batch"] >= 0, g["v_train"], len(p["version"])) - g["v_submit"]
    assert int(seen.sum()) == int(p["outstanding"].sum())
    assert int((p["outstanding"] - 1).sum()) != int(seen.sum())


@settings(max_examples=60)
@given(batch=st.integers(1, 4), mode=st.sampled_from(["drain", "keep"]), seed=st.integers(0, 9))
def test_tickets_of_one_publish_are_the_synchronous_run(batch, mode, seed):
    reference = presets.synchronous(batch, length=lognormal(1.0, 0.8)).schedule(9, 2, 4, 1, seed)
    system = System(
        "tight", {}, lognormal(1.0, 0.8), (1.0,) * batch, groups_per_batch=batch, tickets=batch, mode=mode,
        train_time=0.4,
    )
    schedule = system.schedule(9, 2, 4, 1, seed)
    assert float(schedule.staleness().max()) == 0.0
    assert np.array_equal(schedule.trajectory, reference.trajectory)
    assert np.array_equal(schedule.version, reference.version)


@settings(max_examples=60)
@given(system=systems(), factor=st.sampled_from([0.25, 8.0]), **SIZE)
def test_times_scale_and_nothing_else(system, batches, samples, seed, factor):
    # A rate is work per second: all times grow by the factor when rates shrink by it.
    slow = system.replace(
        rates=tuple(rate / factor for rate in system.rates), sync_time=system.sync_time * factor,
        offsets=system.offsets and tuple(t * factor for t in system.offsets),
        train_time=scaled(system.train_time, factor),
    )
    a, b = system.timeline(batches, samples, seed=seed), slow.timeline(batches, samples, seed=seed)
    for name, column in a.samples.items():
        if name.startswith(("t_", "clock")):
            np.testing.assert_array_equal(column * factor, b.samples[name])
        elif name not in ("rate", "wasted"):
            assert np.array_equal(column, b.samples[name]), name


def scaled(train_time, factor):
    if isinstance(train_time, float):
        return train_time * factor
    return type(train_time)(train_time.kind, tuple(p * factor for p in train_time.parameters))


def test_same_seed_same_bits_and_realizations_differ():
    system = presets.areal(2, 4, 12, length=lognormal(1.0, 0.8), load=1.5)
    first, second = system.schedule(20, 2, 6, 3, 5), system.schedule(20, 2, 6, 3, 5)
    assert np.array_equal(first.version, second.version) and np.array_equal(first.work, second.work)
    assert not np.array_equal(first.work[0], first.work[1])
    assert np.array_equal(system.schedule(20, 2, 6, 2, 5).version, first.version[:2])
    assert not np.array_equal(system.schedule(20, 2, 6, 3, 6).work, first.work)


def test_token_versions_of_a_sample_across_an_install():
    system = System(
        "hand", {}, constant(4.0), (4.0, 1.0), tickets=None, mode="keep", train_time=0.0, offsets=None,
    )
    # Place 0 finishes every second: installs at 1, 2, 3; place 1 runs from 0 to 4 and ends before the install at 4.
    schedule = system.schedule(5, 1, 4, 1, 0)
    slow = schedule.version[0, :, 0, 0][schedule.trajectory[0, :, 0, 0] == 1]
    assert slow.tolist() == [[0, 1, 2, 3]]


@settings(max_examples=60)
@given(system=systems(modes=("keep",)), tokens=st.integers(2, 6), **SIZE)
def test_token_versions_count_the_installs_before_each_token(system, tokens, batches, samples, seed):
    timeline = system.timeline(batches, samples, tokens, seed)
    s, installs = timeline.samples, timeline.publishes["clock"].tolist()
    schedule = system.schedule(batches, samples, tokens, 1, seed)
    version = np.broadcast_to(schedule.version[0], (*schedule.version.shape[1:4], tokens))
    for code, row in zip(schedule.trajectory[0].ravel().tolist(), version.reshape(-1, tokens).tolist(), strict=True):
        start, rate, work = s["clock_start"][code], s["rate"][code], s["work"][code]
        for t in range(1, tokens):
            emitted = start + work * t / tokens / rate
            before = sum(install <= emitted for install in installs)
            assert row[t] == max(before, s["v_start"][code])
        assert row[0] == s["v_start"][code]
        assert row == token_versions(timeline)[code].tolist()


def test_a_standstill_is_named():
    system = presets.synchronous(2)
    object.__setattr__(system, "tickets", 1)
    with pytest.raises(StalledError, match="stalled after 0 batches"):
        system.schedule(3, 1, 1, 1, 0)


def test_an_open_loop_that_outgrows_its_room_goes_on():
    # A drain of single groups lets ten more in at every publish: the first room is for a few dozen.
    system = System("open", {}, lognormal(1.0, 0.8), (1.0,) * 10, tickets=None, mode="drain", train_time=0.0)
    timeline = system.timeline(40, 2)
    assert len(timeline.groups["group"]) > 300
    assert history_of(timeline) == twin_of(system, 40, 2, 0).history()
