"""The generic learning loop against a good NumPy program on the same stale softmax bandit.

10 arms, batches of 16, fixed staleness 8, importance weights, 1,024 replicates, float64, diagnostics off. The NumPy
side is vectorized over replicates (bincount scatter, a loop over arms for the inverse CDF, no one-hot, no loop over
replicates) and has no mask, mass, freezing or keyed draws. Both count replicate-updates per second.

`bandit_diagnosed_vs_plain`: the product with its default diagnostics against itself without.
`bandit_program_vs_tensors`, `chain_program_vs_tensors`: updates as one machine program against the same on tensors,
both with default diagnostics.
`bandit_minibatches_vs_batches` and the like: updates on parts of a batch against updates on batches of that size.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks._record import Benchmark

ARMS, BATCH, LAG, REPLICATES, LR = 10, 16, 8, 1024, 0.1
UPDATES = 1500
"""Updates of every side: as many as make the product compile them."""
MEANS = np.linspace(0.1, 0.9, ARMS)


def numpy_curve(updates: int) -> tuple[np.ndarray, float]:
    """Mean reward of every batch over replicates, and the seconds of the NumPy program."""
    rng = np.random.default_rng(0)
    theta = np.zeros((REPLICATES, ARMS))
    logs = np.zeros((LAG + 1, REPLICATES, ARMS))
    row = np.repeat(np.arange(REPLICATES) * ARMS, BATCH)
    curve = np.empty(updates)
    start = time.perf_counter()
    for update in range(updates):
        shifted = theta - theta.max(axis=1, keepdims=True)
        log_pi = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        pi = np.exp(log_pi)
        logs[update % (LAG + 1)] = log_pi
        log_mu = logs[max(0, update - LAG) % (LAG + 1)]
        cdf = np.cumsum(np.exp(log_mu), axis=1)
        uniform = rng.random((REPLICATES, BATCH))
        action = np.zeros((REPLICATES, BATCH), dtype=np.int64)
        for arm in range(ARMS - 1):
            action += uniform >= cdf[:, arm : arm + 1]
        reward = (rng.random((REPLICATES, BATCH)) < MEANS[action]).astype(np.float64)
        curve[update] = reward.mean()
        cell = row + action.reshape(-1)
        weight = np.exp(log_pi.reshape(-1)[cell] - log_mu.reshape(-1)[cell]).reshape(REPLICATES, BATCH)
        advantage = (reward - reward.mean(axis=1, keepdims=True)) * (BATCH / (BATCH - 1))
        score = weight * advantage / BATCH
        scattered = np.bincount(cell, weights=score.reshape(-1), minlength=REPLICATES * ARMS).reshape(REPLICATES, ARMS)
        theta += LR * (scattered - score.sum(axis=1, keepdims=True) * pi)
    return curve, time.perf_counter() - start


def spec(updates: int, diagnostics: Any = "none", **changes: Any) -> Any:
    """The product's side; `changes` replace fields of the spec."""
    import asyncsim as sim

    whole = sim.Spec(
        sim.tasks.softmax_bandit(arms=ARMS, means=MEANS),
        sim.schedules.fixed(LAG),
        sim.methods.full_is(),
        sim.chain(sim.updates.sgd(LR)),
        samples_per_group=BATCH,
        updates=updates,
        replicates=REPLICATES,
        diagnostics=diagnostics,
    )
    return whole.replace(**changes)


def loop_rate(updates: int, diagnostics: Any = "none", **changes: Any) -> float:
    """Replicate-updates a second of `sim.run`."""
    import asyncsim as sim

    whole = spec(updates, diagnostics, **changes)
    start = time.perf_counter()
    sim.run(whole, seed=0, progress=False)
    return updates * whole.replicates / (time.perf_counter() - start)


def measure_loop() -> float:
    """The product."""
    return loop_rate(UPDATES)


def measure_diagnosed() -> float:
    """The product with the diagnostics that it has unasked."""
    return loop_rate(UPDATES, "default")


def measure_numpy() -> float:
    """The NumPy program."""
    return UPDATES * REPLICATES / numpy_curve(UPDATES)[1]


def paths(compiled: bool, **changes: Any) -> float:
    """300 updates with default diagnostics, as a program or on tensors."""
    return loop_rate(300, "default", compiled=compiled, **changes)


def chain(compiled: bool) -> float:
    """The same on sequences of eight tokens, 256 replicates with batches of 8."""
    import asyncsim as sim

    task = sim.tasks.token_bandit(actions=4, horizon=8, dependence="markov")
    return paths(compiled, task=task, samples_per_group=8, replicates=256)


def parts(cut: str | None, tokens: int, updates: int) -> float:
    """Updates with default diagnostics on the 4 minibatches of a batch, or on batches of that size (None)."""
    import asyncsim as sim

    task = sim.tasks.token_bandit(actions=4, horizon=tokens, dependence="markov") if tokens > 1 else spec(1).task
    groups = 1 if cut is None else 4
    minibatches = {} if cut is None else {"minibatches": 4, "cut": cut}
    system = sim.schedules.fixed(LAG, groups_per_batch=groups)
    return loop_rate(updates, "default", task=task, system=system, compiled=True, **minibatches)


BENCHMARKS = {
    "bandit_vs_numpy": Benchmark(
        measure_loop,
        measure_numpy,
        "replicate-updates/s",
        "the stale softmax bandit, 1,024 replicates, without diagnostics, against a NumPy program",
        target=2.0,
    ),
    "bandit_diagnosed_vs_plain": Benchmark(
        measure_diagnosed,
        measure_loop,
        "replicate-updates/s",
        "the same bandit with default diagnostics against without",
        target=0.5,
    ),
    "bandit_program_vs_tensors": Benchmark(
        lambda: paths(True),
        lambda: paths(False),
        "replicate-updates/s",
        "updates of the bandit with default diagnostics as a machine program against the same on tensors",
    ),
    "chain_program_vs_tensors": Benchmark(
        lambda: chain(True), lambda: chain(False), "replicate-updates/s", "the same on sequences of eight tokens"
    ),
    "bandit_minibatches_vs_batches": Benchmark(
        lambda: parts("groups", 1, UPDATES),
        lambda: parts(None, 1, UPDATES),
        "replicate-updates/s",
        "updates of the bandit on 4 minibatches of a batch, cut between groups, against batches of that size",
        target=0.87,
    ),
    "bandit_minibatches_of_samples_vs_batches": Benchmark(
        lambda: parts("samples", 1, UPDATES),
        lambda: parts(None, 1, UPDATES),
        "replicate-updates/s",
        "the same, cut between samples",
        target=0.87,
    ),
    "chain_minibatches_vs_batches": Benchmark(
        lambda: parts("samples", 8, 300),
        lambda: parts(None, 8, 300),
        "replicate-updates/s",
        "the same on sequences of eight tokens",
        target=0.87,
    ),
}
