"""What of VCPO helps: the baseline, the smaller step, or the timing of the smaller step?

The problem `graded` of `_vcpo` with Adam, at the step that `vcpo_training` uses. Two baselines of the same truncated
sequence ratios: `group mean`, and `opob`, the optimal baseline of VCPO. On each, arms that differ in the step only
(`shuffled`, `constant` and `learning` on `opob` alone):
plain     the step as it is
ess       VCPO's rule, step * sqrt(ESS/N) of its own batch; with `opob` this is VCPO
other     the scales that the rule gave in another run at the same update: same mean, same times, not this batch
shuffled  those scales in a random order of updates: same mean and spread, random times
constant  their mean over the whole run, always; most of it may be spent solved, where the scale is 1
learning  their mean while the return is below 0.9, always
vcpo mean the mean of VCPO's scales over the whole run, always (`group mean` only)
tuned     plain at the step that is best on held-out seeds at this staleness; tuned ess likewise, with the rule
Scales come from held-out seeds, replicate by replicate. Quantities of a row, at an end of the run after `horizon`
updates (at staleness 128 there are two): final (mean return over the last tenth), collapsed and solved (shares, see
`_vcpo.Outcome`), difference (final of `ess` minus final of arm `against`, replicates paired by their draws); over the
whole run: scale (mean factor on the step), step (mean return at a step of the grid, held-out seeds).
Intervals: 95 percent over replicates (means: t; shares: Wilson).
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
COLUMNS = [
    "staleness", "baseline", "arm", "step", "quantity", "against", "horizon", "value", "low", "high", "samples", "note",
]  # fmt: skip
GRID = [0.025, 0.05, 0.1, 0.2, 0.4, 0.8]
"""Steps from which `tuned` takes the best."""
LEVELS = (8, 32, 128)


LEARNED = 0.9
"""Return below which a run is said to be learning."""


def _setting(staleness: int, baseline: str, part: str, **sizes: Any) -> dict[str, Any]:
    place = {"staleness": staleness, "baseline": baseline, "part": part, "step": STEP, "steps": GRID, "seed": 0}
    replicates = 96 if staleness == _vcpo.OLDEST else 160
    return {**place, "horizons": _vcpo.horizons(staleness), "replicates": replicates, "choosing": 24, **sizes}


PARTS = ("scaled", "tuned")
SETTINGS = [_setting(s, b, part) for s in LEVELS for b in _vcpo.METHODS for part in PARTS]
QUICK = [
    _setting(s, b, part, horizons=_vcpo.horizons(s, 60, 90), replicates=8, choosing=2)
    for s in (8, 128)
    for b in _vcpo.METHODS
    for part in PARTS
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
        final[arm] = {U: _vcpo.outcome(found["policy_return"][:U]).final for U in setting["horizons"]}
        rows += _ends(setting, arm, setting["step"], found["policy_return"])
        rows.append(_row(setting, arm, setting["step"], "scale", _vcpo.mean(np.asarray(used))))
    for other in final:
        for horizon in setting["horizons"] if other != "ess" else ():
            paired = _vcpo.mean(final["ess"][horizon] - final[other][horizon])
            more = {"against": other, "horizon": horizon}
            rows.append(_row(setting, "ess", setting["step"], "difference", paired, **more))
    return rows


def arms(setting: dict[str, Any]) -> dict[str, tuple[tuple[Link, ...], np.ndarray]]:
    """What scales the step in each arm, and the mean scale of each replicate where it is given beforehand."""
    scales, returns = measured(setting, setting["baseline"])
    R = setting["replicates"]
    found: dict[str, tuple[tuple[Link, ...], np.ndarray]] = {
        "plain": ((), np.ones(R)),
        "ess": ((_vcpo.ess_step(OPTIMIZER),), np.ones(R)),
        "other": ((_vcpo.Given(scales),), scales.mean(axis=0)),
    }
    if setting["baseline"] == "opob":
        mixed = _vcpo.shuffled(scales, setting["seed"])
        found["shuffled"] = ((_vcpo.Given(mixed),), mixed.mean(axis=0))
        means = {"constant": float(scales.mean()), "learning": float(scales[returns < LEARNED].mean())}
    else:
        means = {"vcpo mean": float(measured(setting, "opob")[0].mean())}
    return found | {arm: ((updates.scale(scale),), np.full(R, scale)) for arm, scale in means.items()}


def measured(setting: dict[str, Any], baseline: str) -> tuple[np.ndarray, np.ndarray]:
    """Scales `[U, R]` of the rule on held-out seeds, and the returns."""
    rule = (_vcpo.ess_step(OPTIMIZER),)
    held_out = {**setting, "baseline": baseline}
    found = _train(held_out, setting["step"], rule, setting["seed"] + _vcpo.HELD_OUT)
    return found["ess_step_scale"], found["policy_return"]


def tuned(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """The best step of the grid at this staleness, without and with the rule."""
    rows = []
    for arm, tail in (("tuned", ()), ("tuned ess", (_vcpo.ess_step(OPTIMIZER),))):
        found = _vcpo.grid(PROBLEM, setting["staleness"], setting["baseline"], OPTIMIZER, tail, setting).mean(axis=0)
        for step, values in zip(setting["steps"], found, strict=True):
            rows.append(_row(setting, arm, step, "step", _vcpo.mean(values)))
        best = setting["steps"][int(found.mean(axis=1).argmax())]
        rows += _ends(setting, arm, best, _train(setting, best, tail, setting["seed"])["policy_return"])
    return rows


def _train(setting: dict[str, Any], step: float, tail: tuple[Link, ...], seed: int) -> dict[str, np.ndarray]:
    links = _vcpo.update(OPTIMIZER, step, *tail)
    sizes = (setting["horizons"][-1], setting["replicates"], seed)
    return _vcpo.train(PROBLEM, setting["staleness"], setting["baseline"], links, *sizes)


def _ends(setting: dict[str, Any], arm: str, step: float, curve: np.ndarray) -> list[dict[str, Any]]:
    rows = []
    for horizon in setting["horizons"]:
        out = _vcpo.outcome(curve[:horizon])
        found = {name: _vcpo.share(getattr(out, name)) for name in ("collapsed", "solved")}
        for quantity, value in {"final": _vcpo.mean(out.final), **found}.items():
            rows.append(_row(setting, arm, step, quantity, value, horizon=horizon))
    return rows


def _row(
    setting: dict[str, Any], arm: str, step: float, quantity: str, found: dict[str, Any], **more: Any
) -> dict[str, Any]:
    place = {"staleness": setting["staleness"], "baseline": setting["baseline"], "arm": arm, "step": step}
    return {**place, "quantity": quantity, "against": "", "horizon": setting["horizons"][-1], **found, **more}
