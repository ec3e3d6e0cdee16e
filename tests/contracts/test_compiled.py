"""Runs as machine programs against the same runs on tensors: every plug-in, sampler and way to lay out a run."""

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base import compiling
from asyncsim.fusing import elementary, emitting, program
from asyncsim.fusing.graph import Unfit
from asyncsim.running import fused
from tests.contracts.test_every_plugin import PROGRAMS, ends_finite, spec_of
from tests.fusing.code import unkept

COUPLED = {"bapo_code", "bapo_paper", "kl_cov", "m2po_areal", "m2po_mask", "m2po_waterfill", "p3o", "sat"}
"""Methods that ask what the numbers of the batch are: thresholds found by search, sizes of segments."""
ACTING = {"a2c", "a3c", "acer", "retrace", "vtrace", "gae", "n_step"}
"""Methods and advantages of actors with critics, which are networks."""
BEHAVIOR = {"score_centering"}
"""Methods that evaluate the behavior policy anew, at weights of any version."""
SORTING = {"pass_at_k", "remax"}
"""Advantages that put rewards in order, or answer once more."""
ELSEWHERE = COUPLED | ACTING | BEHAVIOR | SORTING | {"gym", "quadratic"}
"""Parts whose updates run on tensors."""
PAID = {"cliff_walking", "frozen_lake", "mdp"}
"""Tasks that pay by token: their batches are drawn on tensors."""
EXAMPLES = {
    "methods": "a2c bapo_code clip_cov dapo delight gmpo gradient ipo_mask score_centering vcpo",
    "advantages": "gae remax",
    "factors": "staleness_weight",
    "penalties": "exact",
    "updates": "adam ess_step",
    "tasks": "frozen_lake gym quadratic tool_bandit",
    "diagnostics": "together",
}
"""Parts of which every run of the suite makes programs: with every operation that any part needs, and with each reason
to have none. `make test-rows` makes those of all parts."""
TINY = 1e-12
"""A gradient that is zero but for rounding has no direction."""


@pytest.fixture
def programs(monkeypatch):
    """Programs that were made, and why others were not."""
    made: list[object] = []
    reasons: list[str] = []
    right = fused.Program.__init__

    def init(self, *arguments):
        right(self, *arguments)
        made.append(self)

    monkeypatch.setattr(fused.Program, "__init__", init)
    monkeypatch.setattr(fused, "_reason", lambda error, asked: reasons.append(repr(error)) or repr(error))
    return made, reasons


def both(spec, seed=1):
    """The traces of a run as programs and on tensors."""
    return tuple(sim.run(spec.replace(compiled=way), seed=seed, progress=False) for way in (True, False))


def assert_equal(program, tensors, tolerance=1e-9):
    """Equal to rounding in parameters and every metric."""
    scale = np.maximum(1.0, np.abs(tensors.parameters).max(axis=1, keepdims=True))
    np.testing.assert_allclose(program.parameters / scale, tensors.parameters / scale, rtol=0, atol=1e-12)
    still = np.zeros(tensors.updates.shape, dtype=bool)
    if "gradient_norm" in tensors.metrics:
        small = np.isnan(tensors["gradient_norm"]) | (tensors["gradient_norm"] < TINY)
        still = (small | np.roll(small, 1, axis=0)).any(axis=1)
    for name, values in tensors.metrics.items():
        rows = ~still if name in ("gradient_cosine", "autocorrelation") else slice(None)
        np.testing.assert_allclose(
            program.metrics[name][rows], values[rows], rtol=tolerance, atol=tolerance, err_msg=name
        )
    for name, values in tensors.accumulated.items():
        if values.dtype.kind == "U":
            np.testing.assert_array_equal(program.accumulated[name], values)
        else:
            np.testing.assert_allclose(program.accumulated[name], values, rtol=1e-7, atol=1e-9, err_msg=name)
    assert (program.diverged == tensors.diverged).all()


def example(kind, name):
    return name in EXAMPLES[kind].split()


def eleven(kind, name):
    """Replicates for one step of eight, and one that does five of them again."""
    short = {"task": getattr(sim.tasks, name)(horizon=20)} if name in ("cliff_walking", "frozen_lake") else {}
    return spec_of(kind, name, replicates=11, updates=12).replace(**short)


@pytest.mark.parametrize(
    ("kind", "name"), [pytest.param(*each, marks=[pytest.mark.rows] * (not example(*each))) for each in PROGRAMS]
)
def test_a_program_does_what_tensors_do(kind, name, programs):
    spec = eleven(kind, name)
    compiled, tensors = both(spec)
    assert_equal(compiled, tensors)
    ends_finite(tensors)
    if name not in ELSEWHERE and name != "gradient":
        made, reasons = programs
        assert len(made) >= (1 if name in PAID else 2) or "gaussian" in name, reasons


@pytest.mark.rows
def test_the_examples_have_every_operation(monkeypatch):
    """Nothing is compiled: what would be is written down, and the run goes on with tensors."""
    found = {each: set() for each in PROGRAMS}
    right = program.ordered

    def ordered(outputs):
        found[each].update((var.operation, var.kind) for var in right(outputs))
        raise Unfit("written down")

    monkeypatch.setattr(program, "ordered", ordered)
    for each in PROGRAMS:
        sim.run(eleven(*each).replace(compiled=True), progress=False)
    examples = set().union(*(found[each] for each in PROGRAMS if example(*each)))
    lacking = {each: found[each] - examples for each in PROGRAMS if found[each] - examples}
    assert len(examples) > 50 and not lacking, f"no example has {lacking}: add these to EXAMPLES"


MARKOV = sim.tasks.token_bandit(actions=3, horizon=4, dependence="markov", ends=True)
LAYOUTS = {
    "sequences that end": {"task": MARKOV},
    "several prompts": {"task": sim.tasks.softmax_bandit(arms=3, means=[[0.1, 0.5, 0.9], [0.9, 0.2, 0.3]])},
    "groups": {"system": sim.schedules.fixed(2, groups_per_batch=3)},
    "mixed versions": {"task": MARKOV, "system": sim.schedules.random([0.3, 0.3, 0.4], per="trajectory")},
    "realizations": {"system": sim.schedules.random([0.5, 0.5]), "realizations": 4},
    "epochs": {"epochs": 3, "method": sim.methods.ppo_clip()},
    "publishes": {"system": sim.schedules.fixed(1, batches_per_publish=2)},
    "counts": {"sampling": "counts"},
    "the population": {"sampling": "enumerate"},
    "early": {"drawing": "early", "task": MARKOV},
    "a knob for each replicate": {"update": sim.chain(sim.updates.sgd(np.linspace(0.0, 2.0, 11)))},
    "a cap for each replicate": {"method": sim.methods.truncated_is("token", cap=np.linspace(1.0, 2.0, 11))},
    "every third": {"every": 3},
    "one replicate": {"replicates": 1},
    "as many replicates as arms": {"replicates": 4},
    "as many replicates as samples": {"replicates": 5},
    "as many replicates as tokens": {"replicates": 4, "task": MARKOV},
    "eight replicates": {"replicates": 8},
    "dropped groups": {"method": sim.methods.dapo(), "system": sim.schedules.fixed(1, groups_per_batch=3)},
    "a penalty in the reward": {"task": sim.tasks.softmax_bandit(arms=3, kl_coef=0.1, kl_at="current")},
    "gaussian rewards": {"task": sim.tasks.softmax_bandit(arms=3, rewards="gaussian")},
    "frozen replicates": {"update": sim.chain(sim.updates.sgd(np.geomspace(1.0, 1e160, 11)))},
    "accumulated": {"diagnostics": ["autocorrelogram", "ess", "tail_index"]},
    "chains of 64 tokens": {"task": sim.tasks.bit_chain(horizon=64, fraction=0.5), "diagnostics": "default"},
    "long chains that end": {"task": sim.tasks.token_bandit(actions=3, horizon=40, dependence="markov", ends=True)},
    "long chains with noise": {
        "task": sim.tasks.token_bandit(actions=3, horizon=40, dependence="markov", rewards="gaussian"),
        "method": sim.methods.vcpo(),
    },
    "many samples": {"samples_per_group": 700},
    "many arms": {"task": sim.tasks.softmax_bandit(arms=60)},
    "skipped updates": {
        "update": sim.chain(sim.updates.align(high=0.3), sim.updates.momentum(0.9), sim.updates.sgd(0.5))
    },
}

LARGE = ("chains of 64 tokens", "long chains that end", "long chains with noise", "many samples", "many arms")
"""Layouts whose draws and updates are programs of loops."""
OFTEN = ("long chains with noise", "many samples", "many arms")
"""Those of them that every run compiles; `make test-rows` compiles all."""


def laid_out(name):
    parts = {
        "task": sim.tasks.softmax_bandit(arms=4),
        "system": sim.schedules.fixed(2),
        "method": sim.methods.full_is(),
        "update": sim.chain(sim.updates.sgd(0.5)),
        "samples_per_group": 5,
        "updates": 24,
        "replicates": 11,
    }
    return sim.Spec(**(parts | LAYOUTS[name]))


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.rows] * (each in LARGE and each not in OFTEN)) for each in LAYOUTS]
)
def test_every_layout_of_a_run(name, programs):
    assert_equal(*both(laid_out(name)))
    made, reasons = programs
    assert made, reasons
    if name in LARGE:
        assert len(made) >= 2 and not reasons


@pytest.mark.parametrize("block", [1, 3, 8, 10])
def test_blocks_do_not_matter_to_the_bit(block):
    """A replicate's numbers do not depend on those computed beside it."""
    spec = laid_out("sequences that end").replace(compiled=True)
    whole, cut = sim.run(spec, seed=2), sim.run(spec.replace(block=block), seed=2)
    assert (whole.parameters == cut.parameters).all()
    assert all(np.array_equal(whole[name], cut[name], equal_nan=True) for name in whole.metrics)


def test_it_is_used_where_a_run_is_long(programs):
    spec = laid_out("groups").replace(updates=fused.UPDATES - 1)
    sim.run(spec)
    assert not programs[0]
    sim.run(spec.replace(updates=fused.UPDATES))
    assert len(programs[0]) == 2


def test_a_function_of_the_users_stays_on_tensors(programs):
    """It may do anything while it runs; a program would do what it did at the first update."""
    calls = []

    def loss(log_prob, behavior_log_prob, advantage, mask):
        calls.append(len(calls))
        return -(torch.exp(log_prob - behavior_log_prob) * advantage * mask).mean() * (1 + len(calls))

    spec = laid_out("groups").replace(method=sim.methods.from_loss(loss), compiled=True, replicates=2)
    sim.run(spec)
    assert len(calls) >= spec.updates


def test_a_compiler_that_fails_costs_a_line(monkeypatch, capsys):
    """The run goes on with tensors, to the same result."""
    monkeypatch.setattr("asyncsim.base.compiling._reported", set())

    def broken(*_):
        raise OSError("no room for code")

    monkeypatch.setattr(fused, "Program", broken)
    compiled, tensors = both(laid_out("groups"))
    assert (compiled.parameters == tensors.parameters).all()
    said = capsys.readouterr().err
    assert said == "asyncsim: updates are not compiled, they run on tensors: OSError: no room for code\n"


DEFECTS = {
    "a coefficient of the exponential": (elementary.FUNCTIONS, "exp", lambda w, x: w.two("fadd", x, w.number(1.0))),
    "sums that forget": (emitting.TREES, "sum", lambda w, kind, a, b: a),
    "differences turned round": (
        emitting._OPERATIONS, "sub", lambda w, kind, a, b: w.two("fsub" if kind == "f" else "sub", b, a, kind),
    ),
    "NaN is larger than nothing": (emitting._OPERATIONS, "where", lambda w, kind, c, a, b: a),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFECTS)
def test_planted_defects_are_seen(name, monkeypatch):
    table, key, wrong = DEFECTS[name]
    monkeypatch.setitem(table, key, wrong)
    unkept(monkeypatch)
    with pytest.raises(AssertionError):
        assert_equal(*both(laid_out("dropped groups")))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"policy": sim.policies.mlp(4, 3, critic=False)}, "no rule for baddbmm"),
        ({"dtype": "float32"}, "programs are float64 on the CPU, of whole batches and the package's own parts"),
    ],
)
@pytest.mark.parametrize("asked", [True, None])
def test_who_asked_for_programs_and_has_none_is_told_once(changes, why, asked, capsys, monkeypatch):
    monkeypatch.setattr(compiling, "_reported", set())
    task = sim.tasks.token_bandit(actions=3, horizon=4, dependence="position")
    spec = sim.Spec(task, sim.schedules.fixed(1), sim.methods.grpo(), sim.chain(sim.updates.adam(0.05)), updates=4)
    for seed in (0, 1):
        sim.run(spec.replace(compiled=asked, **changes), seed=seed, progress=False)
    told = f"asyncsim: updates are not compiled, they run on tensors: {why}\n"
    assert capsys.readouterr().err == told * (asked is True)
