"""Runs of networks with every part of the plug-in lists, each in a moment: two updates on four short responses.

A part is tried on the language model; one that this policy refuses, on a small network in an environment.
"""

import dataclasses
from functools import cache
from pathlib import Path

import numpy as np
import torch

import asyncsim as sim
from asyncsim.base.checks import InputError
from tests.contracts.laboratory import Judged, make, names

TINY = {"width": 16, "layers": 1, "heads": 2, "hidden": 16, "context": 64, "steps": 0}
"""A character model of random weights."""


def small(decode="packed", **settings):
    """The language model, which draws in the same way on every device unless `decode` is "auto"."""
    return sim.policies.causal_lm("char", recipe=TINY, decode=decode, **settings)


def letters(completions):
    """A reward that differs from answer to answer, so that an untrained model moves."""
    return [sum(map(ord, text)) % 5 / 4 for text in completions]


def language(device="cpu", **changes):
    """A run of the language model on four questions, one version behind."""
    settings = {
        "task": sim.tasks.text(str(Path(__file__).with_name("sums.jsonl")), reward=letters, stop="\n", horizon=4),
        "system": sim.schedules.fixed(1, groups_per_batch=2),
        "method": sim.methods.grpo(),
        "update": sim.chain(sim.updates.clip_norm(1.0), sim.updates.adam(1e-3)),
        "policy": small(),
    }
    sizes = {"samples_per_group": 2, "updates": 2, "replicates": 1}
    return sim.Spec(**{**settings, **sizes, "device": device, **changes})


def gym(device="cpu", **changes):
    """A run of a small perceptron in an environment."""
    task = sim.tasks.gym("CartPole-v1", trajectory="segment", steps=4)
    method = sim.methods.reinforce(advantage=sim.advantages.returns_to_go())
    return language(device, **{"task": task, "policy": None, "method": method, "replicates": 2, **changes})


def module(device="cpu", **changes):
    """The same of a network of the user's."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
    return gym(device, **{"policy": sim.policies.module(network, observation=4, actions=2), **changes})


KINDS = ("methods", "advantages", "factors", "penalties", "updates", "diagnostics")
NOWHERE = {
    "methods gradient": "reads a loss of tables",
    "advantages remax": "asks a table for its greedy response",
    "diagnostics exact_cosine": "lists outcomes",
    "diagnostics exact_gradient_norm": "lists outcomes",
    "diagnostics exact_return": "lists outcomes",
    "diagnostics variance": "lists outcomes",
    "diagnostics bias": "lists outcomes",
}
"""Parts that no network can be trained or measured with, and why."""


SMALLER = {"diagnostics autocorrelogram": {"lags": 1}}
"""Arguments with which two updates are enough."""


def parts():
    """Names of all parts of the lists, "kind name"."""
    return [f"{kind} {name}" for kind in KINDS for name in names(kind)]


def ways(label):
    """Runs that put a part in its place, as functions of the device; the first that is accepted counts."""
    kind, name = label.split()

    def placed(base, **changes):
        def spec(device):
            part = make(kind, name, **SMALLER.get(label, {}), **({"to": "behavior"} if kind == "penalties" else {}))
            if kind == "methods":
                own = {"method": part}
            elif kind == "advantages":
                own = {"method": sim.methods.reinforce(advantage=part)}
            elif kind in ("factors", "penalties"):
                own = {"method": sim.methods.truncated_is("token").replace(**{kind: (part,)})}
            elif kind == "updates":
                own = {"update": sim.chain(part, sim.updates.sgd(0.1))}
            else:
                own = {"diagnostics": [part]}
            return base(device, **own, **{key: value() for key, value in changes.items()})

        return spec

    # Off the CPU a float32 trainer is mismatched with its sampler: only these metrics would differ.
    mismatched = kind == "diagnostics" and any(word in name for word in ("mismatch", "_staleness", "staleness_"))
    yield placed(language, policy=lambda: small(sampler="bfloat16" if mismatched else "float32"))
    yield placed(language, policy=lambda: small(reference="start"))
    yield placed(language, drawing=lambda: "late")
    yield placed(language, policy=lambda: small(critic=True))
    yield placed(language, policy=lambda: small(cache="keep"))
    yield placed(gym)
    yield placed(judged)


@cache
def chosen(label):
    """The way in which a part is tried, and the trace of it on the CPU; raises `InputError` where there is none."""
    error = None
    for spec in ways(label):
        try:
            return spec, run(spec("cpu"))
        except InputError as refusal:
            error = error or refusal
    raise error


def judged(device="cpu", **changes):
    """The perceptron with a critic that has a value for each action."""
    world = make("tasks", "gym", trajectory="segment", steps=4)
    task = Judged(**{f.name: getattr(world, f.name) for f in dataclasses.fields(world)})
    return gym(device, **{"task": task, **changes})


def talking(policy=None, **changes):
    """A run of the language model with settings of its policy, made anew at every call."""

    def spec(device):
        own = {"policy": small(**policy)} if policy else {}
        return language(device, **own, **{key: value() if callable(value) else value for key, value in changes.items()})

    return spec


def acting(base=gym, **changes):
    """The same in an environment."""
    return lambda device: base(device, **{key: value() if callable(value) else value for key, value in changes.items()})


def in_flight():
    """A schedule in which versions change inside a response."""
    return sim.systems.areal(2, 2, 3, model={"mode": "keep"}, length=6.0, train_time=2.3)


def coupled(name):
    """A system that takes its lengths from the policy."""
    systems = {
        "areal": lambda: sim.systems.areal(2, 1, 3, length=1.0, train_time=1.3),
        "one_step_off": lambda: sim.systems.one_step_off(2, train_time=1.5),
        "synchronous": lambda: sim.systems.synchronous(2),
        "in flight": in_flight,
    }
    return lambda: sim.schedules.coupled(systems[name]())


SETTINGS = {
    "temperature": talking({"temperature": 0.7}),
    "top_p": talking({"top_p": 0.8}),
    "top_k": talking({"top_k": 5}),
    "critic": talking({"critic": True}, method=lambda: sim.methods.a2c()),
    "distributions": talking({"distributions": True}),
    "last layer": talking({"train_layers": 1}),
    "pieces": talking({"micro_batch": 1}),
    "micro-batches": talking(micro_batches=2),
    "late drawing": talking(drawing="late"),
    "kept caches": talking({"cache": "keep"}, system=in_flight),
    "in flight": talking(system=in_flight),
    "in flight, drawn late": talking(system=in_flight, drawing="late"),
    "no staleness": talking(system=lambda: sim.schedules.fixed(0, groups_per_batch=2)),
    "mixed in a group": talking(system=lambda: sim.schedules.random([0.5, 0.5], per="trajectory", groups_per_batch=2)),
    "frozen": talking(system=lambda: sim.schedules.frozen(groups_per_batch=2)),
    "sawtooth": talking(system=lambda: sim.schedules.sawtooth(1, groups_per_batch=2)),
    "an event system": talking(system=lambda: sim.systems.areal(2, 1, 3, length=1.0, train_time=1.3)),
    "two replicates": talking(replicates=2),
    "every second update": talking(every=2),
    "initial": talking(initial=lambda: 2.0 * small().initial(1)[0].numpy()),
    "double": talking({"sampler": "float64", "compute": "float64"}, dtype="float64"),
    "a rate per replicate": talking(replicates=2, update=lambda: sim.chain(sim.updates.adam((1e-3, 1e-2)))),
    "a limit per replicate": talking(
        replicates=2, update=lambda: sim.chain(sim.updates.clip_norm((0.1, 1.0)), sim.updates.sgd(0.1))
    ),
    "a cap per replicate": talking(replicates=2, method=lambda: sim.methods.truncated_is(cap=(1.5, 2.0))),
    "calculator": talking(task=lambda: make("tasks", "calculator"), method=lambda: sim.methods.grpo()),
    **{f"sampler {form}": talking({"sampler": form}) for form in ("bfloat16", "int8", "float64")},
    **{f"compute {form}": talking({"compute": form}) for form in ("bfloat16", "float64")},
    **{
        f"cut between {cut}": talking(minibatches=2, cut=cut, epochs=2, updates=4)
        for cut in ("groups", "parts", "samples")
    },
    "cut after advantages": talking(minibatches=2, advantages_from="minibatch"),
    **{
        f"late rewards: {then}": talking(rewards=lambda then=then: sim.rewards.late(0.4, then))
        for then in ("drop", "bootstrap", "reinject")
    },
    **{
        f"coupled {name}, drawn {drawing}": talking(system=coupled(name), drawing=drawing)
        for name in ("areal", "one_step_off", "synchronous", "in flight")
        for drawing in ("early", "late")
    },
    **{
        f"fixed shapes, {name}": talking({"decode": "fixed", **policy}, **changes)
        for name, policy, changes in (
            ("plain", {}, {}),
            ("in flight", {}, {"system": in_flight}),
            ("bfloat16", {"sampler": "bfloat16"}, {}),
            ("critic", {"critic": True}, {"method": lambda: sim.methods.a2c()}),
            ("two replicates", {}, {"replicates": 2}),
            ("coupled", {}, {"system": coupled("in flight")}),
        )
    },
    "an environment": acting(),
    "an environment: episodes": acting(task=lambda: sim.tasks.gym("CartPole-v1", trajectory="episode", steps=6)),
    "an environment: tokens": acting(minibatches=2, cut="tokens", epochs=2, updates=4),
    "an environment: normalized": acting(
        policy=lambda: make("policies", "mlp", observation=4, actions=2, normalize=True)
    ),
    "an environment: evaluated": acting(diagnostics=["trained_return"]),
    "an environment: numbers": acting(task=lambda: sim.tasks.gym("Pendulum-v1", trajectory="segment", steps=4)),
    "a module": acting(module),
    "a module: ppo": acting(module, method=lambda: sim.methods.ppo_clip()),
    **{
        f"an environment: {name}": acting(method=lambda name=name: make("methods", name))
        for name in ("a2c", "ppo_clip", "p3o", "truncated_is", "vtrace")
    },
}
"""Further runs by name, as functions of the device."""


def run(spec, **options):
    """The trace of a run."""
    return sim.run(spec, seed=3, progress=False, **options)


def differences(one, other):
    """Names of what differs between a run on the CPU and another, to the bit; a device may have mismatch to tell of."""
    pairs = {name: (values, other.metrics.get(name)) for name, values in one.metrics.items()}
    pairs |= {name: (getattr(one, name), getattr(other, name)) for name in ("parameters", "diverged")}
    return sorted(name for name, pair in pairs.items() if not np.array_equal(*pair, equal_nan=True))
