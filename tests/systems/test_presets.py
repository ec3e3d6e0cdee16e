"""Presets at the laws that the literature states for them, refused inputs, saved files."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from scipy import special

import asyncsim as sim
from asyncsim import claims
from asyncsim import systems as presets
from asyncsim.app import commands, wording
from asyncsim.base import plugins, records
from asyncsim.base.checks import InputError
from asyncsim.base.laws import constant, exponential, lognormal, pareto
from asyncsim.systems._knobs import Source
from asyncsim.systems._system import System
from tests.refusals import refused
from tests.statistics import assert_rate
from tests.systems.preset_table import (
    AHEAD,
    BAD_KNOBS,
    BOUNDED,
    EXACT,
    FASTER,
    REQUIRED,
    ROWS,
    SLOWER,
    UNEVEN,
    own_knobs,
    parameters,
)


@pytest.mark.parametrize("law", [constant(1.0), lognormal(1.0, 0.8), pareto(0.5, 1.5)])
@pytest.mark.parametrize("train_time", [0.1, 3.0])
def test_synchronous_and_one_step_off_are_exact(law, train_time):
    synchronous = presets.synchronous(3, length=law, train_time=train_time).schedule(12, 2, 1, 2, 0)
    assert (synchronous.staleness() == 0).all()
    ahead = presets.one_step_off(3, length=law, train_time=train_time).schedule(12, 2, 1, 2, 0)
    assert (ahead.staleness() == np.minimum(np.arange(12), 1)[None, :, None, None, None]).all()


def test_synchronous_never_trains_while_it_generates():
    """No sample is in flight while a batch trains, so nothing is selected by its length."""
    record = presets.synchronous(4, length=exponential(1.0), train_time=0.5).timeline(40, 3)
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


WORKERS = {
    "update_on_arrival": lambda service: presets.update_on_arrival(8, service, stagger=True),
    "buffered": lambda service: presets.buffered(8, 3, service, rates=[1, 1, 1, 1, 2, 2, 3, 5]),
}


@pytest.mark.parametrize("name", WORKERS)
def test_a_service_is_that_of_a_worker_whatever_the_samples_of_its_result(name):
    system = WORKERS[name](lognormal(1.0, 0.8))
    alone, many = system.schedule(60, 1, 1, 3, seed=0), system.schedule(60, 16, 1, 3, seed=0)
    assert np.array_equal(many.version, np.repeat(alone.version, 16, axis=3)) and alone.staleness().max() > 8
    assert np.array_equal(many.seconds, alone.seconds) and np.array_equal(many.work[..., :1], alone.work)
    laws = [claims.predicted_staleness(system.describe_at(samples), samples) for samples in (1, 16)]
    assert laws[0] == laws[1] and laws[0].law is not None
    # The planted defect: a worker that waits for the slowest of 16 draws.
    assert not np.array_equal(system.replace(work_by="sample").schedule(60, 16, 1, 3, seed=0).seconds, alone.seconds)


def test_a_run_on_arrival_learns_alike_whatever_the_samples():
    """Without noise a group's gradient is that of one sample, so the whole run is: 8 workers at rate 0.3 converge.

    With a service of its own for each of 16 samples the lags are nearly constant, and the run diverges.
    """
    task, system = sim.tasks.quadratic((1.0,), noise=0.0, start=1.0), presets.update_on_arrival(8)

    def end(samples, system=system):
        runs = {"updates": 400, "replicates": 24, "realizations": 24, "samples_per_group": samples}
        method, update = sim.methods.gradient(), sim.chain(sim.updates.sgd(0.3))
        made = sim.Spec(task, system, method, update, **runs, diagnostics="none")
        return np.abs(sim.run(made, seed=0, progress=False).parameters[:, 0])

    one, sixteen = end(1), end(16)
    np.testing.assert_allclose(sixteen, one, rtol=1e-9)
    assert np.median(one) < 1e-3 < 10.0 < np.median(end(16, system.replace(work_by="sample")))


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


BY_HAND = [
    # C = min(places, tickets) groups of 2 s, 8 of them a batch: 1.5 x 8 / (8 / 2).
    (presets.areal(0, 8, 64, length=2.0, load=1.5), 1, 3.0),
    (presets.areal(7, 8, 16, length=2.0, load=1.5), 1, 1.5),
    # 6 slots for 4 groups of 3 samples: 6 / (3 x 2) groups a second.
    (presets.areal(0, 4, length=2.0, load=1.0).replace(slots=6), 3, 4.0),
    # The slowest of the places that 4 tickets use is not the mean of all.
    (presets.areal(0, 4, 8, length=2.0, load=1.0).replace(rates=(2.0,) * 4 + (50.0,) * 4), 1, 1.0),
    # Two servers of two active samples each, at half speed.
    (presets.areal(0, 4, length=2.0, load=1.0).replace(servers=2, decode=(1.0, 0.5)), 1, 4.0),
    # Two environment steps of 1.5 s, and a reward of 1 s that holds the place.
    (presets.areal(0, 4, length=2.0, load=1.0).replace(turns=3, environment=constant(1.5)), 1, 5.0),
    (presets.areal(0, 4, length=2.0, load=1.0).replace(reward=constant(1.0), reward_holds=True), 1, 3.0),
    (presets.areal(0, 4, length=2.0, load=1.0).replace(reward=constant(1.0)), 1, 2.0),
]


@pytest.mark.parametrize(("system", "samples", "seconds"), BY_HAND)
def test_a_load_by_hand(system, samples, seconds):
    assert system.mean_train_time(samples) == pytest.approx(seconds)


def test_a_load_counts_the_places_that_tickets_let_be_used():
    # E[max of 4] = integral of 1 - F^4 of a lognormal law, by the trapezoid rule on a grid of its own.
    x = np.linspace(0.0, 400.0, 2_000_001)
    with np.errstate(divide="ignore"):
        below = special.ndtr((np.log(x) + 0.32) / 0.8)
    largest = np.trapezoid(1.0 - below**4, x)
    system = presets.areal(0, 8, 64, length=lognormal(1.0, 0.8), load=1.0)
    assert system.mean_train_time(4) == pytest.approx(largest, rel=1e-6) and round(largest, 3) == 1.953


REFUSED = {
    "tickets": lambda: System("x", {}, constant(1.0), (1.0,) * 4, groups_per_batch=3, tickets=2, train_time=1.0),
    "tickets = 10": lambda: System(
        "x", {}, constant(1.0), (1.0,) * 9, groups_per_batch=8, tickets=10, quantum=5, train_time=1.0
    ),
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
    caught = refused("", lambda: REFUSED[field]())
    assert str(caught).startswith(field)


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
    refused("path", records.Schedule.load, tmp_path / "timeline")
    whole = (tmp_path / "schedule").read_bytes()
    (tmp_path / "schedule").write_bytes(whole[: len(whole) // 2])
    refused("whole schedule file", records.Schedule.load, tmp_path / "schedule")


def built(name, arguments=(), train_time=1.0, length="lognormal:1.0:0.8", **knobs):
    """A preset with a law of lengths, where it takes one."""
    if "length" in parameters(name):
        knobs = {"length": length, "train_time": train_time} | knobs
    return getattr(presets, name)(*arguments, **knobs)


def settings_of(system):
    """What differs from a system of one place with nothing but a length and a training time."""
    plain = System("plain", {}, constant(1.0), (1.0,), train_time=1.0)
    ignored = {"name", "knobs", "length", "rates", "train_time", "load"}
    own = {f.name: getattr(system, f.name) for f in fields(System) if f.name not in ignored}
    changed = {name: value for name, value in own.items() if value != getattr(plain, name)}
    return {"places": len(system.rates), **changed}


def wanted(row):
    """A row of the table without what is a default anyway."""
    plain = System("plain", {}, constant(1.0), (1.0,), train_time=1.0)
    return {k: v for k, v in row.items() if k == "places" or v != getattr(plain, k)}


def test_every_preset_is_in_the_table():
    missing = set(plugins.summaries("asyncsim.systems")) ^ set(REQUIRED)
    assert not missing, f"give {missing} a row in ROWS of tests/systems/preset_table.py: its settings, by hand"


def test_the_page_of_presets_knows_every_preset():
    page = (Path(presets.__file__).parent / "PRESETS.md").read_text()
    table, _, sources = page.partition("## Sources")
    for name in plugins.summaries("asyncsim.systems"):
        assert f"| `{name}` " in table, f"add a row for {name} to the table of asyncsim/systems/PRESETS.md"
        s = getattr(presets, name).source
        row = f"| `{name}` | {s.origin} | {s.path} | {s.date} | {s.kind} |"
        assert row in sources, f"Sources of asyncsim/systems/PRESETS.md have to have:\n{row}"
    assert sources.count("\n| `") == len(plugins.summaries("asyncsim.systems"))


def test_every_preset_says_where_it_was_read():
    for name in plugins.summaries("asyncsim.systems"):
        read = getattr(presets, name).source
        if read.kind == "source":
            assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{7}", read.origin) and read.path.endswith(".py"), name
            assert re.fullmatch(r"20\d\d-\d\d(-\d\d)?", read.date), name
        assert isinstance(read, Source) and commands.described("systems", name)["doc"].endswith(f"\n\n{read.line()}")


@pytest.mark.parametrize("name", REQUIRED)
def test_defaults_build_and_every_knob_is_recorded(name):
    system = built(name, REQUIRED[name])
    assert system.name == name and json.dumps(system.describe())
    assert list(system.knobs) == [p.name for p in own_knobs(name)]
    if "length" in parameters(name):
        timed = built(name, REQUIRED[name], train_time=2.5, length=3.0, sync_time=0.25)
        assert (timed.length, timed.train_time, timed.sync_time, timed.load) == (constant(3.0), 2.5, 0.25, None)
    if "load" in parameters(name):
        loaded = built(name, REQUIRED[name], train_time=None, load=1.5)
        assert (loaded.load, loaded.train_time) == (1.5, None)
        refused("load, train_time", lambda: built(name, REQUIRED[name], load=1.5))


@pytest.mark.parametrize("name", [name for name in REQUIRED if "load" in parameters(name)])
def test_what_presets_share_stands_in_every_signature_and_docstring(name):
    shared = list(parameters(name).values())[-5:]
    assert [p.name for p in shared] == ["length", "load", "train_time", "sync_time", "model"]
    assert [p.default for p in shared] == [inspect.Parameter.empty, None, None, 0.0, None]
    assert {p.kind for p in shared} == {inspect.Parameter.KEYWORD_ONLY}
    paragraphs = inspect.getdoc(getattr(presets, name)).split("\n\n")
    told = next(" ".join(text.split()) for text in paragraphs if text.startswith("Arguments: "))
    assert all(f"`{p.name}`" in told for p in shared)
    assert "; `sync_time`, seconds of a publish; `model`, other settings" in told
    assert ". Returns a system. Raises `InputError`. Source: " in told


def test_a_preset_takes_no_setting_of_the_model_unasked():
    """`**times` would hand on any setting of a system; only what the signature names may pass."""
    for name in ("difficulty", "hope", "order"):
        with pytest.raises(
            TypeError,
            match=rf"^tba\(\) got an unexpected keyword argument '{name}'; it takes groups_per_batch, .*, model$",
        ):
            built("tba", (4,), **{name: 1.0})
    with pytest.raises(TypeError, match="unexpected keyword argument 'sync_intervall'; did you mean sync_interval"):
        built("tba", (4,), sync_intervall=2)
    with pytest.raises(TypeError, match=r"^tba\(\) missing a required .*argument: 'length'"):
        presets.tba(4, load=1.0)


@pytest.mark.parametrize(("name", "arguments", "knobs", "row"), ROWS, ids=[f"{r[0]}-{i}" for i, r in enumerate(ROWS)])
def test_settings_are_those_of_the_table(name, arguments, knobs, row):
    assert settings_of(built(name, arguments, **knobs)) == wanted(row)


@pytest.mark.parametrize(
    "change",
    [{"tickets": 13}, {"mode": "keep"}, {"release": "dequeue"}, {"order": "done"}, {"rates": (1.0,) * 5}],
    ids=lambda change: next(iter(change)),
)
def test_the_table_sees_every_slip(change):
    row = next(row for row in ROWS if row[0] == "areal")
    assert settings_of(built("areal", (2, 4)).replace(**change)) != wanted(row[3])


@pytest.mark.parametrize(("name", "arguments", "knobs", "lag"), EXACT, ids=[f"{e[0]}-{i}" for i, e in enumerate(EXACT)])
@pytest.mark.parametrize("train_time", [FASTER, SLOWER])
def test_hard_presets_have_one_staleness(name, arguments, knobs, lag, train_time):
    # L3: strict orders, L2: the cap binds; every single group, for every law of lengths.
    system = built(name, arguments, train_time, UNEVEN, **knobs)
    assert (system.staleness(60, 2, 0, 2) == np.minimum(np.arange(60), lag)[None, :, None]).all()


@pytest.mark.parametrize("change", [{"window": None}, {"tickets": 12}, {"rates": (1.0,) * 3}])
def test_one_staleness_is_lost_without_the_window_the_tickets_or_the_places(change):
    system = built("fixed_lag", (2, 3), FASTER).replace(**change)
    assert (system.staleness(60, 1, 0, 2)[0, 20:] != 2).any()


@pytest.mark.parametrize(
    ("name", "arguments", "knobs", "bound"), BOUNDED, ids=[f"{b[0]}-{i}" for i, b in enumerate(BOUNDED)]
)
def test_hard_bounds_hold_and_are_attained(name, arguments, knobs, bound):
    # L3 and age cuts. The largest staleness of 300 batches is a number; that it is attained is so for these seeds.
    systems = [built(name, arguments, train_time, UNEVEN, **knobs) for train_time in (FASTER, SLOWER)]
    found = [system.staleness(300, 1, 0, 2) for system in systems]
    assert max(each.max() for each in found) == bound and min(each.min() for each in found) >= 0


CUT = [row for row in BOUNDED if row[0] in ("prime_rl", "nemo_rl_windowed", "trl", "tinker_cookbook", "torchforge")]


@pytest.mark.parametrize(("name", "arguments", "knobs", "bound"), CUT, ids=[b[0] for b in CUT])
def test_without_the_cut_the_bound_is_passed(name, arguments, knobs, bound):
    system = built(name, arguments, FASTER, "pareto:0.5:1.5", **knobs).replace(max_age=None, mode="keep", capacity=99)
    assert system.staleness(300, 1, 0, 2).max() > bound


def test_a_larger_window_passes_the_bound_of_a_smaller_one():
    system = built("torchtitan", (3, 2, 0.4), FASTER)
    assert system.staleness(300, 1, 0, 2).max() == 3 < system.replace(window=9).staleness(300, 1, 0, 2).max()


@pytest.mark.parametrize(("name", "arguments", "knobs"), AHEAD, ids=[f"{a[0]}-{i}" for i, a in enumerate(AHEAD)])
@pytest.mark.parametrize("train_time", [FASTER, SLOWER])
def test_the_cap_binds_at_every_publish(name, arguments, knobs, train_time):
    # L2 by L1: with a place for every ticket K - M groups are outstanding at every publish, mean staleness K / M - 1.
    system = built(name, arguments, train_time, UNEVEN, **knobs)
    ready = system.groups_per_batch * system.batches_per_publish
    assert (system.timeline(60, 2).publishes["outstanding"] == system.tickets - ready).all()
    late = system.replace(release="dequeue")
    assert (late.timeline(60, 2).publishes["outstanding"] != system.tickets - ready).any()


def test_means_that_a_row_states():
    # Constant lengths: 1 / n, and C / P + c + 1 where the buffer is full; exploration showed both exact.
    ages = built("slime_train_async", (3, 3), SLOWER).staleness(90, 1, 0)[0]
    assert (ages == np.where(np.arange(90) % 3 == 0, 1.0, 0.0)[:, None])[3:].all() and ages[0].max() == 0
    full = built("miles", (4, None, 2.0, "drop", "retract", 8), SLOWER, 0.5).staleness(60, 1, 0)[0, 20:]
    assert full.mean() == 8 / 4 + 2.0 + 1.0
    # Admission begins again with 8 finished groups and brings 9 more; three batches later there are 8 again. A batch of
    # 3 is collected besides.
    outstanding = built("slime_fully_async", (3, 9), SLOWER).timeline(60).publishes["outstanding"]
    assert (np.sort(outstanding[21:].reshape(-1, 3)) == (14, 17, 20)).all()
    assert (built("slime_fully_async", (3, 9), FASTER).timeline(60).publishes["outstanding"] < 2 * 9 + 3).all()


def means(system, samples, batches=200):
    return [system.summary(batches, samples, 0, m)["staleness"]["mean"] for m in range(4)]


def test_the_samples_of_slime_wait_for_one_semaphore():
    # Generation of 64 slots is as fast as training, so that the queue is not full; with a place for every sample it is.
    system = built("slime_fully_async", (32, 64), SLOWER)
    assert max(means(system, 8)) < 2.7
    assert min(means(system.replace(slots=None, overflow="block"), 8)) > 3.9
    # One queue for all engines: what is free on one of them serves the next sample.
    engines = built("slime_fully_async", (32, 32, 2), SLOWER)
    assert engines.summary(50, 8)["staleness"] == system.summary(50, 8)["staleness"]


def finished_at_admissions(system):
    """Finished groups that no batch has yet, at each admission."""
    record = system.timeline(60, 2)
    groups = record.groups
    packed = np.where(groups["batch"] >= 0, record.batches["t_pack"][groups["batch"]], np.inf)
    return np.array([((groups["t_ready"] < at) & (packed > at)).sum() for at in groups["t_submit"]])


def test_slime_stops_asking_while_as_many_groups_wait():
    system = built("slime_fully_async", (4, 12), SLOWER)
    assert (finished_at_admissions(system) < 12).all()
    # The planted defect: a queue with room for more groups than may wait.
    assert (finished_at_admissions(system.replace(capacity=20)) >= 12).any()


def test_pipeline_rl_without_a_lag_drops_its_oldest():
    system = built("pipeline_rl", (128,), SLOWER, attempts=8, llm_max_rollouts=128)
    found = [system.summary(200, 8, 0, m) for m in range(4)]
    assert np.mean([one["staleness"]["mean"] for one in found]) == pytest.approx(1.21, abs=0.02)
    assert np.mean([one["dropped_fraction"] for one in found]) == pytest.approx(0.75, abs=0.02)
    # With places that groups keep to their last sample fewer are generated, and fewer dropped.
    kept = system.replace(permits=None, rates=(1.0,) * 16)
    assert np.mean(means(kept, 8)) == pytest.approx(1.43, abs=0.02)
    assert kept.summary(200, 8)["dropped_fraction"] == pytest.approx(0.355, abs=0.03)
    # The planted defect: a queue that blocks the loop is one version older, and loses nothing.
    blocked = [kept.replace(overflow="block").summary(200, 8, 0, m) for m in range(4)]
    assert np.mean([one["staleness"]["mean"] for one in blocked]) == pytest.approx(2.0, abs=0.02)
    assert all(one["dropped_fraction"] == 0.0 for one in blocked)


PERMITTED = {
    "pipeline_rl": (("pipeline_rl", (16, 256), {"attempts": 4, "llm_max_rollouts": 24}), 4, 24),
    "prime_rl": (("prime_rl", (16, 8, 24, 4), {}), 4, 24),
    "trl": (("trl", (16, 4, 24), {"num_generations": 4}), 4, 24),
}


@pytest.mark.parametrize("case", PERMITTED)
def test_permits_are_those_of_samples(case):
    (name, arguments, knobs), samples, permits = PERMITTED[case]
    system = built(name, arguments, FASTER, **knobs)
    record = system.timeline(40, samples)
    starts, ends = record.samples["t_start"], record.samples["t_end"]
    moments = np.unique(starts[~np.isnan(starts)])
    cut = np.repeat(record.groups["t_left"], samples)
    over = np.where(np.isnan(ends), np.where(np.isnan(cut), np.inf, cut), ends)
    running = [int(((starts <= at) & (over > at)).sum()) for at in moments]
    # Generation is the slower side: behind the first starts every permit is in use, and none is used twice.
    assert max(running) == permits and np.mean(np.array(running[len(running) // 4 :]) == permits) > 0.6
    # The planted defect: a group that keeps its place leaves permits unused while its slowest sample is written.
    kept = system.replace(permits=None, rates=(1.0,) * (permits // samples))
    assert kept.summary(200, samples)["throughput"] < 0.75 * system.summary(200, samples)["throughput"]


def test_pipeline_rl_with_a_lag_drops_nothing():
    system = built("pipeline_rl", (32, 64), SLOWER)
    assert system.summary(100, 8)["dropped_fraction"] == 0.0 and system.capacity is None


@pytest.mark.parametrize(("ahead", "epoch"), [(2, 8), (4, 6), (4, 3), (0, 2)])
def test_skyrl_drains_at_every_epoch(ahead, epoch):
    # Nothing is outstanding where an epoch ends, so its first batches are as young as those of the run.
    system = built("skyrl", (3, ahead, 3 * (ahead + 1), epoch), SLOWER)
    staleness = system.staleness(5 * epoch, 1, 0, 2)[0].mean(axis=1).reshape(5, epoch)
    number = np.arange(1, epoch + 1)
    outstanding = system.timeline(5 * epoch, 2).publishes["outstanding"].reshape(5, epoch)
    assert (outstanding == 3 * np.minimum(ahead, epoch - number)).all()
    assert staleness.mean(axis=1) == pytest.approx(np.minimum(ahead, epoch - number).mean())
    endless = built("skyrl", (3, ahead, 3 * (ahead + 1)), SLOWER).staleness(5 * epoch, 1, 0, 2)[0]
    assert ahead == 0 or endless[-epoch:].mean() > staleness.mean()


def test_an_unknown_knob_is_refused_with_all_there_are():
    with pytest.raises(TypeError, match=r"'rollouts_per_example'; it takes .*group_size"):
        built("prime_rl", (8,), rollouts_per_example=4)
    with pytest.raises(InputError, match=r"rollouts_per_example.*group_size"):
        wording.build("systems", "prime_rl", {"batch_size": 8, "rollouts_per_example": 4, "length": 1.0})


def test_miles_bounds_the_version_at_the_end_of_generation_only():
    # A limit of 1 at the dequeue, and one publish between the dequeue and the training.
    groups = built("miles", (3, 1), SLOWER, "pareto:0.5:1.5").timeline(300, 2).groups
    trained = groups["batch"] >= 0
    age = {stamp: (groups["v_train"] - groups[stamp])[trained].max() for stamp in ("v_start", "v_done")}
    assert age["v_done"] == 2 < age["v_start"]
    retried = built("miles", (3, 1, 2.0, "retry"), SLOWER).timeline(60).groups
    assert (np.bincount(retried["prompt"]) > 1).any()


def test_one_period_of_oapl_is_a_sawtooth_of_updates():
    system = built("oapl", (2, 3), SLOWER)
    assert (system.staleness(30, 1, 0) == 0).all() and system.timeline(30).publishes["version"].size == 10


def test_what_came_last_to_tba_is_one_publish_old():
    for train_time in (FASTER, SLOWER):
        recent = built("tba", (3, 2, 1.0, 6), train_time).staleness(80, 1, 0, 2)[0, 4:]
        assert (recent == 1).all()
    replayed = built("tba", (3, 2, 0.5, 6), FASTER).staleness(80, 1, 0, 2)
    assert replayed.max() > 10


def test_buffered_has_the_mean_of_its_arrivals():
    # L6 by L1 with constant equal service: sawtooth of mean (N - 1) / P, exact over whole cycles of P N arrivals.
    for workers, batch in ((7, 3), (5, 2), (4, 4)):
        ages = presets.buffered(workers, batch, 1.0).staleness(10 * workers, 1, 0)[0, -5 * workers :]
        assert ages.mean() == pytest.approx((workers - 1) / batch)


def test_both_sides_of_a_generator_that_takes_one_batch_at_a_time():
    for name, arguments in (("prime_rl_before", (3, 2)), ("openrlhf", (3, 2))):
        for train_time, lag in ((FASTER, 1), (SLOWER, 2)):
            found = built(name, arguments, train_time, 1.0).staleness(20, 1, 0)[0]
            assert (found == np.minimum(np.arange(20), lag)[:, None]).all()


@pytest.mark.parametrize(
    ("name", "arguments", "knobs", "field"), BAD_KNOBS, ids=[f"{b[0]}-{b[3]}-{i}" for i, b in enumerate(BAD_KNOBS)]
)
def test_a_bad_knob_is_refused_by_its_own_name(name, arguments, knobs, field):
    caught = refused("", lambda: built(name, arguments, **knobs))
    assert caught.field == field and caught.remedy


def never(default):
    """What no knob with this default can be."""
    if isinstance(default, bool):
        return [1]
    least = default if isinstance(default, (int, float)) else 0
    return ["hope", float("nan"), min(least, 0) - 1]


@pytest.mark.parametrize("name", REQUIRED)
def test_every_knob_refuses_what_it_can_never_be_by_its_own_name(name):
    given = dict(zip((p.name for p in own_knobs(name)), REQUIRED[name], strict=False))
    for knob in own_knobs(name):
        for bad in never(knob.default):
            with pytest.raises(InputError) as caught:
                built(name, **{**given, knob.name: bad})
            assert caught.value.field == knob.name and caught.value.remedy
