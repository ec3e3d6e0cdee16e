"""Replicates that find a small difference between staleness 1 and staleness 3, from a pilot of paired runs."""

import argparse
import json
from pathlib import Path

import asyncsim as sim

EFFECT = 0.02
TASKS = {
    "token bandit": (sim.tasks.token_bandit(actions=4, horizon=8, rewards="bernoulli"), 0.8),
    "softmax bandit": (sim.tasks.softmax_bandit(), 1.1),
}
"""Each with a learning rate near the best that `asyncsim compare` found."""


def main() -> None:
    """Print a table; write it too where --json names a file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    path, found = parser.parse_args().json, []
    print("task              effect  replicates   paired unpaired (standard deviation of a difference)")
    for name, (task, lr) in TASKS.items():
        fresh = sim.Spec(task, sim.schedules.fixed(1), sim.methods.ppo_clip(), sim.chain(sim.updates.adam(lr)))
        fresh = fresh.replace(updates=40)
        plan = sim.power(fresh, fresh.replace(system=sim.schedules.fixed(3)), effect=EFFECT, pilot=32)
        row = {"task": name, "effect": plan.effect, "power": plan.power, "replicates": plan.replicates}
        found.append({**row, "paired": plan.spread, "unpaired": plan.unpaired})
        print(f"{name:16s} {plan.effect:7g} {plan.replicates:11d} {plan.spread:8.3f} {plan.unpaired:8.3f}")
    if path:
        path.write_text(json.dumps({"plans": found}), encoding="utf-8")


if __name__ == "__main__":
    main()
