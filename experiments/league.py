"""Which stabilizer of stale data is worth having, each at its own best learning rate?

Every arm is compared by `sim.compare` with `RLOO`, which does nothing about staleness. All arms of a place have the
same grid of learning rates, the same replicates and draws; the best rate is chosen on seeds of its own, never at an
edge. Places are three tasks under five laws of staleness. Batches have 4 groups of 8 samples. Tasks: `bandit`, a prompt
with 8 arms paid 0 or 1 for each group; `graded`, 16 tokens out of 8, paid by the share that is right;
`sparse`, 16 bits, paid 1 if at least three quarters are right, else 0. Laws, in updates: `fresh`, 0; `constant 8` and
`constant 32`; `sawtooth`, weights published every 17 batches, so 0 to 16; `heavy`, each batch its own, P(s) falling as
(1 + s)^-2 up to 128. One update a batch by Adam. Read is the mean return of the batches over the run: learning soon and
keeping it both count.

A row for each arm of a place: `word` says whether it is better or worse than RLOO, or equal within `SMALLEST`, and
`difference` with `low` and `high` by how much, an interval that counts all looks and all arms of the place. `mean` and
`end` (last updates) are returns of the arm itself, `rate` its learning rate, `tried` how many, `diverged` replicates
whose parameters left the range of numbers. `reason`: why an arm has no word.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import asyncsim as sim
from experiments import _compared

COLUMNS = ["task", "law", *_compared.COLUMNS]
SMALLEST = 0.02
"""Least difference in return that matters; returns lie between 0 and 1."""
RETURN = "batch_return"
"""What is compared: the reward of the data, thus of policies as old as these; `trained_return` has the trained ones."""
BASE = "RLOO"
GROUPS, SAMPLES = 4, 8
RATE = 0.1
"""The middle of the first grid of learning rates."""
m, first = sim.methods, sim.advantages.leave_one_out()
METHODS: dict[str, Any] = {
    BASE: m.reinforce(first),
    "REINFORCE": m.reinforce(sim.advantages.none()),
    "GRPO": m.grpo(),
    "PPO": m.ppo_clip(),
    "decoupled PPO": m.decoupled_ppo(),
    "A-3PO": m.a3po(),
    "full IS, sequence": m.full_is("sequence"),
    "TIS, token": m.truncated_is("token"),
    "TIS, sequence": m.truncated_is("sequence"),
    "TIS, geometric": m.truncated_is("geometric"),
    "MIS, token": m.icepop(),
    "MIS, sequence": m.sequence_mis(),
    "MIS, geometric": m.geometric_rs(),
    "CISPO": m.cispo(),
    "GSPO": m.gspo(),
    "TOPR": m.topr(),
    "OAPL": m.oapl(),
    "AsymRE": m.asymre(),
    "score centering": m.score_centering(),
    "DPPO": m.dppo_tv(),
    "VESPO": m.vespo(),
    "M2PO": m.m2po_mask(),
    "BAPO": m.bapo_paper(),
    "TBA": m.tba(beta=0.1),
    "VCPO": m.vcpo(),
    "GAC": m.reinforce(first),
}
HEAVY = (1.0 + np.arange(129.0)) ** -2.0
TASKS: dict[str, Any] = {
    "bandit": sim.tasks.softmax_bandit(8, means=np.random.default_rng(0).random((GROUPS, 8))),
    "graded": sim.tasks.token_bandit(8, 16, "markov"),
    "sparse": sim.tasks.bit_chain(16, 0.75),
}
LAWS: dict[str, Any] = {
    "fresh": sim.schedules.fixed(0, groups_per_batch=GROUPS),
    "constant 8": sim.schedules.fixed(8, groups_per_batch=GROUPS),
    "constant 32": sim.schedules.fixed(32, groups_per_batch=GROUPS),
    "sawtooth": sim.schedules.sawtooth(17, groups_per_batch=GROUPS),
    "heavy": sim.schedules.random((HEAVY / HEAVY.sum()).tolist(), groups_per_batch=GROUPS),
}
_SIZES = {"updates": 200, "most": 256, "arms": list(METHODS), "seed": 0}
SETTINGS = [{"task": task, "law": law, **_SIZES} for task in TASKS for law in LAWS]
QUICK = [
    {"task": task, "law": law, **_SIZES, "updates": 36, "most": 64, "arms": [BASE, "TIS, sequence", "VCPO", "GAC"]}
    for task in TASKS
    for law in ("fresh", "constant 32")
]


def spec(task: str, law: str, arm: str, updates: int) -> sim.Spec:
    """One arm at one place; VCPO and GAC also change the step."""
    before = (sim.updates.align(high=0.3),) if arm == "GAC" else ()
    behind = (sim.updates.ess_step("sqrt"),) if arm == "VCPO" else ()
    chain = sim.chain(*before, sim.updates.adam(RATE), *behind)
    return sim.Spec(TASKS[task], LAWS[law], METHODS[arm], chain, samples_per_group=SAMPLES, updates=updates)


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of all arms at one place."""
    arms = {arm: spec(setting["task"], setting["law"], arm, setting["updates"]) for arm in setting["arms"]}
    found = _compared.rows(
        arms,
        BASE,
        smallest=SMALLEST,
        metric=RETURN,
        tune="adam.lr",
        max_replicates=setting["most"],
        seed=setting["seed"],
    )
    return [{"task": setting["task"], "law": setting["law"], **row} for row in found]
