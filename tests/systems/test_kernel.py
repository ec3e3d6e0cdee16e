"""The kernel against a program that shares no line with it, on whole histories, and its laws of conservation."""

from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from asyncsim import systems as presets
from asyncsim.base.laws import Law, constant, empirical, lognormal
from asyncsim.systems._system import StalledError, System
from tests.systems.histories import differences, of_timeline, of_twin, token_versions
from tests.systems.settings import CORNERS, FEATURES, corners, draws_of, systems
from tests.systems.twin import Endless, Stalled, Twin

SIZE = {"batches": st.sampled_from([14, 9, 5, 2, 1]), "samples": st.integers(1, 3), "seed": st.integers(0, 5)}
EVENTS = 1500
ROUNDING = 1e-9


def twin_of(system, batches, samples, seed):
    return Twin(system, samples, draws_of(system, batches, samples, seed)).run(batches, EVENTS)


def finished(system, batches, samples, seed):
    """The twin's run; None where both come to a standstill; examples without an end are not counted."""
    try:
        return twin_of(system, batches, samples, seed)
    except Endless:
        assume(False)
    except Stalled:
        with pytest.raises(StalledError):
            system.timeline(batches, samples, seed=seed)
    return None


@pytest.mark.parametrize("feature", FEATURES)
@settings(max_examples=25)
@given(data=st.data(), **SIZE)
def test_the_whole_history_is_that_of_the_twin(feature, data, batches, samples, seed):
    system = data.draw(systems(must=(feature,)))
    twin = finished(system, batches, samples, seed)
    if twin is not None:
        found = of_timeline(system.timeline(batches, samples, seed=seed))
        # Failures come at points that are not exact in binary.
        assert differences(of_twin(twin), found, ROUNDING if system.failure_rate else 0.0) == []


@pytest.mark.parametrize("corner", CORNERS)
@settings(max_examples=15)
@given(data=st.data(), batches=st.integers(8, 20), samples=st.integers(1, 3), seed=st.integers(0, 5))
def test_the_whole_history_in_corners(corner, data, batches, samples, seed):
    system = data.draw(corners(corner))
    twin = finished(system, batches, samples, seed)
    if twin is not None:
        assert differences(of_twin(twin), of_timeline(system.timeline(batches, samples, seed=seed))) == []


@settings(max_examples=60)
@given(system=systems(exact=False, most=5), **SIZE)
def test_smooth_histories_are_those_of_the_twin(system, batches, samples, seed):
    twin = finished(system, batches, samples, seed)
    if twin is not None:
        found = of_timeline(system.timeline(batches, samples, seed=seed))
        assert differences(of_twin(twin), found, ROUNDING) == []


BUFFERED = {"capacity": 2, "train_time": 2.0}
AGED = {"max_age": 0, "age_at_pack": "all", "tickets": 8, "order": "freshest"}
FAILING = {"failure_rate": 0.2, "restart_delay": 0.5}
SYNCED = {"sync_time": 1.5}
TURNS = {"turns": 3, "environment": constant(0.75)}
REPLAY = {"tickets": None, "capacity": 4, "max_uses": 2}
SHOWN = {
    **REPLAY,
    "max_uses": None,
    "visible": "publish",
    "initial_fill": 2,
    "order": "freshest",
    "batches_per_publish": 2,
}
SCORED = {"reward": constant(0.7)}
# Every setting of the model, the value that replaces it, and the system in which that shows.
SETTINGS = [
    ("length", lognormal(1.0, 0.7), {}),
    ("rates", (1.0,) * 5 + (2.0,), {}),
    ("groups_per_batch", 3, {}),
    ("batches_per_publish", 2, {}),
    ("difficulty", lognormal(1.0, 0.3), {}),
    ("work_by", "group", {}),
    ("accept", 0.6, {}),
    ("redundant", 1, {}),
    ("prompt", 3.0, {"mode": "reprefill", "prefill_speedup": 4.0}),
    ("servers", 2, {"slots": 3}),
    ("slots", 4, {}),
    ("decode", (1.0, 0.9), {}),
    ("offsets", (0.0,) * 5 + (1.0,), {}),
    ("reward", constant(0.5), {}),
    ("reward_holds", True, {**SCORED, "slots": 4}),
    ("turns", 2, {"environment": constant(0.75)}),
    ("environment", constant(0.5), TURNS),
    ("environment_holds", False, {**TURNS, "slots": 4}),
    ("train_time", 0.8, {}),
    ("token_time", 0.05, {}),
    ("prefetch", 1, {"release": "dequeue"}),
    ("tickets", 9, {}),
    ("release", "dequeue", {}),
    ("release_dropped", "publish", AGED),
    ("quantum", 3, {"tickets": 8}),
    ("lead", 0, {"release": "dequeue", "prefetch": 2}),
    ("capacity", 3, BUFFERED),
    ("epoch", 3, {}),
    ("permits", 5, {}),
    ("target_staleness", 0.5, {"permits": 12}),
    ("rounds", True, {"tickets": None, "quantum": 3, "accept": 0.6, "load": 0.5, "train_time": None}),
    ("overflow", "drop_oldest", BUFFERED),
    ("overflow", "close", BUFFERED),
    ("visible", "publish", {**SHOWN, "visible": "completion"}),
    ("initial_fill", 3, SHOWN),
    ("max_uses", 3, REPLAY),
    ("order", "freshest", {}),
    ("order", "latest", {}),
    ("window", 1, {"order": "oldest_start"}),
    ("recent", 0.9, {**SHOWN, "order": "random"}),
    ("max_age", 1, AGED),
    ("age_action", "requeue", {**AGED, "difficulty": lognormal(1.0, 1.0)}),
    ("age_at_pack", "ready", AGED),
    ("age_at_publish", "all", {**AGED, "age_at_pack": "ready", "prefetch": 1}),
    ("age_reference", "end", AGED),
    ("mode", "restart", {}),
    ("sync_time", 0.5, {}),
    ("trainer_waits", False, SYNCED),
    ("publish_waits", True, {"prefetch": 1, "tickets": 12, "train_time": 0.2}),
    ("generator_pauses", False, SYNCED),
    ("colocated", True, {}),
    ("rolling", True, {**SYNCED, "servers": 3}),
    ("prefill_speedup", 4.0, {"mode": "reprefill", "prompt": 2.0}),
    ("failure_rate", 0.1, FAILING),
    ("restart_delay", 0.25, FAILING),
    ("failure_keeps", True, FAILING),
]
SILENT = {"name", "knobs", "recommended", "load"}


def plain(**changes):
    base = {
        "length": lognormal(1.0, 0.8),
        "rates": (1.0,) * 6,
        "groups_per_batch": 2,
        "tickets": 6,
        "release": "publish",
        "train_time": 0.7,
    }
    return System("plain", {}, **{**base, **changes})


@pytest.mark.parametrize(("setting", "other", "where"), SETTINGS, ids=[row[0] for row in SETTINGS])
def test_the_comparison_of_histories_sees_every_setting(setting, other, where):
    system = plain(**where)
    changed = system.replace(**{setting: other})
    found = of_timeline(changed.timeline(20, 2))
    assert differences(of_twin(twin_of(changed, 20, 2, 0)), found, ROUNDING) == []
    assert differences(of_twin(twin_of(system, 20, 2, 0)), found, ROUNDING) != []


def test_every_setting_of_the_model_is_compared():
    assert {row[0] for row in SETTINGS} == {field.name for field in fields(System)} - SILENT
    once = of_timeline(plain().timeline(9, 2))
    assert of_timeline(plain(recommended={"epochs": 3}).timeline(9, 2)) == once
    # A load is a train_time by another name.
    loaded = plain(train_time=None, load=0.9)
    as_time = plain(train_time=loaded.mean_train_time(2))
    assert of_timeline(loaded.timeline(9, 2)) == of_timeline(as_time.timeline(9, 2)) != once


@pytest.mark.parametrize("feature", FEATURES)
@settings(max_examples=12)
@given(data=st.data(), tokens=st.integers(1, 5), **SIZE)
def test_what_is_conserved(feature, data, batches, samples, seed, tokens):
    system = data.draw(systems(must=(feature,)))
    if finished(system, batches, samples, seed) is None:
        return
    timeline = system.timeline(batches, samples, tokens, seed)
    conserved_times(system, timeline, samples)
    conserved_versions(system, timeline)


def conserved_times(system, timeline, samples):
    """A sample's instants in their order; seconds of every resource; work."""
    s = timeline.samples
    names = ("t_submit", "t_start", "t_end", "t_scored", "t_ready", "t_pack", "t_train")
    trained = s["fate"] == "trained"
    for early, late in pairwise(names):
        assert (s[early][trained] <= s[late][trained]).all(), (early, late)
    ended = ~np.isnan(s["t_end"])
    assert (s["done"][ended] == s["work"][ended]).all() and (s["done"] <= s["work"]).all() and (s["wasted"] >= 0).all()
    r, seconds = timeline.resources, timeline.header["seconds"]
    parts = [r[name] for name in ("busy", "blocked", "idle", "syncing")]
    assert all((part >= 0.0).all() for part in parts)
    np.testing.assert_allclose(sum(parts), seconds, rtol=1e-12)


def conserved_versions(system, timeline):
    """Versions exist, never fall along a sample, and staleness is in-flight plus in-queue, both >= 0."""
    s, g, b = timeline.samples, timeline.groups, timeline.batches
    number = np.arange(len(b["version"]))
    assert (b["version"] == number // system.batches_per_publish).all()
    lag = b["version"] - b["installed"]
    assert ((lag == 0) | ((lag == 1) & (not system.trainer_waits))).all()
    trained = s["fate"] == "trained"
    for early, late in (("v_submit", "v_start"), ("v_start", "v_end"), ("v_end", "v_ready")):
        assert (s[early][trained] <= s[late][trained]).all(), (early, late)
    kept = g["fate"] == "trained"
    assert (g["v_start"][kept] <= g["v_done"][kept]).all() and (g["v_done"][kept] <= g["v_train"][kept]).all()
    if system.mode not in ("keep", "reprefill"):
        assert (s["v_end"][trained] == s["v_start"][trained]).all()
    versions = token_versions(timeline)[trained]
    assert (np.diff(versions, axis=1) >= 0).all() and (versions[:, 0] == s["v_start"][trained]).all()
    assert (versions <= s["v_end"][trained][:, None]).all()


@settings(max_examples=40)
@given(batch=st.integers(1, 4), mode=st.sampled_from(["drain", "keep"]), seed=st.integers(0, 9))
def test_tickets_of_one_publish_are_the_synchronous_run(batch, mode, seed):
    reference = presets.synchronous(batch, length=lognormal(1.0, 0.8)).schedule(9, 2, 4, 1, seed)
    options = {"groups_per_batch": batch, "tickets": batch, "mode": mode, "train_time": 0.4}
    system = System("tight", {}, lognormal(1.0, 0.8), (1.0,) * batch, **options)
    schedule = system.schedule(9, 2, 4, 1, seed)
    assert float(schedule.staleness().max()) == 0.0
    assert np.array_equal(schedule.trajectory, reference.trajectory)
    assert np.array_equal(schedule.version, reference.version)


def scaled(value, factor):
    if isinstance(value, Law):
        return type(value)(value.kind, tuple(p * factor for p in value.parameters))
    return tuple(v * factor for v in value) if isinstance(value, tuple) else value and value * factor


@pytest.mark.parametrize("feature", FEATURES)
@settings(max_examples=6)
@given(data=st.data(), factor=st.sampled_from([0.25, 8.0]), **SIZE)
def test_times_scale_and_nothing_else(feature, data, batches, samples, seed, factor):
    # A rate is work per second: all times grow by the factor, a power of two, when rates shrink by it.
    system = data.draw(systems(must=(feature,)))
    if finished(system, batches, samples, seed) is None:
        return
    seconds = ("sync_time", "offsets", "train_time", "token_time", "reward", "environment", "restart_delay")
    slow = system.replace(
        rates=scaled(system.rates, 1 / factor), **{name: scaled(getattr(system, name), factor) for name in seconds}
    )
    tables = [t.timeline(batches, samples, seed=seed) for t in (system, slow)]
    for table in ("samples", "groups", "batches", "publishes", "uses"):
        first, second = (getattr(timeline, table) for timeline in tables)
        for name, column in first.items():
            if name.startswith("t_"):
                np.testing.assert_array_equal(column * factor, second[name])
            elif not name.startswith(("rate", "clock")):
                assert np.array_equal(column, second[name]), name


def test_same_seed_same_bits_and_realizations_differ():
    system = presets.areal(2, 4, 12, length=lognormal(1.0, 0.8), load=1.5)
    first, second = system.schedule(20, 2, 6, 3, 5), system.schedule(20, 2, 6, 3, 5)
    assert np.array_equal(first.version, second.version) and np.array_equal(first.work, second.work)
    assert not np.array_equal(first.work[0], first.work[1])
    assert np.array_equal(system.schedule(20, 2, 6, 2, 5).version, first.version[:2])
    assert not np.array_equal(system.schedule(20, 2, 6, 3, 6).work, first.work)


def test_token_versions_of_a_sample_across_an_install():
    system = System("hand", {}, constant(4.0), (4.0, 1.0), tickets=None, mode="keep", train_time=0.0)
    # Place 0 finishes every second: installs at 1, 2, 3; place 1 runs from 0 to 4 and ends before the install at 4.
    schedule = system.schedule(5, 1, 4, 1, 0)
    slow = schedule.version[0, :, 0, 0][schedule.trajectory[0, :, 0, 0] == 1]
    assert slow.tolist() == [[0, 1, 2, 3]]


def token_versions_by_hand(sample, tokens):
    """Token t comes when the fraction t / T of the work is done, under the version that is there then."""
    emitted = [sample.work * t / tokens for t in range(tokens)]
    later = [max(version for done, version in sample.breakpoints if done <= at) for at in emitted[1:]]
    return [sample.v_start, *later]


@pytest.mark.parametrize("mode", ["keep", "reprefill", "restart", "pin"])
@settings(max_examples=30)
@given(data=st.data(), tokens=st.integers(2, 6), **SIZE)
def test_token_versions_are_those_of_the_twin(mode, data, tokens, batches, samples, seed):
    # Five and three tokens cut the work where binary numbers cannot: exact only for powers of two.
    tokens = 2 if tokens < 4 else 4
    system = data.draw(systems(modes=(mode,), features=("servers", "turns", "sync", "buffer", "rewards", "order")))
    twin = finished(system, batches, samples, seed)
    if twin is None:
        return
    found = token_versions(system.timeline(batches, samples, tokens, seed))
    expected = {n: token_versions_by_hand(s, tokens) for n, s in twin.samples.items() if s.t_end is not None}
    assert {n: found[n].tolist() for n in expected} == expected
    schedule = system.schedule(batches, samples, tokens, 1, seed)
    version = np.broadcast_to(schedule.version[0], (*schedule.version.shape[1:4], tokens)).reshape(-1, tokens)
    for code, row in zip(schedule.trajectory[0].ravel().tolist(), version.tolist(), strict=True):
        assert row == expected[code]


def test_a_standstill_is_named():
    system = presets.synchronous(2)
    object.__setattr__(system, "tickets", 1)
    with pytest.raises(StalledError, match="stalled after 0 batches"):
        system.schedule(3, 1, 1, 1, 0)


def test_an_open_loop_that_outgrows_its_room_goes_on():
    # A drain of single groups lets ten more in at every other publish: the first room is for half of them.
    system = System("open", {}, lognormal(1.0, 0.8), (1.0,) * 10, tickets=None, mode="drain", train_time=0.0)
    timeline = system.timeline(40, 2)
    assert len(timeline.groups["group"]) == 200
    assert differences(of_twin(twin_of(system, 40, 2, 0)), of_timeline(timeline), ROUNDING) == []


def test_an_instant_with_many_installs_outgrows_no_room():
    # Training that takes no time on groups that stay: all batches are made at one instant, by one settle.
    options = {
        "train_time": 0.0,
        "release": "dequeue",
        "visible": "publish",
        "initial_fill": 1,
        "max_uses": None,
        "mode": "restart",
    }
    system = System("burst", {}, empirical([0.125]), (1.0,) * 4, **options)
    timeline = system.timeline(200, 2)
    assert differences(of_twin(twin_of(system, 200, 2, 0)), of_timeline(timeline)) == []


def may_stall(s):
    """Whether these settings may come to a standstill, although each of them is accepted."""
    cuts = s.max_age is not None and s.age_action != "wait"
    overflows = s.capacity is not None and s.overflow == "drop_oldest"
    loses = s.tickets is not None and (cuts or overflows or s.accept < 1.0)
    # Under these orders a batch may have to wait for a certain group.
    waits = s.window is not None or s.order in ("version_strict", "target") or s.age_action == "wait"
    # Tickets of lost groups come too late or never; lost groups leave less than a quantum of tickets.
    return loses and (s.release_dropped != "now" or (s.quantum > 1 and waits))


# Whole systems shrink for minutes, and the seed is fixed.
@settings(max_examples=400, phases=(Phase.generate,))
@given(system=systems(most=5), samples=st.integers(1, 3), seed=st.integers(0, 3))
def test_nobody_starves(system, samples, seed):
    if not may_stall(system):
        system.timeline(12, samples, seed=seed)


@pytest.mark.parametrize(
    "changes",
    [{"accept": 0.5, "release_dropped": "publish"}, {"accept": 0.3, "quantum": 3, "tickets": 4, "order": "target"}],
)
def test_kinds_that_stall_are_real(changes):
    options = {"groups_per_batch": 2, "tickets": 8, "release": "publish", "mode": "keep", "train_time": 0.1}
    system = System("stalls", {}, lognormal(1.0, 0.8), (1.0,) * 6, **options).replace(**changes)
    assert may_stall(system)
    with pytest.raises(StalledError):
        system.timeline(12, 1)
