"""How close to instability must training be before consecutive gradients align, and which schedules hide it?

Noisy descent on a quadratic of `dimension` equal coordinates in stationarity: the delayed linear model itself, so that
every departure from the closed forms is a mistake. Told apart by `quantity`:
correlation  mean product of gradients one update apart over the mean squared length (a ratio of averages)
inside       the same for all pairs between two publishes, across for pairs on both sides of one (`sawtooth` only)
energy       mean squared length of a gradient over that of its noise: 1 without any signal
cosine       mean cosine of gradients one update apart, what a training dashboard shows
`schedule` is `fixed` (constant staleness), `sawtooth` (0, 1, ..., staleness in turn) or `random` (drawn evenly from
0..staleness for every update); `fraction` is the step over the largest stable step of that schedule (for `random` of
finite mean square), `step` that step times the curvature. `value` with a 95 percent interval over runs; where the
fourth moment is infinite, no interval of an average of squares is honest, and `reason` says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments import _gac

FRACTIONS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.99)
HEAVY = 0.85
"""Fraction of the mean-square boundary from which random delays leave no fourth moment (0.87 to 0.9 by law)."""
COLUMNS = [
    "schedule",
    "staleness",
    "fraction",
    "step",
    "quantity",
    "value",
    "low",
    "high",
    "error",
    "samples",
    "reason",
]


def _sweep(schedule: str, staleness: int, updates: int, after: int) -> dict[str, Any]:
    own: dict[str, Any] = {"schedule": schedule, "staleness": staleness, "fractions": FRACTIONS}
    return {**own, "updates": updates, "after": after, "dimension": 16, "replicates": 48, "seed": 0}


SETTINGS = [
    _sweep("fixed", 0, 4000, 600),
    _sweep("fixed", 1, 8000, 1500),
    _sweep("fixed", 2, 10000, 2500),
    _sweep("fixed", 8, 20000, 7200),
    _sweep("sawtooth", 8, 5400, 1800),
    _sweep("random", 8, 4000, 1200),
]
_TINY = {"fractions": (0.35, 0.8), "replicates": 24, "updates": 720, "after": 270}
QUICK = [
    {**_sweep(schedule, tau, 0, 0), **_TINY}
    for schedule, tau in (("fixed", 0), ("fixed", 1), ("fixed", 2), ("fixed", 8), ("sawtooth", 8), ("random", 8))
]


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one schedule at every fraction of its boundary, all of them in one run."""
    from asyncsim.base import uncertainty
    from asyncsim.running import running

    spec, steps = spec_of(setting)
    trace = running.run(spec, seed=setting["seed"], progress=False)
    cosine = trace["gradient_cosine"][setting["after"] :].mean(axis=0)
    found, rows = {**trace.accumulated, "cosine": cosine}, []
    size, random = setting["replicates"], setting["schedule"] == "random"
    for index, fraction in enumerate(setting["fractions"]):
        part = slice(index * size, (index + 1) * size)
        own = {name: values[part] for name, values in found.items() if np.ndim(values)}
        unit = trace.realization[part]
        shared = {name: setting[name] for name in ("schedule", "staleness")}
        shared |= {"fraction": fraction, "step": float(steps[index * size])}
        values = {"cosine": uncertainty.between(own["cosine"], unit, random)}
        names = {"correlation": "neighbors"}
        if setting["schedule"] == "sawtooth":
            names |= {"inside": "inside", "across": "across"}
        for name, key in names.items():
            values[name] = uncertainty.ratio(own[key], own["energy"], unit, random)
        values["energy"] = uncertainty.between(own["energy"] / setting["dimension"], unit, random)
        for name, estimate in values.items():
            heavy = random and fraction > HEAVY and name != "cosine"
            row = _gac.missing("infinite fourth moment") if heavy else _gac.measured(estimate)
            rows.append({**shared, "quantity": name, **row})
    return rows


def spec_of(setting: dict[str, Any]) -> tuple[Any, np.ndarray]:
    """Descent at every fraction along the replicates, and the step of each replicate."""
    import asyncsim as sim
    from asyncsim.claims.lab.quadratics import Cycles

    schedule, tau, size = setting["schedule"], setting["staleness"], setting["replicates"]
    steps = np.repeat(np.array(setting["fractions"]) * _gac.boundary(schedule, tau), size)
    spec = sim.Spec(
        task=sim.tasks.quadratic((1.0,) * setting["dimension"], noise=1.0),
        system=_gac.system(schedule, tau),
        method=sim.methods.gradient(),
        update=sim.chain(sim.updates.sgd(steps)),
        samples_per_group=1,
        updates=setting["after"] + setting["updates"],
        replicates=len(steps),
        diagnostics=["gradient_cosine", Cycles(tau + 1 if schedule == "sawtooth" else 1, setting["after"])],
    )
    return spec, steps
