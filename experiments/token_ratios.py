"""Do ratios of tokens beat ratios of sequences on stale data, and do old data end on par with synchronous training?

Arms are compared by `sim.compare`, each at its own best learning rate, on tasks, batches and laws of `league`.
`part` "pair": a method on sequence ratios (`arm`) beside the same on token ratios: truncated weights ("TIS"), masks
("MIS"), and PPO's clip beside GSPO's ("clip"). Tasks of more than one token, four stale laws; read is the mean return.
`part` "par": methods that ROLL Flash (arXiv 2510.11345) offers for asynchronous training, on `roll_single_turn` at an
asynchronous `ratio`, beside PPO on `synchronous`; read is the return at the end.
  difference  with `low` and `high`: an arm's return less that it stands beside, and `word`; intervals count all looks
  mean, end   returns of the arm itself; rate: its learning rate
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import asyncsim as sim
from experiments import _compared, league

COLUMNS = ["part", "task", "law", "pair", "ratio", *_compared.COLUMNS]
TOKEN, SYNCHRONOUS = "token", "synchronous"
PAIRS: dict[str, dict[str, str]] = {
    "TIS": {TOKEN: "TIS, token", "sequence": "TIS, sequence"},
    "MIS": {TOKEN: "MIS, token", "sequence": "MIS, sequence"},
    "clip": {TOKEN: "PPO", "sequence": "GSPO"},
}
METHODS = {
    "PPO": "PPO",
    "decoupled PPO": "decoupled PPO",
    "TIS": "TIS, token",
    "CISPO": "CISPO",
    "TOPR": "TOPR",
    "no correction": league.BASE,
}
"""Arms by what `league` calls them."""
LONG, RATIOS = ("graded", "sparse"), (2, 8)
STALE = tuple(law for law in league.LAWS if law != "fresh")
_SIZES = {"updates": 200, "most": 512, "seed": 0}
SETTINGS: list[dict[str, Any]] = [
    *({**_SIZES, "part": "pair", "task": t, "law": law, "pair": p} for p in PAIRS for t in LONG for law in STALE),
    *({**_SIZES, "part": "par", "task": t, "ratio": ratio} for t in league.TASKS for ratio in RATIOS),
]
_FEW = {"updates": 20, "most": 64}
QUICK = [
    *({**_SIZES, **_FEW, "part": "pair", "task": "graded", "law": "constant 8", "pair": pair} for pair in PAIRS),
    *({**_SIZES, **_FEW, "part": "par", "task": task, "ratio": 2} for task in league.TASKS),
]


def spec(setting: dict[str, Any], arm: str, ratio: int | None = None) -> sim.Spec:
    """An arm of the league under the setting's law, or on a system; ratio 0 is synchronous."""
    made = league.spec(setting["task"], setting.get("law", "fresh"), arm, setting["updates"])
    if ratio is None:
        return made
    if not ratio:
        return replace(made, system=sim.systems.synchronous(league.GROUPS))
    system = sim.systems.roll_single_turn(league.GROUPS, ratio, length="lognormal:1.0:1.0", load=2.0)
    return replace(made, system=system)


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one comparison."""
    if setting["part"] == "pair":
        base, over = TOKEN, "mean"
        arms = {name: spec(setting, arm) for name, arm in PAIRS[setting["pair"]].items()}
    else:
        base, over = SYNCHRONOUS, "end"
        arms = {base: spec(setting, METHODS["PPO"], 0)}
        arms |= {name: spec(setting, arm, setting["ratio"]) for name, arm in METHODS.items()}
    choices = {"smallest": league.SMALLEST, "tune": "adam.lr", "seed": setting["seed"], "progress": False}
    found = _compared.rows(
        arms, base, metric=league.RETURN, over=over, max_replicates=setting["most"], workers=1, **choices
    )
    shared = {name: setting.get(name) for name in ("part", "task", "law", "pair", "ratio")}
    return [{name: (shared | row).get(name) for name in COLUMNS} for row in found]
