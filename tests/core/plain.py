"""Synchronous training as a textbook writes it: no versions, no schedule, no replicate axis."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from asyncsim.base import rng


@dataclass
class Bandit:
    """Group g asks prompt g mod prompts; an arm pays 1 with probability `means[prompt, arm]`."""

    means: np.ndarray
    horizon, bernoulli, kl, kl_at = 1, True, 0.0, "then"
    start = property(lambda self: np.zeros(self.means.shape))

    def row(self, group, before):
        return group % len(self.means)

    def score(self, rows, actions):
        return self.means[rows[0], actions[0]]


@dataclass
class Tokens:
    """A chain of tokens, paid by the share of token 0; the last token may end it."""

    start: np.ndarray
    horizon: int
    ends: bool
    bernoulli, kl, kl_at = False, 0.0, "then"

    def row(self, group, before):
        return before + 1

    def score(self, rows, actions):
        return actions.count(0) / self.horizon


def generate(task, stream, replicate, trajectory, group, pi):
    drawn = stream.uniform(replicate, trajectory, np.arange(task.horizon), 0)
    rows, actions, last = [], [], pi.shape[1] - 1
    for u in drawn:
        rows.append(task.row(group, actions[-1] if actions else -1))
        actions.append(min(int((np.cumsum(pi[rows[-1]]) <= u).sum()), last))
        if getattr(task, "ends", False) and actions[-1] == last:
            break
    score = task.score(rows, actions)
    earned = float(stream.uniform(replicate, trajectory, 0, 1) < score) if task.bernoulli else score
    return SimpleNamespace(rows=rows, actions=actions, earned=earned, then=np.log(pi[rows, actions]))


def train(task, method, links, *, seed, replicate, updates, groups, samples, epochs=1, at="current"):
    stream, theta, norms = rng.Stream(seed, "rollout"), task.start.copy(), []
    for update in range(updates):
        pi = np.exp(theta) / np.exp(theta).sum(1, keepdims=True)
        if update % epochs == 0:
            ids, data_pi = update // epochs * groups * samples + np.arange(groups * samples), pi
            step = [[generate(task, stream, replicate, i, i // samples, pi) for i in g] for g in np.split(ids, groups)]
        for s in (s for group in step for s in group):
            s.now = np.log(pi[s.rows, s.actions])
            s.reward = s.earned - task.kl * (getattr(s, task.kl_at) + np.log(pi.shape[1])).sum()
        gradient = direction = method(step, data_pi if at == "behavior" else pi)
        for link in links:
            direction = None if direction is None else link(direction, step, update % epochs)
        theta, norms = theta + (0.0 if direction is None else direction), [*norms, np.linalg.norm(gradient)]
    return theta, norms
