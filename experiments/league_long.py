"""Which stabilizers hold on long sequences and in large batches, read at one rate for all and each at its best?

The methods of `league`, and PPO, CISPO and GSPO around recomputed log-probs (`recomputed`), learn a chain of `tokens`
out of 8, paid by the share that is right. The start resembles a pretrained policy: behind every token the right one has
probability 0.02, a popular wrong one 0.9. Batches
have `batch` sequences, 32 updates old; RLOO on fresh ones is the reference. Adam stands behind a norm clip of 1; VCPO
scales its step, GAC projects. Every method runs at every rate.

Rows as in `one_rate`, one `quantity` each, over `samples` replicates with 95 percent `low` and `high`:
fell     share of runs that fall
return   mean over all updates of the return of the policy that is trained
end      the same over the last tenth of the updates
"""

from __future__ import annotations

from typing import Any

import asyncsim as sim
from experiments import league, one_rate

COLUMNS = ["tokens", "batch", "law", "arm", "rate", "quantity", "value", "low", "high", "samples"]
m = sim.methods
METHODS: dict[str, Any] = league.METHODS | {
    "PPO, recomputed": m.ppo_clip(anchor="proximal"),
    "CISPO, recomputed": m.cispo(anchor="proximal"),
    "GSPO, recomputed": m.gspo(anchor="proximal"),
    "group-mass cap": m.gmc_grpo(),
}
TOLD = ("RLOO", "GAC", "VCPO", "TIS, token", "TIS, sequence", "CISPO", "PPO", "PPO, recomputed", "GSPO", "M2PO")
"""Methods in the table of the gallery."""
START = "peaked:0.02:0.9"
STALENESS = {"old": 32, "fresh": 0}
PLACES = [(16, 32), (64, 32), (64, 512), (512, 32)]
RATES = [0.0125 * 2.0**k for k in range(9)]
_SIZES = {"updates": 160, "replicates": 8, "rates": RATES, "seed": 0}
_ARMS = [("fresh", league.BASE), *(("old", arm) for arm in METHODS)]
SETTINGS = [
    {"tokens": tokens, "batch": batch, "law": law, "arm": arm, **_SIZES}
    for tokens, batch in PLACES
    for law, arm in _ARMS
]
# Where the best rate would stand at the edge of these: bolder ones.
SETTINGS += [{**setting, "rates": [6.4, 12.8, 25.6]} for setting in SETTINGS if setting["law"] == "old"]
QUICK = [
    {**setting, "updates": 40, "replicates": 2, "rates": RATES[2:7:2]}
    for setting in SETTINGS
    if setting["rates"] == RATES and setting["batch"] == 32 and setting["arm"] in TOLD
]


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one method at one place, at all rates."""
    tokens, batch, law, arm, rates, each = (
        setting[name] for name in ("tokens", "batch", "law", "arm", "rates", "replicates")
    )
    task = sim.tasks.token_bandit(8, tokens, "markov", start=START)
    schedule = sim.schedules.fixed(STALENESS[law], groups_per_batch=batch // 8)
    spec = one_rate.spec(task, schedule, arm, rates, each, setting["updates"], METHODS[arm])
    trace = sim.run(spec, seed=setting["seed"], progress=False)
    place = {"tokens": tokens, "batch": batch, "law": law, "arm": arm, "samples": each}
    return [{name: {**place, **row}[name] for name in COLUMNS} for row in one_rate.measured(trace, rates, each, 1.0)]
