"""Which effective sample size says how many samples a stale gradient is worth, and by what factor do others miss it?

Policies of real stale training: REINFORCE without ratio, Adam, constant `staleness`, read at update `READ`. Tasks:
`bandit`, 8 arms paid 0 or 1; `graded`, 8 bits, paid by the share that is right; `sparse`, 8 bits, paid if six are.
The truth is exact, by all sequences: variance of the policy gradient with exact baseline on policy, over that of the
fully weighted one on data of the behavior policy, `staleness` updates older. Sizes, as shares of the samples:
sequence    (sum W)^2/(N sum W^2) of the sequence ratios W of a batch
truncated   the same of W limited to at most 8
token       the same of all token ratios
log         exp(-v), v the variance of log W in the batch: the size if W were log-normal
population  1/E W^2, at any number of samples
Rows: `value`, geometric mean over replicates of a size (a mean over batches); `off`, of size over truth, with `low` and
`high`, 95 percent intervals between replicates; `least` and `most`, its range over them. `size` "truth" has no `off`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import asyncsim as sim
from asyncsim import uncertainty

COLUMNS = [*("task", "staleness", "batch", "size", "value", "off", "low", "high", "least", "most", "replicates")]
TOKENS, READ, RATE, CAP, BATCH = 8, 40, 0.05, 8.0, 32
SIZES = ("sequence", "truncated", "token", "log", "population")
MEANS = [float(x) for x in np.random.default_rng(0).uniform(0.1, 0.9, 8)]
WRONG = np.tile([-1.5, 0.0], (TOKENS, 1))
"""Logits at which `graded` begins: each bit is right with probability 0.18."""
TASKS: dict[str, Any] = {
    "bandit": sim.tasks.softmax_bandit(8, means=MEANS),
    "graded": sim.tasks.token_bandit(2, TOKENS, "position", logits=WRONG),
    "sparse": sim.tasks.bit_chain(TOKENS, 0.75),
}
_EACH: dict[str, Any] = {"batches": 128, "replicates": 128, "seed": 0}
SETTINGS = [
    *({**_EACH, "task": t, "staleness": s, "batches_of": [BATCH]} for t in TASKS for s in (1, 2, 4, 8, 12)),
    *({**_EACH, "task": t, "staleness": 16, "batches_of": [8, BATCH, 128, 512]} for t in TASKS),
]
QUICK: list[dict[str, Any]] = [
    {**setting, "batches": 8, "replicates": 4} for setting in SETTINGS if setting["staleness"] in (1, 16)
]


def sequences(task: str) -> tuple[np.ndarray, np.ndarray]:
    """All sequences, tokens `[Y, T]`, and their mean rewards `[Y]`."""
    if task == "bandit":
        return np.arange(8)[:, None], np.array(MEANS)
    tokens = np.stack([grid.ravel() for grid in np.indices((2,) * TOKENS)], axis=1)
    right = (tokens == 0).mean(1)
    return tokens, right if task == "graded" else (right >= 0.75).astype(float)


def policies(task: str, staleness: int, replicates: int, seed: int) -> list[np.ndarray]:
    """Log-probabilities of tokens of the behavior and of the current policy, `[R, T, A]` each."""
    found = []
    for updates in (READ - staleness, READ):
        spec = sim.Spec(
            TASKS[task],
            sim.schedules.fixed(staleness),
            sim.methods.reinforce(),
            sim.chain(sim.updates.adam(RATE)),
            samples_per_group=32,
            updates=updates,
            replicates=replicates,
        )
        logits = np.asarray(sim.run(spec, seed=seed, progress=False).parameters)
        logits = logits.reshape(replicates, -1, 8 if task == "bandit" else 2)
        found.append(logits - np.log(np.exp(logits).sum(-1, keepdims=True)))
    return found


def truth(log_mu: np.ndarray, log_pi: np.ndarray, tokens: np.ndarray, reward: np.ndarray) -> float:
    """Variance of one sample's gradient on policy over that of the weighted one; log-probabilities `[T, A]`."""
    place = np.arange(tokens.shape[1])
    own = np.exp(log_pi[place, tokens].sum(1))
    weight = own / np.exp(log_mu[place, tokens].sum(1))
    score = (np.eye(log_pi.shape[1])[tokens] - np.exp(log_pi)).reshape(len(tokens), -1)
    gain = (reward - own @ reward)[:, None] * score
    square, mean = (gain**2).sum(1), (own @ gain) @ (own @ gain)
    return float((own @ square - mean) / (own @ (weight * square) - mean))


def sizes(log_ratio: np.ndarray) -> dict[str, np.ndarray]:
    """Sizes of batches as shares of the samples: log ratios of tokens `[batch, N, T]` to `[batch]`."""
    log = log_ratio.sum(-1)
    weight = np.exp(log)
    found = {"sequence": weight, "truncated": np.minimum(weight, CAP)}
    found["token"] = np.exp(log_ratio).reshape(len(log), -1)
    return {name: kish(values) for name, values in found.items()} | {"log": np.exp(-log.var(-1, ddof=1))}


def kish(weights: np.ndarray) -> np.ndarray:
    """(sum w)^2 / (n sum w^2) along the last axis."""
    return np.asarray(weights.sum(-1) ** 2 / ((weights**2).sum(-1) * weights.shape[-1]))


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one task and staleness, at every batch size."""
    tokens, reward = sequences(setting["task"])
    place, count = np.arange(tokens.shape[1]), setting["replicates"]
    pairs = policies(setting["task"], setting["staleness"], count, setting["seed"])
    random = np.random.default_rng(setting["seed"])
    exact = np.array([truth(mu, pi, tokens, reward) for mu, pi in zip(*pairs, strict=True)])
    shared = {"task": setting["task"], "staleness": setting["staleness"], "replicates": count}
    rows = [{**shared, "size": "truth", "value": float(np.exp(np.log(exact).mean()))}]
    for batch in setting["batches_of"]:
        read: dict[str, list[float]] = {name: [] for name in SIZES}
        for mu, pi in zip(*pairs, strict=True):
            mass, ratio = np.exp(mu[place, tokens].sum(1)), (pi - mu)[place, tokens]
            drawn = random.choice(len(tokens), (setting["batches"], batch), p=mass / mass.sum())
            for name, size in sizes(ratio[drawn]).items():
                read[name].append(float(size.mean()))
            read["population"].append(1.0 / float(mass @ np.exp(2.0 * ratio.sum(1))))
        for name, found in read.items():
            rows.append({**shared, "batch": batch, "size": name, **compared(np.array(found), exact)})
    return [{name: row.get(name) for name in COLUMNS} for row in rows]


def compared(found: np.ndarray, exact: np.ndarray) -> dict[str, float]:
    """Geometric means of a size and of its ratio to the truth, with the interval between replicates."""
    off = np.log(found / exact)
    estimate = uncertainty.between(off)
    reach = uncertainty.critical(0.05, estimate.freedom) * estimate.error
    ends = {"off": estimate.value, "low": estimate.value - reach, "high": estimate.value + reach}
    ends |= {"least": float(off.min()), "most": float(off.max())}
    return {"value": float(np.exp(np.log(found).mean()))} | {name: float(np.exp(x)) for name, x in ends.items()}
