"""Formulas of advantages, methods and links in NumPy, written from the papers and not from the product.

A step is a list of groups, a group a list of samples. A sample has `rows` and `actions` (its tokens), `reward`, `then`
and `now` (log-probabilities of its tokens when it was generated and under the table being trained). `pi` is the table
[S, A].
"""

import numpy as np


def samples_of(groups):
    return [sample for group in groups for sample in group]


# Advantages: (rewards [N], applied weights [N], squared norms of the applied scores [N], mean of the step, lengths [N],
# all 1 unless given) -> [N].


def none(rewards, weights, norms, step_mean, lengths=None):
    return rewards


def mean(rewards, weights, norms, step_mean, lengths=None):
    return rewards - step_mean


def offset(v):
    return lambda rewards, weights, norms, step_mean, lengths=None: rewards - v


def leave_one_out(rewards, weights, norms, step_mean, lengths=None):
    others = [np.delete(rewards, i).mean() for i in range(len(rewards))]
    return rewards - np.array(others)


def group_mean(shift=0.0):
    return lambda rewards, weights, norms, step_mean, lengths=None: rewards - (rewards.mean() + shift)


def group_std(rewards, weights, norms, step_mean, lengths=None):
    return (rewards - rewards.mean()) / (rewards.std() + 1e-6)


def opob(rewards, weights, norms, step_mean, lengths=None):
    return rewards - (norms @ rewards / norms.sum() if norms.sum() > 0 else rewards.mean())


def self_normalized(rewards, weights, norms, step_mean, lengths=None):
    return rewards - weights @ rewards / weights.sum()


def opo(rewards, weights, norms, step_mean, lengths=None):
    return rewards - np.average(rewards, weights=lengths)


ADVANTAGES = {
    "none": none,
    "mean": mean,
    "offset": offset(0.3),
    "leave_one_out": leave_one_out,
    "group_mean": group_mean(),
    "group_std": group_std,
    "opob": opob,
    "self_normalized": self_normalized,
    "opo": opo,
}


# Weights: token log ratios [T_i] -> applied weights [T_i]; then (weights, advantage) -> score weights c [T_i].


def plain(log_ratio):
    return np.ones_like(log_ratio)


def token_ratio(cap=np.inf):
    return lambda log_ratio: np.minimum(np.exp(log_ratio), cap)


def sequence_ratio(cap=np.inf):
    return lambda log_ratio: np.full_like(log_ratio, min(np.exp(log_ratio.sum()), cap))


def times(weight, advantage):
    return weight * advantage


def clipped(low, high):
    """Gradient weight of min(rho A, clip(rho, 1 - low, 1 + high) A)."""

    def score_weight(ratio, advantage):
        held = np.clip(ratio, 1 - low, 1 + high)
        return np.where(ratio * advantage <= held * advantage, ratio * advantage, 0.0)

    return score_weight


# Aggregators: groups -> factor of each token of each sample, in order.


def sequence_sum(groups):
    return [1 / len(samples_of(groups)) for _ in samples_of(groups)]


def sequence_mean(groups):
    return [1 / (len(samples_of(groups)) * len(s.actions)) for s in samples_of(groups)]


def token_mean(groups):
    return [1 / sum(len(s.actions) for s in samples_of(groups)) for _ in samples_of(groups)]


def constant(longest):
    return lambda groups: [1 / (len(samples_of(groups)) * longest) for _ in samples_of(groups)]


# Policy: scores of a softmax table.


def score(pi, row, action):
    """Gradient of log pi(action | row) with respect to the table."""
    table = np.zeros_like(pi)
    table[row] = -pi[row]
    table[row, action] += 1
    return table


def entropy_slope(pi, row):
    """Gradient of the entropy of a row."""
    table = np.zeros_like(pi)
    table[row] = -pi[row] * (np.log(pi[row]) - pi[row] @ np.log(pi[row]))
    return table


def method(weight, advantage, aggregator, score_weight=times, entropy=0.0):
    """Ascent direction sum_it a_it { c_it grad log pi + entropy grad H }, as a function of (groups, pi)."""

    def gradient(groups, pi):
        every, shares = samples_of(groups), aggregator(groups)
        applied = [weight(s.now - s.then) for s in every]
        # The norm an optimal baseline refers to is that of the vector the loss applies: a mean over tokens divides it.
        spans = [len(s.actions) if aggregator is sequence_mean else 1 for s in every]
        vectors = [
            sum(w * score(pi, r, a) for w, r, a in zip(ws, s.rows, s.actions, strict=True)) / span
            for ws, s, span in zip(applied, every, spans, strict=True)
        ]
        rewards = np.array([s.reward for s in every])
        norms, averages = np.array([(v**2).sum() for v in vectors]), np.array([w.mean() for w in applied])
        lengths, parts = np.array([len(s.actions) for s in every]), np.array_split(np.arange(len(every)), len(groups))
        advantages = np.concatenate(
            [advantage(rewards[p], averages[p], norms[p], rewards.mean(), lengths[p]) for p in parts]
        )
        total = np.zeros_like(pi)
        for s, ws, adv, share in zip(every, applied, advantages, shares, strict=True):
            for c, r, a in zip(score_weight(ws, adv), s.rows, s.actions, strict=True):
                total += share * (c * score(pi, r, a) + entropy * entropy_slope(pi, r))
        return total

    return gradient


# Links: (direction, groups, updates made since the batch was generated) -> direction, or None to skip the update.


def sgd(lr):
    return lambda g, groups, age: lr * g


def warm_up(updates):
    made = [0]

    def link(g, groups, age):
        made[0] += 1
        return g * min(1.0, made[0] / updates)

    return link


def momentum(beta):
    velocity = [0.0]

    def link(g, groups, age):
        velocity[0] = beta * velocity[0] + g
        return velocity[0]

    return link


def adam(lr, beta1=0.9, beta2=0.999, eps=1e-8):
    state = [0.0, 0.0, 0]

    def link(g, groups, age):
        state[:] = beta1 * state[0] + (1 - beta1) * g, beta2 * state[1] + (1 - beta2) * g**2, state[2] + 1
        first, second = state[0] / (1 - beta1 ** state[2]), state[1] / (1 - beta2 ** state[2])
        return lr * first / (np.sqrt(second) + eps)

    return link


def clip_norm(limit):
    return lambda g, groups, age: g * min(1.0, limit / np.linalg.norm(g))


def ess_step(power):
    def link(g, groups, age):
        w = np.exp([(s.now - s.then).sum() for s in samples_of(groups)])
        return g * min(1.0, w.sum() ** 2 / (len(w) * (w**2).sum())) ** power

    return link


def staleness_step():
    return lambda g, groups, age: g / max(1, age)


def lr_by_lag():
    ages = [1]

    def link(g, groups, age):
        ages.append(age)
        return g / max(ages)

    return link


def align(low, high):
    previous = [None]

    def link(g, groups, age):
        before, previous[0] = previous[0], g
        if before is None:
            return g
        cosine = (g * before).sum() / (np.linalg.norm(g) * np.linalg.norm(before))
        if cosine > high:
            return None
        return g - (g * before).sum() / (before**2).sum() * before if cosine > low else g

    return link
