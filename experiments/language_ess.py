"""Does the effective sample size of stale answers follow from one update's change of the log-probs?

REINFORCE with plain gradient steps on sums, constant staleness S. From a run at staleness 1 on one half of the problems
(`part` "odd"): the variance s_t^2 of each token's log ratio over one update, the variance v_m of what the sampler's
numerics add, and f, the share of one update's variance that the next one repeats. From these three, for the other half
("even"), the laws of drift (`ratio/drift-growth`) and of length:

    v(S, L) = v_m + ((1 - f) S + f S^2) sum_(t <= L) s_t^2,    ESS/N = exp(-v).

Score terms are martingale differences, so to first order variances of tokens add up whatever they depend on.

`judge` is who rewards: a "coin", whatever the answer says, so that gradients have mean 0, f = 0 (what is measured is
kept in `drift`) and nothing that the policy does changes them; or the "answer", right or wrong. Only the coin is within
the law: there `inside` holds up to v <= ln(N)/4 (`ess/finite-sample`). `tokens` is L: ratios of the first L tokens of
each answer; the largest is the whole. Means over updates, 95 percent intervals between replicates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import uncertainty
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.step import ratios, versions
from asyncsim.step.batch import Draws
from asyncsim.step.step import Step
from asyncsim.tasks.texts import Arithmetic, arithmetic

DEVICES = ("cpu", "cuda")
COLUMNS = [
    "model", "judge", "sampler", "part", "staleness", "tokens", "replicates", "samples",
    "ess", "low", "high", "ess_staleness", "ess_mismatch", "variance", "variance_low", "variance_high",
    "drift", "drift_error", "predicted_variance", "predicted_ess", "predicted_low", "predicted_high", "inside",
]  # fmt: skip
TINY = {"width": 32, "layers": 2, "steps": 0}

_CHARACTERS = {
    "model": "char",
    "judge": "coin",
    "sampler": "float32",
    "digits": 2,
    "shots": 0,
    "prompts": 4500,
    "groups": 32,
    "samples": 8,
    "step": 3e-3,
    "levels": (4, 8, 16, 32, 80),
    "measured": 2,
    "base": 16,
    "window": 8,
    "replicates": 16,
    "seed": 1000,
}
_ROUNDED = {**_CHARACTERS, "levels": (16,), "replicates": 6, "base": 8, "window": 0}
SETTINGS = [
    _CHARACTERS,
    {**_CHARACTERS, "judge": "answer", "step": 5e-4, "levels": (4, 16), "replicates": 6},
    {**_ROUNDED, "sampler": "bfloat16"},
    {**_ROUNDED, "sampler": "int8"},
]
_FEW = {"prompts": 64, "groups": 4, "levels": (2,), "measured": 2, "base": 4, "replicates": 2}
QUICK = [
    {**_CHARACTERS, **_FEW, "recipe": TINY, "window": 2},
    {**_CHARACTERS, **_FEW, "recipe": TINY, "window": 0, "sampler": "bfloat16"},
]


@dataclass(frozen=True)
class Tossed(Arithmetic):
    """Sums whose reward is a fair coin, whatever the answer says."""

    def earn(self, state: Tensor, action: Tensor, mask: Tensor, draws: Draws) -> Tensor:
        """0 or 1, `[R, G, N]`."""
        return (draws.uniform(0, 1) < 0.5).to(mask.dtype)


class Increments:
    """Covariance between the changes that `window` consecutive updates make to the log-probs of a fresh batch.

    At every `window`-th update the batch is scored at the weights of the updates before it; the result is the mean
    `[window, window, R]` over these batches.
    """

    name, outputs = "increments", ("log_prob",)

    def __init__(self, window: int) -> None:
        self.window = window
        self.known: list[Tensor] = []
        self.found: list[Tensor] = []

    def fresh(self) -> Increments:
        """One that has seen nothing."""
        return Increments(self.window)

    def observe(self, step: Step) -> None:
        """Remember the weights; score them when due."""
        policy = step.policy
        self.known = [*self.known[-self.window :], step.parameters]
        if len(self.known) <= self.window or step.update % self.window:
            return
        views = [versions.current(policy.prepare(weights)) for weights in self.known]
        scored = torch.stack([policy.score(view, step.batch).double().sum(-1) for view in views])
        change = scored.diff(dim=0)
        away = change - (step.step_mass * change).sum((2, 3), keepdim=True)
        self.found.append(torch.einsum("irgn,jrgn,rgn->ijr", away, away, step.step_mass.expand_as(away[0])))

    def result(self) -> dict[str, np.ndarray]:
        """The mean over the batches."""
        return {"increments": torch.stack(self.found).mean(0).cpu().numpy()}


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of the run that predicts and of those that are predicted, one per number of tokens."""
    base = measure(setting, "odd", 1, setting["base"], setting["window"])
    f, error = drift_of(base)
    shared = {name: setting[name] for name in ("model", "judge", "sampler", "replicates")}
    shared |= {"samples": setting["groups"] * setting["samples"]}
    nothing = {name: math.nan for name in COLUMNS if name.startswith("predicted")}
    rows = []
    for tokens in range(1, base["token"].shape[1] + 1):
        place = {"part": "odd", "staleness": 1, "tokens": tokens, "drift": f, "drift_error": error, "inside": False}
        rows.append({**shared, **place, **nothing, **measured(base, tokens)})
    for staleness in setting["levels"]:
        found = measure(setting, "even", staleness, setting["measured"], 0)
        for tokens in range(1, found["token"].shape[1] + 1):
            place = {"part": "even", "staleness": staleness, "tokens": tokens, "drift_error": math.nan}
            told = predicted(base, setting, staleness, tokens)
            rows.append({**shared, **place, **told, **measured(found, tokens)})
    return rows


def measure(setting: dict[str, Any], part: str, staleness: int, updates: int, window: int) -> dict[str, np.ndarray]:
    """Means over the updates at full staleness, by name, each `[R, T]`; with a window also `increments` `[R, W, W]`."""
    import asyncsim as sim
    from asyncsim.policies.causal_lm import causal_lm

    horizon = arithmetic(digits=setting["digits"]).horizon
    gathered: list[Any] = [metric for tokens in range(1, horizon + 1) for metric in prefix(tokens)]
    spec = sim.Spec(
        task=task(setting, part),
        policy=causal_lm(
            setting["model"],
            sampler=setting["sampler"],
            recipe=setting.get("recipe"),
            train_layers=None if setting["model"] == "char" else 6,
        ),
        system=sim.schedules.fixed(staleness, groups_per_batch=setting["groups"]),
        method=sim.methods.reinforce(),
        update=sim.chain(sim.updates.sgd(setting["step"])),
        samples_per_group=setting["samples"],
        updates=staleness + updates,
        replicates=setting["replicates"],
        diagnostics=[*gathered, Increments(window)] if window else gathered,
        device=setting.get("device", "cpu"),
    )
    # Another seed for every staleness: equal keys would toss equal coins.
    trace = sim.run(spec, seed=setting["seed"] + staleness, progress=False)
    names = ("token", *(f"{what}_{part}" for what in ("ess", "variance") for part in PARTS))
    found = {
        name: np.stack([trace[f"{name}_{tokens}"][staleness:].mean(axis=0) for tokens in range(1, horizon + 1)], axis=1)
        for name in names
    }
    return found | ({"increments": np.moveaxis(trace.accumulated["increments"], 2, 0)} if window else {})


def task(setting: dict[str, Any], part: str) -> Arithmetic:
    """Half of the problems, under the setting's judge."""
    style = "char" if setting["model"] == "char" else "spaced"
    sums = arithmetic(
        digits=setting["digits"], shots=setting["shots"], style=style, prompts=setting["prompts"], part=part
    )
    return sums if setting["judge"] == "answer" else Tossed(**{f.name: getattr(sums, f.name) for f in fields(sums)})


PARTS = {"whole": "log_ratio", "staleness": "staleness_log_ratio", "mismatch": "mismatch_log_ratio"}
"""The log ratio and its two parts, as fields of a step."""


def prefix(tokens: int) -> list[Metric]:
    """ESS and variance of the ratios of the first tokens, whole and in parts; and of the last of these alone."""

    def ess(part: str) -> Any:
        return lambda step: ratios.ess(_sum(step, part, tokens), step.step_mass)

    def variance(part: str) -> Any:
        return lambda step: ratios.log_moments(_sum(step, part, tokens), step.step_mass)[1]

    def token(step: Step) -> Tensor:
        last = step.staleness_log_ratio[..., tokens - 1]
        return ratios.log_moments(last, step.step_mass)[1]

    read = ("log_prob",)
    return [
        *(Metric(f"ess_{part}_{tokens}", ess(field), read) for part, field in PARTS.items()),
        *(Metric(f"variance_{part}_{tokens}", variance(field), read) for part, field in PARTS.items()),
        Metric(f"token_{tokens}", token, read),
    ]


def _sum(step: Step, part: str, tokens: int) -> Tensor:
    log_ratio: Tensor = getattr(step, part)
    return log_ratio[..., :tokens].double().sum(-1)


def drift_of(found: dict[str, np.ndarray]) -> tuple[float, float]:
    """f with its standard error: covariance of two updates' changes over the variance of one; NaN if not measured."""
    if "increments" not in found:
        return math.nan, math.nan
    products = found["increments"]
    W = products.shape[1]
    one = np.trace(products, axis1=1, axis2=2)
    estimate = uncertainty.ratio((products.sum((1, 2)) - one) / (W - 1), one)
    return float(estimate.value), float(estimate.error)


def growth(drift: float, staleness: int) -> float:
    """v_S / v_1."""
    return (1.0 - drift) * staleness + drift * staleness**2


def predicted(base: dict[str, np.ndarray], setting: dict[str, Any], staleness: int, tokens: int) -> dict[str, Any]:
    """Variance and ESS of the first tokens at a staleness, with what the base run's replicates leave open."""
    # A coin's gradients have mean 0 exactly; a share is not negative.
    drift = 0.0 if setting["judge"] == "coin" else max(0.0, drift_of(base)[0])
    one, mismatch = base["token"][:, :tokens].sum(axis=1), base["variance_mismatch"][:, tokens - 1]
    estimate = uncertainty.between(mismatch + growth(drift, staleness) * one)
    reach = uncertainty.critical(0.05, estimate.freedom) * estimate.error
    limit = math.log(setting["groups"] * setting["samples"]) / 4.0
    return {
        "drift": drift,
        "predicted_variance": float(estimate.value),
        "predicted_ess": math.exp(-estimate.value),
        "predicted_low": math.exp(-estimate.value - reach),
        "predicted_high": math.exp(min(0.0, reach - estimate.value)),
        "inside": setting["judge"] == "coin" and bool(estimate.value <= limit),
    }


def measured(found: dict[str, np.ndarray], tokens: int) -> dict[str, float]:
    """Means of the first tokens' ESS and variance with their intervals."""
    row: dict[str, float] = {}
    for name, low, high in (("ess", "low", "high"), ("variance", "variance_low", "variance_high")):
        estimate = uncertainty.between(found[f"{name}_whole"][:, tokens - 1])
        reach = uncertainty.critical(0.05, estimate.freedom) * estimate.error
        row |= {name: estimate.value, low: estimate.value - reach, high: estimate.value + reach}
    parts = {f"ess_{part}": float(found[f"ess_{part}"][:, tokens - 1].mean()) for part in ("staleness", "mismatch")}
    return {name: float(value) for name, value in (row | parts).items()}
