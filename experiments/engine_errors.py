"""How far is a rounded sampler of a language model from its trainer, and how are its errors distributed?

A character model that was pretrained on sums answers sums. Its sampler computes in bfloat16, or with int8 weights; its
trainer in float32. At equal weights e_v = log mu(v) - log pi(v) is the error of a logit, up to a constant of the state.
Between the two likeliest tokens of a state the constant cancels: for independent errors of variance s^2 the gap
d = e_1 - e_2 has variance 2 s^2 and half the excess kurtosis k of e. So `noise` is s = sd(d) / sqrt(2), and `degrees`
those of the t distribution with this kurtosis, 4 + 6 / k (infinite: no heavier than normal).

`mean` and `sd` are of the log ratio log pi - log mu of the drawn tokens, `extreme` its size at the 0.999 quantile.
`neighbors` is the correlation of this log ratio between consecutive tokens of a response. `versions` is the correlation
of the same tokens' errors before and after one update. Means over replicates, with a 95 percent interval for `noise`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import uncertainty
from asyncsim.step import versions
from asyncsim.step.step import Step

DEVICES = ("cpu", "cuda")
COLUMNS = [
    "sampler", "replicates", "tokens", "noise", "low", "high", "kurtosis", "degrees",
    "mean", "sd", "extreme", "neighbors", "versions",
]  # fmt: skip
_BASE = {"sampler": "bfloat16", "prompts": 2048, "groups": 64, "samples": 8, "step": 1e-4, "updates": 8}
SETTINGS = [{**_BASE, "sampler": sampler, "replicates": 4, "seed": 7} for sampler in ("bfloat16", "int8")]
QUICK = [
    {**setting, "prompts": 64, "groups": 4, "updates": 2, "replicates": 2, "recipe": {"width": 32, "steps": 0}}
    for setting in SETTINGS
]


class Errors:
    """Gaps d between the errors of the two likeliest tokens, log ratios of drawn ones, and both weights' errors."""

    name, outputs = "errors", ("log_prob", "log_probs")

    def __init__(self) -> None:
        self.found: dict[str, list[Tensor]] = {name: [] for name in ("gap", "ratio", "pair", "before", "after")}
        self.last: Tensor | None = None

    def fresh(self) -> Errors:
        """One that has seen nothing."""
        return Errors()

    def observe(self, step: Step) -> None:
        """Compare both numerics on a batch that was drawn at the current weights."""
        alive, batch = step.mask > 0, step.batch
        rows = step.policy.forward(versions.current(step.weights), batch, ("log_probs",)).outputs["log_probs"]
        self.found["gap"].append(gaps(step.behavior["log_probs"], rows)[alive])
        ratio = step.mismatch_log_ratio.double()
        self.found["ratio"].append(ratio[alive])
        both = alive[..., 1:] & alive[..., :-1]
        self.found["pair"].append(torch.stack([ratio[..., :-1][both], ratio[..., 1:][both]], -1))
        if self.last is not None:
            for name, weights in (("before", self.last), ("after", step.parameters)):
                self.found[name].append(rounding(step.policy, weights, batch)[alive])
        self.last = step.parameters

    def result(self) -> dict[str, np.ndarray]:
        """All of it, one replicate."""
        return {name: torch.cat(each).cpu().numpy()[..., None] for name, each in self.found.items() if each}


def gaps(sampled: Tensor, trained: Tensor) -> Tensor:
    """e_1 - e_2 of the two likeliest tokens, e = log mu - log pi, float64 `[...]` from log-probs `[..., V]`."""
    likeliest = trained.topk(2, dim=-1).indices
    error = (sampled.double() - trained.double()).gather(-1, likeliest)
    return error[..., 0] - error[..., 1]


def rounding(policy: Any, weights: Tensor, batch: Any) -> Tensor:
    """log mu - log pi of a batch's tokens at weights `[R, P]`, each text read once, `[R, G, N, T]`."""
    view = versions.current(policy.prepare(weights))
    return (policy._log_prob(policy.sampler, view, batch) - policy.score(view, batch)).double()


def moments(gap: np.ndarray) -> tuple[float, float]:
    """s and the excess kurtosis of independent errors whose gaps these are.

    >>> moments(np.array([2.0, -2.0, 2.0, -2.0]))
    (1.4142135623730951, -4.0)
    """
    variance = float(np.mean(gap**2))
    return math.sqrt(variance / 2.0), 2.0 * (float(np.mean(gap**4)) / variance**2 - 3.0)


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """One row."""
    parts = [measure(setting, setting["seed"] + number) for number in range(setting["replicates"])]
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    noise = uncertainty.between(np.array([moments(part["gap"])[0] for part in parts]))
    reach = uncertainty.critical(0.05, noise.freedom) * noise.error
    kurtosis = moments(joined["gap"])[1]
    ratio = joined["ratio"]
    about = {"sampler": setting["sampler"], "replicates": setting["replicates"], "tokens": len(ratio)}
    row = {
        "noise": noise.value,
        "low": noise.value - reach,
        "high": noise.value + reach,
        "kurtosis": kurtosis,
        "degrees": 4.0 + 6.0 / kurtosis if kurtosis > 0 else math.inf,
        "mean": ratio.mean(),
        "sd": ratio.std(),
        "extreme": np.quantile(np.abs(ratio), 0.999),
        "neighbors": np.corrcoef(joined["pair"].T)[0, 1],
        "versions": np.corrcoef(joined["before"], joined["after"])[0, 1],
    }
    return [{**about, **{name: float(value) for name, value in row.items()}}]


def measure(setting: dict[str, Any], seed: int) -> dict[str, np.ndarray]:
    """What `Errors` has gathered of one replicate."""
    import asyncsim as sim
    from asyncsim.policies.causal_lm import causal_lm

    spec = sim.Spec(
        task=sim.tasks.arithmetic(prompts=setting["prompts"], horizon=4),
        policy=causal_lm("char", sampler=setting["sampler"], distributions=True, recipe=setting.get("recipe")),
        system=sim.schedules.fixed(0, groups_per_batch=setting["groups"]),
        method=sim.methods.reinforce(sim.advantages.offset(0.5)),
        update=sim.chain(sim.updates.adam(setting["step"])),
        samples_per_group=setting["samples"],
        updates=setting["updates"],
        replicates=1,
        diagnostics=[Errors()],
        device=setting.get("device", "cpu"),
    )
    gathered = sim.run(spec, seed=seed, progress=False).accumulated
    return {name: gathered[name][..., 0] for name in ("gap", "ratio", "pair", "before", "after")}
