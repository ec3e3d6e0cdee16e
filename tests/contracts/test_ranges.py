"""Every number that a trace may hold has a range, a metric says so in its docstring, and values stay inside."""

import inspect
import math
import re

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.diagnostics import _diagnostic as ranges
from asyncsim.diagnostics._diagnostic import Metric
from tests.contracts import laboratory, test_diagnostics
from tests.contracts.laboratory import make, names

METRICS = [name for name in names("diagnostics") if isinstance(make("diagnostics", name), Metric)]
STATED = re.compile(r"pure\s+number\s+in\s+([(\[])\s*(-?\d|1/n),\s+1\s*\]")


OWN = {made.name: made.range for made in (make("diagnostics", name) for name in METRICS)}
"""Ranges that metrics declare; those of reported numbers stand in `_diagnostic`."""


def range_of(name):
    found = OWN[name] if name in OWN else ranges.range_of(name)
    assert found, (
        f"{name}: give its range, a metric's in @metric(range=...), a reported number's in RANGES of _diagnostic.py"
    )
    return found


def inside(values, name):
    low, high = range_of(name)
    known = np.asarray(values, dtype=float)
    known = known[~np.isnan(known)]
    return bool(((known >= low - 1e-12) & (known <= high + 1e-12)).all())


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_has_a_range_that_its_docstring_states(name):
    made = make("diagnostics", name)
    low, high = range_of(made.name)
    plain = inspect.getdoc(getattr(sim.diagnostics, name))
    stated = STATED.search(plain)
    if stated:
        assert (low, high) == ((-1.0, 1.0) if stated[2] == "-1" else (0.0, 1.0))
    else:
        assert not math.isfinite(high) or "0 or 1" in plain


def test_the_pattern_reads_docstrings():
    stating = [name for name in METRICS if STATED.search(inspect.getdoc(getattr(sim.diagnostics, name)))]
    assert {"ess", "ess_within", "gradient_cosine", "ratio_above"} <= set(stating) and len(stating) >= 20


@pytest.mark.parametrize("name", [name for name in METRICS if test_diagnostics.ENDS.get(name)])
def test_both_ends_of_a_metric_lie_inside(name):
    low, _, high, _ = test_diagnostics.ENDS[name](name)
    own = make("diagnostics", name).name
    assert inside(low, own) and inside(high, own)
    if math.isfinite(range_of(own)[1]):
        # An end that is never reached would be too wide a range.
        assert max(np.nanmax(low), np.nanmax(high)) == pytest.approx(range_of(own)[1])


def test_a_metric_with_settings_or_of_other_ratios_has_the_range_of_its_metric():
    asked = (sim.diagnostics.ratio_above(8.0, "token"), sim.diagnostics.ess_token_clamped(4.0, 0.0))
    for made in (*asked, sim.diagnostics.ess("applied")):
        assert made.range == ranges.SHARE
    assert ranges.range_of("ess_of_mine") is None and ranges.range_of("staleness_step_scale") == ranges.POSITIVE


def reported():
    """Numbers that plug-ins report beside metrics, by name."""
    found = {}
    for kind in ("methods", "factors", "penalties"):
        for name in names(kind):
            part = make(kind, name)
            plain = make("methods", "full_is")
            method = part if kind == "methods" else plain.replace(**{kind: (part,)})
            if kind == "penalties" and getattr(part, "to", "") == "reference":
                continue
            try:
                signal, _ = laboratory.trial_of(method, drift=1.0).evaluate(method)
            except KeyError:
                continue  # an output that these batches lack
            found |= signal.statistics
    for name in names("updates"):
        task, system = sim.tasks.token_bandit(actions=2, horizon=2), sim.schedules.fixed(2)
        options = {"samples_per_group": 4, "updates": 6, "replicates": 3, "diagnostics": ["gradient_norm"]}
        spec = sim.Spec(
            task, system, sim.methods.full_is(), sim.chain(make("updates", name), sim.updates.sgd(1.0)), **options
        )
        found |= {key: torch.from_numpy(value) for key, value in sim.run(spec).metrics.items()}
    return found


def test_what_plug_ins_report_has_a_range_and_stays_inside():
    found = reported()
    assert {"ess_step_ess", "align_cosine", "norm_before_clip", "kept_tokens", "p3o_ess", "bapo_low"} <= set(found)
    missing = [name for name in found if not OWN.get(name) and ranges.range_of(name) is None]
    assert not missing, f"give {missing} a row in asyncsim/diagnostics/_diagnostic.py: a trace shows what links report"
    assert [name for name, values in found.items() if not inside(values, name)] == []


def test_a_number_outside_its_range_is_seen():
    assert not inside([0.5, 1.1], "ess") and not inside([-0.1], "gradient_norm") and inside([math.nan, 0.3], "ess")


def test_a_run_hands_ranges_on_and_a_metric_of_ones_own_states_its_own(tmp_path):
    def measure(step):
        return torch.full(step.parameters.shape[:1], 0.5, dtype=torch.float64)

    mine = Metric("mine", measure, range=(0.0, 2.0))
    spec = sim.Spec(
        sim.tasks.softmax_bandit(),
        sim.schedules.fixed(0),
        sim.methods.reinforce(),
        sim.chain(sim.updates.clip_norm(1.0)),
        updates=3,
        replicates=3,
        diagnostics=[mine, Metric("other", measure), "ess", "batch_return"],
    )
    trace = sim.run(spec)
    expected = {"mine": (0.0, 2.0), "other": ranges.ANY, "ess": ranges.SHARE, "norm_before_clip": ranges.POSITIVE}
    trace.save(tmp_path / "t.npz")
    for each in (trace, sim.Trace.load(tmp_path / "t.npz")):
        assert {name: each.range(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("values", "bounds"),
    [((0.0, 0.0, 1.0), (0.0, 1.0)), ((0.0, 1.0, 1.0), (0.0, 1.0)), ((-1.0, 1.0, 1.0), (-1.0, 1.0))],
)
def test_intervals_of_tables_end_at_the_bounds(values, bounds):
    def measure(step):
        return torch.tensor(values)

    spec = sim.Spec(
        sim.tasks.softmax_bandit(),
        sim.schedules.fixed(0),
        sim.methods.reinforce(),
        sim.chain(),
        updates=1,
        replicates=3,
        diagnostics=[Metric("mine", measure, range=bounds), Metric("free", measure)],
    )
    table = sim.run(spec).table().set_index("metric")
    free, mine = table.loc["free"], table.loc["mine"]
    assert free["low"] < bounds[0] or free["high"] > bounds[1]
    assert (mine["low"], mine["high"]) == (max(free["low"], bounds[0]), min(free["high"], bounds[1]))
