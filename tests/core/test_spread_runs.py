"""Runs whose blocks are trained by several processes: the same bits, one bar, and clean ends."""

import importlib
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base import progress, workers
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.running import checkpoint, running, sources, spreading
from asyncsim.running.spreading import Site, blocks
from tests.core.runs import identical
from tests.core.test_checkpoints import KINDS
from tests.forked import run
from tests.refusals import refused

pytestmark = pytest.mark.usefixtures("forked_workers")

SEED = 3
CHAIN = sim.tasks.token_bandit(actions=3, horizon=4, dependence="markov")
ENDING = sim.tasks.token_bandit(actions=3, horizon=6, ends=True, logits=[[0.0, 0.0, -1.5]])
AREAL = sim.systems.areal(2, 2, 3, length=sim.lognormal(1.0, 0.8), load=1.5)


def spec(task=CHAIN, system=None, method=None, links=(), **changes):
    sizes = {"updates": 9, "replicates": 7, "samples_per_group": 4, **changes}
    system = system or sim.schedules.fixed(2)
    links = links or (sim.updates.adam(0.1),)
    return sim.Spec(task, system, method or sim.methods.grpo(), sim.chain(*links), **sizes)


def network(**changes):
    task, policy = sim.tasks.gym("CartPole-v1", trajectory="segment", steps=6), sim.policies.mlp(4, 2, hidden=(8,))
    return spec(task, method=sim.methods.a2c(), policy=policy, **changes)


ONE_BLOCK = {"quadratic", "diverged", "carts", "environments", "environments, episodes", "continuous"}
ONE_BLOCK |= {"discrete observations"}
ONE_BLOCK |= {kind for kind in KINDS if kind.startswith(("language", "calculator"))} - {"language, coupled"}
"""Kinds that have one block whatever the workers, which the process keeps (`test_callbacks_and_single_blocks_...`)."""
SPECS = {kind: make for kind, make in KINDS.items() if kind not in ONE_BLOCK} | {
    "large bandit": lambda: spec(sim.tasks.softmax_bandit(arms=10), replicates=301, samples_per_group=64),
    "coupled": lambda: spec(
        ENDING, sim.schedules.coupled(sim.systems.one_step_off(1, length=1.0, train_time=1.0)), samples_per_group=2
    ),
    "random system": lambda: spec(system=AREAL, realizations=5),
    "knob arrays": lambda: spec(
        method=sim.methods.truncated_is(cap=tuple(np.linspace(1.0, 4.0, 7))),
        links=(sim.updates.clip_norm(0.5), sim.updates.sgd(tuple(np.linspace(0.1, 0.7, 7)))),
    ),
    "accumulators": lambda: spec(
        diagnostics=[sim.diagnostics.autocorrelogram(lags=3), sim.diagnostics.ess("token", name="mine"), "kl"]
    ),
    "own start": lambda: spec(sim.tasks.softmax_bandit(arms=3), initial=np.arange(21.0).reshape(7, 3)),
    "some diverged": lambda: spec(
        sim.tasks.gaussian_bandit(), links=(sim.updates.sgd((0.1, 1e300, 0.1, 0.2, 1e300, 0.1, 0.1)),)
    ),
    "network": lambda: network(block=2),
    "float32": lambda: spec(dtype="float32", every=2),
}
"""Kinds of runs: what is drawn, kept and recorded for each replicate must not know who trained it."""


@pytest.fixture(scope="module")
def sites():
    """Two and three processes, kept from test to test."""
    made = {count: Site(count) for count in (2, 3)}
    yield made
    for site in made.values():
        site.close()


@pytest.fixture(autouse=True)
def few_tokens_are_enough(monkeypatch):
    monkeypatch.setattr(spreading, "LEAST", 1)


@pytest.mark.parametrize("kind", SPECS)
def test_any_number_of_workers_gives_the_same_bits(kind, sites):
    made = SPECS[kind]()
    if made.diagnostics == "none":
        made = made.replace(diagnostics=["kl"])
    alone = sim.run(made, seed=SEED, workers=1)
    assert (alone.diverged >= 0).any() == ("diverged" in kind)
    # Other tests of this file have two workers.
    site = sites[3]
    (trace,) = running.together([(made, SEED)], site)
    identical(alone, trace)
    assert trace == alone and trace.header["spec"] == alone.header["spec"]
    assert site.count == 3, "a worker could not have a part"
    assert len(blocks(made, shares=2)) > 1 and site.crew is not None


def test_several_runs_side_by_side_are_those_of_one_after_the_other(sites):
    runs = [(SPECS[kind](), SEED + k) for k, kind in enumerate(("large bandit", "network", "random system"))]
    for trace, (made, seed) in zip(running.together(runs, sites[2]), runs, strict=True):
        identical(sim.run(made, seed=seed), trace)


def test_answers_of_compare_do_not_depend_on_the_number_of_workers():
    made = spec(sim.tasks.softmax_bandit(), links=(sim.updates.sgd(0.5),), updates=20)
    arms = {"stale": made, "fresh": made.replace(system=sim.schedules.fixed(0))}
    rows = []
    for count in (1, 3):
        answer = sim.compare(arms, smallest=0.01, max_replicates=64, workers=count, progress=False)
        rows.append({**answer.row(), "seconds": 0})
    assert rows[0] == rows[1]


def test_the_command_line_takes_workers(tmp_path, capfd):
    from asyncsim.app.cli import main

    for count in ("1", "2"):
        words = ["--updates", "5", "--replicates", "5", "--save", str(tmp_path / f"{count}.npz"), "--workers", count]
        with pytest.raises(SystemExit) as end:
            main(["run", *words])
        assert end.value.code in (0, None)
    identical(sim.Trace.load(tmp_path / "1.npz"), sim.Trace.load(tmp_path / "2.npz"))


def test_blocks_are_alike_for_all_and_as_the_spec_says_for_one():
    made = spec(replicates=12, block=5)
    assert blocks(made) == [range(5), range(5, 10), range(10, 12)]
    assert [len(block) for block in blocks(made, shares=2)] == [3] * 4
    assert blocks(made, start=10, shares=2) == [range(10, 11), range(11, 12)]
    assert blocks(made, start=12, shares=2) == []
    # A block that is made smaller unasked keeps so many tokens; a network's bits depend on its block.
    assert len(blocks(spec(replicates=12), shares=4, least=4 * 4 * 6)) == 2
    assert blocks(network(), shares=2) == [range(7)]


@pytest.mark.parametrize("asked", [0, -1, 1.5, "two"])
def test_a_number_that_is_none_of_workers_is_refused(asked):
    message = (
        f"workers = {asked!r}: must be an integer in [1, {workers.MOST}]; give at least one worker, or leave it out"
    )
    for ask in (
        lambda: sim.run(spec(), workers=asked),
        lambda: sim.compare(spec(), spec(method=sim.methods.gspo()), smallest=0.1, workers=asked),
    ):
        refused(f"^{re.escape(message)}$", ask)


# What ends early.

main_only = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals go to the main thread"
)


@pytest.fixture(scope="module", autouse=True)
def parts():
    """The module with metrics of one's own, where workers find it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        yield importlib.import_module("spread_parts")


def recorded(measure, **changes):
    own = getattr(sys.modules["spread_parts"], measure) if isinstance(measure, str) else measure
    return spec(diagnostics=["batch_return", Metric("own", own)], **changes)


@main_only
@pytest.mark.parametrize("block", [None, 2])
def test_ctrl_c_keeps_what_all_have_done(block, monkeypatch):
    monkeypatch.setattr(workers, "subprocess", subprocess)  # real ones begin when this process is far
    made = recorded("interrupts", updates=3000, block=block)
    with pytest.raises(sim.Interrupted) as caught:
        sim.run(made, seed=SEED, workers=2)
    trace = caught.value.trace
    assert trace.partial["of"] == 3000 and trace.partial["updates"] <= 5 and trace.partial["by"] == "Ctrl-C"
    assert 2 <= trace.replicates <= 7 and len(trace.updates) < 3000
    whole = sim.run(made.replace(diagnostics=["batch_return"], updates=len(trace.updates)), seed=SEED)
    reached = ~np.isnan(trace["batch_return"])
    assert reached[:5].all() and reached.sum(0).min() >= 5
    np.testing.assert_array_equal(trace["batch_return"][reached], whole["batch_return"][:, : trace.replicates][reached])


@main_only
def test_a_second_ctrl_c_ends_all_at_once():
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt) as caught:
        sim.run(recorded("waits"), workers=2)
    assert not isinstance(caught.value, sim.Interrupted) and time.monotonic() - start < 30
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_killed_worker_costs_its_block_and_a_second_time_the_run(deaths, tmp_path, monkeypatch, capfd):
    if deaths == 1:
        monkeypatch.setattr(workers, "subprocess", subprocess)  # a real one
    monkeypatch.setenv("ASYNCSIM_TEST_DEATHS", str(tmp_path / "left"))
    (tmp_path / "left").write_text("x" * deaths, encoding="utf-8")
    made = recorded("dies")
    if deaths == 2:
        with pytest.raises(workers.Died, match=r"^a worker process ended by signal 9 .*; use fewer workers$"):
            sim.run(made, seed=SEED, workers=2)
    else:
        identical(sim.run(made, seed=SEED, workers=2), sim.run(made, seed=SEED))
    assert capfd.readouterr().err.count("its block is trained again\n") == 1
    assert not (tmp_path / "left").read_text(encoding="utf-8")


def test_what_a_worker_refuses_is_raised_here(capfd):
    refused("reward = 'NaN': must be a number; mend the task", lambda: sim.run(recorded("refuses"), workers=2))
    assert capfd.readouterr().err == ""


# What stays here.


def test_what_no_worker_can_have_stays_here_with_one_line(capfd):
    made = recorded(lambda step: torch.zeros(step.parameters.shape[:1]))
    sim.run(made)
    assert capfd.readouterr().err == ""
    identical(sim.run(made, workers=2), sim.run(made))
    err = capfd.readouterr().err
    assert err.startswith("asyncsim: one process: ") and "lambda" in err and err.count("\n") == 1


def test_functions_of_the_script_stay_here():
    script = (
        "import torch, asyncsim as sim\n"
        "from asyncsim.diagnostics._diagnostic import Metric\n"
        "def each(step): return torch.ones(step.parameters.shape[:1], dtype=torch.float64)\n"
        "spec = sim.Spec(sim.tasks.softmax_bandit(), sim.schedules.fixed(0), sim.methods.grpo(), sim.chain(),\n"
        "                updates=3, diagnostics=[Metric('each', each)])\n"
        "print(sim.run(spec, workers=2)['each'].sum())\n"
    )
    done = run([sys.executable, "-c", script])
    assert done.stdout == "192.0\n", done.stderr
    assert done.stderr == "asyncsim: one process: each stands in __main__, which other processes cannot import\n"


def test_callbacks_and_single_blocks_stay_here_with_one_line(capfd):
    heard = []
    sim.run(spec(block=2), workers=2, callback=lambda record: heard.append((record.block, record.blocks)))
    assert heard[0] == (0, 4) and heard[-1] == (3, 4)
    assert capfd.readouterr().err == "asyncsim: one process: callbacks are called in this one\n"
    sim.run(network(), workers=2)
    line = "asyncsim: one process: all replicates that are left are in one block; block=N makes smaller ones\n"
    assert capfd.readouterr().err == line


def test_every_metric_and_every_part_of_the_laboratory_can_be_sent():
    from asyncsim.base import plugins

    names = plugins.summaries("asyncsim.diagnostics")
    for name in names:
        metric = plugins.load("asyncsim.diagnostics", name, "diagnostics")
        metric = metric() if name == "autocorrelogram" else metric
        spreading._bytes(metric)
    made = SPECS["accumulators"]()
    shared = spreading.unpacked(spreading.packed(sources.Shared(made, SEED, 9)))
    identical(sim.run(shared.spec, SEED), sim.run(made, SEED))


# Unasked.


def counted(monkeypatch):
    """Every number of workers that is started."""
    started, before = [], workers.Crew.__init__

    def noted(self, count):
        started.append(count)
        before(self, count)

    monkeypatch.setattr(workers.Crew, "__init__", noted)
    return started


@pytest.fixture
def eager(monkeypatch):
    """Two cores, and every run of some batches is a long one."""
    monkeypatch.setattr(workers, "cores", lambda: 2)
    monkeypatch.setattr(spreading, "LOOK", 1e-9)
    monkeypatch.setattr(spreading, "WORTH", 0.0)
    return counted(monkeypatch)


def test_long_runs_have_workers_unasked(eager):
    made = spec()
    identical(sim.run(made, seed=SEED, workers=1), sim.run(made, seed=SEED))
    assert eager == [1]


def test_short_runs_nested_runs_checkpoints_and_one_core_have_none(eager, tmp_path, monkeypatch):
    made = spec()
    sim.run(made, callback=lambda record: None)
    sim.run(made, checkpoint=tmp_path / "run.ckpt")
    with workers.alone():
        sim.run(made)
    thread = threading.Thread(target=sim.run, args=(made,))
    thread.start()
    thread.join()
    assert dict(workers.each("spread_parts:run_long", [(made,)], 1)) == {0: 9}
    monkeypatch.setenv(workers.NUMBER, "0")
    sim.run(made)
    monkeypatch.delenv(workers.NUMBER)
    monkeypatch.setattr(workers, "cores", lambda: 1)
    sim.run(made)
    monkeypatch.undo()
    started = counted(monkeypatch)
    sim.run(spec())
    assert eager == started == []


# Checkpoints and progress.


def test_a_checkpoint_holds_finished_blocks_and_any_number_goes_on(tmp_path, capfd):
    path, made = tmp_path / "run.ckpt", spec(block=2)
    whole = sim.run(made, seed=SEED)
    identical(sim.run(made, seed=SEED, checkpoint=path, workers=2), whole)
    line = "asyncsim: checkpoints hold finished blocks of replicates only: 2 workers train them side by side\n"
    assert capfd.readouterr().err == line
    identical(sim.run(resume=path, workers=1), whole)

    # A run that went on in one process from blocks of several, and the other way round.
    def kill(recorded):
        if (recorded.block, recorded.update) == (2, 5):
            raise RuntimeError("killed")

    for first in (1, 2):
        path.unlink()
        with pytest.raises(RuntimeError, match="killed"):
            sim.run(made, seed=SEED, checkpoint=path, checkpoint_every="1 updates", callback=kill, workers=1)
        identical(sim.run(resume=path, workers=first), whole)
        identical(sim.run(resume=path, workers=3 - first), whole)


@main_only
def test_blocks_that_ended_before_ctrl_c_are_in_the_checkpoint(tmp_path, monkeypatch):
    path, made = tmp_path / "run.ckpt", recorded("interrupts_late", updates=60, replicates=8, block=1)
    with pytest.raises(sim.Interrupted):
        sim.run(made, seed=SEED, checkpoint=path, workers=2)
    there = len(checkpoint.read(path).parts)
    assert 0 < there < 8
    whole = sim.run(made.replace(diagnostics=["batch_return"]), seed=SEED)
    np.testing.assert_array_equal(checkpoint.read(path).parts[0].parameters, whole.parameters[:1])
    monkeypatch.setenv(workers.NUMBER, "0")
    identical(sim.run(made, seed=SEED, resume=path, workers=1), sim.run(made, seed=SEED))


def test_progress_is_joined(monkeypatch, capsys):
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    sim.run(spec(updates=50), workers=2)
    shares = [int(line.split("%")[0].split()[-1]) for line in capsys.readouterr().err.splitlines()]
    assert shares == sorted(shares) and shares[-1] == 100 and len(set(shares)) > 3
