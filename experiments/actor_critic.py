"""What does staleness cost A2C, A3C, PPO and V-trace on gymnasium, and what do A3C's parallel workers gain?

Tasks: `lake` (FrozenLake; `firm` does not slip) and `cliff` (CliffWalking, rewards over 100) with linear networks on
unit vectors, and `cartpole`. Arms: `a2c`, old data under the current score; `a3c`, the whole gradient at the old
weights; `vtrace`, IMPALA's (arXiv 1802.01561); `ppo_proximal` and `ppo_behavior`, four epochs a batch, clipped around
recomputed or recorded log-probs. Each batch is a step of staleness; all arms have as much data, and Adam.
`part` "returns": `value`, exact discounted return in the end (`cartpole`: of training episodes in the last fifth), for
each `rate`, with a 95 percent interval over replicates; `chosen`, the best rate on other replicates.
`part` "workers": A3C on the event schedule of N `workers`, each with an environment of its own and an update every
`SEGMENT` steps; `fresh`: the same environments take turns at staleness 0. `value`, updates until half of the replicates
have the return `TARGETS`; `seconds`, the same where a segment takes a worker one; `missed`, share not there in the end.
`part` "lag": `value`, mean staleness of an update where workers take exponential times, `replicates` realizations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

import asyncsim as sim
from experiments import _toy_text, cartpole_parity
from experiments.pipeline_rl import between

COLUMNS = [
    *("part", "task", "arm", "staleness", "workers", "fresh", "rate", "chosen", "missed", "value", "low", "high"),
    *("seconds", "replicates"),
]
DISCOUNT, TRACE, STEPS, GROUPS, EPOCHS, SEGMENT = 0.99, 0.95, 8, 16, 4, 5
STALENESS, WORKERS = (0, 4, 16), (1, 2, 4, 8, 16)
TABLES: dict[str, Any] = {
    "lake": (sim.tasks.frozen_lake(), 1.0),
    "firm": (sim.tasks.frozen_lake(slippery=False), 1.0),
    "cliff": (sim.tasks.cliff_walking(), 0.01),
}
"""Environments, and what their rewards are multiplied by."""
RATES = {
    "lake": [0.003 * 2.0**k for k in range(8)],
    "cliff": [0.00075 * 2.0**k for k in range(8)],
    "cartpole": [0.0003 * 2.0**k for k in range(6)],
}
TARGETS = {"firm": 0.5, "cliff": -0.5}
SINGLE = {"firm": [0.003 * 2.0**k for k in range(8)], "cliff": [0.0015 * 2.0**k for k in range(8)]}
"""Rates of updates on one segment."""
TIE = 0.005
"""Rates whose returns differ by less, as a share of the range of all, are as good: one inside the grid is taken."""
OLD = ("a2c", "a3c", "vtrace", "ppo_proximal", "ppo_behavior")
FRESH = ("a2c", "vtrace", "ppo_proximal")
"""Without staleness A3C is A2C, and both anchors are the same."""
_RETURNS = {"part": "returns", "batches": 320, "choosing": 32, "judging": 24, "seed": 0}
_POLE = {"part": "returns", "task": "cartpole", "batches": 480, "choosing": 32, "judging": 24, "seed": 0}
_WORKERS = {"part": "workers", "choosing": 32, "judging": 24, "seed": 0}
_SIZES = {"firm": {"updates": 800, "every": 10}, "cliff": {"updates": 2400, "every": 50}}
_LAG = {"part": "lag", "updates": 4000, "realizations": 64, "seed": 0}
SETTINGS = [
    {**_LAG, "workers": list(WORKERS)},
    *({**_WORKERS, **_SIZES[t], "task": t, "workers": w, "fresh": False} for t in TARGETS for w in WORKERS),
    *({**_WORKERS, **_SIZES[t], "task": t, "workers": WORKERS[-1], "fresh": True} for t in TARGETS),
    *(
        {**_RETURNS, "task": t, "staleness": s, "arms": [arm]}
        for t in ("lake", "cliff")
        for s in STALENESS
        for arm in (OLD if s else FRESH)
    ),
    *({**_POLE, "staleness": s, "arms": [arm]} for s in (0, 16, 4) for arm in (OLD[:3] if s else OLD[:1])),
]
_FEW = {"choosing": 2, "judging": 2}
QUICK = [
    {**_LAG, "workers": list(WORKERS), "updates": 200, "realizations": 4},
    *(
        {**_WORKERS, **_FEW, "updates": 20, "every": 10, "task": t, "workers": w, "fresh": f}
        for t in TARGETS
        for w, f in [*((w, False) for w in WORKERS), (WORKERS[-1], True)]
    ),
    *(
        {**_RETURNS, **_FEW, "batches": 6, "task": t, "staleness": s, "arms": OLD if s else FRESH}
        for t in ("lake", "cliff")
        for s in STALENESS
    ),
    *({**_POLE, **_FEW, "batches": 6, "staleness": s, "arms": OLD[:3] if s else OLD[:1]} for s in STALENESS[::2]),
]


def methods(discount: float, trace: float, standard: bool) -> dict[str, tuple[Any, int]]:
    """Each arm's method and epochs; PPO's advantages are standardized, those of others where that is said."""
    m, gae = sim.methods, sim.advantages.gae(discount, trace, normalize=standard)
    unit = sim.advantages.gae(discount, trace, normalize=True)
    return {
        "a2c": (m.a2c(gae), 1),
        "a3c": (m.a3c(advantage=gae), 1),
        "vtrace": (m.vtrace(advantage=sim.advantages.vtrace(discount, trace)), 1),
        **{
            f"ppo_{anchor}": (m.ppo_clip(anchor=anchor, advantage=unit, critic=0.5), EPOCHS)
            for anchor in ("proximal", "behavior")
        },
    }


def walk(task: str, steps: int, workers: int = 1) -> Any:
    """The environment by its tables, in segments of so many steps."""
    base, scale = TABLES[task]
    return _toy_text.Walk(base, steps, DISCOUNT, scale, workers)


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one part."""
    rows = {"returns": returns, "workers": workers, "lag": lags}[setting["part"]](setting)
    place = {name: setting.get(name) for name in ("part", "task", "staleness", "workers", "fresh")}
    return [{name: (place | row).get(name) for name in COLUMNS} for row in rows]


def returns(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Each arm at each rate, rates riding as replicates of one run."""
    rates, each = RATES[setting["task"]], setting["choosing"] + setting["judging"]
    train = pole if setting["task"] == "cartpole" else table
    rows = []
    for arm in setting["arms"]:
        final = train(setting, arm, np.repeat(rates, each)).reshape(len(rates), each)
        rows += [{"arm": arm, **row} for row in judged(rates, final, setting["choosing"])]
    return rows


def table(setting: dict[str, Any], arm: str, rates: np.ndarray) -> np.ndarray:
    """Exact return of the last policy, `[R]`."""
    method, epochs = methods(DISCOUNT, TRACE, False)[arm]
    updates = setting["batches"] * epochs
    spec = sim.Spec(
        walk(setting["task"], STEPS),
        sim.schedules.fixed(setting["staleness"], groups_per_batch=GROUPS),
        method,
        sim.chain(sim.updates.clip_norm(1.0), sim.updates.adam(rates)),
        samples_per_group=1,
        updates=updates,
        epochs=epochs,
        every=updates - 1,
        replicates=len(rates),
        diagnostics=[_toy_text.RETURN],
    )
    return np.asarray(sim.run(spec, seed=setting["seed"], progress=False)["policy_return"][-1])


def pole(setting: dict[str, Any], arm: str, rates: np.ndarray) -> np.ndarray:
    """Mean return of the episodes that ended in the last fifth, `[R]`, on the batches of `cartpole_staleness`."""
    method, _ = methods(cartpole_parity.DISCOUNT, cartpole_parity.TRACE, True)[arm]
    spec = cartpole_parity.spec(setting["batches"], len(rates), setting["staleness"], epochs=1, rate=rates)
    trace = sim.run(spec.replace(method=method), seed=setting["seed"], progress=False)
    last = -max(1, setting["batches"] // 5)
    count = trace["episodes"][last:]
    return np.asarray((np.nan_to_num(trace["episode_return"][last:]) * count).sum(0) / count.sum(0))


def judged(rates: list[float], final: np.ndarray, choosing: int) -> list[dict[str, Any]]:
    """A row for each rate, `final` `[rates, replicates]`: the first `choosing` replicates choose, the others judge."""
    best = inside(final[:, :choosing].mean(1))
    return [
        {"rate": rate, **between(own[choosing:]), "chosen": place == best}
        for place, (rate, own) in enumerate(zip(rates, final, strict=True))
    ]


def inside(means: np.ndarray) -> int:
    """Place of the best mean; where that is an end of the grid, of the best inner one that is as good, if there is."""
    good = means >= means.max() - TIE * np.ptp(means)
    inner = np.flatnonzero(good[1:-1]) + 1
    return int(inner[means[inner].argmax()] if len(inner) else means.argmax())


def workers(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Updates until the exact return is at the target, for each rate; the best rate on other replicates."""
    task, number, choosing = setting["task"], setting["workers"], setting["choosing"]
    rates, each = SINGLE[task], choosing + setting["judging"]
    spec = sim.Spec(
        walk(task, SEGMENT, number),
        sim.schedules.fixed(0) if setting["fresh"] else arrivals(number),
        methods(DISCOUNT, 1.0, False)["a3c"][0],
        sim.chain(sim.updates.clip_norm(1.0), sim.updates.adam(np.repeat(rates, each))),
        samples_per_group=1,
        updates=setting["updates"],
        every=setting["every"],
        replicates=len(rates) * each,
        diagnostics=[_toy_text.RETURN],
    )
    curve = sim.run(spec, seed=setting["seed"], progress=False)["policy_return"]
    # Who never gets there counts with all updates.
    there = curve >= TARGETS[task]
    taken = np.where(there.any(0), there.argmax(0) * setting["every"], setting["updates"]).reshape(len(rates), each)
    missed = 1.0 - there.any(0).reshape(taken.shape)[:, choosing:].mean(1)
    best = int(taken[:, :choosing].mean(1).argmin())
    return [
        {"rate": rate, **middle(own[choosing:], number), "missed": float(lost), "chosen": place == best}
        for place, (rate, own, lost) in enumerate(zip(rates, taken, missed, strict=True))
    ]


def arrivals(number: int, service: float | str = 1.0) -> Any:
    """A3C's event schedule: workers that start one after the other and update on arrival."""
    return sim.systems.update_on_arrival(number, service, stagger=True)


def middle(values: np.ndarray, number: int) -> dict[str, Any]:
    """Median of the updates with the 95 percent interval of its rank, and the seconds that as many segments take."""
    ranks = stats.binom.ppf([0.025, 0.5, 0.975], len(values), 0.5).astype(int)
    low, value, high = (float(each) for each in np.sort(values)[np.clip(ranks, 1, len(values)) - 1])
    return {"value": value, "low": low, "high": high, "seconds": value / number, "replicates": len(values)}


def lags(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Mean staleness of the second half of the updates, between realizations."""
    rows = []
    for number in setting["workers"]:
        schedule = arrivals(number, "exponential:1.0").schedule(setting["updates"], 1, 1, setting["realizations"], 0)
        means = schedule.staleness()[:, setting["updates"] // 2 :].mean((1, 2, 3))
        rows.append({"workers": number, **between(means)})
    return rows
