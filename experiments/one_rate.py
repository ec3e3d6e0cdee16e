"""One learning rate for all methods, or each at its best: which methods stay stable on stale data, read both ways?

Papers on stale data compare methods at one rate, chosen for a synchronous run. A reader who tunes each method sees
less of what they claim (VCPO, arXiv 2602.17616; GAC, arXiv 2603.01501; M2PO, arXiv 2510.01161). Here every method of
`ARMS` runs at every rate of Adam behind a norm clip of 1, on old data of constant staleness and again on fresh ones.
Tasks are `chain` and `kinds` of `alarms`, and `graded`: 16 tokens of 8 kinds, paid by the share that is right. A run
falls as it does in `alarms`: after it has learned, the trailing mean of its exact return is below half of its own
largest gain.

Rows of an arm at a rate, one `quantity` each, over `samples` replicates with 95 percent `low` and `high`:
fell     share of runs that fall
return   mean over all updates of the return of the policy that is trained
end      the same over the last tenth of the updates
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import asyncsim as sim
from asyncsim.base import uncertainty
from experiments import alarms, pipeline_rl

COLUMNS = ["task", "law", "arm", "rate", "quantity", "value", "low", "high", "samples"]
LEAVE = sim.advantages.leave_one_out()
ARMS: dict[str, Any] = {
    "RLOO": sim.methods.reinforce(LEAVE),
    "GAC": sim.methods.reinforce(LEAVE),
    "PPO": sim.methods.ppo_clip(),
    "GSPO": sim.methods.gspo(),
    "CISPO": sim.methods.cispo(),
    "M2PO": sim.methods.m2po_mask(),
    "BAPO": sim.methods.bapo_paper(),
    "TIS, token": sim.methods.truncated_is("token", cap=2.0),
    "TIS, sequence": sim.methods.truncated_is("sequence", cap=8.0),
    "TIS, ESS rule": sim.methods.truncated_is("sequence", cap=8.0),
    "group-mass cap": sim.methods.gmc_grpo(),
    "VCPO": sim.methods.vcpo(),
    "decoupled PPO": sim.methods.decoupled_ppo(),
    "full IS": sim.methods.full_is("sequence"),
    "DG": sim.methods.delight(1.0, LEAVE),
    "AsymRE, no shift": sim.methods.asymre(0.0),
    "AsymRE": sim.methods.asymre(-0.1),
}
SCALED = ("TIS, ESS rule", "VCPO")
"""Arms whose step is scaled by the effective sample size."""
TASKS: dict[str, Any] = {name: alarms.TASKS[name] for name in ("chain", "kinds")}
TASKS["graded"] = (sim.tasks.token_bandit(8, 16, "position"), 1.0)
TOLD = ("VCPO", "GAC", "RLOO", "TIS, token", "TIS, sequence", "M2PO", "PPO")
"""Arms in the table of the gallery."""
LAWS = {**alarms.LAWS, "fresh": sim.schedules.fixed(0, groups_per_batch=4)}
PLACES = [("chain", "constant 32"), ("graded", "constant 32"), ("kinds", "constant 64")]
RATES = [0.05 * 2.0 ** (k / 2) for k in range(13)]
_SIZES = {"updates": 320, "replicates": 48, "rates": RATES, "seed": 0}
LATER = ("decoupled PPO", "full IS", "DG", "AsymRE, no shift", "AsymRE")
"""Arms whose rows stand behind those of the others."""
SETTINGS = [
    {"task": task, "law": where, "arm": arm, **_SIZES}
    for arms in ([arm for arm in ARMS if arm not in LATER], LATER)
    for task, law in PLACES
    for where in (law, "fresh")
    for arm in arms
]
QUICK = [
    {**setting, "updates": 48, "replicates": 4, "rates": RATES[2::5]}
    for setting in SETTINGS
    if setting["arm"] in (*TOLD, *LATER) and (setting["law"] != "fresh" or setting["arm"] == "RLOO")
]


def spec(
    made: Any, law: Any, arm: str, rates: list[float], replicates: int, updates: int, method: Any = None
) -> sim.Spec:
    """An arm at all rates, each with its own replicates; `method`: another than that of `ARMS`."""
    at = tuple(float(rate) for rate in np.repeat(rates, replicates))
    # GAC removes what exceeds the cosine of unrelated directions, twice its spread, and never skips.
    control = (sim.updates.align(low=2.0 / math.sqrt(made.policy().size)),) if arm == "GAC" else ()
    scaled = (sim.updates.ess_step("sqrt"),) if arm in SCALED else ()
    return sim.Spec(
        made,
        law,
        method or ARMS[arm],
        sim.chain(sim.updates.clip_norm(1.0), *control, sim.updates.adam(at), *scaled),
        samples_per_group=8,
        updates=updates,
        replicates=len(at),
        diagnostics=[pipeline_rl.RETURN],
    )


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one arm at one place, at all rates."""
    task, law, arm, rates, each = (setting[name] for name in ("task", "law", "arm", "rates", "replicates"))
    made, best = TASKS[task]
    trace = sim.run(spec(made, LAWS[law], arm, rates, each, setting["updates"]), seed=setting["seed"], progress=False)
    place = {"task": task, "law": law, "arm": arm, "samples": each}
    return [{name: {**place, **row}[name] for name in COLUMNS} for row in measured(trace, rates, each, best)]


def measured(trace: Any, rates: list[float], each: int, best: float) -> list[dict[str, Any]]:
    """Falls, the mean return and that at the end, at every rate of a run over all of them."""
    returns = trace["policy_return"]
    fell = alarms.fallen(returns, float(returns[0].mean()), best).collapsed >= 0
    late = returns[-(len(returns) // 10) :]
    rows = []
    for k, rate in enumerate(rates):
        own = slice(k * each, (k + 1) * each)
        share = uncertainty.proportion(int(fell[own].sum()), each)
        found = {"fell": alarms.ends(share.value, share.error)}
        for name, values in (("return", returns), ("end", late)):
            mean = uncertainty.between(values[:, own].mean(0))
            reach = uncertainty.critical(0.05, mean.freedom) * mean.error
            found[name] = {"value": mean.value, "low": mean.value - reach, "high": mean.value + reach}
        rows += [{"rate": rate, "quantity": name, **value} for name, value in found.items()]
    return rows
