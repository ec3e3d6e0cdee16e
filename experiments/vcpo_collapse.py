"""Does a low effective sample size come before collapse, earlier and surer than other alarms?

Stale training with truncated sequence ratios (cap 8, Adam behind a norm clip of 1, every batch `staleness` versions
old) at a step at which synchronous training is safe and some of the stale runs collapse. `regime` is "chain" (32 bits,
reward 1 for 24 right ones, a penalty of 0.01 per nat; return exact, of the current policy) or "tokens" (32 tokens of 4
kinds, no penalty; return of the batch that this policy generated). A run has learned when the trailing mean return of
ten updates gained half of what there is; it collapses at the first update from which that mean stays below half of its
own largest gain until the end. Runs that collapse are compared at times of collapses with healthy ones, which never
fell below that half, or (`group`) with those that fell and "recovered", or within those that "learned early", before
update `staleness`: on data of the initial policy alone. Times are drawn twenty times, and results are their means.

Rows, one quantity each; `low` and `high` are 95 percent intervals, `lead` is in updates before the collapse:
share      of replicates: "collapsed", "never learned", "recovered", "healthy"; "synchronous collapsed" and
           "synchronous never learned", the same at staleness 0 and the same step; "collapsed, learned early" and
           "collapsed, learned later": the share of those that learned so
time       median update of collapse (`statistic` "collapse"), of having learned ("learned")
aligned    median of a quantity `lead` updates before collapse (`group` "collapsing") or before the matched time
           ("healthy"); `statistic` is "return", "ess" (share of samples that still count) or "norm" (of the gradient)
auc        probability that a run about to collapse scores above a matched one, `lead` updates ahead; 0.5 is chance.
           `group` names the others: "healthy", "recovered", "learned early". Scores look back ten updates. "ess": low
           mean log ESS; "ess_drop": its fall against the 40 updates before; "norm": largest gradient norm;
           "norm_mean": mean log norm; "share": mean share of the largest weight; "weight": low mean weight; "kl":
           divergence from the behavior policy; "cosine": of consecutive gradients; "return": low return itself, what
           an alarm has to beat; "learned": an early time of having learned, for which no alarm is needed
announced  share of collapses whose first alarm of the watch came at least `lead` updates ahead, at the level that
           a tenth of the healthy runs of the other half exceeds in a watch as long (`group` "collapsing", band of the
           whole curve); the same of healthy runs, which is chance (`group` "healthy"; at lead 1 the false alarms), and
           of runs that recovered (`group` "recovered")
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim.base import uncertainty
from asyncsim.base.records import Estimate
from asyncsim.diagnosing import alarms as measures
from experiments import _vcpo_collapse as alarms

COLUMNS = ["regime", "quantity", "statistic", "group", "lead", "value", "low", "high", "samples", "reason"]
RATE = 0.1
"""Healthy runs that an alarm may wake, of those that set its level."""
ALIGNED = tuple(range(0, 81, 4))
REGIMES: dict[str, dict[str, Any]] = {
    "chain": {"staleness": 64, "step": 0.24, "updates": 600, "watch": 100, "leads": (0, 5, 10, 20, 40, 80)},
    "tokens": {"staleness": 64, "step": 0.3, "updates": 320, "watch": 50, "leads": (0, 5, 10, 20, 40)},
}
"""Step of Adam; `watch`, updates before the reference time in which an alarm may sound, and must have been able to."""
GROUPS, SAMPLES, TOKENS = 4, 8, 32
CONFIRM = 50
"""Updates that must follow a collapse."""
RECORDED = ("ess", "gradient_norm", "max_weight_share", "mean_weight", "kl", "gradient_cosine")
LARGEST = {"chain": 0.8847, "tokens": 1.0}
"""Return of the best policy; of the chain the largest P(24 of 32 right) - 0.32 KL(p, 1/2) over the chance p a bit."""


def _setting(regime: str, replicates: int, seed: int = 0, **changes: Any) -> dict[str, Any]:
    return {"regime": regime, "replicates": replicates, **REGIMES[regime], "seed": seed, **changes}


SETTINGS = [_setting("chain", 960), _setting("tokens", 1024)]
QUICK = [
    _setting("chain", 80, updates=360, watch=40, leads=(0, 10, 40)),
    _setting("tokens", 80, updates=240, watch=30, leads=(0, 10, 20)),
]


def spec_of(setting: dict[str, Any], staleness: int, updates: int) -> Any:
    """Truncated importance sampling on data of so many versions ago."""
    import asyncsim as sim

    task: Any
    if setting["regime"] == "chain":
        task, earned = sim.tasks.bit_chain(TOKENS, 0.75, kl_coef=0.01, kl_at="current"), "exact_return"
    else:
        task, earned = sim.tasks.token_bandit(4, TOKENS), "batch_return"
    return sim.Spec(
        task,
        sim.schedules.fixed(staleness, groups_per_batch=GROUPS),
        sim.methods.truncated_is("sequence", cap=8.0),
        sim.chain(sim.updates.clip_norm(1.0), sim.updates.adam(setting["step"])),
        samples_per_group=SAMPLES,
        updates=updates,
        replicates=setting["replicates"],
        diagnostics=[earned, *RECORDED],
    )


def followed(setting: dict[str, Any], staleness: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """What alarms read, and the return of the current policy, `[U, R]` each."""
    import asyncsim as sim

    # The batch that a policy generates is trained `staleness` updates later: only then is its return known.
    later = 0 if setting["regime"] == "chain" else staleness
    trace = sim.run(spec_of(setting, staleness, setting["updates"] + later), seed=setting["seed"], progress=False)
    earned = trace["exact_return" if setting["regime"] == "chain" else "batch_return"][later:]
    return {name: trace[name][: setting["updates"]] for name in RECORDED}, earned


def fate(setting: dict[str, Any], returns: np.ndarray) -> measures.Course:
    """What became of each run; the first return is that of the initial policy, the same for all."""
    return measures.course(returns, float(returns[0].mean()), LARGEST[setting["regime"]])


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one regime."""
    metrics, returns = followed(setting, setting["staleness"])
    _, synchronous = followed({**setting, "replicates": min(setting["replicates"], 128)}, 0)
    found, at_once = fate(setting, returns), fate(setting, synchronous)
    soon = (found.learned >= 0) & (found.learned < setting["staleness"])
    pairs = {
        "healthy": against(setting, found, measures.healthy(found)),
        "recovered": against(setting, found, found.recovered),
        "learned early": against(setting, alarms.only(found, soon), measures.healthy(found) & soon),
    }
    # A score that is known from the start of the watch and does not change.
    learned = np.broadcast_to(np.where(found.learned >= 0, -found.learned, -np.inf), returns.shape)
    scores = {**alarms.statistics(metrics, returns), "learned": learned}
    rows = shares(found, at_once, soon)
    for group, own in pairs.items():
        if min(len(own.cases), len(own.controls)) >= 8:
            rows += areas(scores, own, setting["leads"], group)
        else:
            reason = f"{len(own.cases)} collapses to be told from {len(own.controls)} runs ({group})"
            rows.append({"quantity": "auc", "group": group, "reason": reason})
    main = pairs["healthy"]
    if min(len(main.cases), len(main.controls)) >= 8:
        rows += aligned({**metrics, "return": returns}, main)
        rows += leads(scores, main, pairs["recovered"], setting["watch"])
    return [{**dict.fromkeys(COLUMNS), "regime": setting["regime"], **row} for row in rows]


def against(setting: dict[str, Any], found: measures.Course, others: np.ndarray) -> measures.Matched:
    """Collapses, and these other runs at times of collapses."""
    return measures.matched(found, others, setting["updates"], setting["watch"], CONFIRM, setting["seed"])


def bounds(found: Estimate) -> dict[str, Any]:
    """Value, 95 percent interval and samples of an estimate between 0 and 1."""
    half = found.error * uncertainty.critical(0.05, found.freedom)
    inside = {"low": max(0.0, found.value - half), "high": min(1.0, found.value + half)}
    return {"value": found.value, **inside, "samples": found.samples}


def order(values: np.ndarray) -> dict[str, Any]:
    """Median with its interval."""
    return {**dict(zip(("value", "low", "high"), alarms.median(values), strict=True)), "samples": len(values)}


def shares(found: measures.Course, synchronous: measures.Course, soon: np.ndarray) -> list[dict[str, Any]]:
    """Who collapsed, never learned, came back or stayed well, and the medians of the times."""
    fell = found.collapsed >= 0
    kinds = {
        "collapsed": fell,
        "never learned": found.learned < 0,
        "recovered": found.recovered,
        "healthy": measures.healthy(found),
        "synchronous collapsed": synchronous.collapsed >= 0,
        "synchronous never learned": synchronous.learned < 0,
        "collapsed, learned early": fell[soon],
        "collapsed, learned later": fell[(found.learned >= 0) & ~soon],
    }
    rows = [
        {"quantity": "share", "statistic": name, **bounds(uncertainty.proportion(int(is_.sum()), len(is_)))}
        for name, is_ in kinds.items() if len(is_)
    ]  # fmt: skip
    times = {"collapse": found.collapsed[fell], "learned": found.learned[found.learned >= 0]}
    return rows + [{"quantity": "time", "statistic": name, **order(t)} for name, t in times.items() if len(t)]


def aligned(metrics: dict[str, np.ndarray], pairs: measures.Matched) -> list[dict[str, Any]]:
    """Medians before collapse, and before the matched times of healthy runs, of the first draw."""
    rows = []
    sides = {"collapsing": (pairs.cases, pairs.case_times), "healthy": (pairs.controls, pairs.control_times[0])}
    for statistic, name in (("return", "return"), ("ess", "ess"), ("norm", "gradient_norm")):
        for group, (runs, times) in sides.items():
            for lead in (lead for lead in ALIGNED if lead < times.min()):
                now = alarms.at(metrics[name], runs, times, lead)
                rows.append({"quantity": "aligned", "statistic": statistic, "group": group, "lead": lead, **order(now)})
    return rows


def areas(
    scores: dict[str, np.ndarray], pairs: measures.Matched, ahead: tuple[int, ...], group: str
) -> list[dict[str, Any]]:
    """Area under the curve of detections against false alarms, by statistic and lead."""
    rows = []
    for name, values in scores.items():
        for lead in ahead:
            cases = alarms.at(values, pairs.cases, pairs.case_times, lead)
            found = measures.auc(cases, alarms.at(values, pairs.controls, pairs.control_times, lead))
            rows.append({"quantity": "auc", "statistic": name, "group": group, "lead": lead, **bounds(found)})
    return rows


def leads(
    scores: dict[str, np.ndarray], pairs: measures.Matched, back: measures.Matched, watch: int
) -> list[dict[str, Any]]:
    """Shares of runs with an alarm so long before the reference time; levels are set by other healthy runs."""
    setting, held_out = measures.halves(pairs.controls)
    sides = {
        "collapsing": (pairs.cases, pairs.case_times),
        "healthy": (pairs.controls[held_out], pairs.control_times[:, held_out]),
        "recovered": (back.controls, back.control_times),
    }
    rows = []
    for name, values in scores.items():
        ends = pairs.controls[setting], pairs.control_times[:, setting]
        level = measures.threshold(measures.worst(values, *ends, watch), RATE)
        for group, (runs, times) in sides.items():
            if not len(runs):
                continue
            first, half = measures.announced(values, runs, times, watch, level), measures.band(len(runs))
            for lead in range(1, watch + 1, 3):
                share = float((first >= lead).mean())
                ends_ = {"low": max(0.0, share - half), "high": min(1.0, share + half), "samples": len(runs)}
                own = {"statistic": name, "group": group, "lead": lead, "value": share, **ends_}
                rows.append({"quantity": "announced", **own})
    return rows
