"""Do VCPO and GAC beat the stabilizers that their papers are compared with, each at its own best learning rate?

Places, arms and grids are those of `league`; here others stand beside VCPO or GAC (`base`) instead of RLOO. GAC
projects above the cosine of unrelated directions and never skips. `fresh` is RLOO on fresh data, so all returns are of
the policy that is trained. Columns as in `_compared`: `word` says whether an arm is better or worse than the base.
"""

from __future__ import annotations

import math
from typing import Any

import asyncsim as sim
from experiments import _compared, league

COLUMNS = ["task", "law", "base", *_compared.COLUMNS]
ARMS = [
    *("RLOO", "GRPO", "PPO", "decoupled PPO", "TIS, token", "TIS, sequence", "MIS, token", "MIS, sequence"),
    *("MIS, geometric", "CISPO", "GSPO", "TOPR", "M2PO", "BAPO", "fresh"),
]
BASES, LAWS = ("VCPO", "GAC"), ("constant 32", "heavy")
_SIZES = {"updates": 200, "most": 512, "arms": ARMS, "seed": 1}
SETTINGS = [{"task": t, "law": law, "base": base, **_SIZES} for t in league.TASKS for law in LAWS for base in BASES]
QUICK = [
    {"task": "bandit", "law": "constant 32", "base": b, **_SIZES, "updates": 36, "most": 64, "arms": ["RLOO", "fresh"]}
    for b in BASES
]


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of all arms beside one base at one place."""
    task, updates = setting["task"], setting["updates"]
    laws = {arm: "fresh" if arm == "fresh" else setting["law"] for arm in [setting["base"], *setting["arms"]]}
    arms = {arm: league.spec(task, law, "RLOO" if arm == "fresh" else arm, updates) for arm, law in laws.items()}
    if "GAC" in arms:
        above = 2.0 / math.sqrt(league.TASKS[task].policy().size)
        control = sim.chain(sim.updates.align(low=above), sim.updates.adam(league.RATE))
        arms["GAC"] = arms["GAC"].replace(update=control)
    choices = {
        "smallest": league.SMALLEST,
        "metric": "trained_return",
        "tune": "adam.lr",
        "max_replicates": setting["most"],
    }
    found = _compared.rows(arms, setting["base"], seed=setting["seed"], progress=False, workers=1, **choices)
    return [{name: ({**setting, **row}).get(name) for name in COLUMNS} for row in found]
