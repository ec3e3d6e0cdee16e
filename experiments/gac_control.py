"""Does alignment control beat a smaller step?

Every control rule is run with every step of one logarithmic grid, so that each can be judged at the step that is best
without staleness and at the best step of its own. Tasks: `fixed` and `random`, a softmax bandit of 16 prompts with 8
arms each and a divergence penalty to the uniform policy, whose rewards are the means of the arms or draws of 0 or 1;
`stiff`, a quadratic whose curvature is 1 in one direction and 0.05 in 39 others, with noisy gradients. Rules
(`updates.align`, a reconstruction): `none`; `project`, remove what is parallel to the previous gradient whenever the
two point the same way; `threshold`, only above twice the cosine of unrelated vectors, 2/sqrt(parameters); `half`, half
of it; `skip`, project above 0.05 and skip the update above 0.3.
Quantities, told apart by the column `quantity`:
tuning     mean final regret (best return less return; of the quadratic its loss) over the replicates that choose a step
regret     the same over the other replicates, which chose nothing
projected  share of updates that were projected, over those other replicates; so are the next two
skipped    share of updates that were skipped
cosine     mean cosine of consecutive gradients
Final is the mean over the last tenth of the `updates` of a run; longer runs of two tasks at large staleness show
whether a gain lasts. `step` is a learning rate, `staleness` in updates; intervals are 95 percent between replicates.
No two settings of a task share a seed, so that they err independently. A regret whose mean is beyond 100 times the
initial one has no value but a reason.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from asyncsim.base import checks, uncertainty
from experiments import _gac_control as _arms

COLUMNS = [
    *("quantity", "task", "staleness", "updates", "rule", "step", "value", "low", "high", "error", "samples"),
    *("edge", "reason"),
]
BLOWN = 100.0
"""Times the initial regret: beyond it a mean says only that the run diverged."""
QUANTITIES = ("tuning", "regret", "projected", "skipped", "cosine")


GRIDS = {"fixed": ((2.0, 9.0), 2), "random": ((1.0, 5.0), 4), "stiff": ((-6.0, 1.0), 8)}
"""Octaves of steps and steps per octave; beside the limit of the stiff direction half octaves favored one rule."""
FINE = 8
"""Steps per octave where bests lie with exact rewards, whose best step without staleness needs only the others."""


def _setting(task: str, staleness: int, rules: list[str], chosen: int, replicates: int, length: int) -> dict[str, Any]:
    return {
        "task": task,
        "staleness": staleness,
        "rules": rules,
        "octaves": GRIDS[task][0],
        "per_octave": GRIDS[task][1],
        "fine": _fine(staleness) if task == "fixed" else None,
        "per_octave_fine": FINE,
        "updates": length,
        "choosing": chosen,
        "replicates": replicates,
        "seed": staleness,
    }


def _fine(staleness: int) -> list[float] | None:
    """Octaves around the best steps with exact rewards, which shrink with the staleness; without it none are needed."""
    middle = 8.5 - round(math.log2(1.0 + staleness))
    return [max(2.0, middle - 1.0), min(9.0, middle + 2.0)] if staleness else None


def _longer(task: str, staleness: int, chosen: int, replicates: int, length: int) -> dict[str, Any]:
    return {**_setting(task, staleness, ["none", "project"], chosen, replicates, length), "seed": 100 + staleness}


SETTINGS = [
    # Around the best step the regret under noise is flat, so that choosing needs more replicates.
    _setting(task, staleness, list(_arms.RULES), *((32, 96) if task == "random" else (16, 48)), 400)
    for task in _arms.TASKS
    for staleness in (0, 1, 2, 4, 8, 16, 32)
] + [_longer("fixed", 32, 16, 48, 1200), _longer("stiff", 16, 16, 48, 2000), _longer("stiff", 32, 16, 48, 2000)]
QUICK = [
    {**_setting(task, staleness, ["none", "project", "skip"], 8, 24, 200), "per_octave": 1, "fine": None}
    for task in _arms.TASKS
    for staleness in (0, 4, 16)
] + [{**_longer(task, 16, 8, 24, 600), "per_octave": 1, "fine": None} for task in ("fixed", "stiff")]


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one task at one staleness: every rule at every step."""
    found = _arms.measure(setting)
    chosen, steps = setting["choosing"], _arms.grid(setting)
    limit = BLOWN * _arms.initial_regret(setting["task"])
    parts = {"tuning": found["regret"][..., :chosen], **{name: found[name][..., chosen:] for name in QUANTITIES[1:]}}
    rows = []
    for place, rule in enumerate(setting["rules"]):
        own = [
            {
                "quantity": quantity,
                **{name: setting[name] for name in ("task", "staleness", "updates")},
                "rule": rule,
                "step": float(step),
                "edge": index in (0, len(steps) - 1),
                **summary(parts[quantity][place, index], limit),
            }
            for quantity in QUANTITIES
            for index, step in enumerate(steps)
        ]
        inside(own, setting)
        rows += own
    return rows


def summary(values: np.ndarray, limit: float) -> dict[str, Any]:
    """Mean with its interval, or no value and why where replicates were frozen or the mean is beyond the limit."""
    frozen = int((~np.isfinite(values)).sum())
    missing: dict[str, Any] = dict.fromkeys(("value", "low", "high", "error"))
    if frozen:
        return {**missing, "samples": len(values), "reason": f"{frozen} of {len(values)} replicates overflowed"}
    if abs(values.mean()) > limit:
        return {**missing, "samples": len(values), "reason": "diverged: beyond 100 times the initial regret"}
    found = uncertainty.between(values)
    reach = found.error * uncertainty.critical(0.05, found.freedom)
    interval = {"low": found.value - reach, "high": found.value + reach, "error": found.error}
    return {"value": found.value, **interval, "samples": len(values), "reason": None}


def inside(rows: list[dict[str, Any]], setting: dict[str, Any]) -> None:
    """Refuse a grid at whose edge a rule does best: its best step would be unknown."""
    scored = [row for row in rows if row["quantity"] == "tuning" and row["value"] is not None]
    best = min(scored, key=lambda row: row["value"])
    at = f"{best['rule']} on {setting['task']} at staleness {setting['staleness']}"
    checks.require(not best["edge"], "octaves", setting["octaves"], f"wide enough for {at}", "extend the grid of steps")
