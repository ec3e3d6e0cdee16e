"""Do weights that move in flight make training faster at little staleness, and how old is each token?

PipelineRL (arXiv 2509.19128) on the pool of `roll_flash`: 64 places, lengths of mean 1 s and lognormal spread 1, steps
of 4 groups of 8 samples, a quarter second of training on all places. `steps` 0 is PipelineRL: a `share` of the places
trains, the others generate, new weights arrive in flight. From `steps` 1 on it is conventional: all places generate
samples for so many optimizer steps, then all train, so data are 0 to `steps` - 1 updates old.
`part` "stairs": `value`, mean staleness of a token in publishes where samples of spread `sigma` take 8 of them on
average; `place`, the share of the sample that is written before it; a row for each realization.
`part` "speed": `seconds` from one step to the next and `lag`, mean staleness of tokens in updates, of one realization.
`part` "ess": `value`, mean effective sample size of sequences over their number while `graded` is learned at one rate;
`low` and `high`, 95 percent between replicates. `part` "learning": `value`, seconds until the exact return of nine
tenths of the replicates is `TARGET`, for each `rate`; `chosen`, the fastest on other replicates; `missed`, share that
is not there in the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor

import asyncsim as sim
from asyncsim import uncertainty
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.step.step import Step
from experiments import league, m2po, roll_flash

COLUMNS = [
    *("part", "task", "steps", "share", "realization", "sigma", "place", "rate", "chosen", "missed"),
    *("value", "low", "high", "lag", "seconds", "replicates"),
]
GROUPS, SAMPLES, TRAINING, SIGMA, SPREADS = 4, 8, 0.25, 1.0, (0.02, 1.0)
STEPS, SHARES, SHARE = (1, 2, 4, 8, 16, 32), (0.125, 0.25, 0.375, 0.5), 0.375
TARGET, MOST, RATE, RATES = 0.8, 0.9, 0.2, [0.05 * 2.0**k for k in range(13)]
TASKS = {**league.TASKS, "graded": sim.tasks.token_bandit(8, 16, "position")}
"""Those of `league`, with a graded one whose return is known in closed form."""
WIDE, PUBLISHES, HEAD = 32, 8, 16
"""Tokens of the stairs, publishes that a sample takes, and publishes that its first token is stale."""
_SPEED = {"part": "speed", "batches": 400, "realizations": 16, "seed": 0}
_STAIRS = {"part": "stairs", "batches": 4000, "realizations": 16, "seed": 0}
_ESS = {"part": "ess", "task": "graded", "updates": 256, "replicates": 64, "seed": 0}
_LEARNING = {"part": "learning", "updates": 160, "replicates": 64, "seed": 0}
SETTINGS = [
    *({**_STAIRS, "sigma": sigma} for sigma in SPREADS),
    *({**_SPEED, "steps": steps} for steps in (0, *STEPS)),
    *({**_ESS, "steps": steps} for steps in (0, *STEPS)),
    *({**_LEARNING, "task": task, "steps": steps} for task in TASKS for steps in (0, *STEPS)),
]
QUICK = [
    *({**_STAIRS, "sigma": sigma, "batches": 400, "realizations": 2} for sigma in SPREADS),
    *({**_SPEED, "steps": steps, "batches": 64, "realizations": 2} for steps in (0, *STEPS)),
    *({**_ESS, "steps": steps, "updates": 64, "replicates": 4} for steps in (0, *STEPS)),
    *({**_LEARNING, "task": t, "steps": s, "updates": 64, "replicates": 2} for t in TASKS for s in (0, 1, 16)),
]


def expected(step: Step) -> Tensor:
    """Exact expected return of the current policy, `[R]`: of graded sequences, the mean chance of token 0."""
    if getattr(step.task, "dependence", "") != "position" or step.task.success is not None:
        return m2po.expected(step)
    table: Any = step.policy
    return torch.softmax(step.parameters.reshape(-1, table.rows, table.actions), -1)[..., 0].mean(-1)


RETURN = Metric("policy_return", expected, range=(0.0, 1.0))


def system(steps: int, share: float = SHARE) -> Any:
    """The pool with a share of it training, or (`steps` 1 and more) all of it by turns."""
    length = f"lognormal:1.0:{SIGMA}"
    if steps:
        made = sim.systems.synchronous(GROUPS * steps, length=length, train_time=TRAINING * steps)
        return made.modeled({"slots": roll_flash.POOL})
    slots = round(roll_flash.POOL * (1.0 - share))
    batch = GROUPS * SAMPLES
    pipeline = sim.systems.pipeline_rl
    return pipeline(
        batch, 8 * batch, attempts=SAMPLES, llm_max_rollouts=slots, length=length, train_time=TRAINING / share
    )


def spec(task: str, steps: int, updates: int, rate: Any = RATE, **more: Any) -> sim.Spec:
    """Token-level REINFORCE without correction, as many updates in every arm."""
    return sim.Spec(
        TASKS[task],
        system(steps),
        sim.methods.reinforce(league.first),
        sim.chain(sim.updates.adam(rate)),
        samples_per_group=SAMPLES,
        updates=updates,
        minibatches=max(1, steps),
        **more,
    )


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one part."""
    rows = {"stairs": stairs, "speed": speed, "ess": ess, "learning": learning}[setting["part"]](setting)
    shared = {name: setting.get(name) for name in ("part", "task")}
    return [{name: (shared | row).get(name) for name in COLUMNS} for row in rows]


def stairs(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Staleness of each token where a sample takes so many publishes on average, and the trainer is the slower side."""
    system = sim.systems.pipeline_rl(
        GROUPS,
        HEAD * GROUPS,
        attempts=1,
        llm_max_rollouts=(HEAD + 1) * GROUPS,  # no sample waits for a place: each begins at a publish
        length=f"lognormal:1.0:{setting['sigma']}",
        train_time=1.0 / PUBLISHES,
    )
    found = system.schedule(setting["batches"], 1, WIDE, setting["realizations"], setting["seed"]).staleness()
    means = found[:, setting["batches"] // 2 :].mean((1, 2, 3))
    return [
        {"sigma": setting["sigma"], "realization": one, "place": token / WIDE, "value": float(value)}
        for one, row in enumerate(means)
        for token, value in enumerate(row)
    ]


def speed(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Seconds of a step and staleness of its tokens in updates, for every share of the pool that trains."""
    rows, steps = [], setting["steps"]
    for share in SHARES if not steps else (1.0,):
        found = system(steps, share).summaries(setting["batches"], setting["realizations"], SAMPLES, setting["seed"])
        # A conventional batch is trained in parts, which are 0, 1, ... updates behind.
        lags = [one["token_staleness"] if not steps else (steps - 1) / 2.0 for one in found]
        seconds = [one["seconds_per_update"] / max(1, steps) for one in found]
        rows += [
            {"steps": steps, "share": share, "realization": number, "lag": float(lag), "seconds": float(second)}
            for number, (lag, second) in enumerate(zip(lags, seconds, strict=True))
        ]
    return rows


def ess(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Mean effective sample size over the run, between replicates."""
    made = spec(setting["task"], setting["steps"], setting["updates"], replicates=setting["replicates"])
    found = sim.run(made, seed=setting["seed"], progress=False)["ess"].mean(0)
    return [{"steps": setting["steps"], **between(found)}]


def learning(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Seconds until the exact return is at the target, for every rate; the best one on other replicates."""
    steps, each = setting["steps"], setting["replicates"]
    rates = tuple(float(rate) for rate in np.repeat(RATES, 2 * each))
    made = spec(setting["task"], steps, setting["updates"], rates, replicates=len(rates), diagnostics=[RETURN])
    curve = sim.run(made, seed=setting["seed"], progress=False)["policy_return"]
    # Who never gets there counts with all updates.
    there = curve >= TARGET
    updates = np.where(there.any(0), there.argmax(0), len(curve) - 1)
    seconds = clock(steps, len(curve))[updates].reshape(len(RATES), 2, each)
    missed = (~there.any(0)).reshape(len(RATES), 2, each)[:, 1].mean(1)
    best = int(np.quantile(seconds[:, 0], MOST, axis=1).argmin())
    return [
        {"steps": steps, "rate": rate, **reached(own[1]), "missed": float(lost), "chosen": place == best}
        for place, (rate, own, lost) in enumerate(zip(RATES, seconds, missed, strict=True))
    ]


def clock(steps: int, updates: int) -> np.ndarray:
    """Seconds at which the batch of each update is trained, the first generation included, `[U]`."""
    each = max(1, steps)
    seconds = system(steps).schedule(-(-updates // each), SAMPLES, 1, 1, 0).seconds
    return np.asarray(seconds)[0, np.arange(updates) // each]


def reached(values: np.ndarray) -> dict[str, Any]:
    """Seconds until most replicates are there, with the 95 percent interval of its rank: single ones may never be."""
    ranks = stats.binom.ppf([0.025, 0.5, 0.975], len(values), MOST).astype(int)
    low, value, high = np.sort(values)[np.clip(ranks, 1, len(values)) - 1]
    return {"value": float(value), "low": float(low), "high": float(high), "replicates": len(values)}


def between(values: np.ndarray) -> dict[str, Any]:
    """Mean with its 95 percent interval between replicates."""
    found = uncertainty.between(values)
    reach = uncertainty.critical(0.05, found.freedom) * found.error
    return {"value": found.value, "low": found.value - reach, "high": found.value + reach, "replicates": len(values)}
