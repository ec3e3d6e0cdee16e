"""How tight is the guarantee of bounded staleness, and does it survive alignment control?

Measured is (1/T) sum_t |grad f(theta_t)|^2, the average squared exact gradient over all T updates from the start, of
four rules: `none`, plain stale descent, for which the guarantee is a theorem; `project` and `skip`, alignment control
(`updates.align`, a reconstruction) for which it is not; and of `tenth`, plain descent that takes a tenth of the step
at which it is judged, which shows what moving less alone does to the comparison. Tasks: `quadratic`, 16 directions of
curvature 1 with white noise, start 3 noises away; `bandit`, a softmax over 5 arms with rewards 0 to 1, leave-one-out
gradients of 4 samples. Schedules: `constant` staleness, or `arrival`, workers with exponential times whose gradients
are applied as they come, one realization, whose delays are then known in advance.
Quantities, told apart by the column `quantity`:
square    the measured average, in squared units of the gradient; 95 percent interval between replicates
gradient  norm of the exact gradient in the same units, squared, at the start
`fraction` is step * smoothness * (1 + staleness), the largest staleness of `constant` and the mean of `arrival`; the
theorem asks for about 1 at most; one fraction of `constant` is the largest that it allows. `smoothness` is the largest
curvature L, `maximum`, `mean` and `in_flight` the delays in updates: in_flight is how many gradients were on their way
across one update, at most.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from asyncsim import advantages, methods, schedules, systems, tasks, updates
from asyncsim.base import laws, uncertainty
from asyncsim.running import running
from asyncsim.running.spec import Spec
from asyncsim.updates._link import chain

DIRECTIONS, NOISE, START = 16, 1.0, 3.0
REWARDS, SAMPLES = (0.0, 0.25, 0.5, 0.75, 1.0), 4
SMOOTHNESS = {"quadratic": 1.0, "bandit": 1.0 / (3.0 * math.sqrt(3.0))}
RULES: dict[str, dict[str, float]] = {
    "none": {"low": 1.0, "high": 1.0, "strength": 0.0},
    "project": {"low": 0.0, "high": 1.0, "strength": 1.0},
    "skip": {"low": 0.05, "high": 0.3, "strength": 1.0},
    "tenth": {"low": 1.0, "high": 1.0, "strength": 0.0},
}
SHARE = {"tenth": 0.1}
"""What a rule takes of the step at which it is judged, where that is not all."""
INSIDE = (0.0625, 0.125, 0.25, 0.5, 0.7, 1.0)
BEYOND = (1.2, 1.4, 1.6, 1.8, 2.2, 3.0)
BLOWN = 1e3
"""Times the first squared gradient: beyond it a mean says only that the run diverged."""
COLUMNS = [
    *("quantity", "task", "schedule", "staleness", "rule", "fraction", "step", "smoothness", "maximum", "mean"),
    *("in_flight", "updates", "value", "low", "high", "error", "samples", "reason"),
]


def allowed(staleness: int) -> float:
    """Largest fraction at which a = step * smoothness meets the theorem's condition a + (a staleness)^2 <= 1."""
    return (1 + staleness) * 2.0 / (1.0 + math.sqrt(1.0 + 4.0 * staleness**2))


def _setting(task: str, schedule: str, staleness: int, replicates: int, length: int) -> dict[str, Any]:
    constant = schedule == "constant"
    return {
        "task": task,
        "schedule": schedule,
        "staleness": staleness,
        "rules": list(RULES) if constant else ["none"],
        "fractions": sorted({*INSIDE, allowed(staleness), *BEYOND}) if constant else list(INSIDE[:-1]),
        "replicates": replicates,
        "updates": length,
        "seed": staleness,
    }


SETTINGS = [
    *(_setting(task, "constant", tau, 48, 1000) for task in SMOOTHNESS for tau in (0, 1, 2, 4, 8, 16, 32)),
    *(_setting(task, "arrival", tau, 48, 1000) for task in SMOOTHNESS for tau in (1, 2, 4, 8, 16, 32)),
]
QUICK = [
    *(_setting(task, "constant", tau, 16, 300) for task in SMOOTHNESS for tau in (0, 4, 16)),
    *(_setting(task, "arrival", tau, 16, 300) for task in SMOOTHNESS for tau in (4, 16)),
]


def build(setting: dict[str, Any]) -> Spec:
    """Every rule with every step, `replicates` of each, in this order along the replicate axis."""
    quadratic, tau = setting["task"] == "quadratic", setting["staleness"]
    each = np.repeat(steps(setting), setting["replicates"])
    rules = setting["rules"]
    knobs: Any = {k: np.repeat([RULES[rule][k] for rule in rules], len(each)) for k in ("low", "high", "strength")}
    size = np.concatenate([SHARE.get(rule, 1.0) * each for rule in rules])
    constant = setting["schedule"] == "constant"
    return Spec(
        task(setting["task"]),
        schedules.fixed(tau) if constant else systems.update_on_arrival(tau + 1, laws.exponential(1.0)),
        methods.gradient() if quadratic else methods.reinforce(advantage=advantages.leave_one_out()),
        chain(updates.align(**knobs), updates.sgd(size)),
        samples_per_group=1 if quadratic else SAMPLES,
        updates=setting["updates"],
        replicates=len(rules) * len(each),
        realizations=1,
        diagnostics=["exact_gradient_norm"],
    )


def task(name: str) -> Any:
    """The isotropic quadratic or the bandit with fixed rewards."""
    if name == "quadratic":
        return tasks.quadratic((SMOOTHNESS[name],) * DIRECTIONS, noise=NOISE, start=START)
    return tasks.softmax_bandit(len(REWARDS), REWARDS, rewards="fixed")


def steps(setting: dict[str, Any]) -> np.ndarray:
    """Step sizes of the fractions, at which every rule is judged."""
    size: np.ndarray = np.array(setting["fractions"]) / (SMOOTHNESS[setting["task"]] * (1 + setting["staleness"]))
    return size


def delays(trace: Any) -> dict[str, float]:
    """Largest and mean delay of a run's only realization, and the most gradients in flight across one update."""
    age = trace.schedule.staleness()[0].reshape(trace.schedule.batches, -1)[:, 0].astype(int)
    update = np.arange(len(age))
    # Gradient t is on its way across every update from the one it was read at to the one before its own.
    across = np.bincount(update - age, minlength=len(age) + 1) - np.bincount(update, minlength=len(age) + 1)
    return {"maximum": int(age.max()), "mean": float(age.mean()), "in_flight": int(np.cumsum(across).max())}


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one task under one schedule: every rule at every step, and the gradient at the start."""
    trace = running.run(build(setting), seed=setting["seed"], progress=False)
    with np.errstate(over="ignore", invalid="ignore"):
        square = (trace["exact_gradient_norm"] ** 2).mean(axis=0)
    square = square.reshape(len(setting["rules"]), len(setting["fractions"]), setting["replicates"])
    own = task(setting["task"])
    policy = own.policy()
    first = float((own.exact(policy, policy.initial(1, torch.float64))[1] ** 2).sum())
    shared = {
        **{name: setting[name] for name in ("task", "schedule", "staleness", "updates")},
        "smoothness": SMOOTHNESS[setting["task"]],
        **delays(trace),
    }
    nothing = {"rule": None, "fraction": None, "step": None, "low": None, "high": None, "error": None}
    rows = [{"quantity": "gradient", **shared, **nothing, "value": first, "samples": 1, "reason": None}]
    for place, rule in enumerate(setting["rules"]):
        for index, (fraction, step) in enumerate(zip(setting["fractions"], steps(setting), strict=True)):
            which = {"rule": rule, "fraction": fraction, "step": float(step)}
            rows.append({"quantity": "square", **shared, **which, **summary(square[place, index], BLOWN * first)})
    return rows


def summary(values: np.ndarray, limit: float) -> dict[str, Any]:
    """Mean with its interval, or no value and why where replicates overflowed or the mean is beyond the limit."""
    missing: dict[str, Any] = dict.fromkeys(("value", "low", "high", "error"))
    frozen = int((~np.isfinite(values)).sum())
    if frozen or abs(values.mean()) > limit:
        why = f"{frozen} of {len(values)} replicates overflowed" if frozen else "diverged: beyond 1000 times the start"
        return {**missing, "samples": len(values), "reason": why}
    found = uncertainty.between(values)
    reach = found.error * uncertainty.critical(0.05, found.freedom)
    interval = {"low": found.value - reach, "high": found.value + reach, "error": found.error}
    return {"value": found.value, **interval, "samples": len(values), "reason": None}
