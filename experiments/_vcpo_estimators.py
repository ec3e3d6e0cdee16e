"""Baselines on one stale batch: the methods compared, their gradients, and what these say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from asyncsim import advantages, methods, tasks
from asyncsim.base import uncertainty
from asyncsim.methods._method import Method, evaluate
from asyncsim.policies.tabular import Tabular
from asyncsim.sampling import oracle
from asyncsim.sampling.rollouts import Sampler, monte_carlo
from asyncsim.step import versions
from asyncsim.step.batch import Batch
from asyncsim.step.step import Step
from experiments import _atlas_chain, _atlas_measures

BLOCK = 1 << 18
"""Tokens that are drawn at one time."""
HELD_OUT = 1 << 14
"""Sequences that the best constant is taken from where it cannot be enumerated."""
REFERENCE = "group mean"
ARMS: dict[str, Any] = {
    "none": advantages.none(),
    REFERENCE: advantages.group_mean(),
    "leave one out": advantages.leave_one_out(),
    "standardized": advantages.group_std(),
    "self-normalized": advantages.self_normalized(),
    "OPOB": advantages.opob(),
    "OPOB, leave one out": advantages.opob(leave_one_out=True),
}
CONSTANT = "best constant"
"""E[w^2 |s|^2 r] / E[w^2 |s|^2], which OPOB estimates, given from outside the batch."""
MEASURES = ("variance", "length", "cosine", "noise", "worth")
"""variance tr Cov g over that of the group mean; length <E g, G>/|G|^2; cosine cos(E g, G); noise tr Cov g/|E g|^2 over
that of the group mean; worth <E g, G>^2/(E|g|^2 |G|^2), what the best-tuned step along g gains over the exact one."""


class Cell:
    """Policies `staleness` steps apart on a path along the exact gradient, and batches of the older one."""

    def __init__(self, setting: dict[str, Any]) -> None:
        self.setting = setting
        start, then, self.now = _atlas_chain.cell({**setting, "drift": "ascent"})
        self.then = then[0]
        actions, self.samples = setting["actions"], setting["samples"]
        self.task = tasks.token_bandit(actions, setting["length"], "markov", logits=start)
        rows = tuple(tuple(float(x) for x in row) for row in start)
        self.policy = Tabular(actions + 1, actions, rows, rows)
        self.truth = _atlas_chain.exact(self.now, setting["length"])[1].reshape(-1)
        self.law = _atlas_chain.law(self.then, self.now, setting["length"])

    def method(self, advantage: Any) -> Method:
        """The estimator with a baseline: full or truncated sequence ratio, summed over tokens."""
        if self.setting["cap"] is None:
            return methods.full_is(advantage=advantage)
        return methods.truncated_is(cap=self.setting["cap"], advantage=advantage, aggregator="sequence_sum")

    def arms(self) -> dict[str, Method]:
        """All methods, the best constant last."""
        known = {name: self.method(advantage) for name, advantage in ARMS.items()}
        return {**known, CONSTANT: self.method(advantages.offset(self.constant()))}

    def constant(self) -> float:
        """The population's b of OPOB, exact where it can be enumerated, else of held-out sequences."""
        method = self.method(ARMS["OPOB"])
        if self.setting["exact"]:
            now, then = self.now.reshape(-1), self.then.reshape(-1)
            step = oracle.population_step(self.task, method, now, then, self.policy)
            return float((step.batch.reward - step.advantages)[0, 0, 0])
        found = []
        for first in range(0, HELD_OUT // 64, 16):
            batch = self.batch(self.setting["replicates"] + first, 16, 64)
            step = self.step(method, batch)
            found.append([float(x.sum()) for x in (step.score_norm * step.reward, step.score_norm)])
        top, bottom = np.array(found).sum(0)
        return float(top / bottom)

    def batch(self, first: int, count: int, samples: int) -> Batch:
        """Batches of replicates `first` and following, written by the older policy."""
        replicates = np.arange(first, first + count)
        seed = self.setting["seed"]
        sampler = Sampler(self.task, self.policy, samples, seed, replicates, np.zeros(count, dtype=np.int64))
        behavior = torch.from_numpy(self.then.reshape(1, -1)).expand(count, -1)
        view = versions.current(self.policy.prepare(behavior))
        version = np.zeros((1, 1, samples, 1), dtype=np.int32)
        trajectory = np.arange(samples, dtype=np.int64).reshape(1, 1, -1)
        return monte_carlo(sampler, version, self.setting["staleness"], trajectory, view)

    def step(self, method: Method, batch: Batch) -> Step:
        """What the method makes of a batch at the current policy."""
        now = torch.from_numpy(self.now.reshape(1, -1)).expand(batch.reward.shape[0], -1)
        return evaluate(method, self.task, self.policy, self.policy.prepare(now), batch)

    def gradients(self, arms: dict[str, Method]) -> dict[str, np.ndarray]:
        """Gradients `[R, P]` of every method on the same batches."""
        total = self.setting["replicates"]
        kept: dict[str, list[np.ndarray]] = {name: [] for name in arms}
        size = max(1, BLOCK // (self.samples * self.setting["length"]))
        for first in range(0, total, size):
            batch = self.batch(first, min(size, total - first), self.samples)
            for name, method in arms.items():
                kept[name].append(self.step(method, batch).gradient.numpy())
        return {name: np.concatenate(parts) for name, parts in kept.items()}

    def exact(self, arms: dict[str, Method]) -> dict[str, dict[str, float]]:
        """Measures of every method over all batches, by enumeration."""
        now, then = self.now.reshape(-1), self.then.reshape(-1)
        found = {}
        for name, method in arms.items():
            made = oracle.moments(self.task, method, now, then, self.samples, self.policy)
            power = float(made.mean @ made.mean + np.trace(made.covariance))
            found[name] = of(np.concatenate([made.mean, [power]]), 1 << 53, self.truth)
        return relative(found)


def of(means: np.ndarray, count: int, truth: np.ndarray) -> dict[str, Any]:
    """Measures from means `[..., P + 1]` of gradients and their squared lengths over `count` batches."""
    gradient, power, square = means[..., :-1], means[..., -1], truth @ truth
    # The square of a mean contains the noise of the mean.
    clean = (count * (gradient**2).sum(-1) - power) / (count - 1)
    along = gradient @ truth / square
    known = np.where(clean > 0, clean, np.nan)
    return {
        "variance": power - clean,
        "length": along,
        "cosine": along * math.sqrt(square) / np.sqrt(known),
        "noise": (power - clean) / known,
        "worth": np.sign(along) * along**2 * square / power,
    }


def relative(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Variance and noise over those of the group mean."""
    base = found[REFERENCE]
    return {
        name: {key: value / base[key] if key in ("variance", "noise") else value for key, value in each.items()}
        for name, each in found.items()
    }


def measured(gradients: dict[str, np.ndarray], truth: np.ndarray) -> dict[str, dict[str, tuple[float, float, float]]]:
    """Value and 95 percent interval of every measure of every arm: jackknife over batches, which arms share."""
    whole, without = {}, {}
    for name, gradient in gradients.items():
        rows = np.column_stack([gradient, (gradient**2).sum(1)])
        R, total = len(rows), rows.sum(0)
        whole[name] = of(total / R, R, truth)
        without[name] = of((total - rows) / (R - 1), R - 1, truth)
    left = relative(without)
    found: dict[str, dict[str, tuple[float, float, float]]] = {}
    for name, values in relative(whole).items():
        more = _atlas_measures.degenerate(gradients[name], truth)["direction"]
        found[name] = {
            key: _interval(value, left[name][key], more * (key == "cosine")) for key, value in values.items()
        }
    return found


def _interval(value: float, without: np.ndarray, more: float) -> tuple[float, float, float]:
    error = math.sqrt((len(without) - 1) * float(((without - without.mean()) ** 2).mean()) + more)
    reach = uncertainty.critical(0.05, len(without) - 1) * error
    return float(value), float(value - reach), float(value + reach)


def heaviest(gradients: dict[str, np.ndarray]) -> float:
    """Share of one batch in the sum of all squared gradients, of the arm where it is largest."""
    return max(_atlas_measures.largest(gradient) for gradient in gradients.values())
