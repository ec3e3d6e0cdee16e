"""Tasks, arms and the grid of steps on which alignment control is compared with a smaller step."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch

from asyncsim import advantages, methods, schedules, tasks, updates
from asyncsim.base.records import Point
from asyncsim.running import running
from asyncsim.running.spec import Spec
from asyncsim.updates._link import chain

PROMPTS, ARMS_PER_PROMPT, KL, SAMPLES = 16, 8, 0.2, 8
DIRECTIONS, FLAT, NOISE, START = 40, 0.05, 0.3, 3.0
RULES: dict[str, dict[str, float]] = {
    "none": {"low": 1.0, "high": 1.0, "strength": 0.0},
    "project": {"low": 0.0, "high": 1.0, "strength": 1.0},
    "threshold": {"low": 2.0, "high": 1.0, "strength": 1.0},
    "half": {"low": 0.0, "high": 1.0, "strength": 0.5},
    "skip": {"low": 0.05, "high": 0.3, "strength": 1.0},
}
"""No control; project when aligned; only above so many noise floors 1/sqrt(P), see `knobs`; half of it; defaults."""
TASKS = ("fixed", "random", "stiff")
PARTS = 50
"""A run is recorded at so many updates, of which the last tenth are averaged."""


@cache
def means() -> np.ndarray:
    """Mean reward of every arm of every prompt, uniform on [0, 1], `[prompts, arms]`."""
    return np.random.default_rng(0).random((PROMPTS, ARMS_PER_PROMPT))


@cache
def task(name: str) -> Any:
    """The bandit with fixed or random (0 or 1) rewards, or the quadratic with one stiff direction."""
    if name == "stiff":
        return tasks.quadratic((1.0,) + (FLAT,) * (DIRECTIONS - 1), noise=NOISE, start=START)
    rewards = {"fixed": "fixed", "random": "bernoulli"}[name]
    return tasks.softmax_bandit(ARMS_PER_PROMPT, means=means(), rewards=rewards, kl_coef=KL)


def best_return(name: str) -> float:
    """Largest attainable return: with a penalty to the uniform policy it is kl log mean exp(r/kl)."""
    if name == "stiff":
        return 0.0
    return float(np.mean(KL * np.log(np.exp(means() / KL).mean(axis=1))))


def initial_regret(name: str) -> float:
    """Regret before the first update."""
    own = task(name)
    policy = own.policy()
    return best_return(name) - float(own.exact(policy, policy.initial(1, torch.float64))[0])


def points(name: str, staleness: int) -> tuple[str, list[Point], float]:
    """Claim on the largest stable step, its points (the smallest counts), and what its step is multiplied with."""
    if name == "stiff":
        return "staleness/stability-boundary", [{"staleness": staleness, "curvatures": (1.0, FLAT)}], 1.0
    shared = {"placement": "behavior", "staleness": staleness, "reference_logits": (0.0,) * ARMS_PER_PROMPT, "kl": KL}
    # A step averages over prompts, each with weights of its own, so that each moves by a share of it.
    return "staleness/regularizer-placement", [{**shared, "rewards": tuple(row)} for row in means()], float(PROMPTS)


def knobs(rule: str, size: int) -> dict[str, float]:
    """Settings of a rule for so many parameters: the cosine of unrelated vectors is about 1/sqrt(P)."""
    own = RULES[rule]
    return {**own, "low": own["low"] / size**0.5} if rule == "threshold" else own


def spec(name: str, staleness: int, rules: list[str], steps: np.ndarray, samples: int, length: int) -> Spec:
    """Every rule with every step, `samples` replicates each, in this order along the replicate axis."""
    each = np.repeat(np.asarray(steps, dtype=float), samples)
    quadratic = name == "stiff"
    size = task(name).policy().size
    rule: Any = {k: np.repeat([knobs(own, size)[k] for own in rules], len(each)) for k in ("low", "high", "strength")}
    return Spec(
        task(name),
        schedules.fixed(staleness, groups_per_batch=1 if quadratic else PROMPTS),
        methods.gradient() if quadratic else methods.reinforce(advantage=advantages.leave_one_out()),
        chain(updates.align(**rule), updates.sgd(np.tile(each, len(rules)))),
        samples_per_group=1 if quadratic else SAMPLES,
        updates=length,
        replicates=len(rules) * len(each),
        diagnostics=["exact_return", "gradient_cosine"],
        every=max(1, length // PARTS),
    )


def measure(setting: dict[str, Any]) -> dict[str, np.ndarray]:
    """Final regret, shares of updates projected and skipped, mean cosine of neighbors: `[rules, steps, R]`."""
    rules, steps = setting["rules"], grid(setting)
    built = spec(setting["task"], setting["staleness"], rules, steps, setting["replicates"], setting["updates"])
    trace = running.run(built, seed=setting["seed"], progress=False)
    shape = (len(rules), len(steps), setting["replicates"])
    last = max(1, PARTS // 10)
    with np.errstate(over="ignore", invalid="ignore"):
        regret = best_return(setting["task"]) - trace["exact_return"][-last:].mean(axis=0)
    found = {"regret": regret}
    for quantity, metric in (
        ("projected", "align_projected"),
        ("skipped", "align_skipped"),
        ("cosine", "gradient_cosine"),
    ):
        # The first update has no predecessor, and a replicate that was frozen at once has nothing at all.
        values = trace[metric][1:]
        there = np.isfinite(values)
        count = np.where(there.any(axis=0), there.sum(axis=0), np.nan)
        found[quantity] = np.where(there, values, 0.0).sum(axis=0) / count
    return {key: value.reshape(shape) for key, value in found.items()}


def grid(setting: dict[str, Any]) -> np.ndarray:
    """Steps from 2^first to 2^last, the same for every rule and staleness of a task, and finer ones in between."""
    first, last = setting["octaves"]
    places = first + np.arange(round((last - first) * setting["per_octave"]) + 1) / setting["per_octave"]
    if setting["fine"]:
        low, high = setting["fine"]
        inner = low + np.arange(round((high - low) * setting["per_octave_fine"]) + 1) / setting["per_octave_fine"]
        # Octaves are multiples of powers of two, so that common places are equal exactly.
        places = np.union1d(places, inner)
    steps: np.ndarray = 2.0**places
    return steps
