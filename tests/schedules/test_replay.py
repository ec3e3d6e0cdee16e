"""Logs of real runs replayed: exact round trips through every trainer's own names and units, and named refusals."""

import csv
import gzip
import json
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.app import cli
from asyncsim.base.checks import InputError
from asyncsim.base.laws import lognormal
from asyncsim.schedules import _log_cells, _log_stacks, _log_versions, replay
from asyncsim.systems import areal
from tests.core import runs
from tests.refusals import refused

KINDS = ("csv", "jsonl", "parquet", "csv.gz", "jsonl.gz")


def written(rows, kind="jsonl", name="log"):
    """A log file of the rows, mappings from column to value, in a folder of its own."""
    path = Path(tempfile.mkdtemp(), f"{name}.{kind}")
    names = list(dict.fromkeys(name for row in rows for name in row))
    opened = gzip.open if kind.endswith("gz") else open
    if kind == "parquet":
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.table({name: [row.get(name) for row in rows] for name in names}), path)
    elif kind.startswith("csv"):
        with opened(path, "wt", newline="") as file:
            table = csv.writer(file)
            table.writerow(names)
            for row in rows:
                cells = [row.get(name) for name in names]
                table.writerow([json.dumps(c) if isinstance(c, list) else "" if c is None else c for c in cells])
    else:
        with opened(path, "wt") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


class Run:
    """A system's own schedule, and what its timeline would have logged of every sample, in publishes."""

    def __init__(self, system, batches, samples, tokens, seed):
        self.system, self.samples, self.tokens, self.batches = system, samples, tokens, batches
        self.schedule = system.schedule(batches, samples, tokens, 1, seed)
        ids = self.schedule.trajectory.ravel()
        versions = np.broadcast_to(self.schedule.version, (*self.schedule.trajectory.shape, tokens))
        of = dict(zip(ids.tolist(), versions.reshape(ids.size, tokens).tolist(), strict=True))
        columns = {k: v.tolist() for k, v in system.timeline(batches, samples, tokens, seed).samples.items()}
        self.rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        for row in self.rows:
            row["v_train"] = row["batch"] // system.batches_per_publish
            row["versions"] = of.get(row["sample"])
        self.trained = [row for row in self.rows if row["fate"] == "trained"]


def a_run(eta=2, batch=3, places=5, samples=2, tokens=6, publish=1, updates=1, batches=8, load=1.6, seed=0):
    system = areal(eta, batch, places, length=lognormal(1.0, 0.8), load=load)
    system = system.replace(
        batches_per_publish=publish, recommended={"epochs": updates}, tickets=(eta + 1) * batch * publish
    )
    return Run(system, batches, samples, tokens, seed)


RUNS = {
    "eta": st.integers(0, 3),
    "batch": st.integers(1, 4),
    "places": st.integers(1, 9),
    "samples": st.integers(1, 3),
    "load": st.sampled_from([0.4, 1.6]),
    "seed": st.integers(0, 5),
}

# Each trainer's names and units, written here by hand: the table of the product is what is tested.


def stamped(**columns):
    """Writer of ids, and of stamps of ours under a trainer's names."""
    ours = {"sample_id": "sample", "group_id": "group", **columns}
    return lambda row: {name: row[stamp] for name, stamp in ours.items()}


own = stamped(train_version="v_train")
"""The columns that a trainer's log needs and for which it has no names of its own."""


WRITERS = {
    "verl": lambda row: {
        "sample_id": row["sample"],
        "uid": f"prompt {row['group']}",
        "min_global_steps": row["v_start"],
        "max_global_steps": row["v_end"],
        "global_steps": row["v_train"] + 1,
    },
    "verl-fully-async": stamped(
        param_version_start="v_start", param_version_end="v_end", current_param_version="v_train"
    ),
    "AReaL": lambda row: {
        "sample_id": row["sample"],
        "group_id": row["group"],
        "versions": [-1, -1, -1, *row["versions"]],
        "version": row["v_train"],
    },
    "prime-rl": lambda row: stamped(start="v_start", end="v_end")(row) | {"trained_step": row["v_train"] + 1},
    "SkyRL": lambda row: {
        "sample_id": row["sample"],
        "uid": row["group"],
        "global_step_when_scheduled": row["v_start"] + 1,
        "global_step": row["v_train"] + 1,
    },
    "ROLL": stamped(sampling_start_step="v_start", global_step="v_train"),
    "NeMo-RL": stamped(start_weight="v_start", end_weight="v_end", target_step="v_train"),
    "TRL": stamped(train_version="v_train", model_version="v_start"),
    "open-instruct": stamped(train_version="v_train", model_step="v_start"),
    "tinker-cookbook": lambda row: {
        "iteration": row["v_train"],
        "group_idx": row["group"] % 1000,
        "traj_idx": row["sample"] % 7,
        "sampling_client_step": row["v_start"],
    },
    "pipeline-rl": stamped(train_version="v_train", model_version="v_start"),
    "torchtitan": stamped(min_policy_version="v_start", trainer_policy_version="v_train"),
    "torchforge": stamped(train_version="v_train", generator_version="v_start"),
}


def check_round_trip(stack, run, kind="jsonl", shown=None):
    """The log of a run in a trainer's own names gives back the run's staleness, at its first tokens or all."""
    per = run.system.groups_per_batch * run.samples
    rows = [WRITERS[stack](row) for row in run.trained]
    given = {}
    if stack == "pipeline-rl":
        rows = [
            {**r, "model_version": r["model_version"] * per, "train_version": r["train_version"] * per} for r in rows
        ]
        given = {"samples_per_publish": per}
    law = replay(written(rows, kind), stack=stack, **given)
    tokens = run.tokens if stack == "AReaL" else 1
    found = law.schedule(run.batches, run.samples, tokens, 1, 0)
    expected = run.schedule.staleness()[..., :tokens]
    assert np.array_equal(*np.broadcast_arrays(found.staleness(), expected))
    return law


@pytest.mark.parametrize("stack", WRITERS)
@settings(max_examples=8)
@given(run=st.builds(a_run, **RUNS), kind=st.sampled_from(KINDS))
def test_a_trainers_log_gives_back_the_staleness(stack, run, kind):
    law = check_round_trip(stack, run, kind)
    log = law.log
    order = np.argsort(log.samples["row"])
    head = np.array([row["v_train"] - row["v_start"] for row in run.trained], dtype=float)
    assert np.array_equal(log.samples["head"][order], head)
    ends = stack in ("verl", "verl-fully-async", "prime-rl", "NeMo-RL")
    if ends or stack == "AReaL":
        last = np.array([row["v_end"] if ends else row["versions"][-1] for row in run.trained])
        train = np.array([row["v_train"] for row in run.trained])
        assert np.array_equal(log.samples["in_flight"][order], last - train + head)
        assert np.array_equal(log.samples["in_queue"][order], train - last)
        assert np.array_equal(log.samples["newest"] + log.samples["span"], log.samples["head"])
    else:
        assert np.isnan(log.samples["in_flight"]).all() and np.isnan(log.samples["in_queue"]).all()
    if stack == "AReaL":
        mean = [row["v_train"] - np.mean(row["versions"]) for row in run.trained]
        np.testing.assert_allclose(log.samples["token_mean"][order], mean, rtol=0, atol=1e-12)


UNITS = ("publishes", "batches", "updates", "samples")


def in_unit(run, unit):
    """Rows under our own names with all versions in a unit, and what has to be declared beside it."""
    system = run.system
    S, U = system.batches_per_publish, system.recommended["epochs"]
    batch = {"publishes": 0, "batches": 1, "updates": U, "samples": system.groups_per_batch * run.samples}[unit]
    publish = batch * S or 1
    rows = [
        {
            "sample_id": row["sample"],
            "group_id": row["group"],
            "start_version": row["v_start"] * publish,
            "versions": [v * publish for v in row["versions"]],
            "train_version": row["batch"] * batch if batch else row["v_train"],
            "tokens": run.tokens,
            **({"batch": 7 + 2 * row["batch"]} if unit == "publishes" else {}),
        }
        for row in run.trained
    ]
    given = {"unit": unit, "batches_per_publish": S, "updates_per_batch": U}
    if unit == "samples":
        given["samples_per_publish"] = publish
    return rows, given


def check_unit(run, unit, kind="jsonl"):
    rows, given = in_unit(run, unit)
    law = replay(written(rows, kind), **given)
    found = law.schedule(run.batches, run.samples, run.tokens, 1, 0)
    assert np.array_equal(*np.broadcast_arrays(found.staleness(), run.schedule.staleness()))
    assert np.array_equal(found.trajectory, run.schedule.trajectory)
    assert (found.batches_per_publish, found.recommended, law.recommended) == (
        run.system.batches_per_publish,
        run.system.recommended,
        run.system.recommended,
    )


@settings(max_examples=30)
@given(
    run=st.builds(a_run, **RUNS, publish=st.integers(1, 4), updates=st.integers(1, 3)),
    unit=st.sampled_from(UNITS),
    kind=st.sampled_from(KINDS),
)
def test_units_are_converted_at_the_border(run, unit, kind):
    check_unit(run, unit, kind)


@settings(max_examples=20)
@given(run=st.builds(a_run, **RUNS, tokens=st.just(12)), tokens=st.sampled_from([1, 2, 3, 4, 6, 12]))
def test_fewer_tokens_than_logged_are_those_at_the_same_fractions(run, tokens):
    """A system places token t of T at the fraction t / T of the work, so where T divides both agree to the bit."""
    seed = run.schedule.header["seed"]
    found = replay(written([WRITERS["AReaL"](row) for row in run.trained]), stack="areal")
    own = run.system.schedule(run.batches, run.samples, tokens, 1, seed)
    other = found.schedule(run.batches, run.samples, tokens, 1, 0)
    assert np.array_equal(*np.broadcast_arrays(other.staleness(), own.staleness()))


def test_more_tokens_than_logged_repeat_them():
    rows = [{"sample_id": 0, "versions": [0, 1], "train_version": 1}]
    law = replay(
        written([{"sample_id": 9, "start_version": 0, "end_version": 0, "train_version": 0}, *rows]), unit="publishes"
    )
    assert law.schedule(2, 1, 6, 1, 0).version[0, 1].ravel().tolist() == [0, 0, 0, 1, 1, 1]
    assert law.schedule(2, 1, 3, 1, 0).version[0, 1].ravel().tolist() == [0, 0, 1]


@settings(max_examples=15)
@given(run=st.builds(a_run, **RUNS), cuts=st.lists(st.integers(1, 5), unique=True), kind=st.sampled_from(KINDS))
def test_breakpoints_segments_and_lists_say_the_same(run, cuts, kind):
    whole, pairs, segments = [], [], []
    for row in run.trained:
        version, base = row["versions"], own(row)
        whole.append({**base, "versions": version})
        turns = [t for t in range(run.tokens) if t == 0 or version[t] != version[t - 1]]
        pairs.append({**base, "versions": [[t, version[t]] for t in turns], "tokens": run.tokens})
        marks = sorted({0, *cuts, run.tokens})
        for left, right in pairwise(marks):
            segments.append({**base, "versions": version[left:right], "tokens": right - left})
    laws = [replay(written(rows, kind), unit="publishes") for rows in (whole, pairs, segments)]
    expected = run.schedule.staleness()
    for law in laws:
        found = law.schedule(run.batches, run.samples, run.tokens, 1, 0)
        assert np.array_equal(*np.broadcast_arrays(found.staleness(), expected))
        for name in ("head", "newest", "token_mean", "span", "in_flight", "in_queue"):
            assert np.array_equal(law.log.samples[name], laws[0].log.samples[name]), name
        assert np.array_equal(found.work, np.full(found.trajectory.shape, float(run.tokens)))
    assert any("segments" in reason for reason in laws[2].log.unchecked) == (len(marks) > 2)


# What a wrong importer would do: each check above has to notice.


def stack_with(monkeypatch, name, **changes):
    monkeypatch.setitem(_log_stacks.STACKS, name, _log_stacks.STACKS[name]._replace(**changes))


@pytest.mark.parametrize(
    ("stack", "changes"),
    [
        ("verl", {"train_offset": 0}),
        ("verl", {"train_offset": -2}),
        ("prime_rl", {"train_offset": 0}),
        ("skyrl", {"train_offset": 0}),
        ("skyrl", {"stamp_offset": 0}),
        ("areal", {"train_offset": -1}),
        ("tinker_cookbook", {"train_offset": 1}),
        ("nemo_rl", {"stamp_offset": 1}),
        ("pipeline_rl", {"unit": "publishes"}),
    ],
)
def test_a_wrong_offset_or_unit_of_the_table_is_caught(monkeypatch, stack, changes):
    run, name = a_run(), next(n for n in WRITERS if n.lower().replace("-", "_") == stack)
    check_round_trip(name, run)
    stack_with(monkeypatch, stack, **changes)
    with pytest.raises((AssertionError, InputError)):
        check_round_trip(name, run)


def test_a_pinned_sample_has_one_version_throughout():
    run = a_run()
    pinned = Run(run.system.replace(mode="pin"), 8, 2, 6, 0)
    law = replay(law_path(pinned, "tinker-cookbook"), stack="tinker-cookbook")
    assert np.array_equal(law.schedule(8, 2, 6, 1, 0).staleness(), pinned.schedule.staleness())
    samples = law.log.samples
    assert (samples["span"] == 0).all() and np.array_equal(samples["newest"], samples["head"])
    assert np.isnan(samples["in_flight"]).all(), "the version installed at its end is not in the log"


def test_an_offset_of_a_trainer_is_that_of_its_own_column_only():
    run = a_run()
    rows = [{**WRITERS["verl"](row), "train_version": row["v_train"]} for row in run.trained]
    one = replay(written([{k: v for k, v in row.items() if k != "global_steps"} for row in rows]), stack="verl")
    two = replay(written(rows), stack="verl", columns={"train_version": "global_steps"})
    assert np.array_equal(one.log.samples["head"], two.log.samples["head"])


def test_generators_hold_published_weights_only():
    rows = [{"sample_id": b, "start_version": b // 2 * 2, "train_version": b} for b in range(6)]
    given = {"unit": "batches", "batches_per_publish": 2}
    assert replay(written(rows), **given).log.samples["head"].tolist() == [0] * 6
    rows[4]["start_version"] = 3
    caught = refused("", lambda: replay(written(rows), **given))
    assert caught.field == "start_version" and caught.value == "row 5: 3"


def test_an_offset_is_caught_even_where_the_first_version_is_declared_to_match():
    rows = [WRITERS["verl"](row) for row in a_run().trained]
    caught = refused("", lambda: replay(written(rows), stack="verl", train_offset=0))
    assert caught.field == "train_version" and "train_offset" in caught.remedy
    law = replay(written(rows), stack="verl", train_offset=0, first_version=1, unknown="keep")
    assert np.array_equal(law.log.samples["head"], replay(written(rows), stack="verl").log.samples["head"] + 1)
    refused("", lambda: replay(written(rows), stack="verl", train_offset=0, first_version=1).schedule(4, 2, 1, 1, 0))


@pytest.mark.parametrize("unit", UNITS[1:])
def test_a_unit_that_is_not_converted_is_caught(monkeypatch, unit):
    run = a_run(publish=2, updates=2)
    check_unit(run, unit)

    def unconverted(self, field, values, offset, row_of):
        return np.where(values == _log_cells.MISSING, -1, values + offset)

    monkeypatch.setattr(_log_versions.Units, "stamps", unconverted)
    with pytest.raises((AssertionError, InputError)):
        check_unit(run, unit)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("declared", UNITS)
def test_a_wrong_declaration_of_the_unit_never_passes(unit, declared):
    run = a_run(publish=2, updates=2)
    rows, _ = in_unit(run, unit)
    given = {"batches_per_publish": 2, "updates_per_batch": 2, "samples_per_publish": 2 * 3 * 2}
    if declared == unit:
        replay(written(rows), unit=declared, **given)
    else:
        refused("", lambda: replay(written(rows), unit=declared, **given))


def check_missing(kind="jsonl"):
    """A missing start is refused, or stays unknown; it is never a version."""
    rows = [WRITERS["verl"](row) for row in a_run().trained]
    for row in rows[5:7]:
        row["min_global_steps"] = None
    path = written(rows, kind)
    caught = refused("", replay, path, stack="verl")
    assert caught.field == "start_version" and caught.value.startswith("row 6: empty (and 1 more")
    law = replay(path, stack="verl", unknown="keep")
    version = law.schedule(8, 2, 1, 1, 0).version
    assert (version < 0).sum() == 2 and np.isnan(law.log.samples["head"]).sum() == 2
    assert law.log.report()["staleness"]["head"]["known"] == len(rows) - 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_version_is_never_a_version(kind):
    check_missing(kind)


def test_filling_missing_versions_with_zero_is_caught(monkeypatch):
    read = _log_cells.integers
    monkeypatch.setattr(
        _log_cells, "integers", lambda *given: np.where((found := read(*given)) == _log_cells.MISSING, 0, found)
    )
    with pytest.raises(pytest.fail.Exception):
        check_missing()


def test_an_absent_end_is_unknown_not_the_start():
    run = a_run()
    law = replay(written([WRITERS["ROLL"](row) for row in run.trained]), stack="roll")
    assert np.isnan(law.log.samples["span"]).all()
    caught = refused("", law.schedule, 8, 2, 3, 1, 0)
    assert caught.field == "versions" and "end_version" in caught.remedy
    kept = replay(law_path(run, "ROLL"), stack="roll", unknown="keep").schedule(8, 2, 3, 1, 0)
    assert (kept.version[..., 0] >= 0).all() and (kept.version[..., 1:] == -1).all()
    same = replay(law_path(run, "ROLL"), stack="roll", columns="end_version=sampling_start_step")
    assert same.schedule(8, 2, 3, 1, 0).version.shape[-1] == 1


def law_path(run, stack, kind="jsonl"):
    return written([WRITERS[stack](row) for row in run.trained], kind)


def test_tokens_between_two_known_versions():
    rows = [
        {"sample_id": 0, "start_version": 0, "end_version": 0, "train_version": 0, "tokens": 8},
        {"sample_id": 1, "start_version": 0, "end_version": 1, "train_version": 1, "tokens": 8},
    ]
    path = written(rows)
    refused("", lambda: replay(path, unit="publishes").schedule(2, 1, 8, 1, 0))
    kept = replay(path, unit="publishes", unknown="keep").schedule(2, 1, 8, 1, 0)
    assert kept.version[0, 1].ravel().tolist() == [0, *[-1] * 6, 1]
    even = replay(path, unit="publishes", unknown="even").schedule(2, 1, 8, 1, 0)
    assert even.version[0, 1].ravel().tolist() == [0] * 4 + [1] * 4


def test_fates_are_kept_apart_and_counted():
    run = a_run(batches=6)
    rows = [
        {
            "sample_id": row["sample"],
            "group_id": row["group"],
            "start_version": row["v_start"],
            "end_version": None if row["v_end"] < 0 else row["v_end"],
            "train_version": row["v_train"],
            "fate": row["fate"],
            "tokens": run.tokens,
            **{name: None if np.isnan(row[name]) else row[name] for name in ("t_start", "t_end", "t_train")},
        }
        for row in run.rows
    ]
    unfinished = len(run.rows) - len(run.trained)
    assert unfinished > 0
    law = replay(written(rows), unit="publishes")
    found = law.log.report()
    assert found["fates"] == {"trained": len(run.trained), "unfinished": unfinished} and found["refused"] == {}
    assert np.array_equal(law.schedule(6, 2, 1, 1, 0).staleness(), run.schedule.staleness()[..., :1])
    assert not any("fate" in reason for reason in law.log.unchecked)
    for row in rows:
        del row["fate"]
    for logged, row in zip(rows, run.rows, strict=True):
        if row["fate"] != "trained":
            logged["train_version"] = None
    caught = refused("", lambda: replay(written(rows), unit="publishes"))
    assert caught.field == "train_version"
    law = replay(written(rows), unit="publishes", unknown="keep")
    assert law.log.refused == {"no train_version": unfinished}
    text = law.log.text()
    assert "no column fate" in text and "L1" in text and f"refused: {unfinished} rows" in text
    assert len(text.splitlines()) < 40 and json.dumps(law.log.report())


def test_a_sample_that_is_trained_twice_keeps_its_trajectory():
    rows = [
        {"sample_id": f"s{n}", "start_version": 0, "end_version": 0, "train_version": v, "use": u}
        for n, v, u in [(0, 0, 1), (1, 1, 1), (0, 2, 2)]
    ]
    found = replay(written(rows), unit="publishes").schedule(3, 1, 1, 1, 0)
    assert found.trajectory.ravel().tolist() == [0, 1, 0]
    assert found.staleness().ravel().tolist() == [0, 1, 2]


def test_a_log_that_begins_inside_a_run():
    rows = [
        {"sample_id": n, "start_version": v, "end_version": v, "train_version": 500 + n}
        for n, v in enumerate([500, 500, 501, 503])
    ]
    law = replay(written(rows), unit="publishes", first_version=500)
    assert law.schedule(4, 1, 1, 1, 0).staleness().ravel().tolist() == [0, 1, 1, 0]
    rows[0]["start_version"] = 498
    caught = refused("", lambda: replay(written(rows), unit="publishes", first_version=500).schedule(4, 1, 1, 1, 0))
    assert "first_version" in caught.remedy
    law = replay(written(rows), unit="publishes", first_version=500, unknown="keep")
    assert law.log.samples["head"].tolist() == [2, 1, 1, 0]
    assert law.schedule(4, 1, 1, 1, 0).version.ravel().tolist() == [-1, 0, 1, 3]


def test_versions_stamped_when_a_call_returns_leave_the_start_unknown():
    rows = [
        {"index": n, "group_index": n, "weight_versions": versions, "response_length": 9, "train_version": train}
        for n, (versions, train) in enumerate([(["0"], 0), (["0", "1"], 1), (["1", "1"], 2)])
    ]
    for stack in ("miles", "slime"):
        assert "understates" in refused("", replay, written(rows), stack=stack).remedy
    kept = replay(written(rows), stack="miles", unknown="keep").log
    assert np.isnan(kept.samples["head"]).all() and kept.samples["newest"].tolist() == [0, 0, 1]
    taken = replay(written(rows), stack="miles", start_is="start").log
    assert taken.samples["head"].tolist() == [0, 1, 1] and taken.samples["span"].tolist() == [0, 1, 0]


@pytest.mark.parametrize("stack", ["OpenRLHF", "slime-train-async", "verl-one-step", "M2PO"])
def test_trainers_without_stamps_are_referred_to_their_preset(stack):
    caught = refused("", lambda: replay(written([{"sample_id": 0}]), stack=stack))
    assert caught.field == "stack" and "preset" in caught.remedy


GOOD = [
    {
        "sample_id": n,
        "group_id": n // 2,
        "start_version": max(0, n // 4 - 1),
        "end_version": n // 4,
        "train_version": n // 4,
        "tokens": 5,
        "t_start": float(n),
        "t_end": n + 2.0,
        "t_train": 20.0 + n // 4,
    }
    for n in range(16)
]


def changed(rows=GOOD, **cells):
    """The good rows with row 9 (counted from zero) changed."""
    return [{**row, **cells} if n == 9 else row for n, row in enumerate(rows)]


def without(name):
    return [{k: v for k, v in row.items() if k != name} for row in GOOD]


def test_the_good_rows_are_good():
    assert replay(written(GOOD), unit="publishes").log.grid.shape == (4, 2, 2)


@pytest.mark.parametrize(
    ("field", "rows"),
    [
        ("end_version", changed(end_version=0)),
        ("train_version", changed(end_version=3)),
        ("staleness", changed(start_version=3, end_version=None)),
        ("versions", changed(versions=[1, 2, 1, 2, 2])),
        ("start_version", changed(versions=[0, 0, 1, 2, 2])),
        ("end_version", changed(versions=[1, 1, 1, 1, 1])),
        ("tokens", changed(versions=[1, 1, 2, 2])),
        ("versions, row 10", changed(versions=[])),
        ("versions, row 10", changed(versions=[-1, -1])),
        ("versions, row 10", changed(versions=[[1, 1], [3, 2]])),
        ("versions, row 10", changed(versions=[[0, 1], 2])),
        ("versions, row 10", changed(versions="not a list")),
        ("start_version", changed(start_version=None)),
        ("start_version, row 10", changed(start_version=1.5)),
        ("start_version, row 10", changed(start_version="one")),
        ("start_version, row 10", changed(start_version=True)),
        ("start_version", changed(start_version=-2)),
        ("train_version", changed(train_version=None)),
        ("train_version", [{**row, "train_version": row["train_version"] + 1} for row in GOOD]),
        (
            "train_version of batch 2",
            [{**r, "train_version": r["train_version"] + (r["train_version"] > 1)} for r in GOOD],
        ),
        ("train_version", [{**row, "batch": 3 - row["train_version"]} for row in GOOD]),
        ("batch", [{**row, "batch": row["sample_id"] // 8} for row in GOOD]),
        ("batch", [{**row, "batch": None if row["sample_id"] == 4 else row["train_version"]} for row in GOOD]),
        ("group_id", GOOD[:5] + GOOD[6:]),
        ("groups of batch 3", GOOD[:14]),
        ("t_end", changed(t_end=8.0)),
        ("t_train", changed(t_train=10.0)),
        ("t_train", [{**row, "t_train": 40.0 - row["train_version"]} for row in GOOD]),
        ("t_end, row 10", changed(t_end="late")),
        ("tokens", changed(tokens=0)),
        ("fate", changed(fate="eaten")),
        ("sample_id", changed(sample_id=None)),
        ("sample_id", changed(sample_id=11)),
        ("tokens", [{**row, "sample_id": row["sample_id"] // 2, "tokens": None} for row in GOOD]),
        ("sample_id", without("sample_id")),
        ("train_version", without("train_version")),
        ("start_version", without("start_version")),
    ],
)
def test_a_log_that_contradicts_itself_is_refused_by_name(field, rows):
    caught = refused("", lambda: replay(written(rows), unit="publishes"))
    assert caught.field == field and caught.remedy


GIVEN = {"unit": "publishes"}
VERSIONS = [{key: row[key] for key in ("sample_id", "start_version", "train_version")} for row in GOOD]


@pytest.mark.parametrize(
    ("rows", "remedy"),
    [
        (VERSIONS + [{**row, "sample_id": 50 + row["sample_id"]} for row in VERSIONS[8:]], "leave out rows 9 to 16"),
        ([{**row, "start_version": 2 * row["train_version"]} for row in VERSIONS], "check which column is which"),
        ([{**row, "start_version": 9 if row["sample_id"] == 5 else 0} for row in VERSIONS], "explains 1 of 16 samples"),
        ([{**row, "start_version": row["train_version"] + 1} for row in VERSIONS], "add -1 to stamp_offset"),
        ([{**row, "train_version": 4 * row["train_version"]} for row in VERSIONS], "updates_per_batch=4"),
        (VERSIONS[:4] + VERSIONS[8:], "with the rows from 2 on and first_version=2"),
        ([{"sample_id": 0, "train_version": 1, "staleness": 1}], "train_version minus staleness"),
    ],
)  # fmt: skip
def test_a_refused_log_is_told_what_explains_it(rows, remedy):
    assert remedy in refused("", lambda: replay(written(rows), **GIVEN)).remedy


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("unit", {}),
        ("unit", {"unit": "epochs"}),
        ("batches_per_publish", {"unit": "batches"}),
        ("updates_per_batch", {"unit": "updates", "batches_per_publish": 2}),
        ("samples_per_publish", {"unit": "samples"}),
        ("samples_per_publish", {"unit": "samples", "samples_per_publish": 3, "batches_per_publish": 2}),
        ("samples_per_publish", {**GIVEN, "samples_per_publish": 5}),
        ("batches_per_publish", {**GIVEN, "batches_per_publish": 0}),
        ("train_version of batch 1", {**GIVEN, "batches_per_publish": 2}),
        ("stack", {"stack": "nobody"}),
        ("unknown", {**GIVEN, "unknown": "zero"}),
        ("start_is", {**GIVEN, "start_is": "middle"}),
        ("start_version", {**GIVEN, "start_is": "end"}),
        ("first_version", {**GIVEN, "first_version": -1}),
        ("train_version", {**GIVEN, "first_version": 3}),
        ("train_offset", {**GIVEN, "train_offset": 0.5}),
        ("train_version", {**GIVEN, "train_offset": -1}),
        ("columns", {**GIVEN, "columns": "sample_id"}),
        ("columns", {**GIVEN, "columns": {"sampler": "x"}}),
        ("columns[tokens]", {**GIVEN, "columns": "tokens=length"}),
        ("columns[tokens]", {**GIVEN, "columns": {"tokens": 3}}),
        ("train_version", {"stack": "verl"}),
    ],
)
def test_wrong_declarations_are_refused_by_name(field, given):
    rows = without("train_version") if given == {"stack": "verl"} else GOOD
    caught = refused("", lambda: replay(written(rows), **given))
    assert caught.field == field and caught.remedy


def test_a_train_step_needs_its_offset():
    steps = [{"train_step": row["train_version"] + 1} for row in GOOD]
    path = written([{**row, **step} for row, step in zip(without("train_version"), steps, strict=True)])
    caught = refused("", lambda: replay(path, **GIVEN))
    assert caught.field == "train_offset"
    one, two = replay(path, **GIVEN, train_offset=-1), replay(written(GOOD), **GIVEN)
    assert np.array_equal(one.log.samples["head"], two.log.samples["head"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_file_is_refused(kind):
    """Cut anywhere a file is refused; only text cut between lines so that batches stay equal looks like a shorter run.

    That is behind whole batches, or inside the first, behind one sample or one whole group.
    """
    path = written(GOOD, kind)
    data, passed = path.read_bytes(), set()
    for size in range(1, len(data), 7 if kind == "parquet" else 1):
        path.write_bytes(data[:size])
        try:
            log = replay(path, **GIVEN).log
        except InputError:
            continue
        passed.add(log.rows)
        assert log.samples["head"].tolist() == [row["train_version"] - row["start_version"] for row in GOOD[: log.rows]]
    # All 16: without the last byte, half of the end of the last line, every row is still whole.
    assert passed == ({1, 2, 4, 8, 12, 16} if kind in ("csv", "jsonl") else set())


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("log.csv", b""),
        ("log.csv", b"sample_id,start_version\n"),
        ("log.csv", b"a,b\n1,2,3\n"),
        ("log.jsonl", b""),
        ("log.jsonl", b"[1]\n"),
        ("log.jsonl", b"\xff\xfe\n"),
        ("log.parquet", b"PAR1"),
        ("log.txt", b"a\n"),
        ("log.csv.gz", b"nothing"),
        ("log.csv", b"a,a\n1,2\n"),
    ],
)
def test_unreadable_files_are_refused_by_name(name, data):
    path = Path(tempfile.mkdtemp(), name)
    path.write_bytes(data)
    caught = refused("", lambda: replay(path, **GIVEN))
    assert caught.field.startswith(("path", "columns", "sample_id"))
    caught = refused("", lambda: replay(path.with_name("absent.csv"), **GIVEN))
    assert caught.field == "path"


def test_asking_more_than_the_log_has():
    law = replay(written(GOOD), **GIVEN)
    for field, asked in (
        ("batches", (5, 2, 1, 1, 0)),
        ("samples_per_group", (4, 3, 1, 1, 0)),
        ("tokens", (4, 2, 0, 1, 0)),
        ("realizations", (4, 2, 1, 0, 0)),
    ):
        assert refused("", law.schedule, *asked).field == field
    found = law.schedule(3, 2, 1, 4, 0)
    assert found.version.shape == (4, 3, 2, 2, 1) and not found.random and law.realizations(64) == 1
    feed = law.feed(3, 2, 1, 1, 0)
    assert np.array_equal(feed.take(0)[0], found.version[:1, 0])


def test_a_policy_trains_on_a_log_as_on_the_system():
    """Small integers as sample ids key the draws, so the replayed run is the run itself, to the bit."""
    run = a_run(samples=4, batches=12)
    rows = [{**own(row), "start_version": row["v_start"], "end_version": row["v_end"]} for row in run.trained]
    law = replay(written(rows), **GIVEN)
    spec = runs.spec(system=law, method=sim.methods.truncated_is(), updates=12, replicates=3, realizations=1)
    one, two = (sim.run(spec.replace(system=system), seed=0) for system in (law, run.system))
    assert np.array_equal(one.parameters, two.parameters) and np.isfinite(one.parameters).all()
    assert json.dumps(one.header["spec"]["system"]) and one.header["spec"]["system"]["knobs"]["unit"] == "publishes"


def test_the_command_line_replays_a_log(capsys):
    path = law_path(a_run(), "verl", "csv")

    def call(*given):
        words = ["run", "--verbose", "--schedule", "replay", "--samples", "2", "--updates", "8", "--replicates", "2"]
        with pytest.raises(SystemExit) as ended:
            cli.main([*words, *(word for text in (f"path={path}", *given) for word in ("--set", f"schedule.{text}"))])
        return ended.value.code, capsys.readouterr()

    status, shown = call("stack=verl")
    assert status == 0 and '"stack": "verl"' in shown.out
    status, shown = call("stack=verl", "train_offset=0")
    assert status == 2 and shown.err.startswith("asyncsim: train_version = 1: must be 0")
    columns = "columns=start_version=min_global_steps,train_version=global_steps,group_id=uid"
    assert call(columns, "unit=publishes", "train_offset=-1")[0] == 0


def test_a_log_in_any_order_is_trained_by_id():
    """Groups whose samples come in turn, or backwards, give the schedule of the sorted log."""
    run = a_run(samples=3, batches=6)
    rows = sorted((own(row) | {"start_version": row["v_start"]} for row in run.trained), key=lambda r: r["sample_id"])
    law = replay(written(rows), **GIVEN).schedule(6, 3, 1, 1, 0)
    for order in (rows[::-1], sorted(rows, key=lambda r: (r["sample_id"] % 3, r["group_id"]))):
        found = replay(written(order), **GIVEN).schedule(6, 3, 1, 1, 0)
        assert np.array_equal(found.trajectory, law.trajectory) and np.array_equal(found.version, law.version)


def test_readers_are_loaded_when_a_log_is_read():
    path = written(GOOD, "csv")
    code = f"""
import sys
from asyncsim import schedules
make = schedules.replay
assert not set(sys.modules) & {{"pandas", "pyarrow", "torch", "numba"}}
make({str(path)!r}, unit="publishes").schedule(4, 2, 1, 1, 0)
assert "pyarrow" in sys.modules and not set(sys.modules) & {{"torch", "numba"}}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_report_bounds_a_token_mean_that_some_samples_lack():
    """Weights changed inside samples 1 and 2: of three tokens one is unknown, of two tokens none.

    Sample 1 lies between 0 and 1, and a mean of the other three would stand for samples that saw no change.
    """
    spans = [(0, 0, 4), (0, 1, 3), (1, 2, 2), (3, 3, 5)]
    rows = [
        {"sample_id": k, "start_version": a, "end_version": b, "tokens": n, "train_version": k}
        for k, (a, b, n) in enumerate(spans)
    ]
    law = replay(written(rows), unit="publishes", unknown="keep")
    assert "token_mean is known for 3 of 4 samples" in law.log.text()
    assert "mean between 0.125 and 0.375, known for 3 of 4" in law.log.text()
    row = law.log.report()["staleness"]["token_mean"]
    assert row == {"mean": None, "p99": None, "max": None, "known": 3, "of": 4, "low": 0.125, "high": 0.375}
    whole = [row | {"end_version": row["start_version"]} for row in rows]
    assert "token_mean is known" not in replay(written(whole), unit="publishes").log.text()
