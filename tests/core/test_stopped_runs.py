"""A run that is stopped keeps what it has: the trace so far, marked as partial, equal to the start of the whole run."""

import signal
import sys
import threading
import time

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base import stopping
from asyncsim.diagnostics._diagnostic import Metric
from tests import forked
from tests.core import runs

pytestmark = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals go to the main thread"
)


def stopper(at, numbers=(signal.SIGINT,), calls=1):
    """A metric that sends real signals to this process in the middle of an update, at so many calls of it."""
    seen = []

    def measure(step):
        if step.update == at:
            seen.append(at)
            if len(seen) == calls:
                for number in numbers:
                    signal.raise_signal(number)
        return torch.full(step.parameters.shape[:1], float(step.update), dtype=torch.float64)

    return Metric("stopper", measure)


def spec(*more, task=None, system=None, **changes):
    parts = {"task": task or sim.tasks.token_bandit(actions=3, horizon=2), "system": system or sim.schedules.fixed(2)}
    sizes = {"updates": 12, "replicates": 6, "diagnostics": ["batch_return", "gradient_norm", *more]}
    return runs.spec(**{**parts, **sizes, **changes})


def stopped(made, seed=3):
    with pytest.raises(sim.Interrupted) as caught:
        sim.run(made, seed=seed)
    return caught.value


@pytest.mark.parametrize("epochs", [1, 3])
def test_what_is_kept_is_the_start_of_the_whole_run(tmp_path, epochs):
    system = sim.systems.synchronous(1, train_time=1.0)
    made = spec(stopper(4), system=system, epochs=epochs)
    error = stopped(made)
    trace, done = error.trace, 5 if epochs == 1 else 6
    assert trace.partial == {
        "by": "Ctrl-C",
        "updates": done,
        "of": 12,
        "replicates": 6,
        "of_replicates": 6,
        "complete": 0,
    }
    assert f"stopped by Ctrl-C after {done} of 12 updates" in str(error)
    short = sim.run(spec(system=system, updates=done, epochs=epochs), seed=3)
    np.testing.assert_array_equal(trace.updates, short.updates)
    for name in ("batch_return", "gradient_norm"):
        np.testing.assert_array_equal(trace[name], short[name])
    np.testing.assert_array_equal(trace.parameters, short.parameters)
    np.testing.assert_array_equal(trace.schedule.version, short.schedule.version)
    trace.save(tmp_path / "t.npz")
    loaded = sim.Trace.load(tmp_path / "t.npz")
    assert loaded == trace and loaded.partial == trace.partial and trace != short
    assert trace.final("batch_return").samples == 6 and sim.run(made, seed=3).partial is None


def test_blocks_that_were_not_begun_are_not_there_and_rows_not_reached_are_missing():
    error = stopped(spec(stopper(4, calls=2), block=2))
    trace, whole = error.trace, sim.run(spec(block=2), seed=3)
    assert trace.replicates == 4 and trace.partial["complete"] == 2 and trace.partial["of_replicates"] == 6
    assert "5 of 12 updates (2 of 6 replicates complete)" in str(error)
    np.testing.assert_array_equal(trace["gradient_norm"][:, :2], whole["gradient_norm"][:, :2])
    np.testing.assert_array_equal(trace["gradient_norm"][:5, 2:], whole["gradient_norm"][:5, 2:4])
    assert np.isnan(trace["gradient_norm"][5:, 2:]).all() and trace["gradient_norm"].shape == (12, 4)
    np.testing.assert_array_equal(trace.parameters[:2], whole.parameters[:2])
    assert trace.final("gradient_norm").samples == 2
    assert trace.table().groupby("metric")["replicates"].max()["gradient_norm"] == 4


@pytest.mark.parametrize(("calls", "replicates", "batches"), [(1, 2, 5), (2, 2, 12)])
def test_a_coupled_system_keeps_schedules_of_one_length(calls, replicates, batches):
    system = sim.schedules.coupled(sim.systems.one_step_off(1, length=1.0, train_time=1.0))
    task = sim.tasks.token_bandit(actions=3, horizon=2, ends=True)
    trace = stopped(spec(stopper(4, calls=calls), task=task, system=system, block=2)).trace
    assert trace.replicates == replicates and trace.schedule.batches == batches == len(trace.updates)
    trace._check()


def test_what_needs_more_updates_is_left_out():
    correlogram = sim.diagnostics.autocorrelogram(lags=8)
    assert stopped(spec(stopper(4), correlogram)).trace.accumulated == {}
    both = stopped(spec(stopper(4, calls=2), correlogram, block=3)).trace.accumulated["autocorrelogram"]
    assert np.isfinite(both[:, :3]).all() and np.isnan(both[:, 3:]).all()


def test_knobs_of_replicates_that_were_not_begun_are_cut():
    made = spec(stopper(2), block=3).replace(update=sim.chain(sim.updates.sgd((0.1, 0.1, 0.2, 0.2, 0.3, 0.3))))
    trace = stopped(made).trace
    assert trace.settings["sgd.lr"].tolist() == [0.1, 0.1, 0.2] and list(trace.split()) == ["sgd.lr=0.1", "sgd.lr=0.2"]


def test_a_second_signal_ends_at_once():
    with pytest.raises(KeyboardInterrupt) as caught:
        sim.run(spec(stopper(4, numbers=(signal.SIGINT, signal.SIGINT))))
    assert not isinstance(caught.value, sim.Interrupted)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(("at", "kept"), [(4, 3), (1, None)])
def test_a_batch_that_takes_long_is_given_up_and_those_before_it_are_kept(monkeypatch, at, kept):
    monkeypatch.setattr(stopping, "SOON", 0.05)

    def measure(step):
        if step.update == at:
            signal.raise_signal(signal.SIGTERM if at == 1 else signal.SIGINT)
            end = time.monotonic() + 20.0
            while time.monotonic() < end:
                time.sleep(0.01)
        return torch.zeros(step.parameters.shape[0], dtype=torch.float64)

    made = spec(Metric("slow", measure), system=sim.systems.synchronous(1, train_time=1.0), epochs=3)
    begun = time.monotonic()
    with stopping.terminable():
        trace = stopped(made).trace
    assert time.monotonic() - begun < 15.0
    assert (trace and (trace.partial["updates"], len(trace["slow"]), len(trace.updates))) == (kept and (3, 3, 3))


def test_before_the_first_batch_there_is_nothing_to_keep(monkeypatch):
    from asyncsim.running import running

    monkeypatch.setattr(running, "Source", lambda *given: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt) as caught:
        sim.run(spec())
    assert not isinstance(caught.value, sim.Interrupted)


def test_a_handler_of_ones_own_stays_in_charge():
    heard, before = [], signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        assert sim.run(spec(stopper(4))).partial is None and heard == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_leaves_signals_alone():
    found = []
    thread = threading.Thread(target=lambda: found.append(sim.run(spec())))
    thread.start()
    thread.join()
    assert found[0].partial is None


def test_whoever_waits_long_hears_what_for(capfd, monkeypatch):
    monkeypatch.setattr(stopping, "SOON", 0.0)
    with stopping.deferred(patience=0.0) as received:
        signal.raise_signal(signal.SIGINT)
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):
                thread.join(5.0)
    assert received == [signal.SIGINT] and "stopping after the current batch" in capfd.readouterr().err


SCRIPT = """
import os, signal, sys, torch
import asyncsim as sim
from asyncsim.diagnostics._diagnostic import Metric

def measure(step):
    if step.update == 7:
        os.kill(os.getpid(), signal.SIGINT)
    return torch.zeros(step.parameters.shape[0], dtype=torch.float64)

spec = sim.Spec(sim.tasks.softmax_bandit(), sim.schedules.fixed(1), sim.methods.reinforce(), sim.chain(),
                updates=10**4, replicates=2, diagnostics=[Metric("zero", measure)], every=1)
try:
    sim.run(spec)
except KeyboardInterrupt as stop:
    print(stop.trace.partial["updates"], len(stop.trace.updates))
    raise
"""


def test_python_gets_the_partial_trace_by_a_real_interrupt():
    done = forked.run([sys.executable, "-c", SCRIPT])
    assert done.stdout.split() == ["8", "8"], done.stderr
    assert done.returncode in (1, -signal.SIGINT) and "Interrupted: stopped by Ctrl-C after 8 of 10000" in done.stderr
