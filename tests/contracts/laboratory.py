"""Every discovered plug-in made with its defaults, and small random batches to try it on."""

from __future__ import annotations

import dataclasses
import inspect
from functools import cache

import numpy as np
import torch

import asyncsim as sim
from asyncsim import plugins, versions
from asyncsim.batch import Batch
from asyncsim.methods._signal import evaluate

EXAMPLES = {"lr": 0.1, "beta": 0.9, "v": 0.3}
"""A value for every argument that a plug-in requires; a new one takes its place here."""

KINDS = ("methods", "advantages", "updates", "policies", "tasks", "diagnostics")


def names(kind):
    """Public names of a kind, as found by reading its folder."""
    assert kind in KINDS
    return list(plugins.summaries(f"asyncsim.{kind}"))


def make(kind, name, **changes):
    """The plug-in with its defaults and `EXAMPLES`."""
    factory = plugins.load(f"asyncsim.{kind}", name, kind)
    required = [
        p.name
        for p in inspect.signature(factory).parameters.values()
        if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    unknown = set(required) - set(EXAMPLES)
    assert not unknown, f"{name}: give EXAMPLES a value for {unknown}"
    return factory(**{**{r: EXAMPLES[r] for r in required}, **changes})


def knob_fields(value):
    """Names of the fields, here and inside, that may hold one number per replicate."""
    found = set()
    for f in dataclasses.fields(value) if dataclasses.is_dataclass(value) else ():
        inner = getattr(value, f.name)
        found |= {f.name} if f.metadata.get("knob") else set()
        found |= knob_fields(inner)
    return found


@cache
def task_for(method_outputs):
    """A small task whose policy offers the outputs."""
    tasks = [
        sim.tasks.token_bandit(actions=3, horizon=4, dependence="markov", ends=True, rewards="bernoulli"),
        sim.tasks.quadratic((1.0, 0.5)),
    ]
    return next(task for task in tasks if set(method_outputs) <= set(task.policy().outputs))


@dataclasses.dataclass
class Case:
    """A random batch of a tabular policy, with the tables that generated it (`old`) and that it trains (`new`)."""

    policy: object
    old: torch.Tensor
    new: torch.Tensor
    batch: Batch

    def evaluate(self, method, **changes):
        batch = dataclasses.replace(self.batch, index=None, **changes)
        return evaluate(method, NOTHING, self.policy, self.policy.prepare(self.new), batch)

    def gradient(self, method, **changes):
        return self.evaluate(method, **changes)[1]


NOTHING = sim.tasks.token_bandit(actions=3, horizon=3, dependence="markov")
"""A task whose rewards are taken from the batch as they are."""


def case(seed=0, R=2, G=2, N=5, T=3, A=3, spread=1.0, drift=0.3, ragged=True):
    """A random batch: tables of size `spread`, moved by `drift` since the data was generated; Bernoulli rewards."""
    random = np.random.default_rng(seed)
    S = A + 1
    policy = sim.policies.tabular(rows=S, actions=A)
    old = torch.from_numpy(spread * random.standard_normal((R, S * A)))
    new = old + torch.from_numpy(drift * random.standard_normal((R, S * A)))
    lengths = random.integers(1, T + 1, (R, G, N)) if ragged else np.full((R, G, N), T)
    mask = torch.from_numpy((np.arange(T) < lengths[..., None]).astype(np.float64))
    batch = Batch(
        action=torch.from_numpy(random.integers(0, A, (R, G, N, T))),
        state=torch.from_numpy(random.integers(0, S, (R, G, N, T))),
        mask=mask,
        reward=torch.from_numpy(random.integers(0, 2, (R, G, N)).astype(np.float64)),
        mass=torch.full((1, G, N), 1.0 / N, dtype=torch.float64),
        size=N,
        behavior={},
        view=versions.current(policy.prepare(old)),
        version=np.zeros((1, 1, 1, 1), dtype=np.int32),
        train_version=1,
        realization=np.zeros(R, dtype=np.int64),
        trajectory=np.arange(G * N).reshape(1, G, N),
    )
    batch.behavior = policy.forward(batch.view, batch, ("log_prob",)).outputs
    return Case(policy, old, new, batch)


def permuted(batch, axis, order):
    """The batch with its groups (axis 1) or samples (axis 2) in another order."""

    def move(x):
        return x.index_select(axis, order)

    return {
        "action": move(batch.action),
        "state": move(batch.state),
        "mask": move(batch.mask),
        "reward": move(batch.reward),
        "mass": move(batch.mass),
        "behavior": {k: move(v) for k, v in batch.behavior.items()},
    }
