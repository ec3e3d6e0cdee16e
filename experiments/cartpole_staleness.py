"""Which learning rates survive staleness on CartPole, with and without a correction that can see it?

PPO on segments, 8 environments of 32 steps a batch, 10 epochs, constant staleness. `correction` is the anchor of the
clipped ratio: "none" recomputes it with the weights at the start of each batch's training, which cannot see staleness;
"behavior" takes the log-probs recorded when the data was generated. Every rate has the same seeds. `final_return` is
the mean return of the training episodes that ended in the last fifth of the run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

DEVICES = ("cpu", "cuda")
EPOCHS = 10
RATES = tuple(3.75e-5 * 2**k for k in range(8))
"""Wide enough that no best lies at an end: stale data wants smaller rates, a behavior anchor allows larger ones."""
STALENESS = (0, 2, 4, 8, 16)
ANCHORS = {"none": "proximal", "behavior": "behavior"}
COLUMNS = ["staleness", "correction", "rate", "seed", "steps", "final_return", "ess", "diverged"]

SETTINGS = [
    {"staleness": staleness, "correction": correction, "seeds": 16, "batches": 480, "rates": RATES, "seed": 0}
    for staleness in STALENESS
    for correction in ANCHORS
]
QUICK = [
    {"staleness": staleness, "correction": correction, "seeds": 3, "batches": 16, "rates": (3e-4, 3e-3), "seed": 0}
    for staleness in (0, 4)
    for correction in ANCHORS
]


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """One row per rate and seed."""
    import asyncsim as sim
    from experiments import cartpole_parity as ppo

    rates, seeds, batches = setting["rates"], setting["seeds"], setting["batches"]
    spec = ppo.spec(
        batches,
        len(rates) * seeds,
        setting["staleness"],
        ANCHORS[setting["correction"]],
        EPOCHS,
        # One program for all rates: a knob may hold one number for each replicate.
        np.repeat(np.array(rates), seeds),
        diagnostics=["episode_return", "episodes", "ess"],
        device=setting.get("device", "cpu"),
    )
    trace = sim.run(spec, seed=setting["seed"], progress=False)
    last = -max(1, batches // 5)
    count = trace["episodes"][last:]
    final = (np.nan_to_num(trace["episode_return"][last:]) * count).sum(0) / count.sum(0)
    return [
        {
            "staleness": setting["staleness"],
            "correction": setting["correction"],
            "rate": float(rates[r // seeds]),
            "seed": r % seeds,
            "steps": batches * ppo.ENVIRONMENTS * ppo.STEPS,
            "final_return": float(final[r]),
            "ess": float(np.nanmean(trace["ess"][last:, r])),
            "diverged": int(trace.diverged[r]),
        }
        for r in range(len(final))
    ]
