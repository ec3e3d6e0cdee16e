"""A run that was killed goes on from its checkpoint to the bits of an unbroken one; nothing else is taken up."""

import dataclasses
import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.base import files
from asyncsim.base.laws import constant
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.running import checkpoint
from asyncsim.running.checkpoint import Unwritable, flattened, rebuilt
from asyncsim.systems._system import StalledError
from tests.core.test_coupled_drawing import PARTS
from tests.forked import Forked
from tests.refusals import refused
from tests.systems.settings import systems

SEED = 3
LANGUAGE = {"width": 32, "layers": 1, "steps": 0}


class Killed(Exception):
    """A run ends here."""


def killer(update, block=0):
    def kill(recorded):
        if (recorded.update, recorded.block) == (update, block):
            raise Killed

    return kill


def spec(task=None, system=None, links=None, method=None, **changes):
    links = links or (sim.updates.align(), sim.updates.adam(0.1))
    sizes = {"updates": 10, "replicates": 3, "samples_per_group": 4, **changes}
    task = task or sim.tasks.token_bandit(actions=3, horizon=4, dependence="markov")
    system = system or sim.schedules.fixed(2)
    return sim.Spec(task, system, method or sim.methods.reinforce(), sim.chain(*links), **sizes)


def ending(system, **changes):
    """A coupled run on responses that end by themselves."""
    task = sim.tasks.token_bandit(actions=3, horizon=6, ends=True, logits=[[0.0, 0.0, -1.5]])
    return spec(task, sim.schedules.coupled(system), links=(sim.updates.sgd(2.0),), samples_per_group=2, **changes)


def environments(id, drawn="segment", **changes):
    task = sim.tasks.gym(id, trajectory=drawn, steps=6 if drawn == "segment" else 12)
    links = (sim.updates.clip_norm(1.0), sim.updates.adam(0.05))
    sizes = {"updates": 6, "replicates": 2, "samples_per_group": 2, **changes}
    return spec(task, sim.schedules.fixed(1), links, sim.methods.a2c(), **sizes)


def normalized():
    made = environments("Acrobot-v1", "segment", block=1)
    policy = sim.policies.mlp(6, 3, critic=True, hidden=(8,), normalize=True)
    return made.replace(policy=policy)


TOOL = sim.tasks.tool_bandit(horizon=6, reply_tokens=1, opens=True)
CALCULATOR = sim.tasks.calculator(digits=1, terms=3, horizon=9)


def tools(system):
    return spec(TOOL, system, links=(sim.updates.sgd(2.0),), drawing="early", samples_per_group=2)


def language(system, task=None, **changes):
    settings = {n: changes.pop(n) for n in ("cache", "sampler", "compute", "micro_batch", "critic") if n in changes}
    policy = sim.policies.causal_lm("char", recipe=LANGUAGE, **settings)
    links = (sim.updates.adam(0.01),)
    sizes = {"updates": 5, "replicates": 1, "samples_per_group": 2, "policy": policy, **changes}
    # Random weights earn nothing; an offset moves them all the same.
    sizes = {"method": sim.methods.reinforce(sim.advantages.offset(1.0)), **sizes}
    return spec(task or sim.tasks.arithmetic(horizon=4), system, links, **sizes)


def interrupted():
    """Weights change inside responses, and samples in flight go on with their old cache."""
    return sim.systems.areal(2, 2, 3, length=4.0, train_time=2.3, model={"mode": "keep"})


def replayed():
    made = spec(system=sim.systems.areal(2, 2, 3, length=1.0, train_time=2.3))
    return spec(system=sim.run(made, seed=SEED).schedule)


def many_links():
    updates = sim.updates
    links = (updates.skip_nonfinite(), updates.momentum(0.9), updates.ess_step())
    return spec(links=links, epochs=2, method=sim.methods.ppo_clip())


def correlated():
    metrics = ["batch_return", "previous_cosine", sim.diagnostics.autocorrelogram(lags=2)]
    return spec(diagnostics=[m for m in metrics if m != "previous_cosine"], every=2)


AREAL = {"length": 1.0, "train_time": 2.3}
KINDS = {
    "fixed": lambda: spec(sim.tasks.softmax_bandit(), links=(sim.updates.sgd(0.3),)),
    "sawtooth, early": lambda: spec(system=sim.schedules.sawtooth(4), drawing="early"),
    "random, blocks": lambda: spec(system=sim.schedules.random([0.5, 0.3, 0.2]), block=2),
    "frozen": lambda: spec(system=sim.schedules.frozen()),
    "event system, early": lambda: spec(system=sim.systems.areal(2, 2, 3, **AREAL), drawing="early", block=1),
    "event system, late": lambda: spec(system=sim.systems.areal(2, 2, 3, **AREAL)),
    "replayed": replayed,
    "coupled, late": lambda: ending(sim.systems.areal(2, 2, 3, **AREAL), block=2),
    "coupled, early": lambda: ending(sim.systems.areal(2, 2, 3, **AREAL), drawing="early", block=2),
    "coupled, reused": lambda: ending(sim.systems.torchforge(2, max_resample_count=2, length=1.0, train_time=5.0)),
    "counts": lambda: spec(sim.tasks.softmax_bandit(), sampling="counts"),
    "enumerated": lambda: spec(sim.tasks.softmax_bandit(), sampling="enumerate"),
    "quadratic": lambda: spec(sim.tasks.quadratic(), method=sim.methods.gradient(), links=(sim.updates.momentum(0.9),)),
    "walk": lambda: spec(sim.tasks.frozen_lake()),
    "links, epochs": many_links,
    "several publishes": lambda: spec(system=sim.systems.synchronous(2, train_time=1.0), epochs=2, updates=12),
    "accumulated, every": correlated,
    "knobs": lambda: spec(links=(sim.updates.sgd((0.1, 0.2, 0.3)),), block=2),
    "diverged": lambda: spec(sim.tasks.quadratic(), method=sim.methods.gradient(), links=(sim.updates.sgd(1e70),)),
    "none recorded": lambda: spec(diagnostics="none"),
    "compiled": lambda: spec(compiled=True, replicates=9, block=4),
    "compiled, epochs": lambda: spec(compiled=True, epochs=2, method=sim.methods.ppo_clip(), updates=12),
    "compiled at first": lambda: spec(compiled=True, epochs=2, method=sim.methods.a3po(), updates=12),
    "compiled, mixed": lambda: spec(compiled=True, system=sim.systems.areal(2, 2, 3, **AREAL), every=2),
    "carts": lambda: environments("CartPole-v1"),
    "carts, episodes": lambda: environments("CartPole-v1", "episode", block=1),
    "environments": lambda: environments("Acrobot-v1"),
    "environments, episodes": lambda: environments("Acrobot-v1", "episode"),
    "continuous": lambda: environments("Pendulum-v1"),
    "discrete observations": lambda: environments("FrozenLake-v1"),
    "normalized": normalized,
    "language, early": lambda: language(sim.systems.areal(2, 2, 3, **AREAL)),
    "language, coupled": lambda: language(sim.schedules.coupled(sim.systems.areal(1, 1, 2, **AREAL)), replicates=2),
    "language, late": lambda: language(sim.schedules.fixed(1), drawing="late"),
    "tools, early": lambda: tools(sim.systems.areal(2, 2, 3, **AREAL)),
    "tools, coupled": lambda: tools(sim.schedules.coupled(sim.systems.areal(2, 2, 3, **AREAL))),
    "tools, compiled": lambda: spec(TOOL, compiled=True),
    "calculator, early": lambda: language(sim.systems.areal(2, 2, 3, **AREAL), task=CALCULATOR),
    "calculator, coupled": lambda: language(sim.schedules.coupled(sim.systems.areal(1, 1, 2, **AREAL)), CALCULATOR),
    "language, reread": lambda: language(interrupted(), updates=8),
    "language, kept": lambda: language(interrupted(), cache="keep", updates=8, samples_per_group=4),
    "language, kept, coupled": lambda: language(sim.schedules.coupled(interrupted()), cache="keep", updates=8),
    "language, bfloat16": lambda: language(
        interrupted(), cache="keep", sampler="bfloat16", critic=True, method=sim.methods.a2c(), updates=8, epochs=2
    ),
    "language, int8": lambda: language(
        interrupted(), sampler="int8", compute="bfloat16", micro_batch=2, minibatches=2, updates=6
    ),
}


def broken(made, path, update, block=0, seed=SEED):
    """A run that is killed behind an update, with a checkpoint behind every batch in front of it."""
    path.unlink(missing_ok=True)
    with pytest.raises(Killed):
        sim.run(made, seed=seed, checkpoint=path, checkpoint_every="1 update", callback=killer(update, block))


_WHOLE: dict[str, tuple[sim.Spec, sim.Trace]] = {}


def whole(kind):
    if kind not in _WHOLE:
        made = KINDS[kind]()
        _WHOLE[kind] = (made, sim.run(made, seed=SEED))
    return _WHOLE[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_run_goes_on_to_the_same_bits(kind, tmp_path):
    """Killed early in its first block, and again late in its last one."""
    made, trace = whole(kind)
    last = -(-made.replicates // made.together) - 1
    early, late = (int(place * made.updates) // made.every * made.every for place in (0.35, 0.8))
    resumed = {"seed": SEED, "resume": tmp_path / "c.npz"}
    broken(made, tmp_path / "c.npz", early)
    with pytest.raises(Killed):
        sim.run(made, **resumed, checkpoint_every="1 update", callback=killer(late, last))
    assert sim.run(made, **resumed) == trace
    # What is over is not run again.
    assert sim.run(made, **resumed, callback=killer(late)) == trace


TWICE = ("coupled, early", "random, blocks", "carts", "links, epochs", "language, kept")


@settings(max_examples=20)
@given(kind=st.sampled_from(TWICE), draw=st.data())
def test_it_may_be_killed_twice_at_any_batch(kind, draw, tmp_path_factory):
    made, trace = whole(kind)
    blocks, path = -(-made.replicates // made.together), tmp_path_factory.mktemp("killed") / "c.npz"
    at = draw.draw(st.integers(0, made.updates - 1)), draw.draw(st.integers(0, blocks - 1))
    broken(made, path, *at)
    again = draw.draw(st.integers(at[0], made.updates - 1)), draw.draw(st.integers(at[1], blocks - 1))
    every = draw.draw(st.sampled_from(["1 update", "3 updates", 1000.0]))
    with pytest.raises(Killed):
        sim.run(made, seed=SEED, resume=path, checkpoint_every=every, callback=killer(*again))
    assert sim.run(resume=path) == trace


@settings(max_examples=25)
@given(
    system=systems(features=PARTS),
    coupled=st.booleans(),
    drawing=st.sampled_from(["late", "early"]),
    at=st.tuples(st.integers(0, 7), st.integers(0, 1)),
)
def test_any_event_system_goes_on(system, coupled, drawing, at, tmp_path_factory):
    if coupled:
        made = ending(system.replace(length=constant(6.0), failure_keeps=False), updates=8, replicates=2, block=1)
    else:
        made = spec(system=system, updates=8, replicates=2, block=1, samples_per_group=2)
    made, path = made.replace(drawing=drawing), tmp_path_factory.mktemp("killed") / "c.npz"
    try:
        trace = sim.run(made, seed=SEED)
    except (StalledError, sim.InputError):
        reject()
    broken(made, path, *at)
    assert sim.run(made, seed=SEED, resume=path) == trace


def without(name):
    """Checkpoints that do not bring back one thing."""

    def damaged(read):
        def reading(path):
            saved = read(path)
            if saved.standing is not None:
                name(saved.standing)
            return saved

        return reading

    return damaged


def _zero_states(tree):
    tree["states"] = [{name: torch.zeros_like(value) for name, value in state.items()} for state in tree["states"]]


def _forget_world(tree):
    tree["source"]["world"] = None


def _move_world(tree):
    tree["source"]["world"]["inner"]["counts"][:] = 0


def _swap_versions(tree):
    tree["source"]["store"]["weights"].reverse()


def _forget_answers(tree):
    tree["feed"]["answers"][:] = 1.0


def _forget_ring(tree):
    tree["recorder"]["accumulators"][0]["ring"][:] = 0.0


def _redraw(tree):
    tree["source"]["pending"] = {}


def _spoil_caches(tree):
    for drawn in tree["source"]["pending"].values():
        for key, _ in drawn["memory"]["kept"]["layers"]:
            key.zero_()


@pytest.mark.parametrize(
    ("kind", "plant"),
    [
        ("random, blocks", _zero_states),
        ("links, epochs", _zero_states),
        ("carts", _forget_world),
        ("environments", _move_world),
        ("knobs", _swap_versions),
        ("coupled, late", _forget_answers),
        ("accumulated, every", _forget_ring),
        ("event system, early", _redraw),
        ("language, kept", _spoil_caches),
    ],
)
def test_what_is_not_brought_back_is_seen(kind, plant, tmp_path, monkeypatch):
    """Planted: a part of the state that a checkpoint forgets."""
    made, trace = whole(kind)
    broken(made, tmp_path / "c.npz", made.updates // 2 // made.every * made.every)
    monkeypatch.setattr(checkpoint, "read", without(plant)(checkpoint.read))
    # A batch that nobody has drawn, or a log of another length, ends the run.
    with suppress(KeyError, sim.InputError):
        assert sim.run(made, seed=SEED, resume=tmp_path / "c.npz") != trace


SCRIPT = """
import sys, time
import asyncsim as sim
made = sim.Spec.load(sys.argv[1])
sim.run(made, seed=3, checkpoint=sys.argv[2], checkpoint_every="1 update", callback=lambda recorded: time.sleep(0.02))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL")
def test_a_process_may_be_killed(tmp_path):
    made, path = spec(updates=200), tmp_path / "c.npz"
    made.save(tmp_path / "spec.json")
    process = Forked([sys.executable, "-c", SCRIPT, str(tmp_path / "spec.json"), str(path)])
    try:
        end = time.monotonic() + 120
        while time.monotonic() < end and not (path.exists() and len(checkpoint.read(path).standing or ()) > 0):
            time.sleep(0.05)
        time.sleep(0.3)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL
    assert 0 < checkpoint.read(path).standing["batch"] < 200
    assert sorted(os.listdir(tmp_path)) == ["c.npz", "spec.json"]
    assert sim.run(resume=path) == sim.run(made, seed=3)


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals go to the main thread")
@pytest.mark.parametrize("block", [1, 3])
def test_ctrl_c_leaves_a_checkpoint(tmp_path, block):
    made, path = spec(block=block), tmp_path / "c.npz"

    def interrupt(recorded):
        if recorded.update == 6 and recorded.block == 0:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(sim.Interrupted) as caught:
        sim.run(made, seed=SEED, checkpoint=path, callback=interrupt)
    assert caught.value.trace.partial["updates"] == 7
    assert checkpoint.read(path).standing["batch"] == 7
    assert sim.run(made, seed=SEED, resume=path) == sim.run(made, seed=SEED)


def test_spec_and_seed_are_those_of_the_file(tmp_path):
    made, path = spec(), tmp_path / "c.npz"
    broken(made, path, 5)
    for other, seed, said in (
        (made, SEED + 1, "seed = 4: must be 3"),
        (made.replace(updates=20), SEED, "spec.updates = 20: must be 10"),
        (made.replace(method=sim.methods.grpo()), SEED, "spec.method"),
    ):
        caught = refused(said, sim.run, other, seed=seed, resume=path)
        assert "\n" not in str(caught) and "begin anew" in str(caught)
    # 0 is a seed like any other, and none is that of the file.
    refused("seed = 0: must be 3", sim.run, resume=path, seed=0)
    assert sim.run(resume=path) == sim.run(made, resume=path) == sim.run(made, seed=SEED)
    refused("a new file", sim.run, made, seed=SEED, checkpoint=path)


def rewritten(path, **changes):
    arrays, scalars = files.load_arrays(path, "checkpoint")
    files.save_arrays(path, "checkpoint", arrays, {**scalars, **changes})


def test_other_formats_and_versions_are_refused(tmp_path):
    path = tmp_path / "c.npz"
    broken(spec(), path, 5)
    rewritten(path, format=1)
    refused("a checkpoint of format 4, not 1", sim.run, resume=path)
    rewritten(path, format=4, made_with={**checkpoint.made_with(), "torch": "0.1"})
    refused(r"made with torch .*, not 0\.1; use that version", sim.run, resume=path)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_file_that_is_cut_is_refused(tmp_path, share):
    path = tmp_path / "c.npz"
    broken(spec(), path, 5)
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    caught = refused("checkpoint file", sim.run, resume=path)
    assert "\n" not in str(caught)


def test_a_file_that_says_something_else_is_refused(tmp_path):
    path = tmp_path / "c.npz"
    broken(spec(), path, 5)
    _, scalars = files.load_arrays(path, "checkpoint")
    for text in ('{"dict": [["parts", {"list": []}]]}', '{"odd": []}', "[]", '{"array": "absent"}'):
        rewritten(path, tree=json.loads(text))
        refused("checkpoint file", sim.run, resume=path)
    torn = json.loads(json.dumps(scalars["tree"]).replace('"versions"', '"visions"'))
    rewritten(path, tree=torn)
    refused("versions", sim.run, resume=path)
    refused("an existing file", sim.run, resume=tmp_path / "absent.npz")
    sim.run(spec()).save(tmp_path / "trace.npz")
    refused("a checkpoint file", sim.run, resume=tmp_path / "trace.npz")


def test_what_no_file_can_hold_is_named_and_blocks_are_kept(tmp_path, capsys):
    class Odd:
        """Gathers what only its own code could make again."""

        name, outputs = "odd", ()

        def __init__(self):
            self.seen = None

        def fresh(self):
            return Odd()

        def observe(self, step):
            self.seen = iter([float(step.update)] * len(step.parameters))

        def result(self):
            return {"odd": np.array(list(self.seen))}

    made, path = spec(diagnostics=[Odd()], block=2), tmp_path / "c.npz"
    with pytest.raises(Killed):
        sim.run(made, SEED, checkpoint=path, checkpoint_every="1 update", callback=killer(4, block=1))
    said = capsys.readouterr().err
    assert said.count("finished blocks") == 1 and "accumulators[0].seen is a list_iterator" in said
    saved = checkpoint.read(path)
    assert len(saved.parts) == 1 and saved.standing is None
    assert sim.run(made, SEED, resume=path) == sim.run(made, SEED)
    refused("one that holds its spec", sim.run, resume=path)


def test_a_part_without_a_way_to_be_packed_is_named(tmp_path, capsys, monkeypatch):
    from asyncsim.base.feeds import EagerFeed

    monkeypatch.delattr(EagerFeed, "packed")
    made, path = spec(block=1), tmp_path / "c.npz"
    broken(made, path, 4, block=2)
    assert "the system has no method `packed`" in capsys.readouterr().err
    assert len(checkpoint.read(path).parts) == 2 and sim.run(resume=path) == sim.run(made, SEED)


def test_initial_parameters_and_schedules_of_a_spec_that_cannot_be_written_are_compared(tmp_path):
    made, path = replayed().replace(initial=np.ones(12)), tmp_path / "c.npz"
    broken(made, path, 5)
    refused(r"spec\.initial", lambda: sim.run(made.replace(initial=np.zeros(12)), SEED, resume=path))
    other = dataclasses.replace(made.system, trajectory=made.system.trajectory + 1)
    refused(r"spec\.schedule\.trajectory", lambda: sim.run(made.replace(system=other), SEED, resume=path))
    assert sim.run(made, SEED, resume=path) == sim.run(made, SEED)


def test_a_disk_that_is_full_does_not_end_the_run(tmp_path, monkeypatch, capsys):
    path = tmp_path / "c.npz"

    def full(*arguments, **options):
        raise sim.InputError("path", str(path), "writable", "choose another path (no space left)")

    monkeypatch.setattr(files, "save_arrays", full)
    assert sim.run(spec(), checkpoint=path, checkpoint_every="5 updates") == sim.run(spec())
    assert "asyncsim: no checkpoint: path" in capsys.readouterr().err


@pytest.mark.parametrize("every", [0, -1.0, "0 updates", "soon", float("nan")])
def test_an_interval_has_a_unit(every, tmp_path):
    refused("checkpoint_every", lambda: sim.run(spec(), checkpoint=tmp_path / "c.npz", checkpoint_every=every))


def test_checkpoints_are_as_rare_as_asked(tmp_path, monkeypatch):
    written = []
    save = files.save_arrays
    monkeypatch.setattr(files, "save_arrays", lambda *a, **k: (written.append(1), save(*a, **k)))
    sim.run(spec(), checkpoint=tmp_path / "a.npz", checkpoint_every="4 updates")
    assert len(written) == 4  # before the first batch, behind 4 and 8, at the end
    sim.run(spec(), checkpoint=tmp_path / "b.npz")
    assert len(written) == 6


@pytest.mark.parametrize(
    "make", [lambda: torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1), lambda: torch.tensor(3)]
)
def test_tensors_come_back_as_they_lay(make):
    made, arrays = make(), {}
    back = rebuilt(json.loads(json.dumps(flattened([made], arrays))), arrays)[0]
    assert back.stride() == made.stride() and back.dtype == made.dtype and torch.equal(back, made)


def test_rows_that_stand_for_many_come_back_as_such():
    for made in (torch.ones(1, 3).expand(4, 3), torch.arange(3, dtype=torch.bfloat16).expand(2, 3), torch.zeros(0, 2)):
        arrays = {}
        back = rebuilt(flattened(made, arrays), arrays)
        assert (
            torch.equal(back, made)
            and back.dtype == made.dtype
            and (made.numel() == 0 or back.stride() == made.stride())
        )


@pytest.mark.parametrize("value", [object(), {1.5: 2}, {"x": {3, 4}}, np.array([object()]), lambda: 0])
def test_only_plain_values_are_written(value):
    with pytest.raises(Unwritable):
        flattened({"value": value}, {})


def test_a_metric_of_ones_own_is_no_obstacle(tmp_path):
    metric = Metric("size", lambda step: step.parameters.abs().sum(-1))
    made = spec(diagnostics=["batch_return", metric])
    broken(made, tmp_path / "c.npz", 5)
    assert sim.run(made, SEED, resume=tmp_path / "c.npz") == sim.run(made, SEED)
    assert Path(tmp_path / "c.npz").exists()
