"""How much faster is asynchronous training on the same machines, and from which asynchronous ratio on no more?

ROLL Flash (arXiv 2510.11345) on a pool of 64 places, each of which decodes one sequence or does 1/64 of the training.
Synchronous: all of them generate 16 groups of 8 samples, then all train for one second. Asynchronous
(`roll_single_turn`): a `share` of the pool trains all the time, the others generate; the best of several shares counts.
`workload`: "reasoning", lengths of mean 1 s and lognormal spread `sigma`; "agentic", the same in four turns, between
which an environment takes half a second on average and another sequence may use the place.

One row for each realization: `step_seconds` from one batch to the next, `staleness` (mean head, in publishes) and
`largest`. `ratio` is the asynchronous ratio, 0 the synchronous system.
"""

from __future__ import annotations

from typing import Any

COLUMNS = ["workload", "sigma", "ratio", "share", "realization", "quantity", "value"]
POOL, GROUPS, SAMPLES, TRAINING = 64, 16, 8, 1.0
"""Places, groups of a batch, samples of a group, and seconds of training on all places."""
RATIOS, SHARES = (1, 2, 3, 4, 8), (0.125, 0.1875, 0.25, 0.3125, 0.375, 0.5)
AGENTIC: dict[str, Any] = {"turns": 4, "environment": "lognormal:0.5:1.0", "environment_holds": False}
IDEAL = SAMPLES * GROUPS / POOL + TRAINING
"""Seconds for a batch if no place is ever idle."""
_SIZES = {"batches": 400, "realizations": 16, "seed": 0}
_PLACES = [*(("reasoning", sigma, RATIOS) for sigma in (0.0, 0.5, 1.0, 1.5)), ("agentic", 1.0, RATIOS)]
SETTINGS = [
    {"workload": workload, "sigma": sigma, "ratio": ratio, **_SIZES}
    for workload, sigma, ratios in _PLACES
    for ratio in (0, *ratios)
]
QUICK = [{**setting, "batches": 60, "realizations": 2} for setting in SETTINGS]


def system(setting: dict[str, Any], share: float) -> Any:
    """The pool with a share of it training, or all of it by turns."""
    import asyncsim as sim

    length = f"lognormal:1.0:{setting['sigma']}" if setting["sigma"] else 1.0
    model = AGENTIC if setting["workload"] == "agentic" else {}
    if not setting["ratio"]:
        return sim.systems.synchronous(GROUPS, length=length, train_time=TRAINING).modeled({**model, "slots": POOL})
    slots = round(POOL * (1.0 - share))
    made = sim.systems.roll_single_turn(GROUPS, setting["ratio"], length=length, train_time=TRAINING / share)
    return made.modeled({**model, "slots": slots})


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one workload at one ratio."""
    rows = []
    for share in SHARES if setting["ratio"] else (1.0,):
        made = system(setting, share).summaries(setting["batches"], setting["realizations"], SAMPLES, setting["seed"])
        for number, one in enumerate(made):
            shared = {name: setting[name] for name in ("workload", "sigma", "ratio")}
            shared |= {"share": share, "realization": number}
            found = {"step_seconds": one["seconds_per_update"], "staleness": one["staleness"]["mean"]}
            found |= {"largest": float(one["staleness"]["max"])}
            rows += [{**shared, "quantity": name, "value": float(value)} for name, value in found.items()]
    return rows
