"""Boundaries: brackets hold the exact one, miss at the stated rate at most; ends on the wrong side are told."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.base.checks import InputError
from asyncsim.comparing import intervals
from asyncsim.comparing.readings import Reading
from asyncsim.sweeping.boundaries import Search
from asyncsim.sweeping.plans import predicted
from tests.refusals import refused
from tests.sweeping.laboratory import bandit

TRUE = 0.3
REPETITIONS = 200
MISSES = 18
"""Misses of 200 that a rate of 5 percent exceeds in fewer than 2 of 100 (false fail); one of 15 percent stays at or
below it in fewer than 1 of 100 (false pass)."""


def quadratic(**changes):
    task, update = sim.tasks.quadratic((1.0, 0.2), start=1.0, noise=0.0), sim.chain(sim.updates.sgd(0.1))
    sizes = {"samples_per_group": 1, "updates": 1500, **changes}
    return sim.Spec(task, sim.schedules.fixed(0), sim.methods.gradient(), update, **sizes)


GROWN = {"metric": "exact_return", "over": "reached", "better": "lower", "target": -1e3}


@pytest.mark.rows
def test_brackets_hold_the_exact_boundary_of_delayed_descent():
    found = sim.boundary(
        quadratic(), "lr", low=0.05, high=3.0, ratio=1.02, along={"staleness": [0, 4]},
        claim="staleness/stability-boundary", at={"curvatures": (1.0, 0.2)}, **GROWN,
    )  # fmt: skip
    for row in found.rows:
        exact = 2 * math.sin(math.pi / (2 * (2 * row["staleness"] + 1)))
        assert row["predicted"] == pytest.approx(exact)
        assert row["narrow"] and row["low"] * 0.98 < exact < row["high"]
        # A staleness one too large lies far outside.
        other = predicted("staleness/stability-boundary", {"staleness": row["staleness"] + 1}, {"curvatures": (1.0,)})
        assert not row["low"] * 0.98 < other < row["high"]
    assert "staleness=4: " in str(found) and "predicted 0.3473" in str(found)
    assert len(found.table()) == 2 and found.row()["claim"] == "staleness/stability-boundary"


class Coin(Search):
    """A knob whose probability of the event is known: logistic in its logarithm, one half at `TRUE`."""

    generator = np.random.default_rng(0)

    def _events(self, spec, values, count, look):
        chance = 1.0 / (1.0 + (TRUE / values) ** 6)
        return self.generator.binomial(count, chance).astype(float)


class Impatient(Coin):
    """The planted defect: a fixed 95 percent interval at every look and every value."""

    def _sides(self, spec, values, level):
        return super()._sides(spec, values, 0.05)


def misses(kind, share_of=intervals.share):
    kind.generator = np.random.default_rng(7)
    search = kind("lr", Reading("batch_return", "collapse"), 0.5, 1.05, 0.05, 512, 0)
    rows = [search.row(bandit(), {}, 0.01, 10.0) for _ in range(REPETITIONS)]
    return sum(not row["low"] <= TRUE <= row["high"] for row in rows), rows


def test_brackets_miss_at_the_stated_rate_at_most():
    missed, rows = misses(Coin)
    assert missed <= MISSES
    assert np.median([row["high"] / row["low"] for row in rows]) < 1.6


def fixed(successes, trials, alpha):
    half = 1.96 * math.sqrt(max(successes * (trials - successes), 1) / trials**3)
    return intervals.Interval(successes / trials - half, successes / trials + half)


def test_looking_at_fixed_intervals_misses_more_often(monkeypatch):
    monkeypatch.setattr(intervals, "share", fixed)
    assert misses(Impatient)[0] > MISSES


@settings(max_examples=30, deadline=None)
@given(st.floats(0.02, 5.0), st.floats(1.001, 3.0), st.floats(0.05, 0.95))
def test_a_sharp_edge_is_bracketed_wherever_it_is(edge, ratio, share):
    class Edge(Search):
        def _events(self, spec, values, count, look):
            return np.where(values > edge, float(count), 0.0)

    row = Edge("lr", Reading("batch_return", "collapse"), share, ratio, 0.05, 256, 0).row(bandit(), {}, 0.01, 10.0)
    assert row["low"] <= edge < row["high"] or (row["low"] < edge <= row["high"])
    assert row["narrow"] and row["high"] / row["low"] <= ratio


@pytest.mark.parametrize(
    ("has", "low", "high", "wrong", "other"),
    [
        (lambda x: (x > 0.1) & (x < 1.0), 0.01, 20.0, "high", "high"),
        (lambda x: (x < 0.05) | (x > 1.0), 0.01, 20.0, "low", "low"),
        (lambda x: x > 1.0, 0.01, 0.1, "high", ""),
        (lambda x: x < 0.05, 0.01, 20.0, "low", ""),
        # Nine of 16 replicates are no reason to expect more than half of 256.
        (lambda x: 0.56 * (x > 1.0), 0.01, 20.0, "high", ""),
    ],
    ids=["a hump", "a valley", "too early", "a fall", "a plateau"],
)
def test_a_share_that_does_not_rise_all_the_way_is_told_with_an_end_that_works(has, low, high, wrong, other):
    class Shape(Search):
        def _events(self, spec, values, count, look):
            return np.round(has(values) * float(count))

    def row(low, high):
        return Shape("lr", Reading("batch_return", "collapse"), 0.5, 1.05, 0.05, 256, 0).row(bandit(), {}, low, high)

    told = row(low, high)["none"]
    sides = {"high": "below 0.5 at ", "low": "above 0.5 at "}
    assert f"is {sides[wrong]}" in told and told.count(": ") >= 7, "shares in between"
    found = re.search(r"so give (\w+)=([\d.]+)", told)
    assert (found[1] if found else "") == other and "give high=2" not in told
    if found:
        assert row(**{"low": low, "high": high, other: float(found[2])})["narrow"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"low": 0.0}, "low"),
        ({"low": 4.0}, "high"),
        ({"over": "mean", "target": None}, "over"),
        ({"share": 1.0}, "share"),
        ({"ratio": 1.0}, "ratio"),
        ({"error": 0.0}, "error"),
        ({"max_replicates": 1}, "max_replicates"),
        ({"along": {"sgd.lr": [0.1]}}, "must be another setting than sgd.lr"),
        ({"claim": "staleness/nothing"}, "claim"),
        ({"claim": "staleness/stability-boundary", "at": {"curvature": 1.0}}, "curvature"),
    ],
)
def test_bad_input_is_refused_in_one_line(options, reason):
    given = {"low": 0.05, "high": 3.0, "along": {"staleness": [4]}, **GROWN} | options
    assert reason in str(refused("", sim.boundary, quadratic(updates=400), "lr", **given))


def test_a_setting_that_is_no_knob_is_bisected_over_whole_numbers():
    """A step of 0.5 is stable up to a staleness of 2: 2 sin(pi / 10) = 0.62, 2 sin(pi / 14) = 0.445."""
    spec = quadratic().replace(update=sim.chain(sim.updates.sgd(0.5)), updates=300)
    found = sim.boundary(spec, "system.staleness", low=0, high=12, max_replicates=16, error=0.5, **GROWN)
    assert [(row["low"], row["high"], row["narrow"]) for row in found.rows] == [(2.0, 3.0, True)]
    assert "2 (0 of 16) to 3 (16 of 16)" in str(found)
    # Without a target the event is a collapse; here every run that leaves its optimum first came near it.
    assert (
        sim.boundary(spec, "staleness", low=0, high=12, max_replicates=16, error=0.5, metric="exact_return").rows[0][
            "high"
        ]
        == 3.0
    )
    slower = spec.replace(update=sim.chain(sim.updates.sgd(0.4)))
    other = sim.boundary(slower, "staleness", low=0, high=12, max_replicates=16, error=0.5, **GROWN)
    assert other.rows[0]["low"] == 3.0
    above = sim.boundary(spec, "staleness", low=3, high=12, max_replicates=16, error=0.5, **GROWN)
    told = "none found, as the share is above 0.5 at both ends, at low=3 (16 of 16) and at high=12 (16 of 16)"
    assert told in str(above) and "; give low=0; of 16" in str(above) and above.rows[0]["events_low"] == "16 of 16"
    with pytest.raises(InputError, match="none found, as the share is above"):
        sim.plot(above)
    with pytest.raises(InputError, match="did you mean staleness"):
        sim.boundary(spec, "system.stale", low=1, high=12, **GROWN)


def test_arms_and_learning_rates_have_rows_and_one_without_a_bracket_says_why():
    """At staleness 0, 1, 2, ... a step of 0.5 is stable up to 2, one of 0.1 up to 15, more than the high end."""
    spec = quadratic().replace(updates=300)
    ask = {"low": 0, "high": 8, "max_replicates": 16, "error": 0.5, **GROWN}
    found = sim.boundary(spec, "staleness", along={"lr": [0.1, 0.5]}, **ask)
    assert found.names == ("lr",) and math.isnan(found.rows[0]["low"]) and found.rows[1]["high"] == 3.0
    assert re.search("lr=0.1: none found, as the share is below 0.5 at both ends, .*; give high=32; of 16", str(found))
    arms = {f"rate {lr}": spec.replace(update=sim.chain(sim.updates.sgd(lr))) for lr in (0.4, 0.5)}
    both = sim.boundary(arms, "staleness", **ask)
    assert [(row["arm"], row["low"]) for row in both.rows] == [("rate 0.4", 3.0), ("rate 0.5", 2.0)]


@pytest.mark.parametrize(
    ("along", "said"),
    [
        ({"staleness": [0, 1]}, "no value tried makes runs collapse, as"),
        ({"staleness": [0, 4]}, "no share is clearly above; it is largest at 10: take .* give share=0.12"),
    ],
)
def test_where_no_value_has_a_boundary_the_cause_is_said_and_no_larger_value(along, said):
    task, sgd = sim.tasks.token_bandit(4, 8), sim.chain(sim.updates.sgd(0.5))
    spec = sim.Spec(task, sim.schedules.fixed(0), sim.methods.full_is(), sgd, updates=100)
    spec = spec.replace(samples_per_group=8)
    found = str(sim.boundary(spec, "lr", low=0.01, high=100, along=along, max_replicates=16))
    assert re.search(said, found) and "larger value" not in found and found.count("none found") == 2


class Whole(Coin):
    """Probability of the event at whole numbers: logistic, one half between 11 and 12."""

    def _events(self, spec, values, count, look):
        return self.generator.binomial(count, 1.0 / (1.0 + np.exp(11.5 - values))).astype(float)


class WholeImpatient(Whole):
    """The planted defect: whoever is above at one look is above."""

    def _sides(self, spec, values, level):
        return np.where(self._events(spec, values, 16, 0) > 8, 1, -1), 16


def whole_misses(kind):
    kind.generator = np.random.default_rng(11)
    search = kind("staleness", Reading("batch_return", "collapse"), 0.5, 1.05, 0.05, 512, 0, False, True)
    rows = [search.row(bandit(), {}, 0.0, 64.0) for _ in range(REPETITIONS)]
    return sum(not row["low"] <= 11.5 <= row["high"] for row in rows), rows


def test_brackets_of_whole_numbers_miss_at_the_stated_rate_at_most():
    missed, rows = whole_misses(Whole)
    assert missed <= MISSES and np.median([row["high"] - row["low"] for row in rows]) <= 3
    assert whole_misses(WholeImpatient)[0] > MISSES
