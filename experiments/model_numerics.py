"""How far is a sampler in another number format from its trainer in float32, at equal weights?

Nothing is trained: one batch by the weights as they are loaded, sampled token by token in `sampler`'s format and scored
in float32. `task`: "sums", or "text" of `tokens` tokens. l is the log ratio of a token, trainer over sampler. Two
formulas are set before the rows. If each token's logits have equal normal noise, l^2 goes with
1 - 2 p + sum_a p_a^2 (`ratio/engine-floor`), so its kurtosis is 3 times E[q^2] / E[q]^2 (`told`); and variances of
independent tokens add, so that those of sequences grow like the length and ESS/N = exp(-v) (`predicted`).

A row is one of five replicates, one `quantity`:
deviation  root mean square of l, nats; largest  the largest |l|; far  share of tokens with |l| > 0.1
kurtosis   E l^4 / (E l^2)^2 of tokens; told  as predicted from the probabilities; hill  index of the tail of |l|
variance   of the sequence's log ratio over its first `tokens`, nats^2; sum  of the variances of the single tokens
ess        of the ratios of sequences
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.step import ratios
from asyncsim.step.step import Step
from experiments import _models

DEVICES = ("cpu", "cuda")
COLUMNS = ["model", "task", "sampler", "tokens", "seed", "quantity", "value", "samples"]
FAR = 0.1
SAMPLERS = ("bfloat16", "int8", "tf32")
_CHAR = {
    "model": "char",
    "task": "sums",
    "tokens": 4,
    "prefixes": (),
    "rate": 1e-4,
    "groups": 64,
    "samples": 8,
    "replicates": 5,
    "seed": 51,
}
_LONG = {**_CHAR, "task": "text", "tokens": 256, "prefixes": (16, 64, 256), "recipe": _models.LONG}
_LONG = {**_LONG, "groups": 8, "seed": 52}
_WORDS = {**_LONG, "model": "smollm2", "recipe": None, "layers": 1, "tokens": 32, "prefixes": (2, 8, 32)}
_WORDS = {**_WORDS, "groups": 4, "samples": 4, "seed": 53}
SETTINGS = [{**each, "sampler": sampler} for sampler in SAMPLERS for each in (_CHAR, _LONG, _WORDS)]
_FEW = {"recipe": _models.TINY, "groups": 4, "samples": 8, "replicates": 2}
QUICK = [
    *({**_CHAR, **_FEW, "sampler": sampler} for sampler in SAMPLERS[:2]),
    {**_LONG, **_FEW, "sampler": "bfloat16", "tokens": 24, "prefixes": (8, 24)},
]
_LARGE = {"groups": 8, "samples": 8, "tokens": 512, "prefixes": (8, 64, 512), "micro_batch": 16}
GPU = [
    *_models.larger(SETTINGS[0::3]),
    *_models.larger(SETTINGS[2::3], **_LARGE),
    *_models.larger([_WORDS], **_LARGE, sampler="float32"),
]


def metrics(prefixes: tuple[int, ...]) -> list[Metric]:
    """Statistics of the tokens' log ratios, and of sequences of so many tokens (0: all)."""

    def tokens(step: Step) -> Tensor:
        return step.mismatch_log_ratio.double()[step.mask > 0]

    def told(step: Step) -> Tensor:
        q = step.row_norms.double()[step.mask > 0]
        return (3.0 * (q**2).mean() / q.mean() ** 2).reshape(1)

    def kurtosis(step: Step) -> Tensor:
        own = tokens(step)
        return ((own**4).mean() / (own**2).mean() ** 2).reshape(1)

    def first(length: int, step: Step) -> Tensor:
        return step.mismatch_log_ratio.double()[..., : length or None]

    def whole(length: int, step: Step) -> Tensor:
        return ratios.log_moments(first(length, step).sum(-1), step.step_mass)[1]

    def ess(length: int, step: Step) -> Tensor:
        return ratios.ess(first(length, step).sum(-1), step.step_mass)

    def summed(length: int, step: Step) -> Tensor:
        own = first(length, step)
        each = [ratios.log_moments(own[..., t], step.step_mass)[1] for t in range(own.shape[-1])]
        return torch.stack(each).sum(0)

    found: dict[str, Any] = {
        "deviation": lambda step: (tokens(step) ** 2).mean().sqrt().reshape(1),
        "largest": lambda step: tokens(step).abs().max().reshape(1),
        "far": lambda step: (tokens(step).abs() > FAR).double().mean().reshape(1),
        "hill": lambda step: ratios.tail_index(tokens(step).abs().log().reshape(1, -1)),
        "kurtosis": kurtosis,
        "told": told,
    }
    for length in prefixes or (0,):
        found[f"variance {length}"] = partial(whole, length)
        found[f"ess {length}"] = partial(ess, length)
        found[f"sum {length}"] = partial(summed, length)
    return [Metric(name, measure, ("log_prob",)) for name, measure in found.items()]


def predicted(total: float) -> dict[str, float]:
    """Variance and ESS/N of sequences from the sum of their tokens' variances."""
    return {"variance": total, "ess": math.exp(-total)}


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one model and format."""
    import asyncsim as sim

    looked = metrics(tuple(setting["prefixes"]))
    trace = sim.run(_models.spec(setting, 0, 1, looked), seed=setting["seed"], progress=False)
    shared = {**_models.place(setting, COLUMNS), "samples": setting["groups"] * setting["samples"]}
    rows = []
    for metric in looked:
        quantity, _, tokens = metric.name.partition(" ")
        for seed, value in enumerate(trace[metric.name][0]):
            where = {"tokens": int(tokens) if tokens else 0, "seed": seed, "quantity": quantity}
            rows.append({**shared, **where, "value": float(value)})
    return rows
