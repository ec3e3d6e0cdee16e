"""How heavy are the tails of the ratio, and how small its ESS, against horizon and staleness on Pendulum?

A Gaussian policy, whose ratios are unbounded, is trained by REINFORCE on returns to go at constant staleness. In every
batch the ratio of the first `horizon` steps of each episode, current to behavior weights, is measured over the step's
episodes: `ess` (over the number of episodes), `tail_index` (Hill), and `variance` of the log ratio per step. A row is
the mean over the batches of one replicate after the first fifth.
"""

from __future__ import annotations

from typing import Any

import numpy as np

DEVICES = ("cpu", "cuda")
HORIZONS = (10, 20, 50, 100, 200)
COLUMNS = ["staleness", "horizon", "seed", "episodes", "ess", "tail_index", "variance"]

SETTINGS = [
    {"staleness": staleness, "episodes": 128, "replicates": 4, "batches": 40, "horizons": HORIZONS, "seed": 0}
    for staleness in (1, 2, 4, 8, 16)
]
QUICK = [
    {"staleness": staleness, "episodes": 16, "replicates": 2, "batches": 5, "horizons": (5, 20), "seed": 0}
    for staleness in (1, 2)
]


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """One row per horizon and replicate."""
    import asyncsim as sim

    horizons = setting["horizons"]
    spec = sim.Spec(
        task=sim.tasks.gym("Pendulum-v1", trajectory="episode", steps=max(horizons)),
        system=sim.schedules.fixed(setting["staleness"]),
        method=sim.methods.reinforce(sim.advantages.returns_to_go(0.97, baseline="batch"), aggregator="token_mean"),
        update=sim.chain(sim.updates.adam(3e-4)),
        samples_per_group=setting["episodes"],
        updates=setting["batches"],
        replicates=setting["replicates"],
        policy=sim.policies.mlp(3, 1, head="gaussian", critic=False, log_std=-0.5),
        diagnostics=[metric for horizon in horizons for metric in prefix(horizon)],
        device=setting.get("device", "cpu"),
    )
    trace = sim.run(spec, seed=setting["seed"], progress=False)
    first = max(setting["staleness"], setting["batches"] // 5)
    names = ("ess", "tail_index", "variance")
    return [
        {
            "staleness": setting["staleness"],
            "horizon": horizon,
            "seed": r,
            "episodes": setting["episodes"],
            **{name: float(np.mean(trace[f"{name}_{horizon}"][first:, r])) for name in names},
        }
        for horizon in horizons
        for r in range(setting["replicates"])
    ]


def prefix(horizon: int) -> list[Any]:
    """Diagnostics of the ratio of the first steps of each episode."""
    from asyncsim.diagnostics._diagnostic import Metric
    from asyncsim.step import ratios

    def log_ratio(step: Any) -> Any:
        return step.log_ratio[..., :horizon].sum(-1)

    return [
        Metric(f"ess_{horizon}", lambda step: ratios.ess(log_ratio(step), step.step_mass), ("log_prob",)),
        Metric(f"tail_index_{horizon}", lambda step: ratios.tail_index(log_ratio(step)), ("log_prob",)),
        Metric(
            f"variance_{horizon}",
            lambda step: ratios.log_moments(log_ratio(step), step.step_mass)[1] / horizon,
            ("log_prob",),
        ),
    ]
