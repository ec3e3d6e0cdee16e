"""Trajectories that one compiled loop draws, beside the same drawn token by token: equal to the bit."""

import dataclasses

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base import rng
from asyncsim.policies import _kernels as kernels
from asyncsim.sampling.rollouts import Sampler, generate
from asyncsim.step.versions import View, current

R, G, N = 5, 2, 6
ENGINES = ({}, {}, {"temperature": 0.7}, {"top_p": 0.8}, {"top_k": 2}, {"noise": 0.3, "noise_per": "version"})
SLOTS = ((1, 1, 1, 1), (2, 2, 6, 1), (2, 1, 1, -1), (1, 2, 6, -1))
"""Versions: one, one a sample, one a token, one for every token of every sample."""


def drawn_task(numbers):
    """A table task, with logits that make some actions all but impossible."""
    actions, horizon = int(numbers.integers(2, 6)), int(numbers.integers(2, 20))
    kind = numbers.choice(["iid", "position", "markov", "chain"])
    if kind == "chain":
        return sim.tasks.bit_chain(horizon)
    return sim.tasks.token_bandit(actions, horizon, dependence=str(kind), ends=bool(numbers.integers(2)))


def drawn_sampler(seed):
    """A sampler on a drawn task, a view of three versions, and ids."""
    numbers = np.random.default_rng(seed)
    task = drawn_task(numbers)
    engine = ENGINES[numbers.integers(len(ENGINES))]
    if engine.get("top_k", 0) > task.actions:
        engine = {}
    policy = task.policy(**engine)
    realization = numbers.integers(0, 2, R)
    replicates = numbers.choice(1000, R, replace=False)
    sampler = Sampler(task, policy, N, seed, replicates, realization)
    versions = []
    for version in range(3):
        logits = torch.from_numpy(8.0 * numbers.standard_normal((R, policy.size)))
        versions.append(sampler.installed(version, policy.prepare(logits)))
    shape = tuple(task.horizon if size == -1 else size for size in SLOTS[numbers.integers(len(SLOTS))])
    slot = numbers.integers(0, 3, shape)
    view = View({name: torch.stack([each[name] for each in versions]) for name in versions[0]}, slot, realization)
    return sampler, view, numbers.integers(0, 10_000, (2, G, N))


def rolled(sampler, view, ids, by_token=False):
    if by_token:
        sampler = dataclasses.replace(sampler)
        vars(sampler)["moves"] = None
    draws = sampler.draws(ids)
    return generate(sampler, view, draws, sampler.prompts(ids)), draws


def assert_equal(fast, slow):
    there = slow.mask > 0
    assert torch.equal(fast.mask, slow.mask)
    nothing = torch.zeros((), dtype=torch.int64)
    for name in ("state", "action", "index"):
        a, b = (getattr(each, name) for each in (fast, slow))
        assert a.dtype == b.dtype
        assert torch.equal(torch.where(there, a, nothing), torch.where(there, b, nothing)), name
    assert fast.outputs.keys() == slow.outputs.keys()
    for name, value in slow.outputs.items():
        assert torch.equal(fast.outputs[name][there], value[there]), name


@pytest.mark.parametrize("seed", range(100))
def test_one_loop_draws_what_single_tokens_draw(seed):
    """Every kind of sequence, engine and layout of versions; what a trajectory does not have is masked in both."""
    sampler, view, ids = drawn_sampler(seed)
    assert sampler.moves is not None
    fast, draws = rolled(sampler, view, ids)
    slowly, others = rolled(sampler, view, ids, by_token=True)
    assert_equal(fast, slowly)
    assert torch.equal(sampler.earned(fast, draws), sampler.earned(slowly, others))


def test_a_walk_that_reads_another_counter_is_seen(monkeypatch):
    """The comparison above, against a loop whose tokens are keyed one off."""
    sampler, view, ids = drawn_sampler(3)
    right = kernels.walk

    def shifted(k0, k1, replicates, row, trajectory, *rest):
        right(k0, k1, replicates, row, trajectory + 1, *rest)

    slowly, _ = rolled(sampler, view, ids, by_token=True)
    monkeypatch.setattr(kernels, "walk", shifted)
    with pytest.raises(AssertionError):
        assert_equal(rolled(sampler, view, ids)[0], slowly)


@dataclasses.dataclass(frozen=True)
class Backwards(type(sim.tasks.token_bandit())):
    """A task of somebody else that inherits from one of ours, and steps otherwise."""

    def step(self, state, action, token, draws):
        turn = super().step(state, action, token, draws)
        return turn._replace(state=torch.full_like(turn.state, token % self.rows))


def test_what_others_wrote_is_stepped_token_by_token():
    """A method that is overridden is asked, in a task and in a policy."""
    ours = sim.tasks.token_bandit(3, 4, dependence="markov")
    theirs = Backwards(**{field.name: getattr(ours, field.name) for field in dataclasses.fields(ours)})
    keys = (0, np.arange(2), np.zeros(2, dtype=np.int64))
    assert Sampler(ours, ours.policy(), N, *keys).moves is not None
    assert Sampler(theirs, theirs.policy(), N, *keys).moves is None
    kind = type("Own", (type(ours.policy()),), {"__module__": "elsewhere"})
    assert Sampler(ours, kind(ours.rows, ours.actions), N, *keys).moves is None


def test_the_last_draw_of_a_token_belongs_to_its_reward():
    """The loop keeps draw 1 of token 0, so that a reward is not drawn from another number."""
    task = sim.tasks.bit_chain(3)
    ids = np.arange(6).reshape(1, 1, 6)
    sampler = Sampler(task, task.policy(), 6, 7, np.arange(4), np.zeros(4, dtype=np.int64))
    weights = task.policy().prepare(task.policy().initial(4))
    _, draws = rolled(sampler, current(weights), ids)
    stream = rng.Stream(7, "rollout")
    for draw in (0, 1):
        expected = stream.uniform(np.arange(4)[:, None], np.arange(6)[None], 0, draw)
        assert np.array_equal(draws.uniform(0, draw)[:, 0].numpy(), expected)
