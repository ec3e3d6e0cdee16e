"""Long sequences and large batches: GRPO with Adam at a staleness of 16, against NumPy and JAX programs.

`token_bandit(8, T, dependence="position")`: a row of logits for each position, reward the share of tokens 0. Group
normalized advantages, the clipped ratio of every token, Adam, 64 replicates, float64, no diagnostics. The programs
draw by inverse CDF, keep tables of 17 versions, and have no mask, mass, freezing or keyed draws. All sides count tokens
a second.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._record import Benchmark

ACTIONS, LAG, REPLICATES, LR, CLIP, EPS = 8, 16, 64, 0.05, 0.2, 1e-8
SIZES = {"tokens_64": (64, 16, 160), "tokens_512": (512, 16, 40), "batch_512": (16, 512, 40)}
"""Tokens, samples of a batch and updates of each benchmark."""


def score(xp: Any, log_ratio: Any, reward: Any) -> Any:
    """What every token adds to the ascent direction per unit of its score, `[R, N, T]`."""
    N, T = log_ratio.shape[1:]
    centered = reward - reward.mean(-1, keepdims=True)
    advantage = (centered / (xp.sqrt((centered**2).mean(-1, keepdims=True)) + 1e-6))[..., None]
    ratio = xp.exp(log_ratio)
    flows = xp.where(advantage > 0, ratio <= 1.0 + CLIP, ratio >= 1.0 - CLIP)
    return xp.where(flows, ratio * advantage, 0.0) / (N * T)


def numpy_curve(tokens: int, samples: int, updates: int) -> tuple[np.ndarray, float]:
    """Mean reward of every batch over replicates, and the seconds of the NumPy program."""
    rng = np.random.default_rng(0)
    shape = (REPLICATES, tokens, ACTIONS)
    theta, first, second = (np.zeros(shape) for _ in range(3))
    logs, edges = (np.zeros((LAG + 1, *shape)) for _ in range(2))
    base = (np.arange(REPLICATES)[:, None, None] * tokens + np.arange(tokens)) * ACTIONS
    curve = np.empty(updates)
    start = time.perf_counter()
    for update in range(updates):
        shifted = theta - theta.max(-1, keepdims=True)
        grown = np.exp(shifted)
        total = grown.sum(-1, keepdims=True)
        log_pi, pi = shifted - np.log(total), grown / total
        logs[update % (LAG + 1)], edges[update % (LAG + 1)] = log_pi, np.cumsum(pi, -1)
        old = max(0, update - LAG) % (LAG + 1)
        uniform = rng.random((REPLICATES, samples, tokens))
        action = np.zeros(uniform.shape, dtype=np.int64)
        for a in range(ACTIONS - 1):
            action += uniform >= edges[old][:, None, :, a]
        reward = (action == 0).mean(-1)
        curve[update] = reward.mean()
        cell = base + action
        weight = score(np, log_pi.reshape(-1)[cell] - logs[old].reshape(-1)[cell], reward)
        gradient = np.bincount(cell.reshape(-1), weights=weight.reshape(-1), minlength=theta.size).reshape(shape)
        gradient -= gradient.sum(-1, keepdims=True) * pi
        first += 0.1 * (gradient - first)
        second += 0.001 * (gradient**2 - second)
        size = np.sqrt(second / (1.0 - 0.999 ** (update + 1))) + EPS
        theta += LR / (1.0 - 0.9 ** (update + 1)) * first / size
    return curve, time.perf_counter() - start


@functools.cache
def program(tokens: int, samples: int) -> Callable[[int, int], Any]:
    """The JAX program, from seed and updates to the curve; it compares rows, which is faster there than a lookup."""
    # Read when JAX is imported.
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    import jax
    import jax.numpy as jnp

    def replicate(theta: Any, log_mu: Any, edges: Any, uniform: Any) -> tuple[Any, Any]:
        shifted = theta - theta.max(-1, keepdims=True)
        log_pi = shifted - jnp.log(jnp.exp(shifted).sum(-1, keepdims=True))
        action = (uniform[:, :, None] >= edges[None, :, :-1]).sum(-1)
        chosen = action[:, :, None] == jnp.arange(ACTIONS)
        reward = (action == 0).astype(theta.dtype).mean(-1)
        log_ratio = jnp.where(chosen, (log_pi - log_mu)[None], 0.0).sum(-1)
        weight = score(jnp, log_ratio[None], reward[None])[0]
        gradient = jnp.where(chosen, weight[:, :, None], 0.0).sum(0)
        return gradient - gradient.sum(-1, keepdims=True) * jnp.exp(log_pi), reward.mean()

    @functools.partial(jax.jit, static_argnums=1)
    def run(seed: int, updates: int) -> Any:
        key = jax.random.key(seed, impl="rbg")
        shape = (REPLICATES, tokens, ACTIONS)

        def body(carry: Any, update: Any) -> Any:
            theta, first, second, logs, edges = carry
            log_pi = jax.nn.log_softmax(theta)
            now, old = update % (LAG + 1), jnp.maximum(0, update - LAG) % (LAG + 1)
            logs, edges = logs.at[now].set(log_pi), edges.at[now].set(jnp.cumsum(jnp.exp(log_pi), -1))
            uniform = jax.random.uniform(jax.random.fold_in(key, update), (REPLICATES, samples, tokens), theta.dtype)
            gradient, reward = jax.vmap(replicate)(theta, logs[old], edges[old], uniform)
            first, second = first + 0.1 * (gradient - first), second + 0.001 * (gradient**2 - second)
            size = jnp.sqrt(second / (1.0 - 0.999 ** (update + 1))) + EPS
            theta = theta + LR / (1.0 - 0.9 ** (update + 1)) * first / size
            return (theta, first, second, logs, edges), reward.mean()

        zeros, kept = jnp.zeros(shape), jnp.zeros((LAG + 1, *shape))
        return jax.lax.scan(body, (zeros, zeros, zeros, kept, kept), jnp.arange(updates))[1]

    return run


def jax_curve(tokens: int, samples: int, updates: int) -> tuple[np.ndarray, float]:
    """The curve of the JAX program in float64, and its seconds."""
    import jax

    with jax.enable_x64(True):
        start = time.perf_counter()
        curve = np.asarray(program(tokens, samples)(0, updates))
    return curve, time.perf_counter() - start


def our_curve(tokens: int, samples: int, updates: int, diagnostics: Any = "none") -> tuple[Any, float]:
    """The product's trace and seconds."""
    import asyncsim as sim

    spec = sim.Spec(
        sim.tasks.token_bandit(ACTIONS, tokens, dependence="position"),
        sim.schedules.fixed(LAG),
        sim.methods.grpo(),
        sim.chain(sim.updates.adam(LR)),
        samples_per_group=samples,
        updates=updates,
        replicates=REPLICATES,
        diagnostics=diagnostics,
        compiled=True,
    )
    start = time.perf_counter()
    trace = sim.run(spec, seed=0, progress=False, workers=1)
    return trace, time.perf_counter() - start


def rate(side: Callable[..., tuple[Any, float]], name: str) -> float:
    """Tokens a second of a side."""
    tokens, samples, updates = SIZES[name]
    return REPLICATES * tokens * samples * updates / side(tokens, samples, updates)[1]


_WORDS = {
    "tokens_64": "sequences of 64 tokens, 16 per batch",
    "tokens_512": "sequences of 512 tokens, 16 per batch",
    "batch_512": "sequences of 16 tokens, 512 per batch",
}
BENCHMARKS = {
    f"{name}_vs_{peer}": Benchmark(
        functools.partial(rate, our_curve, name),
        functools.partial(rate, side, name),
        "tokens/s",
        f"{_WORDS[name]}, against {words}",
        target=target,
        needs=needs,
    )
    for peer, side, words, needs in (
        ("numpy", numpy_curve, "a NumPy program", None),
        ("jax", jax_curve, "JAX with `vmap` and `scan`, rbg keys", "jax"),
    )
    for name, target in ((name, 1.2 if peer == "jax" or name == "batch_512" else 2.0) for name in SIZES)
}
