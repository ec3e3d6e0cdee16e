"""Does the data's policy move where trajectory balance ends?

Small tables; the objective is E[reward] - BETA KL(policy || reference), its optimum reference exp(reward / BETA) / Z.
Tasks: `bandit`, six arms; `tree`, two tokens of three with a row for every prefix, paid 1 for two tokens 0, else 0.
Batches have 4 groups of 8 samples; plain ascent at one `rate`, of TBA divided by 2/BETA, so that all arms climb alike.
Arms: `TBA`; `RLOO`, no ratio, penalty in the reward as it was when the data were drawn; `RLOO, ratio`, with the ratio
of the sequence and the current penalty; `Dr. GRPO`, a clip at 0.2 and GRPO's own penalty (k3), another objective.
Laws: `fresh`; `constant 32`, data 32 updates old; `replay`, the system `tba` with half of the groups out of everything
since the start; `frozen`, all data from the first policy, the reference; `narrow`, frozen at a policy that takes the
best arm or sequence seldom. One row for each
  distance   KL(policy || optimum) before an `update`, nats: median over replicates with the interval of its ranks
  predicted  the same of the mean dynamics, by enumeration at the versions that the law gives; no simulation
  end        distance at the end, at every rate; tenth  updates until a tenth of the first distance is left
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch
from torch import Tensor

import asyncsim as sim
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.step.step import Step
from experiments import _tba, _vcpo

COLUMNS = ["task", "law", "arm", "rate", "update", "quantity", "value", "low", "high", "samples", "note"]
BETA, GROUPS, SAMPLES = 0.25, 4, 8
RATE, RATES = 0.25, tuple(2.0**k for k in range(-3, 4))
"""The rate of the curves, and all of them."""
ARM_REWARDS, ARM_LOGITS = (0.0, 0.2, 0.9, 0.4, 0.7, 1.0), ((1.0, 0.5, 0.0, -0.5, 0.0, -1.0),)
NARROW = {
    "bandit": ((2.0, 2.0, -2.0, 0.0, -2.0, -2.0),),
    "tree": ((-1.5, 1.0, 1.0), (-1.5, 1.0, 1.0), *((0.0,) * 3,) * 2),
}
REFERENCES = {"bandit": ARM_LOGITS, "tree": ((0.0, 0.5, 0.0),) * 4}
LAWS: dict[str, Any] = {
    "fresh": sim.schedules.fixed(0, groups_per_batch=GROUPS),
    "constant 32": sim.schedules.fixed(32, groups_per_batch=GROUPS),
    "replay": sim.systems.tba(GROUPS, 2, 0.5, GROUPS, length="lognormal:1.0:1.0", load=1.0),
    "frozen": sim.schedules.frozen(groups_per_batch=GROUPS),
    "narrow": sim.schedules.frozen(groups_per_batch=GROUPS),
}
m = sim.methods
ARMS: dict[str, tuple[Any, str | None, float]] = {
    "TBA": (m.tba(beta=BETA), None, BETA / 2.0),
    "RLOO": (m.reinforce(), "behavior", 1.0),
    "RLOO, ratio": (m.full_is("sequence"), "current", 1.0),
    "Dr. GRPO": (m.grpo(advantage=sim.advantages.group_mean(), aggregator="sequence_sum", kl=BETA), None, 1.0),
}
"""Method, where the penalty of the reward is taken (None: the method has its own), and what multiplies the rate."""
_SIZES = {"updates": 2000, "every": 20, "each": 16, "schedules": 8, "rates": RATES, "seed": 0}
SETTINGS = [{"task": task, "law": law, **_SIZES} for task in REFERENCES for law in LAWS]
QUICK = [
    {**setting, "updates": 60, "every": 4, "each": 4, "schedules": 2, "rates": (RATE, 1.0)} for setting in SETTINGS
]


def task(name: str, law: str, at: str | None) -> Any:
    """The task, its penalty taken at behavior or current log-probs, if at all."""
    reference = REFERENCES[name]
    start = NARROW[name] if law == "narrow" else reference
    penalty: Any = {"kl_coef": BETA if at else 0.0, "kl_at": at or "behavior", "reference": reference, "logits": start}
    if name == "bandit":
        return sim.tasks.softmax_bandit(6, ARM_REWARDS, rewards="fixed", **penalty)
    return sim.tasks.token_bandit(3, 2, "markov", success=1.0, **penalty)


def table(name: str) -> _tba.Table:
    """The same by enumeration."""
    reference = np.array(REFERENCES[name])
    if name == "bandit":
        return _tba.Table(np.eye(6)[:, None], np.array(ARM_REWARDS), reference, BETA, SAMPLES)
    counts = np.zeros((9, 4, 3))
    for y, (first, second) in enumerate(itertools.product(range(3), repeat=2)):
        counts[y, 0, first] = counts[y, 1 + first, second] = 1.0
    return _tba.Table(counts, np.eye(9)[0], reference, BETA, SAMPLES)


def measured(name: str) -> Metric:
    """KL(policy || optimum) of every replicate, `[R]`."""
    own = table(name)
    counts, best = torch.as_tensor(own.counts), torch.as_tensor(own.best)

    def distance(step: Step) -> Tensor:
        rows = torch.log_softmax(step.parameters.reshape(-1, *counts.shape[1:]), -1)
        log_prob = torch.einsum("ysa,rsa->ry", counts, rows)
        return (log_prob.exp() * (log_prob - best)).sum(-1)

    return Metric("distance", distance)


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of all arms of one task under one law."""
    rows = []
    for arm in ARMS:
        rows += [{"arm": arm, **row} for row in trained(setting, arm)]
        rows += [{"arm": arm, **row} for row in predicted(setting, arm)]
    blank = {"update": None, "note": ""}
    return [{**blank, "task": setting["task"], "law": setting["law"], **row} for row in rows]


def trained(setting: dict[str, Any], arm: str) -> list[dict[str, Any]]:
    """Curve at `RATE`, end and time at every rate; rates ride as replicates of one run."""
    method, at, scale = ARMS[arm]
    rates, each = setting["rates"], setting["each"]
    spec = sim.Spec(
        task(setting["task"], setting["law"], at),
        LAWS[setting["law"]],
        method,
        sim.chain(sim.updates.sgd(tuple(float(x) for x in np.repeat(rates, each) * scale))),
        samples_per_group=SAMPLES,
        updates=setting["updates"],
        every=setting["every"],
        replicates=each * len(rates),
        diagnostics=[measured(setting["task"])],
    )
    trace = sim.run(spec, seed=setting["seed"], progress=False)
    curves = trace["distance"].reshape(-1, len(rates), each)
    rows: list[dict[str, Any]] = []
    for place, rate in enumerate(rates):
        own = curves[:, place]
        if rate == RATE:
            course = [
                {"update": int(u), "quantity": "distance", **_vcpo.median(x)}
                for u, x in zip(trace.updates, own, strict=True)
            ]
            rows += [{"rate": rate, **row} for row in course]
        rows.append({"rate": rate, "quantity": "end", **_vcpo.median(own[-1])})
        rows.append({"rate": rate, "quantity": "tenth", **tenth(own, np.asarray(trace.updates))})
    return rows


def tenth(curves: np.ndarray, updates: np.ndarray) -> dict[str, Any]:
    """Median update from which a tenth of the first distance `[U, R]` is left; missing where half never get there."""
    there = curves <= 0.1 * curves[0]
    when = np.where(there.any(0), updates[there.argmax(0)], np.inf)
    found = _vcpo.median(when)
    return found if np.isfinite(found["high"]) else _vcpo.missing("not reached")


def predicted(setting: dict[str, Any], arm: str) -> list[dict[str, Any]]:
    """The mean dynamics at `RATE`, the median over the law's schedules; none for a clip."""
    if arm not in _tba.FIELDS:
        return []
    name, law = setting["task"], setting["law"]
    own, start = table(name), np.array((NARROW if law == "narrow" else REFERENCES)[name])
    updates, several = setting["updates"], setting["schedules"] if LAWS[law].realizations(2) > 1 else 1
    made = LAWS[law].schedule(updates, SAMPLES, int(own.counts.sum((1, 2))[0]), several, setting["seed"])
    # Versions count publishes; a version is that of the update it was published before.
    drawn = made.version[..., 0, 0] * made.batches_per_publish
    paths = [_tba.dynamics(own, _tba.FIELDS[arm], start, one, RATE) for one in drawn]
    shown = range(0, updates, setting["every"])
    courses = np.array([[own.distance(path[u]) for path in paths] for u in shown])
    rows = [{"update": u, "quantity": "predicted", **_vcpo.median(x)} for u, x in zip(shown, courses, strict=True)]
    return [{"rate": RATE, **row} for row in rows]
