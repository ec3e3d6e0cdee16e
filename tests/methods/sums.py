"""Random trajectories in plain numbers, and the sums over their tokens as papers print them."""

import dataclasses

import numpy as np
import torch

from tests.contracts.laboratory import acting, step_of


class Plain:
    """Rewards, log ratios, values and ends `[n, T]` of trajectories with several episodes, and samples that hold them.

    `taken` and `every` are Q of the action and of all three, `rows` log pi of all; `beyond` is the value behind a cut.
    """

    def __init__(self, seed, T=6, drift=1.0, masked=True):
        random = np.random.default_rng(seed)
        shape = (2, 2, 3, T)
        lengths = random.integers(1, T + 1, shape[:3]) if masked else np.full(shape[:3], T)
        self.mask = np.arange(T) < lengths[..., None]
        last = np.arange(T) == lengths[..., None] - 1
        self.ended = (random.random(shape) < 0.3) & self.mask
        self.cut = (self.ended | last) & (random.random(shape) < 0.5)
        self.reward, self.value = random.normal(size=(2, *shape))
        self.beyond = np.where(self.cut, random.normal(size=shape), 0.0)
        self.log_ratio = drift * random.normal(size=shape) * self.mask
        self.every = random.normal(size=(*shape, 3))
        self.rows = torch.log_softmax(torch.from_numpy(random.normal(size=(*shape, 3))), -1).numpy()
        self.action = random.integers(0, 3, shape)
        self.taken = np.take_along_axis(self.every, self.action[..., None], -1)[..., 0]
        self.expected = (np.exp(self.rows) * self.every).sum(-1)
        self.stops = self.ended | last

    def samples(self):
        nonsense = torch.from_numpy(np.where(self.mask, 0.0, np.nan))
        batch = acting(T=self.mask.shape[-1], N=3).batch
        mask = torch.from_numpy(self.mask.astype(np.float64))
        batch = dataclasses.replace(
            batch,
            mask=mask,
            token_reward=torch.from_numpy(self.reward) + nonsense,
            ended=torch.from_numpy(self.ended),
            behavior={
                "value": torch.from_numpy(self.value) + nonsense,
                "successor_value": torch.from_numpy(self.beyond) + nonsense,
            },
        )
        log_ratio = torch.from_numpy(self.log_ratio)
        current = {
            "log_prob": log_ratio,
            "value": torch.from_numpy(self.value) + nonsense,
            "action_value": torch.from_numpy(self.taken) + nonsense,
            "action_values": torch.from_numpy(self.every) + nonsense.unsqueeze(-1),
            "log_probs": torch.from_numpy(self.rows) + nonsense.unsqueeze(-1),
        }
        return step_of(batch, current, log_ratio=torch.where(mask > 0, log_ratio, torch.zeros_like(log_ratio)))

    def rest(self, i, t):
        """Tokens from t to the end of its episode."""
        for k in range(t, self.mask.shape[-1]):
            yield k
            if self.stops[i][k]:
                return

    def after(self, values, i, k):
        """V behind token k."""
        return self.beyond[i][k] if self.stops[i][k] else values[i][k + 1]

    def each(self, function):
        out = np.zeros(self.mask.shape)
        for i in np.ndindex(self.mask.shape[:3]):
            for t in range(int(self.mask[i].sum())):
                out[i][t] = function(i, t)
        return out


def vtrace_target(plain, discount, trace, rho_cap, trace_cap, shift=0):
    """v_s, with the products of traces as printed, or `shift` tokens later."""
    ratio = np.exp(plain.log_ratio)

    def one(i, s):
        total = plain.value[i][s]
        for t in plain.rest(i, s):
            kept = np.prod([trace * min(trace_cap, ratio[i][j]) for j in range(s + shift, t + shift)])
            error = plain.reward[i][t] + discount * plain.after(plain.value, i, t) - plain.value[i][t]
            total += discount ** (t - s) * kept * min(rho_cap, ratio[i][t]) * error
        return total

    return plain.each(one)


def retrace_target(plain, discount, trace, behind=None):
    """Q_ret with the state's value behind every token, or with `behind` in its place."""
    ratio, behind = np.exp(plain.log_ratio), plain.expected if behind is None else behind

    def one(i, s):
        total = plain.taken[i][s]
        for t in plain.rest(i, s):
            kept = np.prod([trace * min(1.0, ratio[i][j]) for j in range(s + 1, t + 1)])
            error = plain.reward[i][t] + discount * plain.after(behind, i, t) - plain.taken[i][t]
            total += discount ** (t - s) * kept * error
        return total

    return plain.each(one)
