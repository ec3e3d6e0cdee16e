"""How far apart are arms that share their seeds? Differences of `vcpo_steps`, `m2po_steps` and `bapo`, by replicate.

Replicate k of every arm has the same seed, so `value` is the mean of differences, and `low` and `high` its
95 percent interval over `samples` pairs. Tasks, laws, methods and sizes are those of the experiment in `of`. `arm` less
`base`, both at the learning rate of a `reading`: "usual", the best synchronous rate; "bold", four times that; "best",
each arm at its own best rate in that experiment. Without a `base`, `value` is that of the arm. `quantity`:
  return  exact return of the trained policy, mean over all updates (vcpo_steps: every estimator less VCPO)
  end     the same over the last tenth (m2po_steps: arms less fresh training, and less the clip)
  half    entropy of the policy where it first has half of the possible gain, nats (bapo); pairs that both have it
"""

from __future__ import annotations

from typing import Any

import numpy as np

import asyncsim as sim
from asyncsim.diagnostics._diagnostic import Metric
from experiments import _bapo, _vcpo, bapo, m2po_steps, vcpo_steps

COLUMNS = ["of", "task", "reading", "arm", "base", "rate", "base_rate", "quantity", "value", "low", "high", "samples"]
COLUMNS += ["note"]
QUANTITY = {"vcpo_steps": "return", "m2po_steps": "end", "bapo": "half"}
READINGS = ("usual", "bold", "best")
_BEST = {
    "RLOO": 2,
    "GRPO": 7,
    "PPO": 5,
    "GSPO": 6,
    "CISPO": 1,
    "M2PO": 2,
    "TIS, token": 2,
    "TIS, sequence": 4,
    "MIS, token": 2,
    "MIS, sequence": 4,
    "MIS, geometric": 3,
    "VCPO": 4,
    "VCPO, standardized": 3,
}
"""Place of each arm's own best rate among those of `vcpo_steps`; below, the rates of the other two experiments."""
_TUNED = {
    "chain": (0.05, {"fresh": 0.025, "m2po": 0.1, "clip": 0.1, "none": 0.1}),
    "long": (0.1, {"fresh": 0.05, "m2po": 0.1, "clip": 0.1, "none": 0.1}),
    "anchored": (0.05, {"fresh": 0.0125, "m2po": 0.2, "clip": 0.1, "none": 0.05}),
    "forks": (0.1, {"fresh": 0.4, "m2po": 0.4, "clip": 0.4, "none": 0.4}),
    "graded": (0.1, {"fresh": 0.1, "m2po": 0.0125, "clip": 0.8, "none": 0.05}),
    "bandit": (0.05, {"fresh": 0.05, "m2po": 0.2, "clip": 0.2, "none": 0.025}),
}
_OWN = {
    "bandit": {"fresh": 0.4, "clip": 1.6, "bapo": 0.8, "none": 0.2},
    "graded": {"fresh": 0.4, "clip": 1.6, "bapo": 1.6, "none": 0.4},
    "bits": {"fresh": 0.2, "clip": 0.8, "bapo": 0.8, "none": 0.2},
}
SETTINGS: list[dict[str, Any]] = [
    {
        "of": "vcpo_steps",
        "task": "penalty",
        "staleness": vcpo_steps.LAG,
        "updates": 240,
        "replicates": 192,
        "seed": 0,
        "rates": {a: [vcpo_steps.USUAL, vcpo_steps.BOLD, vcpo_steps.RATES[k]] for a, k in _BEST.items()},
    },
    *(
        {
            "of": "m2po_steps",
            "task": task,
            "staleness": 256,
            "updates": 2048,
            "every": 25,
            "replicates": 128,
            "seed": 3,
            "rates": {arm: [usual, 4.0 * usual, own] for arm, own in tuned.items()},
        }
        for task, (usual, tuned) in _TUNED.items()
    ),
    *(
        {
            "of": "bapo",
            "task": task,
            "staleness": 32,
            "updates": 150,
            "every": 3,
            "replicates": 192,
            "seed": 2,
            "rates": {arm: [own] for arm, own in tuned.items()},
        }
        for task, tuned in _OWN.items()
    ),
]
_TRIAL: dict[str, dict[str, Any]] = {
    "m2po_steps": {"updates": 24, "every": 3, "staleness": 16},
    "bapo": {"updates": 12, "staleness": 6},
}
QUICK = [
    {**each, "updates": 32, "replicates": 3, **_TRIAL.get(each["of"], {})}
    for each in SETTINGS
    if each["of"] != "m2po_steps" or each["task"] in m2po_steps.CURVES
]


def read(setting: dict[str, Any], arm: str) -> np.ndarray:
    """What an arm comes to at each reading, in each replicate."""
    each, rates = setting["replicates"], setting["rates"][arm]
    at = tuple(float(rate) for rate in np.repeat(rates, each))
    stale = 0 if arm == "fresh" else setting["staleness"]
    if setting["of"] == "vcpo_steps":
        law = {**setting, "law": "constant"}
        found = vcpo_steps.trained(law, vcpo_steps.ARMS[arm], arm.startswith("VCPO"), at)["return"].mean(0)
    elif setting["of"] == "m2po_steps":
        spec = m2po_steps.spec({**setting, "arm": arm, "staleness": stale, "rates": rates})
        curve = sim.run(spec, seed=setting["seed"], progress=False)["policy_return"]
        found = curve[-(len(curve) // 10) :].mean(0)
    else:
        law = {**setting, "law": f"constant {stale}"}
        metrics = [_bapo.RETURN, Metric("policy_entropy", _bapo.entropy)]
        spec = _bapo.spec(law, "clip" if arm == "fresh" else arm, at, replicates=len(at), diagnostics=metrics)
        trace = sim.run(spec, seed=setting["seed"], progress=False)
        found = bapo.at_half(trace["policy_return"], trace["policy_entropy"], _bapo.BEST[setting["task"]])
    return found.reshape(len(rates), each)


def row_of(setting: dict[str, Any], arm: str, base: str, k: int, reading: str, values: np.ndarray) -> dict[str, Any]:
    """The mean of what replicates give that have it."""
    kept, rates, of = values[np.isfinite(values)], setting["rates"], setting["of"]
    row = {"of": of, "task": setting["task"], "reading": reading, "arm": arm, "base": base, "quantity": QUANTITY[of]}
    row |= {"rate": rates[arm][k], "base_rate": rates[base or arm][k]}
    return row | (_vcpo.mean(kept) if len(kept) > 1 else _vcpo.missing("no such run"))


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one task: every arm of a pair less the other."""
    found = {arm: read(setting, arm) for arm in setting["rates"]}
    bases = {"vcpo_steps": ["VCPO"], "m2po_steps": ["fresh", "clip"], "bapo": ["fresh", "clip"]}[setting["of"]]
    readings = READINGS if len(next(iter(found.values()))) == len(READINGS) else READINGS[-1:]
    rows = [
        row_of(setting, arm, "", k, readings[k], values[k])
        for arm, values in found.items()
        for k in range(len(readings))
    ]
    for arm, base in ((arm, base) for base in bases for arm in found if arm not in (base, "fresh")):
        for k, reading in enumerate(readings):
            rows.append(row_of(setting, arm, base, k, reading, found[arm][k] - found[base][k]))
    return rows
