"""Training on minibatches as a textbook writes it: one replicate of the token bandit, sample by sample."""

from types import SimpleNamespace

import numpy as np
import torch

from asyncsim.base import rng
from tests.core import plain


def shuffled(stream, replicate, batch, epoch, rows):
    """Rows of things, each in the order of Fisher and Yates; one stream of draws serves all rows."""
    draw, found = 0, []
    for row in rows:
        row = list(row)
        for k in range(len(row) - 1):
            place = k + int(stream.uniform(replicate, batch, epoch, draw) * (len(row) - k))
            row[k], row[place], draw = row[place], row[k], draw + 1
        found.append(row)
    return found


def entry(sample, tokens=None):
    """Tokens of a sample, all unless given."""
    known = hasattr(sample, "of")
    return sample if known else SimpleNamespace(of=sample, tokens=tokens or range(len(sample.then)))


def minibatches(stream, replicate, batch, epoch, groups, count, cut):
    """Lists of groups: what is cut is dealt in a new order, so many to each minibatch."""
    flat = [sample for group in groups for sample in group]
    if cut == "tokens":
        flat = [entry(s, [t]) for s in flat for t in range(len(s.then))]
    rows = {"groups": [groups], "parts": groups}.get(cut, [flat])
    dealt = shuffled(stream, replicate, batch, epoch, rows)
    each = len(rows[0]) // count
    parts = [[row[k * each : (k + 1) * each] for row in dealt] for k in range(count)]
    return [part[0] for part in parts] if cut == "groups" else parts


def leave_one_out(groups):
    for group in groups:
        for sample in group:
            sample.advantage = sample.earned - np.mean([other.earned for other in group if other is not sample])


def cotangents(method, part, now, start, lag):
    """The method's numbers of a minibatch, `[G', N', T']`."""

    def table(value):
        return torch.tensor([[[float(value(e.of, t)) for t in e.tokens] for e in group] for group in part])

    def of(policy):
        return table(lambda sample, t: policy[sample.rows[t], sample.actions[t]])

    advantages = table(lambda sample, t: sample.advantage)[..., 0]
    given = {"rewards": table(lambda sample, t: sample.shown)[..., 0], "advantages": advantages}
    given |= {"staleness": torch.full_like(of(now), lag), "reference_log_prob": table(lambda sample, t: -np.log(3))}
    return method.weigh(of(now), table(lambda sample, t: sample.then[t]), of(start), **given).cotangent.numpy()


def train(task, method, *, seed, replicate, batches, groups, samples, count, cut, epochs, after, lag, rate):
    """The table after every update; advantages are made before the cut, or `after` it; data is `lag` batches old."""
    draws, order, theta = rng.Stream(seed, "rollout"), rng.Stream(seed, "shuffle"), task.start.copy()
    published, tables = [], []
    for batch in range(batches):
        published.append(np.exp(theta) / np.exp(theta).sum(1, keepdims=True))
        pi, start = published[max(0, batch - lag)], np.log(published[batch])
        ids = (batch * groups + np.arange(groups))[:, None] * samples + np.arange(samples)
        data = [[plain.generate(task, draws, replicate, i, i // samples, pi) for i in row] for row in ids]
        leave_one_out(data)
        for group in data:
            for k, sample in enumerate(group):
                # A part of a group is dropped where the whole group is, whose rewards are then all equal.
                kept = method.drop_equal and len({other.earned for other in group}) > 1
                sample.shown = k if kept else sample.earned
        for epoch in range(epochs):
            for part in minibatches(order, replicate, batch, epoch, data, count, cut):
                if after:
                    leave_one_out(part)
                part = [[entry(e) for e in group] for group in part]
                now = np.exp(theta) / np.exp(theta).sum(1, keepdims=True)
                numbers = cotangents(method, part, np.log(now), start, min(batch, lag))
                for row, group in zip(numbers, part, strict=True):
                    for values, e in zip(row, group, strict=True):
                        for value, t in zip(values, e.tokens, strict=True):
                            score = np.eye(theta.shape[1])[e.of.actions[t]] - now[e.of.rows[t]]
                            theta[e.of.rows[t]] += rate * value * score
                tables.append(theta.copy())
    return tables
