"""Warm-up, decay and AdamW against torch's own optimizer and scheduler; texts of a run as a table."""

import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base.checks import RunWarning
from asyncsim.updates._link import Record
from tests.refusals import refused

SHAPES = {
    "constant": lambda t: min(1.0, (t + 1) / 4),
    "linear": lambda t: min(1.0, (t + 1) / 4) * (0.1 + 0.9 * (1.0 - min(1.0, max(0.0, (t - 4) / 16)))),
    "cosine": lambda t: (
        min(1.0, (t + 1) / 4) * (0.1 + 0.9 * 0.5 * (1.0 + math.cos(math.pi * min(1.0, max(0.0, (t - 4) / 16)))))
    ),
}


def walked(chain, updates=25, seed=0):
    """Parameters `[U, 1, P]` behind each update of a chain on given gradients, and the reported scale."""
    random = torch.Generator().manual_seed(seed)
    theta = torch.randn(1, 6, dtype=torch.float64, generator=random)
    states, rows, scales = chain.init(theta), [], []
    for _ in range(updates):
        gradient = torch.randn(1, 6, dtype=torch.float64, generator=random)
        record = Record(gradient, torch.zeros(1, dtype=torch.bool), SimpleNamespace(parameters=theta))
        record, states = chain.apply(record, states)
        theta = theta + record.direction
        rows.append(theta)
        scales.append(record.statistics.get("lr_schedule_scale", torch.ones(1)).item())
    return torch.stack(rows), scales


def by_torch(optimizer, shape, updates=25, seed=0):
    """The same by an optimizer of torch, which descends, under a schedule of its own."""
    random = torch.Generator().manual_seed(seed)
    theta = torch.nn.Parameter(torch.randn(1, 6, dtype=torch.float64, generator=random))
    made, rows = optimizer([theta]), []
    scheduler = torch.optim.lr_scheduler.LambdaLR(made, shape)
    for _ in range(updates):
        theta.grad = -torch.randn(1, 6, dtype=torch.float64, generator=random)
        made.step()
        scheduler.step()
        rows.append(theta.detach().clone())
    return torch.stack(rows)


@pytest.mark.parametrize("decay", SHAPES)
@pytest.mark.parametrize(
    ("link", "optimizer"),
    [
        (sim.updates.adamw(0.03, weight_decay=0.2), lambda p: torch.optim.AdamW(p, lr=0.03, weight_decay=0.2)),
        (sim.updates.adam(0.03), lambda p: torch.optim.Adam(p, lr=0.03)),
        (sim.updates.sgd(0.03), lambda p: torch.optim.SGD(p, lr=0.03)),
    ],
)
def test_links_are_torchs_optimizers_under_a_schedule(decay, link, optimizer):
    schedule = sim.updates.lr_schedule(4, decay, None if decay == "constant" else 20, 0.1)
    found, scales = walked(sim.chain(link, schedule))
    torch.testing.assert_close(found, by_torch(optimizer, SHAPES[decay]), rtol=1e-12, atol=1e-14)
    assert scales == pytest.approx([SHAPES[decay](t) for t in range(25)])
    # Planted: a warm-up that begins one update later.
    late = by_torch(optimizer, lambda t: SHAPES[decay](t - 1))
    assert (found - late).abs().max() > 1e-3


def test_decay_is_decoupled():
    """Planted: decay inside the gradient, as Adam's own `weight_decay` of torch, is another walk."""
    found, _ = walked(sim.chain(sim.updates.adamw(0.03, weight_decay=0.2), sim.updates.lr_schedule()))
    inside = by_torch(lambda p: torch.optim.Adam(p, lr=0.03, weight_decay=0.2), lambda t: 1.0)
    assert (found - inside).abs().max() > 1e-3


def test_a_schedule_counts_updates_that_were_made():
    """Replicates with rates of their own; a run resumes in the middle of its schedule."""
    links = sim.chain(sim.updates.adamw((0.1, 0.2)), sim.updates.lr_schedule(2, "cosine", 8, floor=(0.0, 0.5)))
    spec = sim.Spec(sim.tasks.softmax_bandit(), sim.schedules.fixed(1), sim.methods.reinforce(), links, updates=8,
                    replicates=2)  # fmt: skip
    scales = sim.run(spec)["lr_schedule_scale"]
    cosine = [0.5 * (1 + math.cos(math.pi * max(0, t - 2) / 6)) for t in range(8)]
    np.testing.assert_allclose(scales[:, 0], np.minimum(1.0, (np.arange(8) + 1) / 2) * cosine, atol=1e-12)
    np.testing.assert_allclose(scales[2:, 1], 0.5 + 0.5 * np.array(cosine)[2:], atol=1e-12)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_program_makes_the_same_updates(compiled):
    links = sim.chain(sim.updates.adamw(0.1), sim.updates.lr_schedule(2, "linear", 6, 0.2))
    spec = sim.Spec(sim.tasks.softmax_bandit(), sim.schedules.fixed(1), sim.methods.reinforce(), links, updates=8,
                    replicates=2, compiled=compiled)  # fmt: skip
    plain = sim.run(spec.replace(compiled=False))
    np.testing.assert_allclose(sim.run(spec).parameters, plain.parameters, rtol=1e-9)


def test_a_factor_before_adam_is_told():
    """Twice the gradient is the same step of Adam; behind it, twice the step."""
    factor, adam = sim.updates.scale(2.0), sim.updates.adam(0.1)
    with pytest.warns(RunWarning, match="Scale acts before Adam, which divides most of its factor away"):
        ahead = sim.chain(factor, adam)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        behind, alone = sim.chain(adam, factor), sim.chain(adam)
        sim.chain(factor, sim.updates.sgd(0.1))
    steps = [walked(each)[0] for each in (alone, ahead, behind)]
    torch.testing.assert_close(steps[1], steps[0], rtol=0.0, atol=1e-7)
    assert not torch.allclose(steps[2], steps[0])


def test_a_decay_needs_an_end():
    refused("updates = None: must be given for a decay", sim.updates.lr_schedule, 4, "linear")
    refused("updates = 4: must be more than warmup = 4", sim.updates.lr_schedule, 4, "linear", 4)


# Texts.


def test_texts_are_rows_of_a_table(tmp_path):
    task = sim.tasks.token_bandit(actions=3, horizon=4)
    texts = sim.diagnostics.texts(samples=3, every=2)
    spec = sim.Spec(task, sim.schedules.fixed(2, groups_per_batch=2), sim.methods.reinforce(), sim.chain(), updates=5,
                    samples_per_group=2, replicates=3, diagnostics=["default", texts])  # fmt: skip
    trace = sim.run(spec)
    table = trace.texts()
    assert len(table) == 3 * 3 * 3 and table["update"].unique().tolist() == [0, 2, 4]
    assert table["staleness"].tolist() == [float(min(2, update)) for update in table["update"]]
    assert table["response"].str.fullmatch(r"[0-2]( [0-2]){3}").all()
    # The reward of a row is that of its own response.
    one = table[table["response"] == table["response"][0]]
    assert one["reward"].nunique() == 1 and table["reward"].nunique() > 1
    trace.save(tmp_path / "t.npz")
    assert sim.Trace.load(tmp_path / "t.npz").texts().equals(table) and "ess" in trace.metrics
    # However replicates are cut into blocks, and behind a checkpoint.
    assert sim.run(spec.replace(block=2)).texts().equals(table)
    bare = sim.run(spec.replace(diagnostics="none"))
    assert "texts" in str(refused("texts = 'not recorded'", bare.texts))


def test_texts_of_frozen_replicates_are_left_out():
    spec = sim.Spec(sim.tasks.softmax_bandit(), sim.schedules.fixed(0), sim.methods.reinforce(),
                    sim.chain(sim.updates.sgd((0.1, 1e200))), updates=3, replicates=2,
                    diagnostics=["texts"])  # fmt: skip
    assert sim.run(spec).texts()["replicate"].unique().tolist() == [0]
