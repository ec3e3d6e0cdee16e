"""Does the clip lower entropy on stale data, which updates does it block, and does balancing it by BAPO help?

Batches of 4 groups of 8 samples, an update on each by Adam, advantages of GRPO. Tasks: `bandit`, 4 prompts of 8 arms
paid 0 or 1; `graded`, 16 tokens out of 8, paid by the share that is right; `bits`, 16 bits, paid 1 if three quarters
are right, plus normal noise of deviation 0.2. Laws: `constant s`, every batch s updates old; `replay`, groups drawn
from a buffer, up to 8 times each and up to 32 updates old; `partial`, lengths with a long tail that new weights
interrupt, so a response has many versions.
Arms: `bapo`, the paper's search of bounds from [0.6, 1.2]; `released`, the order of its code; `intent`, the paper's
search to the repository's target of one half, counting what the gradient sees; `start`, the first bounds held fixed;
`clip`, PPO's at 0.2; `higher`, 0.2 below and 0.28 above; `none`, the ratio alone; `rloo`, no ratio. On fresh data all
ratios are 1.
`part` "formula": one row of a table, its policy and the behavior drawn at random; `number` counts the draws.
  measured   slope of entropy along the plain gradient of the clipped objective, by a finite difference
  plain      -Cov(log pi, pi (x - E x)), x the advantage where the clip is open; natural  -Cov(log pi, x), the rule
`part` "grid": every arm at every `rate`, with 95 percent intervals between replicates; best  the rate of most return.
  return, collapsed   as in `m2po`; half  entropy of the policy where it first has half of the possible gain, nats
  reached    share of replicates that have it; end, entropy  return and entropy over the last tenth of the run
  positive, positive_norm   share of the gradient's weights with an advantage above 0; the same times score norms
  moved      share of steps whose bounds have left where they start
`part` "blocked": at the best rate of the grid, what a `rule` would block of the run's own steps. A token's push is its
part in the change of entropy without a clip, by `plain` or `natural` gradient.
  up, down   share of the pushes that raise or lower entropy; tokens  share of tokens with an advantage
  low_up, high_up   of what the lower and the upper bound block, the share that raises entropy
`part` "course": the same runs over updates, `number` the update: positive, entropy, return, bapo_low, bapo_high.
`part` "compare": rows of `_compared` beside `bapo`, on the mean of the exact return.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import asyncsim as sim
from experiments import _bapo, _compared, _vcpo, m2po
from experiments._bapo import BOUNDS, KINDS, OLDEST, RULES, SIDES, TASKS, WAYS

PLACE = ["part", "task", "law", "arm", "rate", "number", "rule", "quantity"]
COLUMNS = [*PLACE, "value", "low", "high", "samples", "word", "note"]
SMALLEST = 0.03
"""Least difference in return that matters."""
RATES = [0.0125, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4]
STALE, ELSEWHERE = [f"constant {s}" for s in (8, OLDEST)], ["replay", "partial"]
_GRID = {"part": "grid", "updates": 150, "every": 3, "rates": RATES, "replicates": 12, "seed": 2}
_COMPARE = {"part": "compare", "updates": 150, "every": 8, "most": 256, "seed": 1}
COMPARED = ["bapo", "released", "intent", "start", "clip", "higher", "none", "rloo"]
PLACES = [(task, law) for law in (STALE[-1], *ELSEWHERE) for task in TASKS if (task, law) != ("bandit", "partial")]
"""Where arms are compared; a response of one token has no part."""
SETTINGS = [
    {"part": "formula", "actions": 8, "draws": 300, "sharp": 1.5, "drift": 0.5, "seed": 0},
    *({**_GRID, "task": task, "law": "constant 0", "arms": ["clip"]} for task in TASKS),
    *({**_GRID, "task": task, "law": law, "arms": [*_bapo.METHODS]} for task in TASKS for law in STALE),
    *({**_GRID, "task": "graded", "law": law, "arms": ["bapo", "released", "intent", "clip"]} for law in ELSEWHERE),
    *({**_COMPARE, "task": task, "law": law, "arms": COMPARED} for task, law in PLACES),
]
_FEW = {"updates": 12, "every": 4}
_SHORT: dict[Any, str] = {"constant 8": "constant 2", "constant 32": "constant 6"}
QUICK = [
    {**SETTINGS[0], "draws": 40},
    *(
        {**each, **_FEW, "law": _SHORT.get(each["law"], each["law"]), "rates": [0.4, 1.6, 6.4], "replicates": 2}
        for each in SETTINGS
        if each["part"] == "grid"
    ),
    {**_COMPARE, **_FEW, "task": "bandit", "law": "replay", "arms": ["bapo", "clip", "rloo"], "most": 64},
]


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one part."""
    rows = {"formula": formula, "grid": gridded, "compare": compared}[setting["part"]](setting)
    blank: dict[str, Any] = {**dict.fromkeys(PLACE, ""), "rate": np.nan, "number": -1, "word": "", "note": ""}
    place: dict[str, Any] = {name: setting[name] for name in ("part", "task", "law") if name in setting}
    whole: list[dict[str, Any]] = [{**blank, **place, **row} for row in rows]
    return [{name: row.get(name, np.nan) for name in COLUMNS} for row in whole]


def formula(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Change of entropy over a small step, enumerated, beside both formulas; every draw is a row of a table."""
    draw = np.random.default_rng(setting["seed"])
    shape = (setting["draws"], setting["actions"])
    behavior = torch.as_tensor(setting["sharp"] * draw.standard_normal(shape))
    logits = behavior + torch.as_tensor(setting["drift"] * draw.standard_normal(shape))
    log_ratio = torch.log_softmax(logits, -1) - torch.log_softmax(behavior, -1)
    gain = _bapo.clipped(log_ratio, torch.as_tensor(draw.standard_normal(shape)))
    log_prob = torch.log_softmax(logits, -1)
    found = {
        "measured": _bapo.moved(logits, gain),
        "plain": _bapo.plain(log_prob, gain),
        "natural": _bapo.natural(log_prob, gain),
    }
    return [
        {"number": number, "quantity": name, "value": float(value), "samples": 1}
        for name, values in found.items()
        for number, value in enumerate(values)
    ]


def gridded(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Each arm at each rate, rates riding as replicates of one run; more of what its best rate does."""
    rows, each, rates = [], setting["replicates"], setting["rates"]
    for arm in setting["arms"]:
        ridden = tuple(float(x) for x in np.repeat(rates, each))
        made = _bapo.spec(setting, arm, ridden, replicates=len(ridden), diagnostics=_bapo.metrics())
        trace = sim.run(made, seed=setting["seed"], progress=False)
        curves = {name: trace[name].reshape(-1, len(rates), each) for name in trace.metrics}
        best = int(curves["policy_return"].mean((0, 2)).argmax())
        edge = "edge" if best in (0, len(rates) - 1) else ""
        for place, rate in enumerate(rates):
            own = {name: curve[:, place] for name, curve in curves.items()}
            found = measured(own, setting["task"])
            if place == best:
                found["best"] = _vcpo.missing(edge)
                rows += [{"arm": arm, "rate": rate, **row} for row in [*pushed(own), *course(own, setting["every"])]]
            rows += [{"arm": arm, "rate": rate, "quantity": key, **value} for key, value in found.items()]
    return rows


def measured(found: dict[str, np.ndarray], task: str) -> dict[str, dict[str, Any]]:
    """Quantities of curves `[U, R]` by name."""
    curve, last = found["policy_return"], max(1, len(found["policy_return"]) // 10)
    outcome, half = _vcpo.outcome(curve), at_half(curve, found["policy_entropy"], _bapo.BEST[task])
    there = half[np.isfinite(half)]
    rows = {
        "return": _vcpo.mean(curve.mean(0)),
        "end": _vcpo.mean(outcome.final),
        "entropy": _vcpo.mean(found["policy_entropy"][-last:].mean(0)),
        "collapsed": _vcpo.share(outcome.collapsed),
        "reached": _vcpo.share(np.isfinite(half)),
        "half": _vcpo.mean(there) if len(there) > 1 else _vcpo.missing("no such run"),
    }
    for norm in ("", " norm"):
        up, down = (found[f"signal {side}{norm}"].mean(0) for side in SIDES)
        rows["positive" + norm.replace(" ", "_")] = m2po.ratio(up, up + down)
    if "bapo_low" in found:
        start = _bapo.START
        left = (found["bapo_low"] > start["low"]) | (found["bapo_high"] > start["high"])
        rows["moved"] = _vcpo.mean(left.mean(0))
    return rows


def at_half(curve: np.ndarray, values: np.ndarray, best: float) -> np.ndarray:
    """Values `[U, R]` where the return first has half of what is between its start and the best, NaN if never, `[R]`.

    Linear between two records.
    """
    goal = 0.5 * (curve[0] + best)
    after = np.argmax(curve >= goal, 0)
    column = np.arange(curve.shape[1])
    before = np.maximum(after - 1, 0)
    low, high = curve[before, column], curve[after, column]
    part = np.where(after > 0, (goal - low) / np.where(high > low, high - low, 1.0), np.nan)
    return values[before, column] + part * (values[after, column] - values[before, column])


def pushed(found: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """What each rule would block of a run's pushes, and how much of that raises entropy."""
    sums = {name: found[name].mean(0) for name in _bapo.names()}
    rows = []
    for rule in RULES:
        parts = {"tokens": (sums[f"tokens {rule}"], sums["tokens"])}
        for kind in KINDS:
            own = {(way, bound): sums[f"{kind} {way} {rule} {bound}"] for way in WAYS for bound in BOUNDS}
            for way in WAYS:
                parts[f"{kind} {way}"] = (own[way, "low"] + own[way, "high"], sums[f"{kind} {way}"])
            for bound in BOUNDS:
                parts[f"{kind} {bound}_up"] = (own["up", bound], own["up", bound] + own["down", bound])
        for name, (above, below) in parts.items():
            value = m2po.ratio(above, below) if below.any() else _vcpo.missing("nothing blocked")
            rows.append({"part": "blocked", "rule": rule, "quantity": name, **value})
    return rows


def course(found: dict[str, np.ndarray], every: int) -> list[dict[str, Any]]:
    """Curves of the best rate; steps without a signal have no share of it."""
    kept = {"return": "policy_return", "entropy": "policy_entropy"}
    kept |= {name: name for name in ("bapo_low", "bapo_high") if name in found}
    rows = []
    for at in range(len(found["policy_return"])):
        row = {"part": "course", "number": every * at}
        up, down = (found[f"signal {side}"][at] for side in SIDES)
        if (up + down).any():
            rows.append({**row, "quantity": "positive", **m2po.ratio(up, up + down)})
        rows += [{**row, "quantity": key, **_vcpo.mean(found[name][at])} for key, name in kept.items()]
    return rows


def compared(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Each arm at its own best rate, beside BAPO at its own."""
    arms = {arm: _bapo.spec(setting, arm, 0.2) for arm in setting["arms"]}
    choices = {"metric": _bapo.RETURN, "tune": "adam.lr", "max_replicates": setting["most"], "seed": setting["seed"]}
    found = _compared.rows(arms, "bapo", smallest=SMALLEST, progress=False, workers=1, **choices)
    rows = []
    for row in found:
        shared = {"arm": row["arm"], "rate": row["rate"], "samples": row["replicates"], "note": row["reason"] or ""}
        rows.append({**shared, "quantity": "level", "value": row["mean"]})
        if row["arm"] != "bapo":
            each = {"value": row["difference"], "low": row["low"], "high": row["high"], "word": row["word"] or ""}
            rows.append({**shared, **each, "quantity": "difference"})
    return rows
