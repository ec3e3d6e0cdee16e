"""Presets at the laws that the literature states for them, refused inputs, saved files."""

import inspect
import json
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from scipy import special

from asyncsim import claims
from asyncsim import systems as presets
from asyncsim.app import commands, wording
from asyncsim.base import plugins, records
from asyncsim.base.checks import InputError
from asyncsim.base.laws import constant, exponential, lognormal, pareto
from asyncsim.systems._knobs import Source
from asyncsim.systems._system import System
from tests.refusals import refused
from tests.systems.preset_table import BAD_KNOBS, REQUIRED, ROWS, own_knobs, parameters

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


def test_load_fixes_the_training_time():
    system = presets.areal(1, 4, 6, length=exponential(2.0), load=1.5)
    # C = min(6 places, 8 tickets) = 6; the slowest of two exponential samples takes 1.5 means.
    assert system.mean_train_time(2) == pytest.approx(1.5 * 4 * (2.0 * 1.5) / 6)
    assert system.timeline(2, 2).header["train_time"] == pytest.approx(3.0)


BY_HAND = [
    # C = min(places, tickets) groups of 2 s, 8 of them a batch: 1.5 x 8 / (8 / 2).
    (presets.areal(0, 8, 64, length=2.0, load=1.5), 1, 3.0),
    (presets.areal(7, 8, 16, length=2.0, load=1.5), 1, 1.5),
    # 6 slots for 4 groups of 3 samples: 6 / (3 x 2) groups per second.
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
    "load, train_time = 'neither'": lambda: presets.areal(1, 2, length=1.0),
    "load, train_time = 'both'": lambda: presets.areal(1, 2, length=1.0, train_time=1.0, load=1.0),
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
            match=rf"^tba argument = '{name}': must be one that it takes; it takes groups_per_batch, .*, model\n",
        ):
            built("tba", (4,), **{name: 1.0})
    with pytest.raises(TypeError, match=r"'sync_intervall': must be .*; did you mean sync_interval"):
        built("tba", (4,), sync_intervall=2)
    with pytest.raises(TypeError, match=r"^tba argument = 'length': must be given; write tba\(length=sim\.lognormal"):
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


def test_an_unknown_knob_is_refused_with_the_one_that_was_meant():
    with pytest.raises(TypeError, match=r"'rollouts_per_example': must be .* it takes; did you mean group_size"):
        built("prime_rl", (8,), rollouts_per_example=4)
    with pytest.raises(InputError, match=r"rollouts_per_example.*group_size"):
        wording.build("systems", "prime_rl", {"batch_size": 8, "rollouts_per_example": 4, "length": 1.0})


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
