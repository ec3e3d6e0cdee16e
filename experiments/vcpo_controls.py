"""What of VCPO helps: the baseline, the smaller step, or the timing of the smaller step?

The problem `graded` of `_vcpo` with Adam, at the step that `vcpo_training` uses. Two baselines of the same truncated
sequence ratios: `group mean`, and `opob`, the optimal baseline of VCPO. On each, arms that differ in the step only:
plain     the step as it is
ess       VCPO's rule, step * sqrt(ESS/N) of its own batch; with `opob` this is VCPO
other     the scales that the rule gave in another run at the same update: same mean, same times, not this batch
shuffled  those scales in a random order of updates: same mean and spread, random times
constant  their mean, always
vcpo mean the mean of VCPO's scales, always (`group mean` only)
tuned     plain at the step that is best on held-out seeds at this staleness; tuned ess likewise, with the rule
Scales come from held-out seeds, replicate by replicate. Quantities of a row: final (mean return over the last tenth),
collapsed and solved (shares, see `_vcpo.Outcome`), scale (mean factor on the step), step (mean return over a run at a
step of the grid, held-out seeds), difference (final of `ess` minus final of arm `against`, replicates paired by their
draws). Intervals: 95 percent over replicates (means: t; shares: Wilson).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim import updates
from asyncsim.updates._link import Link
from experiments import _vcpo
from experiments.vcpo_training import CASES

PROBLEM, OPTIMIZER = "graded", "adam"
STEP, _ = CASES[PROBLEM, OPTIMIZER]
COLUMNS = ["staleness", "baseline", "arm", "step", "quantity", "against", "value", "low", "high", "samples", "note"]
GRID = [0.025, 0.05, 0.1, 0.2, 0.4, 0.8]
"""Steps from which `tuned` takes the best."""
LEVELS = (8, 32, 128)


def _setting(staleness: int, baseline: str, part: str, **sizes: int) -> dict[str, Any]:
    place = {"staleness": staleness, "baseline": baseline, "part": part, "step": STEP, "steps": GRID, "seed": 0}
    return {**place, "updates": 500, "replicates": 192, "choosing": 32, **sizes}


PARTS = ("scaled", "tuned")
SETTINGS = [_setting(s, b, part) for s in LEVELS for b in _vcpo.METHODS for part in PARTS]
QUICK = [
    _setting(s, b, part, updates=60, replicates=8, choosing=2) for s in (8, 32) for b in _vcpo.METHODS for part in PARTS
]


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of the arms on one baseline at one staleness: those with scaled steps, or those with retuned ones."""
    return {"scaled": scaled, "tuned": tuned}[setting["part"]](setting)


def scaled(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """All arms at the same step, and the differences that the rule makes."""
    rows, final = [], {}
    for arm, (links, scale) in arms(setting).items():
        found = _train(setting, setting["step"], links, setting["seed"])
        used = found["ess_step_scale"].mean(axis=0) if arm == "ess" else scale
        out = _vcpo.outcome(found["policy_return"])
        final[arm] = out.final
        rows += _ends(setting, arm, setting["step"], out)
        rows.append(_row(setting, arm, setting["step"], "scale", _vcpo.mean(np.asarray(used))))
    for other in final:
        if other != "ess":
            paired = _vcpo.mean(final["ess"] - final[other])
            rows.append(_row(setting, "ess", setting["step"], "difference", paired, against=other))
    return rows


def arms(setting: dict[str, Any]) -> dict[str, tuple[tuple[Link, ...], np.ndarray]]:
    """What scales the step in each arm, and the mean scale of each replicate where it is given beforehand."""
    scales = measured(setting, setting["baseline"])
    R = setting["replicates"]
    mixed = _vcpo.shuffled(scales, setting["seed"])
    found: dict[str, tuple[tuple[Link, ...], np.ndarray]] = {
        "plain": ((), np.ones(R)),
        "ess": ((_vcpo.ess_step(OPTIMIZER),), np.ones(R)),
        "other": ((_vcpo.Given(scales),), scales.mean(axis=0)),
        "shuffled": ((_vcpo.Given(mixed),), mixed.mean(axis=0)),
        "constant": ((updates.scale(float(scales.mean())),), np.full(R, scales.mean())),
    }
    if setting["baseline"] != "opob":
        whole = float(measured(setting, "opob").mean())
        found["vcpo mean"] = ((updates.scale(whole),), np.full(R, whole))
    return found


def measured(setting: dict[str, Any], baseline: str) -> np.ndarray:
    """Scales `[U, R]` of the rule on held-out seeds."""
    rule = (_vcpo.ess_step(OPTIMIZER),)
    held_out = {**setting, "baseline": baseline}
    return _train(held_out, setting["step"], rule, setting["seed"] + _vcpo.HELD_OUT)["ess_step_scale"]


def tuned(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """The best step of the grid at this staleness, without and with the rule."""
    rows = []
    for arm, tail in (("tuned", ()), ("tuned ess", (_vcpo.ess_step(OPTIMIZER),))):
        found = _vcpo.grid(PROBLEM, setting["staleness"], setting["baseline"], OPTIMIZER, tail, setting)
        for step, values in zip(setting["steps"], found, strict=True):
            rows.append(_row(setting, arm, step, "step", _vcpo.mean(values)))
        best = setting["steps"][int(found.mean(axis=1).argmax())]
        out = _vcpo.outcome(_train(setting, best, tail, setting["seed"])["policy_return"])
        rows += _ends(setting, arm, best, out)
    return rows


def _train(setting: dict[str, Any], step: float, tail: tuple[Link, ...], seed: int) -> dict[str, np.ndarray]:
    links = _vcpo.update(OPTIMIZER, step, *tail)
    sizes = (setting["updates"], setting["replicates"], seed)
    return _vcpo.train(PROBLEM, setting["staleness"], setting["baseline"], links, *sizes)


def _ends(setting: dict[str, Any], arm: str, step: float, out: _vcpo.Outcome) -> list[dict[str, Any]]:
    found = {"final": _vcpo.mean(out.final), "collapsed": _vcpo.share(out.collapsed), "solved": _vcpo.share(out.solved)}
    return [_row(setting, arm, step, quantity, value) for quantity, value in found.items()]


def _row(
    setting: dict[str, Any], arm: str, step: float, quantity: str, found: dict[str, Any], against: str = ""
) -> dict[str, Any]:
    place = {"staleness": setting["staleness"], "baseline": setting["baseline"], "arm": arm, "step": step}
    return {**place, "quantity": quantity, "against": against, **found}
