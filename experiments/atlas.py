"""Which method should be used at which staleness, length and batch size?

A bandit over tokens that follow the previous one (A + 1 rows of a table), paid by the share of tokens 0. The current
policy is the end of a path of `updates` steps of length `step` along the exact gradient at `path_length` tokens;
staleness d means data of the policy d steps earlier on it (`drift` "ascent"), or of one as far off, by the deviation of
log W, in a random direction ("random"; replicates share 16 of them). So the exact gradient is the same in every cell of
a length and a table, which `seed` draws. One group of `samples` an update, the first one on its batch (pi_prox = pi);
all methods see the same batches. `reward` "shuffled": those of the batch in a random order, so that all that a method
still does along the gradient has nothing to do with reward.

`source` "sampled": measures over replicates with 95 percent intervals (jackknife), see `_atlas_measures`; "exact": the
same from `oracle.moments`. Columns of a cell: exact `token_rms` (root mean square of token log ratios), `log_mean` and
`log_deviation` of log W under behavior, `ess_limit` = 1/E W^2 (claim `ratio/markov-moments`, NaN outside its domain),
`ess_gauss` = exp(-Var log W); measured `ess` and `ess_token`, of a batch over its size. `behind`: progress of the best
method of the cell minus this one's, with its paired interval; `largest`, share of one batch in sum |g|^2: above 0.1
the moments rest on batches that are hardly ever drawn. Methods that do not apply have a reason in `left_out`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim import claims, tasks
from asyncsim.base import checks, rng
from asyncsim.methods._method import Method
from asyncsim.policies.tabular import Tabular
from asyncsim.sampling import oracle
from asyncsim.sampling.rollouts import Sampler, monte_carlo
from asyncsim.step import ratios, versions
from asyncsim.step.batch import Batch
from asyncsim.step.step import Step
from experiments import _atlas_chain, _atlas_measures, _atlas_methods
from experiments._atlas_measures import MEASURES, Found

BLOCK = 1 << 19
"""Tokens that are drawn at one time."""
PLACE = ["staleness", "length", "samples", "drift", "reward", "seed", "replicates"]
LAW = ["return", "return_behavior", "token_rms", "log_mean", "log_deviation", "ess_limit", "ess_gauss"]
ESS = ["ess", "ess_low", "ess_high", "ess_token"]
COLUMNS = [
    "source", *PLACE, *LAW, *ESS, "method", "family", "status", "left_out",
    *(name + end for name in (*MEASURES, "behind") for end in ("", "_low", "_high")), "largest",
]  # fmt: skip

LENGTHS, SAMPLES, LEVELS, SEEDS = (8, 64, 512), (8, 64), (0, 1, 4, 16, 64), (1, 2, 3, 4)
_CELL = {
    "actions": 4, "sticky": 1.5, "spread": 0.5, "updates": 64, "path_length": 512, "step": 0.026, "seed": 1,
    "drift": "ascent", "reward": "own", "oracle": False,
}  # fmt: skip
_TINY = {
    **_CELL, "actions": 2, "sticky": 0.5, "updates": 20, "path_length": 3, "step": 0.08, "staleness": 16,
    "oracle": True,
}  # fmt: skip


def _cell(
    staleness: int, length: int, samples: int, tokens: int, drift: str = "ascent", seed: int = 1
) -> dict[str, Any]:
    """A cell with so many tokens in all, twice as many where the atlas is read first; `seed` draws the table, too."""
    most = tokens * (2 if (length, samples) == (512, 64) else 1) // (samples * length)
    place = {"staleness": staleness, "length": length, "samples": samples, "drift": drift, "seed": seed}
    return {**_CELL, **place, "replicates": min(8192, max(8, most))}


def _corner(length: int, samples: int, replicates: int) -> dict[str, Any]:
    """A cell that the oracle enumerates."""
    return {**_TINY, "length": length, "samples": samples, "replicates": replicates}


_TOKENS, _FEW = 1 << 22, 1 << 17
SETTINGS = [
    *(_corner(length, samples, 8192) for length, samples in ((2, 4), (3, 2), (3, 3), (3, 4))),
    *(_cell(d, length, samples, _TOKENS) for length in LENGTHS for samples in SAMPLES for d in LEVELS),
    *(_cell(16, 512, 64, _TOKENS, "random", seed) for seed in SEEDS),
    *(_cell(16, 512, 64, _TOKENS, seed=seed) for seed in SEEDS[1:]),
    *({**_cell(16, length, 64, _TOKENS), "reward": "shuffled"} for length in LENGTHS),
]
QUICK = [
    *(_corner(length, samples, 256) for length, samples in ((2, 4), (3, 2))),
    *(_cell(d, 512, 64, _FEW) for d in LEVELS),
    *(_cell(16, length, samples, _FEW) for length, samples in ((8, 64), (64, 64), (512, 8))),
    *(_cell(16, 512, 64, _FEW, drift, seed) for drift, seed in (("random", 1), ("ascent", 2))),
    {**_cell(16, 512, 64, _FEW), "reward": "shuffled"},
]


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one cell, one per method; two where the oracle enumerates as well."""
    cell = Cell(setting)
    known = _atlas_methods.entries(cell.policy)
    used = [(each.label, each.method) for each in known if each.method is not None]
    gradient, kept, ess = cell.measure(dict(used))
    found = {name: _atlas_measures.measured(gradient[name], kept[name], cell.truth) for name, _ in used}
    trailing = behind({name: each["progress"] for name, each in found.items()})
    shared = cell.describe(ess)
    rows = []
    for each in known:
        what = {"method": each.label, "family": each.family, "status": each.status, "left_out": each.left_out}
        values = {**found[each.label], "behind": trailing[each.label]} if each.method else {}
        widest = _atlas_measures.largest(gradient[each.label]) if each.method else math.nan
        rows.append({"source": "sampled", **shared, **what, **numbers(values), "largest": widest})
        if setting["oracle"] and each.method:
            exact = {name: _point(value) for name, value in cell.moments(each.method).items()}
            rows.append({"source": "exact", **shared, **what, **numbers(exact), "largest": math.nan})
    return rows


def behind(progress: dict[str, Found]) -> dict[str, Found]:
    """How far each method is behind the best one, from paired replicates."""
    best = max(progress.values(), key=lambda found: found.value)
    return {
        name: _atlas_measures.interval(best.value - found.value, best.without - found.without)
        for name, found in progress.items()
    }


def numbers(found: dict[str, Found]) -> dict[str, float]:
    """Columns of measures; NaN where there is none."""
    nothing = _point(math.nan)
    return {
        name + end: getattr(found.get(name, nothing), part)
        for name in (*MEASURES, "behind")
        for end, part in (("", "value"), ("_low", "low"), ("_high", "high"))
    }


def _point(value: float) -> Found:
    return Found(value, value, value, np.zeros(0))


class Cell:
    """One setting: its policies, batches, and what methods make of them."""

    def __init__(self, setting: dict[str, Any]) -> None:
        self.setting = setting
        self.start, self.then, self.now = _atlas_chain.cell(setting)
        actions, self.length, self.samples = setting["actions"], setting["length"], setting["samples"]
        self.task = tasks.token_bandit(actions, self.length, "markov", logits=self.start)
        rows = tuple(tuple(float(x) for x in row) for row in self.start)
        self.policy = Tabular(actions + 1, actions, rows, rows)
        self.value, gradient = _atlas_chain.exact(self.now, self.length)
        self.truth = gradient.reshape(-1)
        # The oracle knows no versions, so where both are asked neither is told any.
        self.age = 0 if setting["oracle"] else setting["staleness"]

    def batch(self, first: int, count: int) -> Batch:
        """Batches of replicates `first` and following."""
        replicates = np.arange(first, first + count)
        sampler = Sampler(
            self.task, self.policy, self.samples, self.setting["seed"], replicates, np.zeros(count, dtype=np.int64)
        )
        behavior = torch.from_numpy(self.then.reshape(len(self.then), -1)[replicates % len(self.then)])
        view = versions.current(self.policy.prepare(behavior))
        version = np.full((1, 1, self.samples, 1), self.setting["updates"] - self.age, dtype=np.int32)
        trajectory = np.arange(self.samples, dtype=np.int64).reshape(1, 1, -1)
        batch = monte_carlo(sampler, version, self.setting["updates"], trajectory, view)
        if self.setting["reward"] == "own":
            return batch
        keys = rng.Stream(self.setting["seed"], "atlas shuffle").uniform(replicates[:, None], np.arange(self.samples))
        shuffled = batch.reward.gather(-1, torch.from_numpy(np.argsort(keys, axis=1)[:, None]))
        return dataclasses.replace(batch, reward=shuffled)

    def measure(self, methods: dict[str, Method]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], np.ndarray]:
        """Gradients `[R, P]` and kept shares `[R]` of every method, and ESS of sequences and of tokens `[2, R]`."""
        total, gradient, kept, ess = self.setting["replicates"], {}, {}, []
        for name in methods:
            gradient[name], kept[name] = np.zeros((total, self.policy.size)), np.zeros(total)
        size = max(1, BLOCK // (self.samples * self.length))
        for first in range(0, total, size):
            count = min(size, total - first)
            batch = self.batch(first, count)
            now = torch.from_numpy(self.now.reshape(1, -1)).expand(count, -1)
            weights = self.policy.prepare(now)
            ess.append(effective(self.policy, weights, batch))
            for name, method in methods.items():
                g, share = ascent(method, self.task, self.policy, weights, batch)
                gradient[name][first : first + count], kept[name][first : first + count] = g.numpy(), share.numpy()
        return gradient, kept, np.concatenate(ess, axis=1)

    def moments(self, method: Method) -> dict[str, float]:
        """Measures from the oracle's exact moments."""
        now, then = self.now.reshape(-1), self.then[0].reshape(-1)
        found = oracle.moments(self.task, method, now, then, self.samples, self.policy)
        return _atlas_measures.exact(found.mean, found.covariance, found.exact)

    def describe(self, ess: np.ndarray) -> dict[str, Any]:
        """Columns that all methods of the cell share."""
        law = _atlas_chain.law(self.then[0], self.now, self.length)
        found = _atlas_measures.interval(float(ess[0].mean()), (ess[0].sum() - ess[0]) / (ess.shape[1] - 1))
        return {
            **{name: self.setting[name] for name in PLACE},
            "return": self.value,
            "return_behavior": _atlas_chain.exact(self.then[0], self.length)[0],
            "token_rms": law.token,
            "log_mean": law.mean,
            "log_deviation": law.deviation,
            "ess_limit": self.limit(),
            "ess_gauss": math.exp(-(law.deviation**2)),
            "ess": found.value,
            "ess_low": found.low,
            "ess_high": found.high,
            "ess_token": float(ess[1].mean()),
        }

    def limit(self) -> float:
        """ESS of a large batch as claimed; NaN outside the claim's domain."""
        point: dict[str, Any] = {"actions": self.setting["actions"], "horizon": self.length}
        point |= {"behavior_logits": self.then[0].tolist(), "current_logits": self.now.tolist()}
        try:
            return claims.claim("ratio/markov-moments").predict(point)["ess"]
        except checks.InputError:
            return math.nan


def ascent(method: Method, task: Any, policy: Any, weights: Any, batch: Batch) -> tuple[Tensor, Tensor]:
    """Direction `[R, P]`, and share of tokens `[R]` with a weight among those with an advantage.

    What `evaluate` does, but for the cotangents that are looked at on the way.
    """
    here = method.at == "current"
    view = versions.current(weights) if here else batch.view
    assert view is not None
    forward = policy.forward(view, batch, method.outputs if here else ())
    outputs = forward.outputs if here else None
    step = Step(method, batch, outputs, None, task, policy, weights, view, method.outputs)
    cotangents = step.cotangents
    told = step.advantages if step.advantages.ndim == 4 else step.advantages.unsqueeze(-1)
    asked = (told != 0).expand(batch.mask.shape)
    kept = (cotangents["log_prob"] != 0) & asked
    share = kept.double().sum((1, 2, 3)) / asked.double().sum((1, 2, 3)).clamp(min=1.0)
    return forward.pullback(cotangents), share


def effective(policy: Any, weights: Any, batch: Batch) -> np.ndarray:
    """ESS over the number of sequences and of tokens, `[2, R]`."""
    now = policy.forward(versions.current(weights), batch, ("log_prob",)).outputs["log_prob"]
    change = now - batch.behavior["log_prob"]
    found = []
    for log_weight in (change.sum(-1), change):
        mass = torch.full_like(log_weight, 1.0 / log_weight[0].numel())
        found.append(ratios.ess(log_weight, mass).numpy())
    return np.stack(found)
