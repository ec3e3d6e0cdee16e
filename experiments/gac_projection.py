"""Does it matter whether the aligned component is removed before Adam or behind it?

Removing what a gradient shares with the one before it (`updates.align`, a reconstruction) in front of the optimizer or
behind it, and with plain descent. Quantities, told apart by the column `quantity`:
shrinkage  mean step along the mean gradient, as a share of what Adam makes of it without projection. Gradients have a
           constant mean, spread evenly over `dimension` coordinates, whose energy is `signal` times that of the noise;
           every gradient loses `strength` of its component along a `reference`: the "known" mean or the "previous"
           gradient. `arm`: before Adam, or behind Adam with or without momentum (beta1 0.9 or 0)
boundary   largest step * curvature of plain stale descent that does not carry one mode away, from a million times the
           noise; low and high are the bracket. `arm`: no control; half of the aligned component, or all of it removed;
           "applied" compares with the previous step instead of the previous gradient. `reason` where none was found
amplitude  root mean square of one mode over the second half of a run under Adam, in units of Adam's step size; the
           mode's gradient one such step from the minimum is 50 times the noise
tuning     final regret (best return less return, as a share of the initial one) of a bandit whose actions are normal
           with a learned mean, over the replicates that choose a step size; of `edge` rows the grid ends there
regret     the same over the other replicates, which chose nothing
skipped    share of updates that a control behind Adam skipped, over those replicates
`arm` of the last four: `_gac_projection.ADAM`. `step` is Adam's; `staleness` is in updates. Intervals are 95 percent
between replicates.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from asyncsim import claims
from asyncsim.base import checks, uncertainty
from asyncsim.base.records import Estimate
from experiments import _gac_projection as arms

COLUMNS = [
    *("quantity", "arm", "reference", "dimension", "strength", "signal", "staleness", "step"),
    *("value", "low", "high", "error", "samples", "edge", "reason"),
]
LAGS = (0, 1, 2, 4, 8, 16, 32)
WITHOUT = ["none without momentum", "before without momentum", "behind without momentum"]
USUAL = ["none", "before", "behind"]
LEARNING = [*USUAL, "behind without momentum", "before, default", "behind, default"]


def _shrinkage(reference: str, dimension: int, strength: float, signals: int, each: int) -> dict[str, Any]:
    shape = {"reference": reference, "dimension": dimension, "strength": strength}
    # The first gradient has none before it, and stays in Adam's second moment: stronger signals need longer runs.
    top = 100.0 if reference == "known" else 10.0
    levels = [float(f"{x:.3g}") for x in np.geomspace(0.01, top, signals)]
    length = {"updates": 1500, "after": 500, "beta2": 0.9995}
    return {"quantity": "shrinkage", **shape, "signals": levels, **length, "replicates": each, "seed": 0}


def _boundary(staleness: int, replicates: int) -> dict[str, Any]:
    size = {"steps": 24, "periods": 24, "replicates": replicates}
    return {"quantity": "boundary", "staleness": staleness, **size, "seed": 0}


def _amplitude(staleness: int, updates: int, each: int) -> dict[str, Any]:
    scale = {"step": 0.05, "stiffness": 50.0, "updates": updates, "replicates": each}
    return {"quantity": "amplitude", "staleness": staleness, "arms": [*WITHOUT, *USUAL], **scale, "seed": 0}


def _learning(staleness: int, per_octave: int, choosing: int, replicates: int) -> dict[str, Any]:
    rates = [float(x) for x in 2.0 ** np.linspace(-8.0, 2.0, 10 * per_octave + 1)]
    size = {"updates": 200, "choosing": choosing, "replicates": replicates}
    return {"quantity": "regret", "staleness": staleness, "arms": LEARNING, "learning_rates": rates, **size, "seed": 0}


SETTINGS = [
    _shrinkage("known", 1, 0.5, 9, 96),
    _shrinkage("known", 32, 0.5, 9, 32),
    _shrinkage("previous", 32, 1.0, 7, 48),
    *(_boundary(staleness, 4) for staleness in LAGS),
    *(_amplitude(staleness, 6000 if staleness > 8 else 4000, 16) for staleness in LAGS),
    *(_learning(staleness, 2, 16, 48) for staleness in LAGS),
]
QUICK = [
    *({**_shrinkage(*shape, 3, 24), "updates": 500, "after": 200} for shape in (("known", 1, 0.5), ("known", 8, 0.5))),
    {**_shrinkage("previous", 8, 1.0, 3, 48), "updates": 500, "after": 200},
    *({**_boundary(staleness, 1), "steps": 16} for staleness in (1, 4)),
    *(_amplitude(staleness, 1200, 4) for staleness in (0, 4)),
    *(_learning(staleness, 1, 4, 10) for staleness in (0, 16)),
]


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one panel's part."""
    parts = {"shrinkage": shrinkage, "boundary": boundary, "amplitude": amplitude, "regret": learning}
    return [dict.fromkeys(COLUMNS) | row for row in parts[setting["quantity"]](setting)]


def shrinkage(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Ratios of paired displacements, by signal."""
    found = arms.shrinkage(setting)
    shared = {name: setting[name] for name in ("quantity", "reference", "dimension", "strength")}
    return [
        {**shared, "arm": arm, "signal": signal, **interval(uncertainty.ratio(moved[k], found["none"][k]))}
        for arm, moved in found.items()
        if arm != "none"
        for k, signal in enumerate(setting["signals"])
    ]


def boundary(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """The bracket of every arm; grids begin below the uncontrolled boundary, or below 2 where that is the question."""
    tau, rows = setting["staleness"], []
    usual = claims.claim("staleness/stability-boundary").predict({"staleness": tau, "curvatures": (arms.CURVATURE,)})
    for arm in arms.DESCENT:
        reach = (1.2, 3.4) if arm == "raw" else (0.5 * usual["step"], 6.0 * usual["step"])
        low, high = arms.boundary(arm, tau, *reach, setting)
        row: dict[str, Any] = {"quantity": "boundary", "arm": arm, "staleness": tau, "samples": setting["replicates"]}
        bracket = {"value": math.sqrt(low * high) * arms.CURVATURE, "low": low, "high": high, "error": 0.0}
        missing = {"reason": f"no change from shrinking to growing between {reach[0]:.3g} and {reach[1]:.3g}"}
        rows.append({**row, **(bracket if math.isfinite(low) else missing)})
    return rows


def amplitude(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Every arm's."""
    shared = {name: setting[name] for name in ("quantity", "staleness", "step")}
    found = arms.amplitude(setting)
    return [{**shared, "arm": arm, **interval(uncertainty.between(size))} for arm, size in found.items()]


def learning(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Every arm at every step size, over the replicates that choose and over the others."""
    found, skipped = arms.learning(setting)
    steps, chosen, rows = setting["learning_rates"], setting["choosing"], []
    for place, arm in enumerate(setting["arms"]):
        for k, step in enumerate(steps):
            shared = {"arm": arm, "staleness": setting["staleness"], "step": step, "edge": k in (0, len(steps) - 1)}
            parts = {"tuning": found[place, k, :chosen], "regret": found[place, k, chosen:]}
            if arm.startswith("behind"):
                parts["skipped"] = skipped[place, k, chosen:]
            rows += [{"quantity": quantity, **shared, **summary(values)} for quantity, values in parts.items()]
        inside([row for row in rows if row["quantity"] == "tuning" and row["arm"] == arm])
    return rows


def summary(values: np.ndarray) -> dict[str, Any]:
    """Mean with its interval, or why there is none."""
    frozen = int((~np.isfinite(values)).sum())
    if frozen:
        return {"samples": len(values), "reason": f"{frozen} of {len(values)} replicates overflowed"}
    return interval(uncertainty.between(values))


def inside(scored: list[dict[str, Any]]) -> None:
    """Refuse a grid at whose edge an arm does best: its best step would be unknown."""
    best = min((row for row in scored if row.get("value") is not None), key=lambda row: row["value"])
    at = f"{best['arm']} at staleness {best['staleness']}"
    checks.require(not best["edge"], "learning_rates", best["step"], f"not best at an end, for {at}", "extend the grid")


def interval(found: Estimate) -> dict[str, Any]:
    """Columns of an estimate."""
    reach = found.error * uncertainty.critical(0.05, found.freedom)
    bounds = {"low": found.value - reach, "high": found.value + reach}
    return {"value": found.value, **bounds, "error": found.error, "samples": found.samples}
