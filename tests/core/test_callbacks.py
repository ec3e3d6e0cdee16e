"""Callbacks hear what the trace records, change nothing of it, and end the run with what they raise."""

import glob
import io
import sys
import types
from functools import partial

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.running import callbacks
from tests.core import runs
from tests.refusals import refused

SIZES = {"updates": 9, "replicates": 5, "diagnostics": ["batch_return", "ess"]}
spec = partial(runs.spec, update=sim.chain(sim.updates.align()), **SIZES)


@pytest.mark.parametrize(("epochs", "every", "block"), [(1, 1, None), (3, 2, 2)])
def test_every_recorded_update_is_heard_once_with_its_row(epochs, every, block):
    heard = []
    made = spec(epochs=epochs, every=every, block=block)
    trace = sim.run(made, callback=heard.append)
    assert trace == sim.run(made)
    blocks = 1 if block is None else 3
    assert [each.update for each in heard] == trace.updates.tolist() * blocks
    assert {(each.updates, each.blocks) for each in heard} == {(9, blocks)}
    assert [each.block for each in heard] == np.repeat(np.arange(blocks), len(trace.updates)).tolist()
    for each in heard:
        assert each.metrics.keys() == trace.metrics.keys() and "align_cosine" in each.metrics
        for name, values in each.metrics.items():
            expected = trace[name][each.update // every, each.replicates]
            assert values.dtype == np.float64 and np.array_equal(values, expected, equal_nan=True)


def test_what_a_callback_does_to_its_record_stays_there():
    def spoil(recorded):
        for values in recorded.metrics.values():
            values[:] = 7.0
        with pytest.raises(ValueError, match="read-only"):
            recorded.replicates[:] = 0

    assert sim.run(spec(), callback=spoil) == sim.run(spec())


def test_without_metrics_the_updates_are_heard():
    heard = []
    made = spec(diagnostics="none")
    assert sim.run(made, callback=heard.append) == sim.run(made)
    assert [each.update for each in heard] == list(range(9)) and not any(each.metrics for each in heard)


def test_what_it_raises_ends_the_run_with_its_own_traceback():
    closed = []

    class Wrong:
        def __call__(self, recorded):
            raise ZeroDivisionError("mine")

        def close(self):
            closed.append(1)

    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        sim.run(spec(), callback=[Wrong(), Wrong()])
    assert caught.traceback[-1].name == "__call__" and closed == [1, 1]
    for wrong in (3, [3]):
        refused("callback = 3", sim.run, spec(), callback=wrong)


def test_summaries_leave_out_what_is_missing():
    metrics = {"ess": np.array([1.0, np.nan, 3.0, np.inf]), "kl": np.full(4, np.nan)}
    recorded = callbacks.Recorded(4, 9, 1, 3, np.arange(4), metrics)
    assert recorded.summary() == {"block-1/ess/mean": 2.0, "block-1/ess/lower": 1.5, "block-1/ess/upper": 2.5}


class Stub:
    """What wandb and trackio have in common."""

    def __init__(self):
        self.rows, self.init_with, self.ended, self.axis = [], None, 0, None

    def init(self, **arguments):
        self.init_with = arguments
        return types.SimpleNamespace(log=self.rows.append, finish=self._finish, define_metric=self._define)

    def _finish(self):
        self.ended += 1

    def _define(self, name, step_metric):
        self.axis = (name, step_metric)


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_trackers_get_the_numbers_of_the_trace(name, monkeypatch):
    stub = Stub()
    monkeypatch.setitem(sys.modules, name, stub)
    trace = sim.run(spec(), callback=getattr(sim.callbacks, name)(project="p", group="g"))
    assert stub.init_with == {"project": "p", "group": "g"} and stub.ended == 1 and stub.axis == ("*", "update")
    assert [row["update"] for row in stub.rows] == list(range(9))
    np.testing.assert_allclose([row["ess/mean"] for row in stub.rows], trace["ess"].mean(1), rtol=1e-12)
    upper = np.quantile(trace["batch_return"], 0.75, axis=1)
    np.testing.assert_allclose([row["batch_return/upper"] for row in stub.rows], upper, rtol=1e-12)


@pytest.mark.parametrize("name", ["wandb", "trackio", "tensorboard"])
def test_an_absent_package_names_its_extra(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    caught = refused(rf"pip install '.\[{name}\]'", callbacks.named, f"{name}:folder")
    assert "\n" not in str(caught)


def test_tensorboard_reads_the_numbers_back(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trace = sim.run(spec(every=2), callback=sim.callbacks.tensorboard(tmp_path / "events"))
    assert len(glob.glob(str(tmp_path / "events" / "*"))) == 1
    events = EventAccumulator(str(tmp_path / "events"))
    events.Reload()
    rows = events.Scalars("ess/mean")
    assert [row.step for row in rows] == trace.updates.tolist()
    np.testing.assert_allclose([row.value for row in rows], trace["ess"].mean(1), rtol=1e-6)


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_real_trackers_take_it_without_a_network(name, tmp_path, monkeypatch):
    # trackio reads it when it is imported.
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    pytest.importorskip(name)
    offline = {"mode": "offline", "dir": str(tmp_path)} if name == "wandb" else {}
    sim.run(spec(), callback=getattr(sim.callbacks, name)(project="p", **offline))
    assert any(tmp_path.rglob("*.wandb" if name == "wandb" else "*.db"))


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_live_line_shows_the_last_update_and_takes_the_place_of_the_bar(monkeypatch):
    monkeypatch.setattr(callbacks, "PERIOD", 0.0)
    monkeypatch.setattr(sys, "stderr", shown := Terminal())
    trace = sim.run(spec(block=3), callback=sim.callbacks.live("batch_return"))
    lines = shown.getvalue().split("\r\x1b[K")
    mean, spread = trace["batch_return"][8, 3:].mean(), trace["batch_return"][8, 3:].std()
    assert lines[-1] == (
        f"asyncsim: update 9 of 9, block 2 of 2, batch_return {mean:.4g} (spread {spread:.2g} over 2)\n"
    )
    assert len(lines) == 2 * 9 + 2


def test_elsewhere_it_is_a_line_now_and_then(capsys):
    sim.run(spec(), callback=sim.callbacks.live())
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and lines[-1].startswith("asyncsim: update 9 of 9, batch_return ")
    refused("name a metric that the run records", lambda: sim.run(spec(), callback=sim.callbacks.live("absent")))


@pytest.mark.parametrize("text", ["nowhere", "wandb", "tensorboard:", ""])
def test_words_that_name_no_place_are_refused(text):
    refused("--log", callbacks.named, text)


def test_a_callback_that_returns_false_ends_the_run_and_keeps_it(tmp_path):
    whole, path = sim.run(spec(), progress=False), tmp_path / "c.ckpt"
    cut = sim.run(spec(), progress=False, callback=lambda recorded: np.bool_(recorded.update < 3), checkpoint=path)
    assert cut.partial["by"] == "a callback" and cut.partial["updates"] == 4 < whole.header["spec"]["updates"]
    np.testing.assert_array_equal(cut["ess"], whole["ess"][:4])
    np.testing.assert_array_equal(sim.run(resume=path, progress=False)["ess"], whole["ess"])
    assert sim.run(spec(), progress=False, callback=lambda recorded: True).partial is None


@pytest.mark.parametrize("callback", [lambda recorded, step: None, lambda: None, lambda recorded: "stop"])
def test_a_callback_of_another_form_is_refused_with_the_form_that_it_has(callback):
    with pytest.raises(sim.InputError, match=r"callback.*(def f\(recorded\)|return nothing, or False)"):
        sim.run(spec(), progress=False, callback=callback)
