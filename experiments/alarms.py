"""Which alarm announces a fall first and surest, all on the same runs: ESS, cosine, norm, KL, entropy, mean weight?

VCPO (arXiv 2602.17616) says that low effective sample size predicts collapse, GAC (arXiv 2603.01501) that alignment of
consecutive gradients warns of it. A place is a task, an estimator, a law of staleness and one rate of Adam (behind a
norm clip of 1) at which some of the runs fall; alarms are compared within a place only. Tasks: `chain`, 16 bits, paid
if three quarters are right, less 0.03 a nat; `graded`, 16 tokens of 8 kinds with the same penalty; `kinds`, 32 tokens
of 4, without one. Estimators: `plain`, no ratio; `token` and `sequence`, ratios truncated at 2 and 8.
A run falls at the first update after it has learned at which the trailing mean of its exact return is below half of its
own largest gain. Other runs, which never fall, are read at times of falls. Directions of all alarms were fixed before.

Rows of a place, one `quantity` each, with `error` (one standard error) and 95 percent `low` and `high`:
share       of replicates: `alarm` "fell", "returned" (fell, but not low in the end), "healthy", "never learned"
area        probability that a run about to fall scores above a healthy one, `lead` updates before; error of DeLong
difference  area less that of ESS, at `LEAD`; this and what follows by bootstrap over runs
announced   share of falls with an alarm at least `lead` updates before, within `WATCH` updates. The level is what the
            share `FALSE` of half of the healthy runs exceeds in such a watch; mean of both halves
false       share of the healthy runs of the other half that raise one
"""

from __future__ import annotations

from typing import Any

import numpy as np

import asyncsim as sim
from asyncsim.base import uncertainty
from asyncsim.diagnosing import Signal
from asyncsim.diagnosing import alarms as measures
from experiments import pipeline_rl
from experiments._vcpo_collapse import at

COLUMNS = [
    *("task", "estimator", "law", "rate", "quantity", "alarm", "lead", "value", "error", "low", "high"),
    *("samples", "reason"),
]
FALSE, LEAD, LEADS, WATCH, LEAST = 0.05, 10, (0, 5, 10, 15, 20), 30, 4
"""False alarms; updates before a fall, those of scores, of which alarms are looked for; fewest runs of either kind."""
ALARMS = {
    "ESS": Signal("ess", low=True, log=True),
    "token ESS": Signal("ess_token", low=True, log=True),
    "mean weight": Signal("mean_weight", low=True),
    "KL": Signal("kl_k1"),
    "norm": Signal("gradient_norm", log=True),
    "cosine": Signal("gradient_cosine"),
    "entropy": Signal("entropy", low=True),
    "return": Signal("policy_return", low=True),
}
PENALTY: dict[str, Any] = {"kl_coef": 0.03, "kl_at": "current"}
TASKS: dict[str, Any] = {
    "chain": (sim.tasks.bit_chain(16, 0.75, **PENALTY), 0.8),
    "graded": (sim.tasks.token_bandit(8, 16, "position", **PENALTY), 0.53),
    "kinds": (sim.tasks.token_bandit(4, 32, "markov"), 1.0),
}
"""Tasks, each with the return of its best policy, of which half has to be gained."""
METHODS = {
    "plain": sim.methods.reinforce(sim.advantages.leave_one_out()),
    "token": sim.methods.truncated_is("token", cap=2.0),
    "sequence": sim.methods.truncated_is("sequence", cap=8.0),
}
LAWS = {
    "constant 32": sim.schedules.fixed(32, groups_per_batch=4),
    "constant 64": sim.schedules.fixed(64, groups_per_batch=4),
    "uniform 64": sim.schedules.random("uniform:0:64", groups_per_batch=4),
}
PLACES = [
    *(("chain", "plain", "constant 32", 0.2), ("chain", "token", "constant 32", 0.15)),
    *(("chain", "sequence", "constant 32", 0.2), ("chain", "sequence", "constant 32", 0.28)),
    *(("graded", "token", "constant 32", 0.29), ("graded", "sequence", "constant 32", 0.1)),
    *(("graded", "sequence", "uniform 64", 0.12), ("kinds", "sequence", "constant 64", 0.3)),
]
_SIZES = {"updates": 320, "replicates": 512, "resamples": 200, "seed": 0}
SETTINGS = [dict(zip(("task", "estimator", "law", "rate"), place, strict=True)) | _SIZES for place in PLACES]
QUICK = [{**SETTINGS[place], "updates": 200, "replicates": 32, "resamples": 4} for place in (1, 5)]


def fallen(returns: np.ndarray, start: float, best: float) -> measures.Course:
    """Courses whose `collapsed` is the first update below half of the largest gain, whether or not a run comes back.

    `recovered` says that it did come back; a healthy run is one that neither fell nor never learned.
    """
    last = measures.course(returns, start, best)
    mean = measures.trailing(returns)
    low = mean < start + 0.5 * (np.fmax.accumulate(mean, axis=0) - start)
    low &= (np.arange(len(mean))[:, None] > last.learned) & (last.learned >= 0)
    return last._replace(collapsed=np.where(low.any(0), low.argmax(0), -1))


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one place."""
    task, best = TASKS[setting["task"]]
    spec = sim.Spec(
        task,
        LAWS[setting["law"]],
        METHODS[setting["estimator"]],
        sim.chain(sim.updates.clip_norm(1.0), sim.updates.adam(setting["rate"])),
        samples_per_group=8,
        updates=setting["updates"],
        replicates=setting["replicates"],
        diagnostics=[pipeline_rl.RETURN, *(signal.metric for signal in ALARMS.values() if signal.metric[0] != "p")],
    )
    trace = sim.run(spec, seed=setting["seed"], progress=False)
    returns = trace["policy_return"]
    found = fallen(returns, float(returns[0].mean()), best)
    kinds = {
        "fell": found.collapsed >= 0,
        "returned": found.recovered,
        "healthy": measures.healthy(found),
        "never learned": found.learned < 0,
    }
    rows = [share(name, is_) for name, is_ in kinds.items()]
    pairs = measures.matched(found, measures.healthy(found), setting["updates"], WATCH, 0, setting["seed"])
    if min(len(pairs.cases), len(pairs.controls)) < LEAST:
        reason = f"{len(pairs.cases)} falls and {len(pairs.controls)} healthy runs, fewer than {LEAST}"
        rows.append({"quantity": "area", "reason": reason})
    else:
        values = {name: signal({signal.metric: trace[signal.metric]}) for name, signal in ALARMS.items()}
        rows += areas(values, pairs) + judged(values, pairs, setting["resamples"], setting["seed"])
    return [{name: (setting | row).get(name) for name in COLUMNS} for row in rows]


def share(name: str, is_: np.ndarray) -> dict[str, Any]:
    """Share of the replicates."""
    found = uncertainty.proportion(int(is_.sum()), len(is_))
    return {"quantity": "share", "alarm": name, **ends(found.value, found.error), "samples": len(is_)}


def ends(value: float, error: float) -> dict[str, Any]:
    """A value with its error and interval, none of which exceeds 1 in size."""
    low, high = max(-1.0, value - 1.96 * error), min(1.0, value + 1.96 * error)
    return {"value": value, "error": error, "low": low, "high": high}


def areas(values: dict[str, np.ndarray], pairs: measures.Matched) -> list[dict[str, Any]]:
    """Area of every alarm at every lead."""
    rows = []
    for name, score in values.items():
        for lead in LEADS:
            cases = at(score, pairs.cases, pairs.case_times, lead)
            found = measures.auc(cases, at(score, pairs.controls, pairs.control_times, lead))
            rows.append({"quantity": "area", "alarm": name, "lead": lead, **ends(found.value, found.error)})
            rows[-1]["samples"] = found.samples
    return rows


def judged(values: dict[str, np.ndarray], pairs: measures.Matched, times: int, seed: int) -> list[dict[str, Any]]:
    """What alarms detect at equal false alarms, and how their areas differ from that of ESS; errors by bootstrap."""
    random = np.random.default_rng(seed)
    n, m = len(pairs.cases), len(pairs.controls)
    drawn = [read(values, pairs, random.integers(n, size=n), halved(random, m)) for _ in range(times)]
    rows = []
    for (quantity, name, lead), value in read(values, pairs, np.arange(n), np.arange(m)).items():
        error = float(np.std([one[quantity, name, lead] for one in drawn], ddof=1))
        row = {"quantity": quantity, "alarm": name, "lead": lead, **ends(value, error), "samples": n + m}
        rows.append(row)
    return rows


def halved(random: np.random.Generator, size: int) -> np.ndarray:
    """Runs drawn with replacement, those at even places among themselves: a run never is in both halves."""
    even, odd = (size + 1) // 2, size // 2
    found = np.empty(size, dtype=int)
    found[::2], found[1::2] = 2 * random.integers(even, size=even), 2 * random.integers(odd, size=odd) + 1
    return found


def read(
    values: dict[str, np.ndarray], pairs: measures.Matched, cases: np.ndarray, controls: np.ndarray
) -> dict[tuple[str, str, int], float]:
    """Differences of areas, announced falls and false alarms of these cases and controls, by quantity, alarm, lead."""
    found: dict[tuple[str, str, int], float] = {}
    runs, when = pairs.cases[cases], pairs.case_times[cases]
    others, cut = pairs.controls[controls], pairs.control_times[:, controls]
    area = {}
    for name, score in values.items():
        area[name] = measures.auc(at(score, runs, when, LEAD), at(score, others, cut, LEAD)).value
        worst = measures.worst(score, others, cut, WATCH)
        levels = [measures.threshold(worst[:, half::2], FALSE) for half in (0, 1)]
        first = np.stack([measures.announced(score, runs, when, WATCH, level) for level in levels])
        found |= {("announced", name, lead): float((first > lead).mean()) for lead in LEADS}
        wrong = [(worst[:, 1 - half :: 2] > level).mean() for half, level in enumerate(levels)]
        found["false", name, WATCH] = float(np.mean(wrong))
    return found | {("difference", name, LEAD): area[name] - area["ESS"] for name in values if name != "ESS"}
