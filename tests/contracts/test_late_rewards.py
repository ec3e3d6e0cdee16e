"""A sample whose reward does not arrive does not exist: for any method, advantage, metric, link and minibatch.

Exact: the batch with late samples is compared with the batch that never had them. The planted defect leaves them in the
groups' sizes.
"""

import dataclasses

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.methods._method import evaluate
from asyncsim.step.minibatches import CUTS, Minibatch
from asyncsim.step.step import Carried, Step
from tests.contracts.laboratory import NOTHING, case, make, names, read_by
from tests.contracts.test_dropped_groups import MADE, OF_STEP, agree, same, step_of

G, N, KEPT, T = 3, 7, 5, 3
METHODS = {n: make("methods", n) for n in names("methods")}
METHODS |= {f"{a} {n}": METHODS[n].replace(advantage=make("advantages", a))
            for a in names("advantages") for n in ("reinforce", "truncated_is")}  # fmt: skip
METHODS["pass@3 grpo"] = METHODS["grpo"].replace(advantage=sim.advantages.pass_at_k(3, standardize=True))
METHODS["unbiased grpo"] = METHODS["grpo"].replace(advantage=sim.advantages.group_std(unbiased=True))
TABULAR = set(sim.policies.tabular(rows=4, actions=3).outputs)
# A greedy response is asked of a task.
READY = [n for n, m in METHODS.items() if set(read_by(m)) <= TABULAR and m.scored and "remax" not in n]


class Told:
    """Draws that make these samples late, and bring these of them back."""

    def __init__(self, late, back=None):
        self.late, self.back = late, late if back is None else back

    def uniform(self, token, draw):
        return torch.where((self.late, self.back)[draw], 0.0, 1.0).double()


def trial_of(seed):
    """A random batch of which two samples of each group are late, other ones in each."""
    trial = case(seed, R=1, G=G, N=N, T=T, drift=0.6)
    random = np.random.default_rng(seed)
    trial.batch.version = random.integers(0, 4, (1, G, N, T)).astype(np.int32)
    trial.batch.train_version = 5
    late = torch.zeros((1, G, N), dtype=torch.bool)
    for g in range(G):
        late[0, g, random.permutation(N)[KEPT:]] = True
    return trial, late


def picked(batch, late):
    """The batch without the late samples."""
    rows = (~late).nonzero()[:, 2].reshape(G, KEPT)

    def of(x):
        return torch.stack([x[:, g].index_select(1, rows[g]) for g in range(G)], 1)

    moved = {name: of(getattr(batch, name)) for name in ("action", "state", "mask", "reward")}
    moved["behavior"] = {name: of(x) for name, x in batch.behavior.items()}
    arrays = {name: of(torch.from_numpy(getattr(batch, name))).numpy() for name in ("version", "trajectory")}
    return {**moved, **arrays, "mass": torch.full((1, G, KEPT), 1.0 / KEPT, dtype=torch.float64), "size": KEPT}


def arrived(batch, late, rewards=None):
    whole = (rewards or sim.rewards.late(0.5)).arriving(batch, Told(late), 0)
    return {name: getattr(whole, name) for name in ("reward", "mass", "kept", "arrivals")}


@pytest.mark.parametrize("label", READY)
def test_no_method_metric_or_link_sees_a_late_sample(label):
    trial, late = trial_of(READY.index(label))
    method = METHODS[label]
    whole, rest = (step_of(trial, method, **f(trial.batch, late)) for f in (arrived, picked))
    assert rest.gradient.abs().max() > 0.0
    # The sign of a difference of equal returns, 0 up to rounding, is what m2_harmful reads.
    agree(whole, rest, [name for name in OF_STEP if (name, label[:3]) != ("m2_harmful", "otb")])


@pytest.mark.parametrize("then", ["drop", "bootstrap", "reinject"])
@pytest.mark.parametrize("label", [n for n in READY if " truncated_is" in n or n in ("dapo", "grpo", "tba")])
def test_no_method_reads_a_reward_before_it_is_there(label, then):
    """Other rewards of late samples change nothing, to the bit."""
    trial, late = trial_of(3)
    other = dataclasses.replace(trial.batch, reward=torch.where(late, 100.0 - trial.batch.reward, trial.batch.reward))
    steps = [step_of(trial, METHODS[label], **arrived(b, late, sim.rewards.late((0.5, 0.5), then)))
             for b in (trial.batch, other)]  # fmt: skip
    assert torch.equal(*(step.gradient for step in steps))
    returns = [MADE["batch_return"].at(step) for step in steps]
    known = slice(0, 1) if then == "reinject" else slice(None)
    for batch, found in zip((trial.batch, other), returns, strict=True):
        same(found, batch.reward[:, known].mean((1, 2)), "the reward as paid in the end")


def test_a_size_that_counts_late_samples_is_seen(monkeypatch):
    trial, late = trial_of(1)
    method = METHODS["leave_one_out reinforce"]
    monkeypatch.setattr(Step, "peers", property(lambda self: self.size))
    whole, rest = (step_of(trial, method, **f(trial.batch, late)) for f in (arrived, picked))
    with pytest.raises(AssertionError):
        same(whole.gradient, rest.gradient, "gradient")


@pytest.mark.parametrize("label", ["reinforce", "dapo"])
@pytest.mark.parametrize("cut", CUTS)
def test_parts_of_a_batch_are_the_batch(cut, label):
    """Gradients of minibatches, by what is trained in each, add up to that of the batch: whatever they are cut between.

    For sums over samples that are linear in them, and advantages of the batch.
    """
    trial, late = trial_of(7)
    method = METHODS[label].replace(aggregator="token_mean")
    batch = dataclasses.replace(trial.batch, index=None, **arrived(trial.batch, late))
    whole = step_of(trial, method, **arrived(trial.batch, late))
    start = Carried({}, whole.advantages, weights=trial.policy.prepare(trial.new), counted=whole.counted)
    places = {"groups": (G, None), "parts": (1, N), "samples": (1, G * N), "tokens": (1, G * N * T)}[cut]
    order = torch.from_numpy(np.random.default_rng(0).permutation(places[1] or G))
    total, trained = torch.zeros_like(whole.gradient), 0.0
    for part in order.tensor_split(3):
        rows = {
            "groups": lambda part=part: part[:, None] * N + torch.arange(N),
            "parts": lambda part=part: torch.arange(G)[:, None] * N + part,
        }.get(cut, lambda part=part: part[None])()
        cut_out, begun = Minibatch(rows[None], cut).of(batch, start)
        step = evaluate(method, NOTHING, trial.policy, trial.policy.prepare(trial.new), cut_out, begun)
        tokens = float(((step.mass > 0).unsqueeze(-1) * step.mask).sum())
        total, trained = total + tokens * step.gradient, trained + tokens
    same(total / trained, whole.gradient, cut)


def test_a_group_without_rewards_is_left_out():
    """As if the group had never been there; with nothing known at all a step is empty."""
    trial, _ = trial_of(2)
    late = torch.zeros((1, G, N), dtype=torch.bool)
    late[0, 1] = True
    rest = {name: getattr(trial.batch, name)[:, [0, 2]] for name in ("action", "state", "mask", "reward")}
    rest["behavior"] = {name: x[:, [0, 2]] for name, x in trial.batch.behavior.items()}
    rest |= {name: getattr(trial.batch, name)[:, [0, 2]] for name in ("version", "trajectory")}
    rest["mass"] = torch.full((1, 2, N), 1.0 / N, dtype=torch.float64)
    for label in ("grpo", "dapo", "mean truncated_is", "maxrl reinforce", "opo reinforce", "otb reinforce"):
        steps = [step_of(trial, METHODS[label], **fields) for fields in (arrived(trial.batch, late), rest)]
        same(*(step.gradient for step in steps), label)
    everything = torch.ones_like(late)
    for then in ("drop", "bootstrap"):
        step = step_of(trial, METHODS["grpo"], **arrived(trial.batch, everything, sim.rewards.late(0.5, then)))
        assert bool(step.empty.all()) and (step.gradient == 0).all()
        assert torch.isnan(MADE["ess"].at(step)).all()


@pytest.mark.parametrize("then", ["drop", "bootstrap"])
def test_groups_of_none_one_and_two_known_rewards_break_nothing(then):
    """No method divides by the samples that are missing; a lone sample has no advantage over its group."""
    trial, _ = trial_of(5)
    late = torch.ones((1, G, N), dtype=torch.bool)
    late[0, 1, 3] = late[0, 2, 1] = late[0, 2, 4] = False
    fields = arrived(trial.batch, late, sim.rewards.late(0.5, then))
    for label in READY:
        assert torch.isfinite(step_of(trial, METHODS[label], **fields).gradient).all(), label
    step = step_of(trial, METHODS["leave_one_out reinforce"], **fields)
    assert step.advantages[0, 1, 3] == 0.0
