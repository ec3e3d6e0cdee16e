"""Does a replay buffer save compute, and at which price of a generated sample?

Experience replay for language models (arXiv 2604.08706) on three tables. A generator adds groups at an even pace while
the trainer updates without waiting: `ratio` uses of a sample on average, `buffer` in batches, first in first out. A
batch is 4 groups of 8, drawn evenly from the buffer, none twice in a batch; drawn groups stay. `ratio` 0 is fresh data:
every sample once, without delay. Tasks: `bandit`, 4 prompts with 64 arms; `graded`, 16 tokens out of 16; `sparse`, 24
bits, paid 1 if three quarters are right. Token ratios truncated at 2, group means, Adam. Cells choose their rate.
  updates  until the exact return is `TARGET`, mean over replicates of seeds of their own (the whole run where it never
           is); `tried`: the same at every rate, where one was chosen
  missed   share of replicates that never are there; lost  largest return less the one at the end
  entropy  of the policy where half of the possible gain is reached, nats
  staleness  of what is trained, mean in updates, second half of a run
A price p is the cost of generating a sample over that of training on it: an update at ratio y costs 1 + p/y, one on
fresh data 1 + p. So updates decide compute at every price.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import asyncsim as sim
from asyncsim.diagnostics._diagnostic import Metric
from experiments import _bapo, _vcpo, bapo, pipeline_rl

COLUMNS = ["task", "ratio", "buffer", "quantity", "rate", "value", "low", "high", "samples", "note"]
GROUPS, SAMPLES, TARGET = 4, 8, 0.8
MEANS = np.random.default_rng(0).random((GROUPS, 64))
TASKS: dict[str, Any] = {
    "bandit": sim.tasks.softmax_bandit(64, means=MEANS),
    "graded": sim.tasks.token_bandit(16, 16, "position"),
    "sparse": sim.tasks.bit_chain(24, 0.75),
}
BEST = {"bandit": float(MEANS.max(1).mean()), "graded": 1.0, "sparse": 1.0}
RATIOS, BUFFERS = (1, 2, 4, 8), (1, 4, 16)
RATES = [0.05 * 2.0**k for k in range(-1, 7)]
METHOD = sim.methods.truncated_is("token", advantage=sim.advantages.group_mean())
RETURN = Metric("policy_return", pipeline_rl.expected, range=(0.0, 1.0))
CELLS = [(0, 0), *((ratio, buffer) for ratio in RATIOS for buffer in BUFFERS)]
_SIZES: dict[str, Any] = {"updates": 160, "few": 32, "many": 64, "rates": RATES, "seed": 0}
_HIGH = {"sparse": {"rates": [*RATES, 6.4, 12.8]}}
SETTINGS = [{"task": t, "ratio": y, "buffer": n, **_SIZES, **_HIGH.get(t, {})} for t in TASKS for y, n in CELLS]
_FEW: dict[str, Any] = {**_SIZES, "updates": 12, "few": 2, "many": 2, "rates": [0.1, 0.8]}
_QUOTED = [(0, 0), (4, 1), (4, 4), (4, 16)]
QUICK = [{**_FEW, "task": task, "ratio": y, "buffer": n} for task in TASKS for y, n in _QUOTED]


def system(ratio: int, buffer: int) -> Any:
    """The generator, the buffer and the trainer; a batch takes a second."""
    if not ratio:
        return sim.schedules.fixed(0, groups_per_batch=GROUPS)
    made = sim.systems.tba(GROUPS, 1, 0.0, 1, length=ratio / GROUPS, train_time=1.0)
    kept = {"capacity": GROUPS * buffer, "overflow": "drop_oldest", "max_uses": None, "order": "random"}
    return made.modeled({**kept, "visible": "completion", "initial_fill": 0, "mode": "keep"})


def noise(ratio: float, buffer: float) -> float:
    """Noise per update over that of fresh data where steps are so small that all uses of a sample add up.

    A sample stays n y updates, n batches being the buffer, and each draws it with chance 1/n: its number of uses has
    mean y and variance y (1 - 1/n). A batch of B meets B/y new ones, so noise is (B/y) E[uses^2] / B^2, which is
    (1 - 1/n + y) / B. Updates are as many times more, at least y, so replay then saves nothing at any price.
    """
    return 1.0 - 1.0 / buffer + ratio


def trained(setting: dict[str, Any], rates: tuple[float, ...], seed: int) -> Any:
    """A run with these rates as replicates."""
    spec = sim.Spec(
        TASKS[setting["task"]],
        system(setting["ratio"], setting["buffer"]),
        METHOD,
        sim.chain(sim.updates.adam(rates)),
        samples_per_group=SAMPLES,
        updates=setting["updates"],
        replicates=len(rates),
        diagnostics=[RETURN, Metric("policy_entropy", _bapo.entropy)],
    )
    return sim.run(spec, seed=seed, progress=False)


def needed(curve: np.ndarray) -> np.ndarray:
    """Updates until the return `[U, R]` is at the target, all of them where it never is, `[R]`."""
    there = curve >= TARGET
    return np.where(there.any(0), there.argmax(0), len(curve)).astype(float)


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one cell: a rate is chosen on few replicates, and measured on many others."""
    rates, few, seed = setting["rates"], setting["few"], setting["seed"]
    tried = trained(setting, tuple(float(rate) for rate in np.repeat(rates, few)), seed + 1)
    found = needed(tried["policy_return"]).reshape(len(rates), few)
    best = int(found.mean(1).argmin())
    curves = trained(setting, (rates[best],) * setting["many"], seed)
    returns, updates = curves["policy_return"], needed(curves["policy_return"])
    half = bapo.at_half(returns, curves["policy_entropy"], BEST[setting["task"]])
    made = system(setting["ratio"], setting["buffer"]).schedule(setting["updates"], SAMPLES, 1, 1, seed)
    half = half[np.isfinite(half)]
    rows = {
        "updates": _vcpo.mean(updates),
        "missed": _vcpo.share(~(returns >= TARGET).any(0)),
        "lost": _vcpo.mean(returns.max(0) - returns[-1]),
        "entropy": _vcpo.mean(half) if len(half) > 1 else _vcpo.missing(""),
        "staleness": {"value": float(made.staleness()[:, setting["updates"] // 2 :].mean()), "samples": 1},
    }
    edge = "edge" if best in (0, len(rates) - 1) else ""
    place: dict[str, Any] = {name: setting[name] for name in ("task", "ratio", "buffer")}
    chosen = {"rate": rates[best], "note": edge}
    measured = [{**row, **chosen, "quantity": name} for name, row in rows.items()]
    measured += [{"rate": rate, **_vcpo.mean(one), "quantity": "tried"} for rate, one in zip(rates, found, strict=True)]
    return [{name: (place | row).get(name, np.nan) for name in COLUMNS} | {"note": row["note"]} for row in measured]
