"""Do consecutive gradients point the same way when data is stale: from a bandit to a language model?

The cosine of each update's gradient to the one before it, synchronous against constant staleness at the same batch and
step, on three tiers: a Gaussian bandit of 64 dimensions (LOO REINFORCE, exactly the linear delayed model), CartPole
(A2C on segments) and the character model (GRPO on addition). A row is the mean over a window of updates of one
replicate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

DEVICES = ("cpu", "cuda")
CURVATURE, FRACTION, DIMENSION = 1.0, 0.8, 64
COLUMNS = ["tier", "staleness", "seed", "update", "cosine", "gradient_norm", "step"]


def _tier(tier: str, staleness: int, **sizes: Any) -> dict[str, Any]:
    return {"tier": tier, "staleness": staleness, "seed": 0, **sizes}


LATE = 8
SETTINGS = [
    *(_tier("bandit", s, boundary=LATE, replicates=32, updates=800, window=40, samples=256) for s in (0, LATE)),
    *(_tier("cartpole", s, replicates=16, updates=800, window=40, samples=8) for s in (0, LATE)),
    *(_tier("characters", s, replicates=4, updates=120, window=10, samples=64) for s in (0, LATE)),
]
QUICK = [
    *(_tier("bandit", s, boundary=4, replicates=8, updates=80, window=20, samples=8) for s in (0, 4)),
    *(_tier("cartpole", s, replicates=2, updates=40, window=20, samples=2) for s in (0, 4)),
    *(_tier("characters", s, replicates=2, updates=12, window=4, samples=8, steps=20) for s in (0, 2)),
]


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """One row per window of updates and replicate."""
    import asyncsim as sim

    spec = {"bandit": bandit, "cartpole": cartpole, "characters": characters}[setting["tier"]](setting)
    trace = sim.run(spec, seed=setting["seed"], progress=False)
    window, rows = setting["window"], []
    for start in range(0, setting["updates"], window):
        part = slice(start, start + window)
        # The first gradient has none before it, and the cosine to a zero gradient is missing.
        found = trace["gradient_cosine"][part]
        known = np.isfinite(found)
        cosine = np.where(known, found, 0.0).sum(axis=0) / np.where(known.any(axis=0), known.sum(axis=0), np.nan)
        size = trace["gradient_norm"][part].mean(axis=0)
        for r in range(setting["replicates"]):
            rows.append(
                {
                    "tier": setting["tier"],
                    "staleness": setting["staleness"],
                    "seed": r,
                    "update": start + window,
                    "cosine": float(cosine[r]),
                    "gradient_norm": float(size[r]),
                    "step": step_of(setting),
                }
            )
    return rows


def step_of(setting: dict[str, Any]) -> float:
    """Learning rate of a tier; the bandit's is a fraction of the largest stable one at the staleness compared."""
    if setting["tier"] == "bandit":
        return float(FRACTION * 2.0 * np.sin(np.pi / (2 * (2 * setting["boundary"] + 1))) / CURVATURE)
    return {"cartpole": 7e-4, "characters": 1e-4}[setting["tier"]]


def bandit(setting: dict[str, Any]) -> Any:
    """The linear delayed model as a policy."""
    import asyncsim as sim

    return sim.Spec(
        task=sim.tasks.gaussian_bandit(CURVATURE, dimension=DIMENSION),
        system=sim.schedules.fixed(setting["staleness"]),
        method=sim.methods.reinforce(),
        update=sim.chain(sim.updates.sgd(step_of(setting))),
        samples_per_group=setting["samples"],
        updates=setting["updates"],
        replicates=setting["replicates"],
        diagnostics=["gradient_cosine", "gradient_norm"],
    )


def cartpole(setting: dict[str, Any]) -> Any:
    """A2C with RMS-like steps on segments."""
    import asyncsim as sim

    return sim.Spec(
        task=sim.tasks.gym("CartPole-v1", trajectory="segment", steps=32),
        system=sim.schedules.fixed(setting["staleness"], groups_per_batch=setting["samples"]),
        method=sim.methods.a2c(sim.advantages.gae(0.98, 1.0)),
        update=sim.chain(sim.updates.clip_norm(0.5), sim.updates.adam(step_of(setting), eps=1e-5)),
        samples_per_group=1,
        updates=setting["updates"],
        replicates=setting["replicates"],
        diagnostics=["gradient_cosine", "gradient_norm"],
        device=setting.get("device", "cpu"),
    )


def characters(setting: dict[str, Any]) -> Any:
    """GRPO on addition."""
    import asyncsim as sim

    recipe = {"steps": setting["steps"], "width": 32, "layers": 2} if "steps" in setting else None
    return sim.Spec(
        task=sim.tasks.arithmetic(digits=2, prompts=512),
        policy=sim.policies.causal_lm("char", recipe=recipe),
        system=sim.schedules.fixed(setting["staleness"], groups_per_batch=max(1, setting["samples"] // 8)),
        method=sim.methods.grpo(),
        update=sim.chain(sim.updates.clip_norm(1.0), sim.updates.adam(step_of(setting))),
        samples_per_group=8,
        updates=setting["updates"],
        replicates=setting["replicates"],
        diagnostics=["gradient_cosine", "gradient_norm"],
        device=setting.get("device", "cpu"),
    )
