"""Every update on a batch is compared with the batch's first one, however many there are.

Two updates cannot tell "the first" from "the one before": with three the planted loop, which hands over the update
before, is caught by the ratios, by the advantages that are computed once, and by a critic's targets.
"""

import numpy as np
import pytest
import torch

import asyncsim as sim
import asyncsim.running.loop
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.step.step import Carried

EPOCHS, ARMS = 4, 3


class Book:
    """Log-softmax of the parameters at every update, and the largest deviation of the drift from what they say."""

    def __init__(self):
        self.tables, self.worst, self.largest = [], 0.0, 0.0

    def __call__(self, step):
        self.tables.append(torch.log_softmax(step.parameters.reshape(-1, ARMS), -1))
        # Updates of the batch begin where its number of updates is a multiple of all that are made on it.
        first = self.tables[step.update // EPOCHS * EPOCHS]
        action = step.batch.action[..., 0]
        drift = (self.tables[-1] - first)[:, None, None].expand(*action.shape, ARMS)
        expected = drift.gather(-1, action.unsqueeze(-1))
        found = step.drift
        self.worst = max(self.worst, float((found - expected).abs().max()))
        self.largest = max(self.largest, float(expected.abs().max()))
        return torch.zeros(len(action), dtype=torch.float64)


def drifted(staleness=0):
    """The book of a run of PPO anchored at the batch's first update."""
    book = Book()
    sizes = {"samples_per_group": 8, "updates": 3 * EPOCHS, "epochs": EPOCHS, "replicates": 4}
    task, recorded = sim.tasks.softmax_bandit(arms=ARMS, means=[0.0, 0.3, 1.0]), Metric("book", book, ("log_prob",))
    method = sim.methods.ppo_clip(anchor="proximal", advantage=sim.advantages.group_mean())
    parts = (task, sim.schedules.fixed(staleness), method, sim.chain(sim.updates.sgd(0.7)))
    sim.run(sim.Spec(*parts, diagnostics=[recorded], **sizes), seed=2, progress=False)
    assert len(book.tables) == 3 * EPOCHS
    return book


@pytest.mark.parametrize("staleness", [0, 2])
def test_the_proximal_policy_is_that_of_the_first_update_on_the_batch(staleness):
    """By hand from the parameters of every update: log u = log pi_k - log pi_0 of the batch."""
    book = drifted(staleness)
    assert book.worst < 1e-12 and book.largest > 0.05


def kept(method):
    """Advantages or targets of every update of a run, `[U, R, ...]`."""
    seen = {"advantages": [], "targets": []}

    def look(step):
        seen["advantages"].append(step.advantages.clone())
        seen["targets"].append(step.targets.clone())
        return torch.zeros(len(step.gradient), dtype=torch.float64)

    task, system = sim.tasks.gym("CartPole-v1", trajectory="segment", steps=8), sim.schedules.fixed(0)
    sizes = {"samples_per_group": 4, "updates": 2 * EPOCHS, "epochs": EPOCHS, "replicates": 2}
    spec = sim.Spec(task, system, method, sim.chain(sim.updates.sgd(0.5)), diagnostics=[Metric("look", look)], **sizes)
    sim.run(spec, seed=2, progress=False)
    return seen


def test_what_depends_on_data_only_is_computed_at_the_first_update():
    """Advantages and targets of a critic's batch: equal at all updates on it, and new with the next batch."""
    seen = kept(sim.methods.a2c(advantage=sim.advantages.gae()))
    for name in ("advantages", "targets"):
        for batch in (seen[name][:EPOCHS], seen[name][EPOCHS:]):
            assert all(torch.equal(batch[0], later) for later in batch)
        assert not torch.equal(seen[name][0], seen[name][EPOCHS])


def test_the_update_before_in_place_of_the_first_is_caught(monkeypatch):
    """The planted loop: `first` is handed on from update to update."""
    right = asyncsim.running.updating.evaluate
    before = {}

    def evaluate(method, task, policy, weights, batch, start, *rest):
        handed = None if start is None else Carried(before["step"].current)
        before["step"] = right(method, task, policy, weights, batch, handed, *rest)
        return before["step"]

    monkeypatch.setattr(asyncsim.running.updating, "evaluate", evaluate)
    book = drifted()
    assert book.worst > 0.05


def test_epochs_are_what_is_said_else_what_the_system_recommends():
    around = {"method": sim.methods.reinforce(), "update": sim.chain(sim.updates.sgd(0.1))}
    around |= {"updates": 8, "replicates": 2}
    system = sim.systems.m2po(2, 1, length=1.0, load=1.0)
    spec = sim.Spec(sim.tasks.softmax_bandit(), system, **around)
    assert (spec.passes, spec.describe()["minibatches"], spec.replace(epochs=2).passes) == (4, 4, 8)
    spec = spec.replace(minibatches=1)
    assert (spec.passes, spec.describe()["epochs"], spec.replace(epochs=2).passes) == (1, 1, 2)
    assert [sim.run(s).schedule.batches for s in (spec, spec.replace(epochs=2))] == [8, 4]
    assert (
        sim.run(spec.replace(epochs=2)).seconds()[:, 0].tolist()
        == np.repeat(sim.run(spec.replace(epochs=1, updates=4)).seconds()[:, 0], 2).tolist()
    )
