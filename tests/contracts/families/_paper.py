"""What a paper's loss is written with: a live distribution per token, and everything detached that it names."""

import dataclasses
from functools import lru_cache

import torch

from asyncsim.methods._method import evaluate
from asyncsim.step import versions
from tests.contracts.laboratory import NOTHING, case


class Paper:
    """Differentiable quantities of a trial; `logits` `[R, G, N, T, A]` are free for every token.

    `live` log pi of the tokens, `rows` log pi of all actions (both with gradient); `behavior`, `proximal`, `reference`
    log-probs of the tokens and `behavior_rows` of all actions; `mask`, `lengths`, `reward`, `age` (versions); `ratio`
    r, `sequence` W, `lag` h, `drift` u as the papers use them, live where pi stands in them.
    """

    def __init__(self, trial, now, then, opening=None):
        batch = trial.batch
        self.trial, self.batch, self.mask = trial, batch, batch.mask
        self.logits = now["log_probs"].clone().requires_grad_()
        self.rows = torch.log_softmax(self.logits, -1)
        self.live = self.rows.gather(-1, batch.action.unsqueeze(-1)).squeeze(-1)
        self.behavior, self.behavior_rows = batch.behavior["log_prob"], then["log_probs"]
        self.proximal = now["log_prob"] if opening is None else opening
        self.reference = now["reference"]
        self.lengths = batch.mask.sum(-1)
        self.reward = batch.reward
        self.age = torch.full_like(batch.mask, float(batch.train_version - batch.version.reshape(-1)[0]))
        self.ratio = self.exp(self.live - self.behavior)
        self.behavior_ratio = self.exp(self.proximal - self.behavior)
        self.drift = self.exp(self.live - self.proximal)
        self.sequence = self.kept(self.live - self.behavior).sum(-1, keepdim=True).exp()

    def kept(self, values):
        """Values of generated tokens, 0 elsewhere."""
        return torch.where(self.mask > 0, values, 0.0)

    def exp(self, values):
        """exp of generated tokens' values, 1 elsewhere."""
        return self.kept(values).exp()

    def centered(self):
        """Reward minus group mean, `[R, G, N, 1]`."""
        return (self.reward - self.reward.mean(-1, keepdim=True)).unsqueeze(-1)

    def left_out(self):
        N = self.reward.shape[-1]
        return self.centered() * N / (N - 1)

    def standardized(self):
        return self.centered() / (self.reward.std(-1, unbiased=False, keepdim=True).unsqueeze(-1) + 1e-6)

    def clipped(self, advantage, low, high, ratio=None):
        """min(rho A, clip(rho) A)."""
        ratio = self.ratio if ratio is None else ratio
        return torch.min(ratio * advantage, ratio.clamp(1 - low, 1 + high) * advantage)

    def token_mean(self, objective):
        return (objective * self.mask).sum((1, 2, 3)) / self.mask.sum((1, 2, 3))

    def sequence_mean(self, objective):
        return ((objective * self.mask).sum(-1) / self.lengths).mean((1, 2))

    def sequence_sum(self, objective):
        return (objective * self.mask).sum(-1).mean((1, 2))

    def gradient(self, objective):
        """Derivative of the objective by the logits of every token, `[R, G, N, T, A]`."""
        (found,) = torch.autograd.grad(objective.sum(), self.logits)
        return found


class Silent:
    """A policy that pulls nothing back: what a step has for a gradient are its cotangents."""

    def __init__(self, policy):
        self.policy = policy

    def __getattr__(self, name):
        return getattr(self.policy, name)

    def forward(self, view, batch, names):
        return self.policy.forward(view, batch, names)._replace(pullback=lambda cotangents: cotangents)


@lru_cache(64)
def drawn(seed, samples, tokens, groups, drift):
    """A trial, and the outputs of its policy now and when it generated: many papers are tried on the same ones."""
    trial = case(seed, R=4, N=samples, T=tokens, G=groups, drift=drift)
    trial.policy = Silent(trial.policy)
    return trial, *outputs(trial)


def outputs(trial):
    """What the policy of a trial says of its batch now and when it generated."""
    views, names = (_view(trial.policy, trial.new), trial.batch.view), ("log_prob", "log_probs", "reference")
    return [trial.policy.forward(view, _fresh(trial.batch), names).outputs for view in views]


def opened(trial, method):
    """The step of an earlier update on the batch, at parameters between the old and the new ones."""
    return signal(trial, method, 0.7 * trial.new + 0.3 * trial.old)


def signal(trial, method, parameters, opening=None):
    """The step of a method at these parameters; `opening`, that of an earlier update on the batch."""
    weights, start = trial.policy.prepare(parameters), opening and opening.carried()
    return evaluate(method, NOTHING, trial.policy, weights, _fresh(trial.batch), start)


def ours(trial, method, opening=None, rows=None):
    """What the product says about the logits of every token: c (1[v = y] - pi_v) + e_v - pi_v sum_w e_w, times a m."""
    rows = outputs(trial)[0]["log_probs"] if rows is None else rows
    cotangents = signal(trial, method, trial.new, opening).cotangents
    wide = torch.zeros_like(rows).scatter_(-1, trial.batch.action.unsqueeze(-1), cotangents["log_prob"].unsqueeze(-1))
    wide = wide + cotangents.get("log_probs", 0.0)
    return wide - rows.exp() * wide.sum(-1, keepdim=True)


def compared(method, objective, seed, samples, tokens, groups, drift):
    """Largest difference between the product and autograd, at the first and at a later update of a batch."""
    trial, now, then = drawn(seed, samples, tokens, groups, drift)
    errors = []
    for opening in (None, opened(trial, method)):
        paper = Paper(trial, now, then, opening and opening.current["log_prob"])
        found = ours(trial, method, opening, now["log_probs"])
        errors.append((found - paper.gradient(objective(paper))).abs().max().item())
    return max(errors)


def _view(policy, parameters):
    return versions.current(policy.prepare(parameters))


def _fresh(batch):
    """The batch without the cells that a policy has left in it."""
    return dataclasses.replace(batch, index=None)
