"""Every sequence of a small chain of tokens with its probability: expectations without sampling."""

import itertools

import numpy as np
import torch

import asyncsim as sim
from asyncsim.methods._method import evaluate
from asyncsim.step import versions
from tests.contracts.laboratory import NOTHING, plain_batch


class Chain:
    """A actions, T tokens, each token's state is the one before it; tables of mu (`old`), pi (`new`) and a reference.

    `rows(table)` are log-probs of all actions at every token, `[N, T, A]`; `taken` those of the sequence's own,
    `[N, T]`; `worth` `[N]` is a random reward at the end.
    """

    def __init__(self, seed, A=3, T=2, drift=0.5):
        random = np.random.default_rng(seed)
        S = 1 + A * (T - 1)
        self.old = torch.from_numpy(random.normal(size=(S, A)))
        self.new = self.old + drift * torch.from_numpy(random.normal(size=(S, A)))
        reference = random.normal(size=(S, A))
        self.reference = torch.from_numpy(reference)
        self.policy = sim.policies.tabular(rows=S, actions=A, reference=reference)
        self.action = torch.tensor(list(itertools.product(range(A), repeat=T)))
        offset = 1 + A * torch.arange(T - 1)
        self.state = torch.cat([torch.zeros_like(self.action[:, :1]), self.action[:, :-1] + offset], 1)
        self.worth = torch.from_numpy(random.normal(size=len(self.action)))

    def rows(self, table):
        return torch.log_softmax(table, -1)[self.state]

    def taken(self, table):
        return self.rows(table).gather(-1, self.action.unsqueeze(-1)).squeeze(-1)

    def chance(self, table):
        """Probability of every sequence, `[N]`."""
        return self.taken(table).sum(-1).exp()

    def batch(self, reward=None):
        """The population that mu generates."""
        old = self.old.reshape(1, -1)
        view = versions.current(self.policy.prepare(old))
        fields = {"mass": self.chance(self.old)[None, None], "size": float("inf"), "view": view, "train_version": 1}
        fields |= {} if reward is None else {"reward": reward[None, None]}
        batch = plain_batch(self.action[None, None], self.state[None, None], **fields)
        batch.behavior = self.policy.forward(view, batch, ("log_prob",)).outputs
        return batch

    def signal(self, method, reward=None, **recorded):
        batch = self.batch(reward)
        batch.behavior |= recorded
        weights = self.policy.prepare(self.new.reshape(1, -1))
        step = evaluate(method, NOTHING, self.policy, weights, batch)
        return step, step.gradient

    def mean(self, method, reward=None, **recorded):
        """Expected ascent direction of a method under mu, `[S, A]`."""
        return self.signal(method, reward, **recorded)[1].reshape(self.new.shape)

    def slope(self, function):
        """Gradient by the table at pi of a number that is computed from a table."""
        live = self.new.clone().requires_grad_()
        (found,) = torch.autograd.grad(function(live), live)
        return found


class Judge:
    """A table of logits beside which stands a critic: fixed tables of Q `[S, A]` and V `[S]`."""

    def __init__(self, inner, actions, states=None):
        self.inner, self.actions_table, self.states_table = inner, actions, states
        self.outputs = (*inner.outputs, "action_value", "action_values", "value")

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def forward(self, view, batch, names):
        every = self.actions_table[batch.state]
        known = {
            "action_values": lambda: every,
            "action_value": lambda: every.gather(-1, batch.action.unsqueeze(-1)).squeeze(-1),
            "value": lambda: self.states_table[batch.state],
        }
        found = self.inner.forward(view, batch, tuple(n for n in names if n not in known))
        outputs = found.outputs | {n: known[n]() for n in names if n in known}
        return found._replace(
            outputs=outputs, pullback=lambda c: found.pullback({k: v for k, v in c.items() if k not in known})
        )
