"""What a trace, spec, verdict or estimate looks like in a notebook, how traces compare, and what `dir(sim)` holds."""

import dataclasses
import re
import subprocess
import sys

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.base import notation, records, showing
from tests.core import runs
from tests.test_reporting import Page, verdict

EVIL = '<script>alert("x")</script>&'


def spec(**changes):
    parts = {"task": sim.tasks.token_bandit(), "method": sim.methods.truncated_is(), "updates": 40, "replicates": 8}
    return runs.spec(**{**parts, "system": sim.systems.areal(2, 2, 6, length=1.0, train_time=1.0), **changes})


@pytest.fixture(scope="module")
def trace():
    return sim.run(spec(), seed=1)


def test_the_short_form_of_a_trace_is_short(trace):
    assert 50 < len(repr(trace)) < 500 and "\n" not in repr(trace)
    assert "token_bandit" in repr(trace) and "8 replicates" in repr(trace) and "40 recorded updates" in repr(trace)
    metrics = {f"a_metric_with_a_long_name_{k}" * 4: np.zeros((40, 8)) for k in range(60)}
    settings = {f"knob_{k}": [1.0] * 8 for k in range(100)}
    many = dataclasses.replace(trace, metrics=metrics, header={**trace.header, "settings": settings})
    assert len(repr(many)) < 500
    assert "metrics none" in repr(dataclasses.replace(trace, metrics={}))


def test_traces_are_equal_where_every_number_is(trace, tmp_path):
    assert trace == trace and trace == sim.run(spec(), seed=1) and (trace != sim.run(spec(), seed=2))
    trace.save(tmp_path / "t.npz")
    assert sim.Trace.load(tmp_path / "t.npz") == trace and trace != "a trace" and trace is not None
    with pytest.raises(TypeError):
        hash(trace)


@pytest.mark.parametrize(
    "part", ["metrics", "parameters", "updates", "diverged", "realization", "schedule", "accumulated"]
)
def test_one_number_of_any_part_makes_traces_differ(trace, part):
    value = getattr(trace, part)
    if part in ("metrics", "accumulated"):
        moved = {**value, "ess": np.nextafter(trace["ess"], 2.0)}
    elif part == "schedule":
        trajectory = value.trajectory.copy()
        trajectory.flat[-1] += 1
        moved = dataclasses.replace(value, trajectory=trajectory)
    else:
        moved = value.copy()
        moved.flat[-1] += 1
    assert dataclasses.replace(trace, **{part: moved}) != trace


def test_the_spec_counts_and_the_machine_does_not(trace):
    header = {**trace.header, "manifest": {"cpu": "another"}}
    assert dataclasses.replace(trace, header=header) == trace
    other = {**trace.header, "spec": {**trace.header["spec"], "method": "another"}}
    assert dataclasses.replace(trace, header=other) != trace


def test_missing_numbers_are_equal(trace):
    holes = {name: np.where(np.arange(8) == 3, np.nan, values) for name, values in trace.metrics.items()}
    assert dataclasses.replace(trace, metrics=holes) == dataclasses.replace(trace, metrics=dict(holes)) != trace


def shown(value):
    """The words of the HTML that a notebook shows; its tags nest."""
    text = value._repr_html_()
    assert len(text) < 10_000 and "<script>" not in text
    return Page(text).text


def test_a_notebook_shows_where_metrics_ended(trace):
    text = shown(trace)
    assert "task token_bandit" in text and "all replicates" in text and "ess" in text
    found = trace.final("ess")
    low, high = trace.interval("ess", found)
    assert " ".join(notation.bounded(found.value, low, high)) in re.sub(r"\s+", " ", text)
    assert "setting 0" not in text
    two = sim.run(spec(update=sim.chain(sim.updates.sgd((0.1,) * 4 + (0.2,) * 4)), system=sim.schedules.fixed(0)))
    assert "sgd.lr=0.1" in shown(two) and "sgd.lr=0.2" in shown(two)
    alone = sim.run(spec(replicates=1, system=sim.schedules.fixed(0)))
    assert "(no interval)" in shown(alone)


def test_a_notebook_shows_a_spec_a_verdict_and_an_estimate():
    assert "truncated_is" in shown(spec()) and "samples_per_group 4" in shown(spec())
    made = verdict(statement=EVIL, id="family/claim")
    text = shown(made)
    assert EVIL in text and "held: family/claim" in text
    assert "staleness = 4, step = 0.25" in text and "2.000 ± 0.03" in text
    many = dataclasses.replace(made, points=made.points * 30)
    assert shown(many).count("staleness =") == showing.ROWS and "48 comparisons" in shown(many)
    assert "4.000 ± 0.020" in shown(records.Estimate(4.0, 0.01)) and "samples 1" in shown(records.Estimate(4.0, 0.01))
    assert "no interval" in shown(records.Estimate(4.0, float("inf"), independent=False))
    assert records.Estimate(4.0, 0.01) == (4.0, 0.01, float("inf"), 0.0, 1, True)


def test_a_long_cell_and_a_long_table_are_cut():
    text = showing.table([("name", "x" * 500)] * 50, caption=EVIL)
    assert text.count("<tr>") == showing.ROWS and "38 more rows" in text
    assert "x" * showing.LONGEST not in text and "<script>" not in text


def test_dir_holds_public_names_only():
    code = "import asyncsim as sim; sim.run, sim.checks if hasattr(sim, 'checks') else 0; print(*dir(sim))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = done.stdout.split()
    assert {"run", "Spec", "Trace", "Interrupted", "methods", "tasks", "judge"} <= set(names)
    assert not [name for name in names if name.startswith("_")]
    assert not {"annotations", "importlib", "Any", "PACKAGES", "NAMES", "checks", "running", "torch"} & set(names)
    assert all(hasattr(sim, name) for name in names)


def test_the_empty_chain_is_said(capsys):
    from asyncsim.app import commands

    made = spec(update=sim.chain())
    assert made.describe()["update"] == ["no links: the gradient itself is added, learning rate 1"]
    commands.print_header(made.describe(), True, made.system)
    assert "no links" in capsys.readouterr().out
