"""Every discovered plug-in made with its defaults, and small random batches to try it on."""

import dataclasses
import inspect
from functools import cache
from pathlib import Path

import numpy as np
import torch

import asyncsim as sim
from asyncsim.base import plugins
from asyncsim.methods._method import evaluate
from asyncsim.policies._pretraining import Characters
from asyncsim.policies.causal_lm import CausalLM
from asyncsim.step import versions
from asyncsim.step.batch import Batch
from asyncsim.step.step import Step, given
from asyncsim.tasks.gym import Gym

EXAMPLES = {"lr": 0.1, "beta": 0.9, "v": 0.3, "observation": 3, "actions": 3}
EXAMPLES["data"] = str(Path(__file__).with_name("questions.jsonl"))
"""A value for every argument that a plug-in requires; a new one takes its place here."""

SMALL = {
    ("policies", "mlp"): {"hidden": (6,)},
    ("policies", "causal_lm"): {
        "model": "char",
        "recipe": {"width": 16, "layers": 2, "heads": 2, "hidden": 24, "context": 128, "steps": 0},
    },
    ("tasks", "gym"): {"steps": 12},
    ("tasks", "arithmetic"): {"digits": 1, "prompts": 4},
    ("tasks", "text"): {"horizon": 8},
    ("tasks", "calculator"): {"digits": 1, "prompts": 4},
}
"""Arguments in place of defaults that would make a test slow: nothing is pretrained, loaded or waited for."""

KINDS = ("methods", "advantages", "factors", "penalties", "updates", "policies", "tasks", "diagnostics")


def names(kind):
    """Public names of a kind, as found by reading its folder."""
    assert kind in KINDS
    return list(plugins.summaries(f"asyncsim.{kind}"))


def defined(path, function):
    """Whether a test file of the repository defines a test: where a plug-in is tried when it is not tried here."""
    return f"\ndef {function}(" in (Path(__file__).parents[2] / path).read_text(encoding="utf-8")


def make(kind, name, **changes):
    """The plug-in with its defaults, `EXAMPLES` and `SMALL`."""
    known = name.replace("-", "_")
    factory = plugins.load(f"asyncsim.{kind}", name, kind)
    required = [
        p.name
        for p in inspect.signature(factory).parameters.values()
        if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    unknown = set(required) - set(EXAMPLES)
    assert not unknown, f"{name}: give EXAMPLES a value for {unknown}"
    from tests.contracts.families import gathered

    small = SMALL.get((kind, known), {}) or gathered("MAKE").get((kind, known), {})
    return factory(**{**{r: EXAMPLES[r] for r in required}, **small, **changes})


class Lowered(Characters):
    """The small alphabet for texts with capitals, which `text` may have.

    Its own model, SmolLM2, is too large for every promise here.
    """

    def encode(self, text):
        return super().encode(text.lower())


class Speaker(CausalLM):
    """A small character model that reads every text."""

    tokenizer = Lowered()


def policy_of(task):
    """The policy that a task is tried with: its own, networks in a small size."""
    own = task.policy()
    name = plugins.name_of(own)
    if name == "mlp":
        return dataclasses.replace(own, hidden=SMALL["policies", "mlp"]["hidden"])
    if name != "causal_lm":
        return own
    made = make("policies", name)
    return Speaker(**{f.name: getattr(made, f.name) for f in dataclasses.fields(made)})


def knob_fields(value):
    """Names of the fields, here and inside, that may hold one number per replicate."""
    found = set()
    for f in dataclasses.fields(value) if dataclasses.is_dataclass(value) else ():
        inner = getattr(value, f.name)
        found |= {f.name} if f.metadata.get("knob") else set()
        found |= knob_fields(inner)
    return found


class Judged(Gym):
    """An environment whose critic has a value for each action."""

    def policy(self):
        return dataclasses.replace(super().policy(), by_action=True)


@cache
def task_for(outputs):
    """A small task whose own policy offers the outputs."""
    world = make("tasks", "gym", trajectory="segment")
    tasks = [
        sim.tasks.token_bandit(actions=3, horizon=4, dependence="markov", ends=True, rewards="bernoulli"),
        sim.tasks.quadratic((1.0, 0.5)),
        world,
        Judged(**{f.name: getattr(world, f.name) for f in dataclasses.fields(world)}),
    ]
    return next(task for task in tasks if set(outputs) <= set(task.policy().outputs))


def read_by(method):
    """Outputs of the policy that a method and its advantage read."""
    return (*method.outputs, *(o for o in method.advantage.outputs if o not in method.outputs))


@dataclasses.dataclass
class Case:
    """A random batch of a policy, with the parameters that generated it (`old`) and that are trained (`new`)."""

    policy: object
    old: torch.Tensor
    new: torch.Tensor
    batch: Batch

    def evaluate(self, method, **changes):
        """The step of a method, and its gradient."""
        batch = dataclasses.replace(self.batch, index=None, **changes)
        step = evaluate(method, NOTHING, self.policy, self.policy.prepare(self.new), batch)
        return step, step.gradient

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
    action, state = (torch.from_numpy(random.integers(0, size, (R, G, N, T))) for size in (A, S))
    reward = torch.from_numpy(random.integers(0, 2, (R, G, N)).astype(np.float64))
    return _case(policy, old, new, action, state, lengths, reward)


def acting(seed=0, R=2, G=2, N=5, T=4, drift=0.3, ragged=True, critic=True):
    """The same of a small perceptron with a critic: every token is paid, some futures are cut off."""
    random = np.random.default_rng(seed)
    policy = make("policies", "mlp", critic=critic)
    begun = policy.initial(R, torch.float64, seed)
    old = begun + 0.3 * torch.from_numpy(random.standard_normal(begun.shape))
    new = old + drift * torch.from_numpy(random.standard_normal(begun.shape))
    lengths = random.integers(1, T + 1, (R, G, N)) if ragged else np.full((R, G, N), T)
    action = torch.from_numpy(random.integers(0, policy.actions, (R, G, N, T)))
    state = torch.from_numpy(random.standard_normal((R, G, N, T, policy.observation)))
    live = np.arange(T) < lengths[..., None]
    last = np.arange(T) == lengths[..., None] - 1
    paid = torch.from_numpy(np.where(live, random.standard_normal((R, G, N, T)), 0.0))
    trial = _case(policy, old, new, action, state, lengths, paid.sum(-1))
    cut = last & (random.random((R, G, N, T)) < 0.5)
    trial.batch.token_reward, trial.batch.ended = paid, torch.from_numpy(last)
    trial.batch.finished = torch.where(trial.batch.ended, trial.batch.reward.unsqueeze(-1), torch.nan)
    trial.batch.behavior["successor_value"] = torch.from_numpy(np.where(cut, random.standard_normal(cut.shape), 0.0))
    return trial


def trial_of(method, **changes):
    """A random batch with all that the method reads."""
    read = read_by(method)
    if "action_value" in read:
        return acting(critic="action", **changes)
    return (acting if "value" in read else case)(**changes)


def up_to(lengths, T):
    """Mask `[R, G, N, T]` of samples with so many tokens."""
    return torch.from_numpy((np.arange(T) < lengths[..., None]).astype(np.float64))


def plain_batch(action, state, **fields):
    """A batch of one version and one realization, without rewards, its samples of equal mass; or what `fields` say."""
    R, G, N, T = action.shape[:4]
    usual = {
        "mask": torch.ones((R, G, N, T), dtype=torch.float64),
        "reward": torch.zeros((R, G, N), dtype=torch.float64),
        "mass": torch.full((1, G, N), 1.0 / N, dtype=torch.float64),
        "size": N,
        "behavior": {},
        "view": None,
        "version": np.zeros((1, 1, 1, 1), dtype=np.int32),
        "train_version": 0,
        "realization": np.zeros(R, dtype=np.int64),
        "trajectory": np.arange(G * N).reshape(1, G, N),
    }
    return Batch(action, state, **usual | fields)


def _case(policy, old, new, action, state, lengths, reward):
    view = versions.current(policy.prepare(old))
    mask = up_to(lengths, action.shape[3])
    batch = plain_batch(action, state, mask=mask, reward=reward, view=view, train_version=4)
    names = ("log_prob", "value") if "value" in policy.outputs else ("log_prob",)
    batch.behavior = policy.forward(batch.view, batch, names).outputs
    return Case(policy, old, new, batch)


def step_with(log_ratio, drift=None, mask=None, anchor="behavior", reward=None, age=None, elsewhere=None, **changes):
    """A step with the given log ratios pi/mu and (default: the same) pi/pi_prox, each [R, G, N, T]."""
    log_ratio = torch.as_tensor(log_ratio)
    drift = log_ratio if drift is None else torch.as_tensor(drift)
    now = torch.zeros_like(log_ratio)
    step = given(
        sim.methods.reinforce().replace(anchor=anchor),
        {"log_prob": now},
        {"log_prob": now - log_ratio},
        torch.ones_like(log_ratio) if mask is None else torch.as_tensor(mask).to(log_ratio.dtype),
        reward=None if reward is None else torch.as_tensor(reward),
        proximal={"log_prob": now - drift},
        staleness=age,
        **changes,
    )
    if elsewhere is not None:
        step.recorded = elsewhere
    return step


def step_of(batch, current=None, **known):
    """A step of this data and outputs; `known`: what is given in place of what would be computed."""
    outputs = {"log_prob": torch.zeros_like(batch.mask)} if current is None else current
    step = Step(sim.methods.reinforce(), batch, outputs)
    vars(step).update(known)
    return step


def permuted(batch, axis, order):
    """The batch with its groups (axis 1) or samples (axis 2) in another order."""

    def move(x):
        return None if x is None else x.index_select(axis, order)

    columns = ("action", "state", "mask", "reward", "mass", "token_reward", "ended", "finished")
    moved = {name: move(getattr(batch, name)) for name in columns}
    return {**moved, "behavior": {k: move(v) for k, v in batch.behavior.items()}}
