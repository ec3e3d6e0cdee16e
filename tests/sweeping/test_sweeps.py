"""Sweeps: the numbers of plain runs, whoever does the units and however often it is stopped; failures have reasons."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy import stats

import asyncsim as sim
from asyncsim.base import answers, notation, stopping
from asyncsim.base.checks import InputError
from asyncsim.base.store import Store, opened
from asyncsim.comparing.deciding import seed_of
from asyncsim.sweeping import plans, sweeps, units
from tests.forked import Forked
from tests.refusals import refused
from tests.sweeping.laboratory import bandit

GRID = {"staleness": [0, 4], "method": [sim.methods.grpo(), sim.methods.reinforce()], "lr": [0.1, 0.5]}


def rows_of(where):
    """The digest of the rows of every unit in a store."""
    store = Store(where)
    return {name: plans.storing.unpack(store.read(name), name)[1]["rows"] for name in store.names("units")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A sweep done in one go in this process."""
    where = str(tmp_path_factory.mktemp("whole"))
    return sim.sweep(bandit(), GRID, replicates=100, store=where, workers=1), where


@pytest.mark.parametrize("hits", [0, 1, 5, 8])
def test_a_share_has_its_exact_interval(hits):
    """0 of 8 was 0 +-0. Numbers that are 0 or 1 by chance, as a staleness, are no shares."""
    values = np.repeat([1.0, 0.0], [hits, 8 - hits])
    found, exact = answers.summarized(values, None, True), stats.binomtest(hits, 8).proportion_ci(method="exact")
    assert (found["low"], found["high"]) == pytest.approx((exact.low, exact.high)) and found["low"] < found["high"]
    assert answers.mean_of(found, True) == " ".join(notation.bounded(hits / 8, exact.low, exact.high))
    assert answers.summarized(np.zeros(8), None)["high"] == 0.0


def test_what_is_counted_heads_its_column():
    spec = bandit(updates=4)
    for over, heads in (("collapse", ["share_collapsed"]), ("reached", ["share_reached"]), ("time", ["updates_until"])):
        target = {} if over == "collapse" else {"target": 1.0}
        found = sim.sweep(spec, {"staleness": [0]}, replicates=4, workers=1, over=over, **target)
        assert [*found.metrics] == heads == [*found.table()["metric"]] and heads[0] in str(found)
    assert "0.00 [0.00, 0.60]" in str(sim.sweep(spec, {"staleness": [0]}, replicates=4, workers=1, over="collapse"))
    two = sim.sweep(
        spec, {"staleness": [0]}, replicates=4, workers=1, over="collapse", metric=["trained_return", "ess"]
    )
    assert [*two.metrics] == ["share_collapsed_trained_return", "share_collapsed_ess"]


def test_what_only_rounding_leaves_is_zero():
    """A page would print it, and another processor other digits of it."""
    row = {"mean": 1200.0, "low": 1200.0 - 2e-13, "high": 1200.0 + 2e-13, "replicates": 8}
    assert answers.mean_of(row) == "1200 ± 0" and answers.mean_of({**row, "high": 1200.2}) == "1200.00 ± 0.10"
    assert answers.mean_of({**row, "high": np.nan}) == answers.mean_of({**row, "high": np.inf}) == "1200"
    for name in ("generator", "trainer"):
        idle = [units.COSTS[f"{name}_idle"]({f"{name}_utilization": busy}) for busy in (1 + 2e-15, 1 - 2e-15, 0.25)]
        assert str(idle) == "[0.0, 0.0, 0.75]"


def test_a_unit_has_the_numbers_of_a_plain_run(whole):
    found, _ = whole
    first = next(found.rows())
    spec = bandit(updates=8, replicates=128).replace(
        system=sim.schedules.fixed(0),
        method=sim.methods.grpo(),
        update=sim.chain(sim.updates.sgd(np.repeat([0.1, 0.5], 64))),
    )
    trace = sim.run(spec, seed_of(0, units.STAGE, 0))
    assert first["trained_return"].tolist() == trace["trained_return"].mean(0).tolist()
    assert first["lr"].tolist() == [0.1] * 64 + [0.5] * 64
    assert first["replicate"].tolist() == [*range(64)] * 2
    assert set(first["staleness"]) == {0} and set(first["method"]) == {"grpo"}


def test_two_settings_are_subtracted_seed_by_seed():
    task, update = sim.tasks.softmax_bandit(), sim.chain(sim.updates.sgd(0.5))
    spec = sim.Spec(task, sim.schedules.fixed(1), sim.methods.reinforce(), update)
    found = sim.sweep(spec, {"updates": [20, 10]}, replicates=8, workers=1)
    first, second = (rows["trained_return"].to_numpy() for rows in found.rows())
    assert found.differences[0]["mean"] == pytest.approx((second - first).mean())
    assert "trained_return at 10 less 20, seed by seed: −" in str(found) and "so they differ" in str(found)
    ends = [rows["trained_return end"].mean() for rows in found.rows()]
    assert [row["end"] for row in found.summary] == pytest.approx(ends) and ends[0] > first.mean()


def test_the_summary_is_that_of_the_rows(whole):
    found, _ = whole
    import pandas as pd

    every = pd.concat(found.rows())
    table = found.table()
    assert len(table) == 8 and (table["replicates"] == 100).all()
    for row in table.to_dict("records"):
        own = every[(every.staleness == row["staleness"]) & (every.method == row["method"]) & (every.lr == row["lr"])]
        assert row["mean"] == pytest.approx(own.trained_return.mean(), rel=1e-14)
        assert row["standard_error"] == pytest.approx(own.trained_return.std() / 10, rel=1e-12)
        assert row["median"] == own.trained_return.median() and row["low"] < row["mean"] < row["high"]


def test_rows_do_not_depend_on_who_does_the_units(whole, tmp_path):
    found = sim.sweep(bandit(), GRID, replicates=100, store=str(tmp_path), workers=2)
    assert rows_of(tmp_path) == rows_of(whole[1])
    assert found.summary == whole[0].summary and found.id == whole[0].id and found.made == 8


@pytest.mark.rows
def test_ray_gives_the_same_rows(whole, tmp_path):
    pytest.importorskip("ray")
    sim.sweep(bandit(), GRID, replicates=100, store=str(tmp_path), workers=2, backend="ray")
    assert rows_of(tmp_path) == rows_of(whole[1])


def test_what_the_store_has_is_not_done_again(whole, monkeypatch):
    monkeypatch.setattr(units, "measured", lambda content: pytest.fail("done again"))
    again = sim.sweep(bandit(), GRID, replicates=100, store=whole[1], workers=1)
    assert again.made == 0 and again.summary == whole[0].summary
    assert "0 made, 8 were there" in str(again)


def test_a_stored_sweep_is_read_without_its_spec(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(units, "measured", lambda content: pytest.fail("done again"))
    found = sim.stored(whole[1])
    assert found.summary == whole[0].summary and found.id == whole[0].id and found.made == 0
    assert sim.stored(whole[1], found.id[:4]).table().equals(found.table())
    refused(f"sweep = 'zz': must be the beginning of one id .*{found.id}", sim.stored, whole[1], "zz")
    refused("store = ", sim.stored, tmp_path / "nowhere")


def test_more_replicates_and_other_values_add_to_what_is_there(tmp_path):
    def counted(**changes):
        grid = {"staleness": [0, 4], "lr": [0.1]} | changes.pop("grid", {})
        return sim.sweep(bandit(), grid, store=str(tmp_path), workers=1, **changes).made

    assert counted(replicates=64) == 2
    assert counted(replicates=192) == 4
    assert counted(replicates=192, grid={"staleness": [0, 4, 7]}) == 3
    assert counted(replicates=192, seed=1) == 6
    assert counted(replicates=64, metric="ess_token") == 2


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.rows)])
def test_a_sweep_that_is_stopped_goes_on_where_it_was(whole, tmp_path, number):
    script = (
        "import asyncsim as sim\nfrom tests.sweeping.laboratory import bandit\n"
        "from tests.sweeping.test_sweeps import GRID\n"
        f"sim.sweep(bandit(), GRID, replicates=100, store={str(tmp_path)!r}, workers=2)\n"
    )
    path = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])}
    process = Forked([sys.executable, "-c", script], env=path, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while not list(Store(tmp_path).names("units")) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.005)
    process.send_signal(number)
    process.wait(60)
    before = rows_of(tmp_path)
    assert before and before.items() <= rows_of(whole[1]).items()
    found = sim.sweep(bandit(), GRID, replicates=100, store=str(tmp_path), workers=1)
    assert rows_of(tmp_path) == rows_of(whole[1]) and found.summary == whole[0].summary
    assert found.made <= 8 - len(before) + 2  # a worker may finish its unit after the others were counted


LOSS = """
import os, pathlib
def {name}(log_prob, advantage):
    {body}
    return -log_prob * advantage
"""


@pytest.fixture
def loss(tmp_path, monkeypatch):
    """Writes a loss with a body of its own into a file, and gives its place."""
    monkeypatch.chdir(tmp_path)

    def write(body, name="mine"):
        (tmp_path / f"{name}.py").write_text(LOSS.format(name=name, body=body), encoding="utf-8")
        return sim.methods.from_loss(f"{name}.py:{name}")

    return write


ONCE_TRIED = "if log_prob.shape[-2] > 4: "
"""Losses are tried on a small batch before anything runs."""


def test_a_unit_that_fails_is_recorded_with_its_reason_and_the_others_stand(tmp_path, loss):
    bad = loss(ONCE_TRIED + "raise RuntimeError('no good')", "bad")
    grid = {"method": {"bad": bad, "good": sim.methods.reinforce()}, "staleness": [0]}
    found = sim.sweep(bandit(), grid, replicates=8, store="s", workers=1)
    assert [row["method"] for row in found.summary] == ["good"]
    (failure,) = found.failed
    assert failure["setting"] == {"method": "bad", "staleness": 0} and "no good" in failure["reason"]
    (name,) = Store("s").names("failed")
    assert json.loads(Store("s").read(name))["attempts"] == sweeps.ATTEMPTS
    assert "failed at method=bad, staleness=0: " in str(found)


def test_bad_input_of_a_unit_is_not_tried_again(tmp_path, loss):
    bad = loss(ONCE_TRIED + "from asyncsim.base.checks import InputError; raise InputError('x', 1, '2', 'y')", "bad")
    sim.sweep(bandit(), {"method": {"bad": bad}}, replicates=8, store="s", workers=1)
    (name,) = Store("s").names("failed")
    assert json.loads(Store("s").read(name))["attempts"] == 1


@pytest.mark.usefixtures("forked_workers")
def test_a_worker_that_dies_fails_its_unit_alone_and_is_replaced(tmp_path, loss):
    deadly = loss(ONCE_TRIED + "os._exit(7)", "deadly")
    grid = {"method": {"deadly": deadly, "good": sim.methods.reinforce()}, "staleness": [0]}
    found = sim.sweep(bandit(), grid, replicates=8, store="s", workers=2)
    assert [row["method"] for row in found.summary] == ["good"]
    assert [each["setting"]["method"] for each in found.failed] == ["deadly"]
    assert "a worker process ended with status 7" in found.failed[0]["reason"]


@pytest.mark.usefixtures("forked_workers")
def test_a_unit_that_fails_by_accident_is_tried_again(tmp_path, loss):
    mark = "pathlib.Path('been')"
    flaky = loss(f"{ONCE_TRIED}{mark}.exists() or ({mark}.touch(), os._exit(7))", "flaky")
    found = sim.sweep(bandit(), {"method": {"flaky": flaky}}, replicates=8, store="s", workers=2)
    assert not found.failed and found.made == 1 and not list(Store("s").names("failed"))


def test_a_failed_unit_is_tried_again_by_the_next_call(tmp_path, loss):
    body = ONCE_TRIED + "assert pathlib.Path('mended').exists()"
    grid = {"method": {"own": loss(body)}}
    assert sim.sweep(bandit(), grid, replicates=8, store="s", workers=1).failed
    (tmp_path / "mended").touch()
    found = sim.sweep(bandit(), grid, replicates=8, store="s", workers=1)
    assert not found.failed and found.made == 1
    assert plans.unneeded(Store("s")) == list(Store("s").names("failed"))


def test_another_file_of_the_users_is_another_unit(tmp_path, loss):
    def swept(body):
        return sim.sweep(bandit(), {"method": {"own": loss(body)}}, replicates=8, store="s", workers=1)

    first, second = swept("pass"), swept("advantage = 90.0 * advantage")
    assert first.id != second.id and second.made == 1
    assert first.summary[0]["mean"] != second.summary[0]["mean"]
    assert swept("pass").made == 0


def test_a_store_that_cannot_be_written_stops_the_sweep_in_one_line(tmp_path, monkeypatch):
    def full(self, name, data):
        if name.startswith("units/"):
            raise InputError("store", self.where, "reachable and writable (No space left on device)", "make room")
        write(self, name, data)

    write = Store.write
    monkeypatch.setattr(Store, "write", full)
    with pytest.raises(InputError, match=r"No space left.*finished units count"):
        sim.sweep(bandit(), {"staleness": [0]}, replicates=8, store=str(tmp_path / "s"), workers=1)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"backend": "threads"}, "backend"),
        ({"workers": 0}, "at least|>= 1"),
        ({"address": "ray://x:1"}, "left out"),
        ({"address": "127.0.0.1:9", "backend": "ray"}, "where a Ray cluster answers"),
        ({"address": "nowhere", "backend": "ray"}, "host:port"),
        ({"replicates": 0}, "replicates"),
        ({"seed": -1}, "seed"),
        ({"over": "median"}, "over"),
        ({"over": "reached"}, "target"),
        ({"metric": 3}, "metric"),
        ({"claim": "staleness/stability-boundary"}, "one knob"),
    ],
)
def test_bad_options_are_refused_in_one_line(tmp_path, options, reason):
    refused(reason, sim.sweep, bandit(), {"staleness": [0]}, store=str(tmp_path / "s"), **options)
    assert not list(Store(tmp_path).names("s/units"))


def test_a_store_of_another_version_and_a_foreign_folder_are_refused(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "store.json").write_text('{"kind": "asyncsim results", "format": 0}', encoding="utf-8")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.tex").write_text("x", encoding="utf-8")
    for folder, reason in (("old", "format 2, not asyncsim results of format 0"), ("foreign", "thesis.tex")):
        refused(reason, sim.sweep, bandit(), {"staleness": [0]}, store=str(tmp_path / folder), workers=1)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["foreign", "old", "store.json", "thesis.tex"]
    refused("name it: --store FOLDER", opened, str(tmp_path / "none"), make=False)


def test_warnings_of_units_are_told_once(tmp_path):
    with pytest.warns(sim.base.checks.ShortRunWarning, match=r"staleness 20.*1 more") as told:
        sim.sweep(bandit(), {"staleness": [20, 30]}, replicates=4, workers=1)
    assert len(told) == 1


def test_few_units_are_done_here_and_many_by_workers(monkeypatch):
    asked = []
    monkeypatch.setattr(sweeps, "pool_of", lambda *a: asked.append(a) or sweeps.workers.Here())
    monkeypatch.setattr("asyncsim.sweeping.sweeps.cores", lambda: 2)
    sim.sweep(bandit(), {"staleness": [0, 1, 2, 3]}, replicates=4)
    assert asked == []
    monkeypatch.setattr("asyncsim.sweeping.sweeps.WORTH", 0.0)
    sim.sweep(bandit(), {"staleness": [0, 1, 2, 3]}, replicates=4)
    assert asked == [("processes", None)]


def test_realizations_of_a_random_system_are_replicates_of_their_own():
    system = sim.systems.areal(
        max_head_offpolicyness=4, consumer_batch_size=4, max_concurrent_rollouts=32, length="exponential:1", load=1.5
    )
    found = sim.sweep(bandit().replace(system=system), {"system.load": [1.0, 2.0]}, replicates=70, workers=1)
    assert {row["replicates"] for row in found.summary} == {70} and not found.failed


def test_a_swept_system_gives_its_own_summaries():
    system = sim.systems.areal(
        max_head_offpolicyness=1, consumer_batch_size=4, max_concurrent_rollouts=64, length="exponential:1", load=1.5
    )
    found = sim.sweep(system, {"max_head_offpolicyness": [1, 8]}, updates=60, replicates=5, seed=3, workers=1)
    rows = next(found.rows())
    own = sim.systems.areal(
        max_head_offpolicyness=1, consumer_batch_size=4, max_concurrent_rollouts=64, length="exponential:1",
        train_time=system.mean_train_time(1),
    )  # fmt: skip
    expected = [own.summary(60, 1, seed_of(3, units.STAGE, 0), m) for m in range(5)]
    assert rows["staleness"].tolist() == [each["staleness"]["mean"] for each in expected]
    assert rows["groups_per_hour"].tolist() == [3600 * each["throughput"] for each in expected]
    name, value = found.knee()
    assert name == "max_head_offpolicyness" and value in (1, 8) and f"knee: {name}={value}" in str(found)


def test_the_99th_percentile_of_a_law_is_its_least_value_with_that_share():
    p99 = units.COSTS["staleness_p99"]
    assert p99({"staleness": {"pmf": [0.5, 0.49, 0.01]}}) == 1
    assert p99({"staleness": {"pmf": [0.5, 0.48, 0.02]}}) == 2
    assert p99({"staleness": {"pmf": [1.0]}}) == 0


def test_a_setting_without_values_takes_none_from_the_others_of_its_unit():
    found = sim.sweep(bandit(), {"lr": [0.1, 1e200]}, metric="gradient_norm", replicates=6, workers=1)
    good, bad = found.summary
    alone = sim.sweep(bandit(), {"lr": [0.1]}, metric="gradient_norm", replicates=6, workers=1).summary[0]
    assert good == alone and good["replicates"] == 6 and not found.failed
    assert bad["diverged"] == 1.0
    if bad["replicates"] == 0:
        assert np.isnan(bad["mean"]) and "all diverged, half by update 0" in str(found)


def test_replicates_without_a_value_are_left_out():
    from asyncsim.base.answers import summarized

    some = summarized(np.array([1.0, np.nan, 3.0]), np.array([-1, 0, -1]))
    assert (some["mean"], some["replicates"], some["median"]) == (2.0, 2, 2.0) and some["diverged"] == pytest.approx(
        1 / 3
    )
    none = summarized(np.array([np.nan]), None)
    assert none["replicates"] == 0 and np.isnan(none["mean"])


def test_a_stopped_sweep_counts_what_a_store_keeps_and_promises_nothing_without_one(tmp_path, monkeypatch):
    once = sweeps.carry_out

    def stopped(units, pool, where):
        yield next(once(units, pool, where))
        raise KeyboardInterrupt

    monkeypatch.setattr(sweeps, "carry_out", stopped)
    with pytest.raises(stopping.Kept, match="1 of 2 units are kept"):
        sim.sweep(bandit(), {"staleness": [0, 1]}, replicates=4, store=str(tmp_path), workers=1)
    with pytest.raises(KeyboardInterrupt) as error:
        sim.sweep(bandit(), {"staleness": [0, 1]}, replicates=4, workers=1)
    assert not isinstance(error.value, stopping.Kept)
