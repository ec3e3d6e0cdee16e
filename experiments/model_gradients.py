"""How alike are a language model's consecutive gradients on stale data, and gradients of stale and fresh batches?

REINFORCE with a leave-one-out baseline, Adam behind a norm clip, on sums, at constant staleness `behind`. Behind the
run, at its last weights, `batches` fresh batches give the mean gradient's square m^2 (products of different batches)
and the mean square e^2 of one. `alignment/snr` predicts the cosine of consecutive gradients at any staleness, m^2/e^2.

Further batches are drawn by the weights `staleness` updates earlier on a fresh run's way and evaluated at its last ones
by three losses (`method`): "no correction", "full IS" of the sequence, "PPO clip". If full ratios only add noise,

    cosine with the mean fresh gradient  m / sqrt(m^2 + (e^2 - m^2) / ESS),    norm  sqrt(m^2 + (e^2 - m^2) / ESS) / e,

and without ratios both are those of a fresh batch (`predicted`). A row is one of five replicates, one `quantity`:
consecutive  mean cosine of consecutive gradients over the last `measured` updates; snr  m^2/e^2
cosine       of one batch's gradient with the mean fresh one, its noise taken out; told_cosine  as predicted
norm         root mean square of one batch's gradient over e; told_norm  as predicted
along        product of the mean gradient of these batches and the mean fresh one over m^2: 1 if unbiased
ess          of the sequence ratios of these batches, a mean; variance  of their logs, nats^2
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

import asyncsim as sim
from asyncsim.methods._method import evaluate
from asyncsim.step import ratios
from asyncsim.step.step import Step
from experiments import _models

DEVICES = ("cpu", "cuda")
COLUMNS = ["model", "rate", "behind", "staleness", "method", "seed", "quantity", "value", "samples"]
LEAVE = sim.advantages.leave_one_out()
METHODS: dict[str, Any] = {
    "no correction": sim.methods.reinforce(LEAVE),
    "full IS": sim.methods.full_is("sequence", advantage=LEAVE),
    "PPO clip": sim.methods.ppo_clip(advantage=LEAVE).replace(aggregator="sequence_sum"),
}
"""All sum over the tokens of an answer, so that lengths of gradients can be compared."""
_CHAR = {
    "model": "char",
    "task": "sums",
    "rate": 2e-4,
    "behind": 0,
    "levels": (),
    "updates": 112,
    "measured": 48,
    "batches": 12,
    "prompts": 2048,
    "groups": 16,
    "samples": 8,
    "replicates": 5,
    "seed": 31,
}
SETTINGS = [{**_CHAR, "levels": (1, 4, 16, 64)}, {**_CHAR, "behind": 8}, {**_CHAR, "behind": 64}]
_FEW = {"recipe": _models.TINY, "groups": 2, "samples": 8, "replicates": 2, "updates": 8, "measured": 4, "batches": 3}
QUICK = [{**_CHAR, **_FEW, "levels": (0, 2, 4)}, {**_CHAR, **_FEW, "behind": 4}]
GPU = [
    *_models.larger(SETTINGS),
    *_models.larger(SETTINGS, model="smollm2", rate=1e-5, groups=16, samples=16, micro_batch=64, prompts=80),
]


class Kept:
    """Weights before some updates, `[P, R]` each."""

    name, outputs = "kept", ("log_prob",)

    def __init__(self, updates: tuple[int, ...]) -> None:
        self.updates = updates
        self.known: dict[str, np.ndarray] = {}

    def fresh(self) -> Kept:
        """One that has seen nothing."""
        return Kept(self.updates)

    def observe(self, step: Step) -> None:
        """Keep them when due."""
        if step.update in self.updates:
            self.known[str(step.update)] = step.parameters.cpu().numpy().T.copy()

    def result(self) -> dict[str, np.ndarray]:
        """The weights by update."""
        return self.known


class Gradients:
    """Gradients of several losses at given weights on batches from others, `[K, P, R]`, with statistics of ratios."""

    name, outputs = "gradients", ("log_prob",)

    def __init__(self, weights: np.ndarray, names: tuple[str, ...]) -> None:
        self.settings = weights, names
        self.found: dict[str, list[np.ndarray]] = {}

    def fresh(self) -> Gradients:
        """One that has seen nothing."""
        return Gradients(*self.settings)

    def observe(self, step: Step) -> None:
        """Evaluate every loss on the batch."""
        flat, names = self.settings
        view = step.policy.prepare(torch.as_tensor(flat, device=step.parameters.device))
        for name in names:
            made = evaluate(METHODS[name], step.task, step.policy, view, step.batch, None, ("log_prob",))
            self.found.setdefault(name, []).append(made.gradient.cpu().numpy().T)
        whole = made.sequence_log_ratio.double()
        self.found.setdefault("ess", []).append(ratios.ess(whole, made.step_mass).cpu().numpy())
        self.found.setdefault("variance", []).append(ratios.log_moments(whole, made.step_mass)[1].cpu().numpy())

    def result(self) -> dict[str, np.ndarray]:
        """All batches by name."""
        return {name: np.stack(values) for name, values in self.found.items()}


def gathered(
    setting: dict[str, Any], start: np.ndarray, at: np.ndarray, names: Any, seed: int
) -> dict[str, np.ndarray]:
    """Gradients `[K, P]` at weights `at` of batches that the weights `start` draw, by loss; ESS and variance `[K]`."""
    # Steps of this size change no bit of the weights.
    still = sim.chain(sim.updates.sgd(1e-30))
    more = {"initial": start, "update": still, "replicates": 1, "method": METHODS["no correction"]}
    spec = _models.spec(setting, 0, setting["batches"], [Gradients(at, tuple(names))], **more)
    found = sim.run(spec, seed=seed, progress=False).accumulated
    return {name: values[..., 0].astype(np.float64) for name, values in found.items()}


def products(first: np.ndarray, second: np.ndarray | None = None) -> float:
    """Mean product of gradients `[K, P]` of batches with different numbers, which ask different prompts."""
    table = first @ (first if second is None else second).T
    return float((table.sum() - np.trace(table)) / (len(table) * (len(table) - 1)))


def compared(stale: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """Cosines and norm of gradients beside those of a fresh reference, `[K, P]` both."""
    signal, energy = products(reference), float((reference**2).sum(1).mean())
    size = float((stale**2).sum(1).mean())
    inner = products(stale, reference)
    # A mean gradient that noise hides has no direction to compare with.
    length = math.sqrt(signal) if signal > 0 else math.nan
    return {"cosine": inner / (math.sqrt(size) * length), "norm": math.sqrt(size / energy), "along": inner / length**2}


def predicted(signal: float, energy: float, ess: float, corrected: bool) -> dict[str, float]:
    """Cosine with the mean fresh gradient and norm of one batch's, from m^2, e^2 and ESS/N."""
    size = signal + (energy - signal) / (ess if corrected else 1.0)
    return {"told_cosine": math.sqrt(max(signal, 0.0) / size), "told_norm": math.sqrt(size / energy)}


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of all replicates of one staleness of training, and of the levels on its way."""
    behind, updates, levels = setting["behind"], setting["updates"], setting["levels"]
    shared = {**_models.place(setting, COLUMNS), "samples": setting["groups"] * setting["samples"]}
    rows = []
    for number in range(setting["replicates"]):
        seed = 1000 * setting["seed"] + number
        kept = Kept(tuple(updates - level for level in {0, *levels}))
        # The last update only looks at the weights that the ones before it made.
        diagnostics = ["gradient_cosine", kept]
        spec = _models.spec(setting, behind, updates + 1, diagnostics, replicates=1, method=METHODS["no correction"])
        trace = sim.run(spec, seed=seed, progress=False)
        weights = {name: values.T for name, values in trace.accumulated.items()}
        last = weights[str(updates)]
        reference = gathered(setting, last, last, ["no correction"], seed + 500)["no correction"]
        signal, energy = products(reference), float((reference**2).sum(1).mean())
        cosines = trace["gradient_cosine"][updates - setting["measured"] : updates, 0]
        found = [(behind, "no correction", {"consecutive": float(np.nanmean(cosines)), "snr": signal / energy})]
        for place, level in enumerate(levels):
            drawn = gathered(setting, weights[str(updates - level)], last, METHODS, seed + 501 + place)
            told = {name: float(drawn[name].mean()) for name in ("ess", "variance")}
            for name in METHODS:
                mine = {**told, **compared(drawn[name], reference)}
                found.append((level, name, mine | predicted(signal, energy, told["ess"], name == "full IS")))
        for level, name, values in found:
            where = {**shared, "staleness": level, "method": name, "seed": number}
            rows += [{**where, "quantity": quantity, "value": value} for quantity, value in values.items()]
    return rows
