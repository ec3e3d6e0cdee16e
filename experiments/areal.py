"""Does a separate proximal policy let training use staler data than PPO's own clip does, and what does staleness buy?

AReaL (arXiv 2505.24298): `areal`'s admission with the bound `eta`, so batches are `eta` publishes stale on average,
some more. Batches have 4 groups of 8 samples and 4 minibatches, lengths are lognormal. Tasks are those of `league`.
`part` "objective": `sim.compare` of arms at their own best learning rates, `over` the "mean" of returns over updates or
their "end", with `decoupled` the one beside which others stand: `naive`, PPO's clip on the ratio to behavior;
`uncorrected`, the clip around the weights before the batch without a correction for staleness (what the code base does
unless rejection is configured); `fresh`, PPO at eta 0. Columns as in `_compared`.
`part` "speed": the pool of `roll_flash`, synchronous (`eta` -1) or with a `share` of its places training: `value` is
seconds from one batch to the next, a row for each realization, lengths of mean 1 s and lognormal spread `sigma`.
"""

from __future__ import annotations

from typing import Any

import asyncsim as sim
from experiments import _compared, league, roll_flash

COLUMNS = ["part", "task", "eta", "over", *_compared.COLUMNS, "sigma", "share", "realization", "value"]
PARTS, SMALLEST = 4, 0.02
BASE = "decoupled"
m = sim.methods
METHODS: dict[str, Any] = {
    BASE: m.decoupled_ppo(),
    "naive": m.ppo_clip(),
    "uncorrected": m.ppo_clip(anchor="proximal"),
    "fresh": m.ppo_clip(),
}
ETAS, BOUNDS, SPREADS, SHARES = (
    (1, 4, 8, 16),
    (0, 1, 2, 4, 8, 16),
    (0.5, 1.0, 1.5),
    (0.125, 0.1875, 0.25, 0.3125, 0.375, 0.5),
)
_OBJECTIVE = {"part": "objective", "batches": 60, "most": 256, "arms": list(METHODS), "seed": 0}
_SPEED = {"part": "speed", "batches": 400, "realizations": 16, "seed": 0}
SETTINGS = [
    *(
        {**_OBJECTIVE, "task": t, "eta": eta, "over": over}
        for t in league.TASKS
        for eta in ETAS
        for over in ("mean", "end")
    ),
    *({**_SPEED, "sigma": sigma, "eta": eta} for sigma in SPREADS for eta in (-1, *BOUNDS)),
]
QUICK = [
    *({**_OBJECTIVE, "task": "bandit", "eta": 1, "over": over, "batches": 4, "most": 64} for over in ("mean", "end")),
    *({**_SPEED, "sigma": s, "eta": eta, "batches": 40, "realizations": 2} for s in SPREADS for eta in (-1, *BOUNDS)),
]


def spec(setting: dict[str, Any], arm: str) -> sim.Spec:
    """An arm under AReaL's admission, the generator twice as fast as the trainer."""
    eta = 0 if arm == "fresh" else setting["eta"]
    places = league.GROUPS * (eta + 1)
    system = sim.systems.areal(eta, league.GROUPS, places, length="lognormal:1.0:1.0", load=2.0)
    return sim.Spec(
        league.TASKS[setting["task"]],
        system,
        METHODS[arm],
        sim.chain(sim.updates.adam(league.RATE)),
        samples_per_group=league.SAMPLES,
        updates=setting["batches"] * PARTS,
        minibatches=PARTS,
        cut="samples",
    )


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one comparison, or of one system."""
    shared = {name: setting.get(name) for name in ("part", "task", "eta", "over", "sigma")}
    rows = objective(setting) if setting["part"] == "objective" else speed(setting)
    return [{name: (shared | row).get(name) for name in COLUMNS} for row in rows]


def objective(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Each arm at its own best rate, beside the decoupled objective at its own."""
    arms = {arm: spec(setting, arm) for arm in setting["arms"]}
    choices = {"smallest": SMALLEST, "tune": "adam.lr", "max_replicates": setting["most"], "seed": setting["seed"]}
    choices["metric"] = league.RETURN
    return _compared.rows(arms, BASE, over=setting["over"], progress=False, workers=1, **choices)


def speed(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Seconds for a batch of each realization, for every share of the pool that trains."""
    length, groups, rows = f"lognormal:1.0:{setting['sigma']}", roll_flash.GROUPS, []
    for share in SHARES if setting["eta"] >= 0 else (1.0,):
        if setting["eta"] < 0:
            made = roll_flash.system({"sigma": setting["sigma"], "workload": "reasoning", "ratio": 0}, share)
        else:
            slots = round(roll_flash.POOL * (1.0 - share))
            times: Any = {"length": length, "train_time": roll_flash.TRAINING / share}
            made = sim.systems.areal(setting["eta"], groups, groups * (setting["eta"] + 1), **times)
            made = made.modeled({"slots": slots})
        found = made.summaries(setting["batches"], setting["realizations"], roll_flash.SAMPLES, setting["seed"])
        rows += [
            {"share": share, "realization": number, "value": float(one["seconds_per_update"])}
            for number, one in enumerate(found)
        ]
    return rows
