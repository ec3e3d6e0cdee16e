"""Recorded delays: their order is kept, and the report says what independent draws would throw away."""

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

import asyncsim as sim
from asyncsim import claims, schedules
from asyncsim.base import laws, rng
from asyncsim.base.checks import InputError, ShortRunWarning
from asyncsim.schedules import _delay_report as statistics
from tests.cli.test_cli import call
from tests.core import runs
from tests.refusals import refused
from tests.statistics import assert_rate

pytestmark = pytest.mark.filterwarnings("ignore::asyncsim.base.checks.ShortRunWarning")


def sticky(seed, n, rho):
    """Integer delays of which each repeats the one before with probability rho: autocorrelation rho^k, exactly."""
    generator = np.random.default_rng(seed)
    fresh = generator.random(n) >= rho
    fresh[0] = True
    return (generator.geometric(0.2, n) - 1)[np.maximum.accumulate(np.where(fresh, np.arange(n), 0))]


RECORD = np.array([3, 1, 4, 1, 5, 9, 2, 6])


def rotation(values, record):
    """Start of the circular replay that the values are, -1 for none."""
    starts = [k for k in range(len(record)) if np.array_equal(np.resize(np.roll(record, -k), len(values)), values)]
    return starts[0] if starts else -1


@pytest.mark.parametrize("per", ["update", "group", "trajectory"])
def test_every_realization_is_the_record_from_a_start_of_its_own(per):
    schedule = schedules.delays(RECORD, per=per, groups_per_batch=2).schedule(40, 3, 1, 64, seed=1)
    staleness = schedule.staleness()[:, 9:, :, :, 0]
    columns = {"update": staleness[..., 0, 0], "group": staleness[..., 0], "trajectory": staleness}[per]
    starts = [rotation(row.ravel(), RECORD) for row in columns]
    assert min(starts) >= 0 and len(set(starts)) == len(RECORD)
    # A planted defect: drawn independently the same numbers are no replay.
    drawn = schedules.random(np.bincount(RECORD) / 8).schedule(40, 3, 1, 64, seed=1).staleness()[:, 9:, 0, 0, 0]
    assert max(rotation(row, RECORD) for row in drawn) == -1


def test_delays_are_clipped_at_version_zero_and_a_short_run_warns():
    law = schedules.delays([7, 0, 7, 1], start="first")
    with pytest.warns(ShortRunWarning, match="staleness 7 is not reached, the run ends at 5"):
        schedule = law.schedule(6, 1, 1, 1, 0)
    assert schedule.staleness().ravel().tolist() == [0, 0, 2, 1, 4, 0]
    assert (law.random, law.realizations(9), schedules.delays([2]).random) == (False, 1, False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        law.schedule(8, 1, 1, 1, 0)


def test_delays_of_batches_end_at_the_version_of_that_batch():
    record = [0, 1, 5, 2, 3]
    for publish in (1, 2, 3):
        law = schedules.delays(record, unit="batches", start="first", batches_per_publish=publish)
        version = law.schedule(20, 1, 1, 1, 0).version.ravel()
        expected = [max((b - record[b % 5]) // publish, 0) for b in range(20)]
        assert version.tolist() == expected
        assert law.reached == -(-5 // publish)


def test_durations_of_a_system_keep_their_order(tmp_path):
    numbers = 0.25 + sticky(0, 200, 0.8) / 8
    pd.DataFrame({"ms": 1000 * numbers}).to_csv(tmp_path / "d.csv", index=False)
    record = schedules.delays(f"{tmp_path}/d.csv:ms*0.001", unit="seconds")

    def rewards(law):
        system = sim.systems.areal(2, 4, length="exponential:1", load=1.0, model={"reward": law})
        samples = system.timeline(60, samples_per_group=2, seed=3).samples
        known = np.isfinite(samples["t_scored"]) & (np.diff(samples["sample"], append=0) != 0)
        return system, (samples["t_scored"] - samples["t_end"])[known][:200]

    system, seconds = rewards(record)
    assert system.reward == laws.recorded(record.numbers)
    assert rotation(np.round(seconds * 8).astype(int), np.round(numbers * 8).astype(int)) >= 0
    # A planted defect: the same column, drawn independently.
    assert rotation(np.round(rewards(laws.empirical(numbers))[1] * 8), np.round(numbers * 8)) == -1
    # Correlated durations have no formula, since those count on independent ones.
    assert claims.predicted_staleness(system.describe_at(2), 2).pmf is None
    text = system.replace(length="recorded:1:2:3", tickets=None, order="done")
    assert "length is a record in its order" in claims.predicted_staleness(text.describe_at(1), 1).reason
    with pytest.raises(InputError, match="independent draws"):
        claims.claim("systems/first-k-length-bias").predict({"length": "recorded:1:2", "started": 3, "kept": 2})


def test_the_law_of_a_record():
    law = laws.recorded([1.0, 5.0, 2.0, 2.0, 9.0])
    draws = np.array([law.sample(rng.Stream(1, "x"), m, np.arange(12)) for m in range(50)])
    assert {rotation(row, np.array(law.parameters)) for row in draws} == set(range(5)) - {-1}
    windows = [[law.parameters[(s + j) % 5] for j in range(3)] for s in range(5)]
    for k in (1, 2, 3):
        assert law.expected_least(k, 3) == pytest.approx(np.mean([sorted(w)[k - 1] for w in windows]))
    assert law.expected_max(3) != pytest.approx(laws.empirical(law.parameters).expected_max(3))
    assert laws.Law.parse(str(law)) == law and law.mean() == 3.8
    # Steps of an environment have starts of their own, so that samples stay in order at each of them.
    turns = law.sample(rng.Stream(1, "x"), 0, np.arange(12)[:, None], np.arange(40))
    assert {rotation(column, np.array(law.parameters)) for column in turns.T} == set(range(5))


def test_order_is_found_where_it_is_and_nowhere_else():
    """A band of false alarm 1e-6 on 200 records without order, at the stated 1 percent; it excludes 20."""
    alarms = sum(statistics.order(sticky(seed, 200, 0.0).astype(float)).correlated for seed in range(200))
    assert_rate(alarms, 200, 0.01)
    with pytest.raises(AssertionError):
        assert_rate(alarms, 200, 0.2)
    for seed in range(10):
        record = sticky(seed, 1000, 0.6).astype(float)
        assert statistics.order(record).correlated
    shuffled = np.random.default_rng(0).permutation(record)
    assert not statistics.order(shuffled).correlated and statistics.order(shuffled).time is None
    assert statistics.order(np.sort(record)).correlated and statistics.order(np.sort(record)).time is None


@pytest.mark.parametrize(("rho", "n"), [(0.3, 1000), (0.6, 1000), (0.9, 3000)])
def test_intervals_of_planted_records_contain_the_truth(rho, n):
    """Coverage 0.95 or more of 100 records; 12 misses have probability 0.004 at 0.95, and 0.98 at 0.8."""
    time = (1 + rho) / (1 - rho)
    tenth = 1 + 2 * sum((1 - j / 10) * rho**j for j in range(1, 10))
    misses = {"time": 0, "lag1": 0, "ten": 0, "defect": 0}
    for seed in range(100):
        found = statistics.order(sticky(seed, n, rho).astype(float))
        for name, estimate, truth in (
            ("time", found.time, time),
            ("lag1", found.lag1, rho),
            ("ten", found.windows[0].ratio, tenth),
            ("defect", found.time, 0.5 + time / 2 - 0.5 * rho),
        ):
            low, high = statistics.interval(estimate, name != "lag1") if estimate else (0.0, np.inf)
            misses[name] += not low <= truth <= high
    assert max(misses["time"], misses["lag1"], misses["ten"]) <= 12, misses
    # A planted defect: a time without the factor 2 of its sum.
    assert misses["defect"] > 12


def test_windows_are_those_of_plain_loops():
    record = sticky(5, 400, 0.7).astype(float)
    (window,) = statistics.order(record).windows
    means = [record[k : k + 10].mean() for k in range(391)]
    assert window.ratio.value == pytest.approx(np.mean((means - record.mean()) ** 2) / (record.var() / 10))
    assert window.largest.value == pytest.approx(np.mean([record[k : k + 10].max() for k in range(391)]))
    draws = np.random.default_rng(0).choice(record, (40_000, 10)).max(1)
    assert window.independent == pytest.approx(draws.mean(), abs=5 * draws.std() / 200)


def test_means_of_staleness_vary_as_the_report_says():
    """Over 3,000 realizations a variance has a relative error of 4 percent; independent delays are far off."""
    record = np.minimum(sticky(2, 1000, 0.8), 20)
    ratio = schedules.delays(record).report().order.windows[0]
    assert ratio.size == 10

    def variance(law):
        return law.schedule(31, 1, 1, 3000, seed=0).staleness()[:, 21:, 0, 0, 0].mean(1).var() / (record.var() / 10)

    assert variance(schedules.delays(record)) == pytest.approx(ratio.ratio.value, rel=0.2)
    assert variance(schedules.random(np.bincount(record) / len(record))) == pytest.approx(1.0, abs=0.2)
    assert ratio.ratio.value > 4.0


def test_pages_say_what_they_cannot_tell():
    def page(record):
        report = schedules.delays(record).report()
        json.dumps(report.row(), allow_nan=False)
        return str(report)

    assert "all delays are equal" in page([2] * 60) and "all delays are equal" in page([4])
    assert "give 40 delays or more" in page([1, 2, 3])
    assert "cannot tell from none (false alarms 1 %)" in page(sticky(1, 500, 0.0))
    assert "correlation time: cannot tell; log 50" in page(sticky(1, 300, 0.97))
    assert "correlation time: cannot tell" in page(np.tile(np.arange(5), 100))
    report = schedules.delays(sticky(1, 4000, 0.8)).report()
    assert report.independent == pytest.approx(4000 / 9, rel=0.4)
    assert "independent ones" in str(report) and "largest of 100" in str(report)


def test_columns_of_files(tmp_path):
    table = pd.DataFrame({"late": RECORD, "name": list("abcdefgh")})
    table.to_csv(tmp_path / "d.csv", index=False)
    table.to_parquet(tmp_path / "d.parquet")
    table.to_json(tmp_path / "d.jsonl", orient="records", lines=True)
    made = [schedules.delays(f"{tmp_path}/d.{kind}:late") for kind in ("csv", "parquet", "jsonl")]
    made += [schedules.delays(tmp_path / "d.csv", groups_per_batch=2), schedules.delays(RECORD.tolist())]
    assert all(each.numbers.tolist() == RECORD.tolist() for each in made)
    assert len({each.describe()["knobs"]["sha256"] for each in made}) == 1
    again = pickle.loads(pickle.dumps(made[0]))
    assert np.array_equal(again.schedule(30, 1, 1, 3, 0).version, made[0].schedule(30, 1, 1, 3, 0).version)
    runs.spec(system=made[3], updates=12).save(tmp_path / "spec.json")
    saved = sim.Spec.load(tmp_path / "spec.json")
    assert saved.system.describe() == made[3].describe()
    assert np.nanmean(sim.run(saved, progress=False)["staleness"]) > 0


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("1\n-2\n3", "record column d.csv:late, row 2 = -2.0: must be an integer"),
        ("1\n2.5", "row 2 = 2.5: must be an integer in .*give unit=seconds"),
        ("1\n\n3", "row 2 = nan"),
        ("1\nNaN\n3", "row 2 = nan"),
        ("1\nsoon\n3", "record column late, row 2 = 'soon': must be a number"),
        ("1\n3e9", "row 2 = 3000000000.0"),
        ("1\ninf", "row 2 = inf"),
        ("", "no column of numbers"),
    ],
)
def test_bad_cells_are_named_with_column_and_row(tmp_path, cells, message):
    (tmp_path / "d.csv").write_text("late,\n" + "".join(f"{cell},\n" for cell in cells.split("\n") if cells))
    caught = refused(message, schedules.delays, f"{tmp_path}/d.csv:late")
    assert "\n" not in str(caught)


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("unit", lambda: schedules.delays([1], unit="hours")),
        ("per", lambda: schedules.delays([1], per="token")),
        ("start", lambda: schedules.delays([1], start="last")),
        ("batches_per_publish", lambda: schedules.delays([1], batches_per_publish=0)),
        ("groups_per_batch", lambda: schedules.delays([1], groups_per_batch=0)),
        ("record", lambda: schedules.delays(3)),
        ("record", lambda: schedules.delays("absent.csv")),
        ("record", lambda: schedules.delays(["soon"])),
        ("record column numbers", lambda: schedules.delays([])),
        ("values of record column numbers, row 2", lambda: schedules.delays([1, float("nan")])),
        ("unit", lambda: schedules.delays([1]).law),
        ("unit", lambda: schedules.delays([0.5], unit="seconds").schedule(1, 1, 1, 1, 0)),
        ("values of record column numbers, row 1", lambda: schedules.delays([0], unit="seconds").law),
    ],
)
def test_bad_input_is_refused_by_name(field, make):
    caught = refused("", make)
    assert caught.field == field


def test_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"late": sticky(0, 400, 0.8), "ms": 5.0 + sticky(1, 400, 0.0)}).to_csv("d.csv", index=False)
    result = call("log", "d.csv", "--delays", "late", "--json", "out.json")
    assert result.exit_code == 0 and "independently loses" in result.output
    assert json.loads((tmp_path / "out.json").read_text())["order"]["correlated"] is True
    result = call("log", "d.csv", "--delays", "ms*0.001", "--set", "unit=seconds")
    assert result.exit_code == 0 and "cannot tell from none" in result.output
    assert call("log", "d.csv", "--delays", "late", "--stack", "trl").exit_code == 2
    assert call("log", "d.csv", "--delays", "late", "--set", "per=group").exit_code == 2
    result = call("run", "--schedule", "delays", "--set", "schedule.record=d.csv:late", "--updates", 20)
    assert result.exit_code == 0, result.stderr
