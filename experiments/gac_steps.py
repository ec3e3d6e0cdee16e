"""Return over updates at several levels of staleness and one learning rate: does gradient alignment control (GAC) hold?

GAC (arXiv 2603.01501) is compared with GRPO, M2PO and BAPO at one learning rate for all, on data of constant
staleness, beside synchronous GRPO. The rule is reconstructed: before Adam it removes the part of a gradient that is
parallel to the one before where their cosine exceeds `low`, and skips the update where it exceeds `high`. It controls
GRPO, as in the paper, and RLOO. Tasks: `chain` and `kinds` of `alarms`, and `peaked`: 64 tokens of 8 kinds, paid by the
share that is right, from a policy whose favorite tokens are wrong. Returns are exact returns of the policy that is
trained, cosines those of consecutive gradients before the norm clip; a run falls as in `alarms`. Rows, one `quantity`
each, over `samples` replicates with 95 percent `low_end` and `high_end`:
`part` "steps", of an `arm` at a `rate` and a `staleness`:
  return, cosine   means over the updates of a window that ends with `update`
  mean, end        return over all updates and over the last tenth; fell: share of runs that fall
`part` "threshold": mean, end and fell of GAC on GRPO by `low` and `high`; projected and skipped: shares of updates
`part` "warning", RLOO at all staleness levels together: area, the probability that a run `lead` updates before its fall
  scores above one that never falls, at the same update, by `arm`: cosine, return, ESS, or the staleness itself.
  `staleness` is empty, or the level within which runs are compared. Beside it falling and healthy, mean cosines of
  those runs `lead` updates before, and fell, the share of runs
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

import asyncsim as sim
from asyncsim.base import uncertainty
from asyncsim.diagnosing import Signal
from asyncsim.diagnosing import alarms as measures
from experiments import alarms, pipeline_rl
from experiments._vcpo_collapse import at

COLUMNS = [
    *("part", "task", "staleness", "arm", "rate", "low", "high", "update", "lead", "quantity"),
    *("value", "low_end", "high_end", "samples"),
]
METHODS: dict[str, Any] = {
    "GRPO": sim.methods.grpo(),
    "M2PO": sim.methods.m2po_mask(),
    "BAPO": sim.methods.bapo_paper(),
    "GAC": sim.methods.grpo(),
    "RLOO": sim.methods.reinforce(sim.advantages.leave_one_out()),
    "GAC on RLOO": sim.methods.reinforce(sim.advantages.leave_one_out()),
}
TASKS: dict[str, Any] = {
    "chain": alarms.TASKS["chain"],
    "peaked": (sim.tasks.token_bandit(8, 64, "position", start="peaked:0.02:0.9"), 1.0),
    "kinds": alarms.TASKS["kinds"],
}
"""Tasks, each with the return of its best policy."""


def usual(task: str) -> float:
    """The cosine that two unrelated directions hardly exceed, two standard deviations of it."""
    return 2.0 / math.sqrt(TASKS[task][0].policy().size)


USUAL = usual("chain")
STALENESS, RATES, WINDOWS = (0, 8, 16, 32), [0.05 * 2.0**k for k in range(6)], 16
PAIRS = [
    *((low, 1.0) for low in (0.0, 0.1, 0.2, 0.5, 0.7)),
    *((USUAL, high) for high in (0.5, 0.7, 0.9, 1.0)),
    (1.0, 1.0),
]
"""Thresholds of projecting and of skipping: without a skip, with the usual projection, and no control."""
LEAST = 4
"""Fewest runs of either kind."""
SCORES = {
    "cosine": Signal("gradient_cosine"),
    "return": Signal("policy_return", low=True),
    "ESS": Signal("ess", low=True, log=True),
    "staleness": Signal("staleness"),
}
LEADS = (0, 5, 10, 15, 20, 30)
_SIZES: dict[str, Any] = {"updates": 320, "seed": 0}
_STEPS = {**_SIZES, "part": "steps", "rates": RATES, "replicates": 32}
_THRESHOLD = {**_SIZES, "part": "threshold", "task": "chain", "pairs": PAIRS, "rates": [0.2, 0.8], "replicates": 48}
_WARNING = {**_SIZES, "part": "warning", "task": "chain", "arm": "RLOO", "levels": STALENESS, "replicates": 128}
SETTINGS: list[dict[str, Any]] = [
    *({**_STEPS, "task": t, "staleness": s, "arm": arm} for t in TASKS for s in STALENESS for arm in METHODS),
    *({**_THRESHOLD, "staleness": s} for s in (16, 32)),
    *({**_WARNING, "rate": rate} for rate in (0.2, 0.28, 0.4)),
]
QUICK = [
    *(
        {**_STEPS, "task": "chain", "staleness": s, "arm": arm, "updates": 64, "rates": [0.2, 0.8], "replicates": 4}
        for s in (0, 32)
        for arm in METHODS
    ),
    {**_THRESHOLD, "staleness": 32, "pairs": PAIRS[-5:], "updates": 64, "rates": [0.2], "replicates": 4},
    {**_WARNING, "rate": 0.4, "levels": (0, 32), "updates": 160, "replicates": 16},
]


def spec(task: str, staleness: int, arm: str, rates: Any, control: tuple[Any, ...], updates: int) -> sim.Spec:
    """An arm at one learning rate for each replicate."""
    return sim.Spec(
        TASKS[task][0],
        sim.schedules.fixed(staleness, groups_per_batch=4),
        METHODS[arm],
        sim.chain(sim.updates.clip_norm(1.0), *control, sim.updates.adam(tuple(float(rate) for rate in rates))),
        samples_per_group=8,
        updates=updates,
        replicates=len(rates),
        diagnostics=[pipeline_rl.RETURN, "gradient_cosine", "ess"],
    )


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one part."""
    rows = {"steps": steps, "threshold": threshold, "warning": warning}[setting["part"]](setting)
    shared = {name: setting.get(name) for name in COLUMNS}
    return [{name: (shared | row).get(name) for name in COLUMNS} for row in rows]


def steps(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Curves and sums of one arm at all rates."""
    task, arm, each = setting["task"], setting["arm"], setting["replicates"]
    control = (sim.updates.align(low=usual(task)),) if arm.startswith("GAC") else ()
    rates = np.repeat(setting["rates"], each)
    made = spec(task, setting["staleness"], arm, rates, control, setting["updates"])
    trace = sim.run(made, seed=setting["seed"], progress=False)
    rows = summed(trace["policy_return"], task, setting["rates"])
    ends = np.linspace(0, setting["updates"], WINDOWS + 1).astype(int)
    for name, metric in (("return", "policy_return"), ("cosine", "gradient_cosine")):
        for start, end in pairwise(ends):
            # A gradient that vanishes has no direction; such updates are left out.
            window = trace[metric][start:end]
            known = np.isfinite(window)
            means = np.where(known, window, 0.0).sum(0) / np.where(known.any(0), known.sum(0), np.nan)
            for k, rate in enumerate(setting["rates"]):
                found = mean(means[k * each : (k + 1) * each])
                rows += [{"rate": rate, "update": int(end), "quantity": name, **found}] if found else []
    return rows


def summed(returns: np.ndarray, task: str, groups: list[Any], name: str = "rate") -> list[dict[str, Any]]:
    """Share of falls, mean and last return of groups of replicates, named by `groups`."""
    fell = alarms.fallen(returns, float(returns[0].mean()), TASKS[task][1]).collapsed >= 0
    each, rows = returns.shape[1] // len(groups), []
    for k, group in enumerate(groups):
        own = slice(k * each, (k + 1) * each)
        found = {"fell": share(fell[own]), "mean": mean(returns[:, own].mean(0))}
        found["end"] = mean(returns[-(len(returns) // 10) :, own].mean(0))
        rows += [{name: group, "quantity": quantity, **value} for quantity, value in found.items()]
    return rows


def share(which: np.ndarray) -> dict[str, Any]:
    """Share of runs with its interval."""
    found = uncertainty.proportion(int(which.sum()), len(which))
    ends = alarms.ends(found.value, found.error)
    return {"value": ends["value"], "low_end": max(0.0, ends["low"]), "high_end": ends["high"], "samples": len(which)}


def mean(values: np.ndarray) -> dict[str, Any]:
    """Mean over runs with its interval; nothing where fewer than `LEAST` have a value."""
    values = values[np.isfinite(values)]
    if len(values) < LEAST:
        return {}
    found = uncertainty.between(values)
    reach = uncertainty.critical(0.05, found.freedom) * found.error
    ends = {"low_end": found.value - reach, "high_end": found.value + reach}
    return {"value": found.value, **ends, "samples": len(values)}


def threshold(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """GAC on GRPO at every pair of thresholds and every rate; a `low` of 1 is no control."""
    task, each, rates = setting["task"], setting["replicates"], setting["rates"]
    rows = []
    for low, high in setting["pairs"]:
        control = (sim.updates.align(low=low, high=high),)
        made = spec(task, setting["staleness"], "GAC", np.repeat(rates, each), control, setting["updates"])
        trace = sim.run(made, seed=setting["seed"], progress=False)
        shared = {"low": low, "high": high}
        rows += [shared | row for row in summed(trace["policy_return"], task, rates)]
        for name in ("projected", "skipped"):
            shares = trace[f"align_{name}"].mean(0)
            rows += [
                {**shared, "rate": rate, "quantity": name, **mean(shares[k * each : (k + 1) * each])}
                for k, rate in enumerate(rates)
            ]
    return rows


def warning(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Scores before a fall beside those of runs that never fall, pooled over staleness and within each level."""
    traces, levels = [], []
    for tau in setting["levels"]:
        rates = np.full(setting["replicates"], setting["rate"])
        made = spec(setting["task"], tau, setting["arm"], rates, (), setting["updates"])
        traces.append(sim.run(made, seed=setting["seed"] + tau, progress=False))
        levels.append(np.full(traces[-1]["policy_return"].shape, float(tau)))
    names = ("policy_return", "gradient_cosine", "ess")
    metrics = {name: np.concatenate([trace[name] for trace in traces], axis=1) for name in names}
    metrics["staleness"] = np.concatenate(levels, axis=1)
    returns, level = metrics["policy_return"], metrics["staleness"][0]
    found = alarms.fallen(returns, float(returns[0].mean()), TASKS[setting["task"]][1])
    healthy, scores = measures.healthy(found), {name: signal(metrics) for name, signal in SCORES.items()}
    rows = []
    for staleness in (None, *setting["levels"]):
        own = np.isfinite(level) if staleness is None else level == staleness
        rows.append({"staleness": staleness, "quantity": "fell", **share((found.collapsed >= 0)[own])})
        only = found._replace(collapsed=np.where(own, found.collapsed, -1))
        pairs = measures.matched(only, healthy & own, setting["updates"], max(LEADS), 0, setting["seed"])
        if min(len(pairs.cases), len(pairs.controls)) >= LEAST:
            kinds = [name for name in SCORES if staleness is None or name != "staleness"]
            rows += [{"staleness": staleness, **row} for row in ahead(scores, kinds, pairs)]
    return rows


def ahead(scores: dict[str, np.ndarray], names: list[str], pairs: measures.Matched) -> list[dict[str, Any]]:
    """Areas of scores at every lead, and mean cosines of both kinds of runs."""
    rows = []
    for lead in LEADS:
        both = {name: (at(scores[name], pairs.cases, pairs.case_times, lead),
                       at(scores[name], pairs.controls, pairs.control_times, lead)) for name in names}  # fmt: skip
        for name, (cases, others) in both.items():
            found = measures.auc(cases, others)
            ends = alarms.ends(found.value, found.error)
            found_ends = {"low_end": max(0.0, ends["low"]), "high_end": ends["high"], "samples": found.samples}
            rows.append({"arm": name, "lead": lead, "quantity": "area", "value": ends["value"], **found_ends})
        cases, others = both["cosine"]
        for quantity, values in (("falling", cases), ("healthy", others.mean(0) if others.ndim > 1 else others)):
            rows.append({"lead": lead, "quantity": quantity, **mean(values)})
    return rows
