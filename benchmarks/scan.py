"""The bandit of `bandit` as a JAX program: `vmap` over replicates, `scan` over updates, float64, one thread.

One call draws all uniform numbers of an update. Two of JAX's generators are measured, since which is faster depends on
the machine: its default (threefry) and `rbg`. The faster one is the peer that counts.
"""

from __future__ import annotations

import functools
import os
import time
from typing import Any

import numpy as np

from benchmarks._record import Benchmark
from benchmarks.bandit import ARMS, BATCH, LAG, LR, MEANS, REPLICATES, UPDATES, measure_loop


@functools.cache
def program(kind: str) -> Any:
    """The compiled program (seed, updates) -> mean reward of every batch, for one kind of keys."""
    # Read when JAX is imported.
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    import jax
    import jax.numpy as jnp

    means = np.asarray(MEANS)

    def stepped(theta, log_pi, log_mu, choosing, paying):
        cdf = jnp.cumsum(jnp.exp(log_mu))
        action = (choosing[:, None] >= cdf[None, :-1]).sum(1)
        reward = (paying < jnp.asarray(means)[action]).astype(jnp.float64)
        advantage = (reward - reward.mean()) * (BATCH / (BATCH - 1))
        score = jnp.exp(log_pi - log_mu)[action] * advantage / BATCH
        gradient = jnp.zeros(ARMS).at[action].add(score) - score.sum() * jnp.exp(log_pi)
        return theta + LR * gradient, reward.mean()

    @functools.partial(jax.jit, static_argnums=1)
    def run(seed, updates):
        key = jax.random.key(seed, impl=kind)

        def body(carry, update):
            theta, logs = carry
            log_pi = jax.nn.log_softmax(theta)
            logs = logs.at[update % (LAG + 1)].set(log_pi)
            log_mu = logs[jnp.maximum(0, update - LAG) % (LAG + 1)]
            own = jax.random.fold_in(key, update)
            uniform = jax.random.uniform(own, (2, REPLICATES, BATCH), dtype=jnp.float64)
            theta, reward = jax.vmap(stepped)(theta, log_pi, log_mu, *uniform)
            return (theta, logs), reward.mean()

        start = jnp.zeros((REPLICATES, ARMS)), jnp.zeros((LAG + 1, REPLICATES, ARMS))
        return jax.lax.scan(body, start, jnp.arange(updates))[1]

    return run


def jax_curve(updates: int, kind: str) -> tuple[np.ndarray, float]:
    """Mean reward of every batch over replicates, and the seconds of the program, compilation included."""
    import jax

    run = program(kind)
    # Only here: other code of this process may want JAX as it is.
    with jax.enable_x64(True):
        start = time.perf_counter()
        curve = np.asarray(run(0, updates))
    return curve, time.perf_counter() - start


def threefry_rate() -> float:
    """The JAX program with JAX's default keys."""
    return UPDATES * REPLICATES / jax_curve(UPDATES, "threefry2x32")[1]


def rbg_rate() -> float:
    """The JAX program with `rbg` keys."""
    return UPDATES * REPLICATES / jax_curve(UPDATES, "rbg")[1]


_WHAT = "the stale softmax bandit against JAX with `vmap` and `scan`,"
BENCHMARKS = {
    "bandit_vs_jax": Benchmark(
        measure_loop, threefry_rate, "replicate-updates/s", f"{_WHAT} threefry keys", target=1.5, needs="jax"
    ),
    "bandit_vs_jax_rbg": Benchmark(
        measure_loop, rbg_rate, "replicate-updates/s", f"{_WHAT} rbg keys", target=1.5, needs="jax"
    ),
}
