"""How many simulated hours does asynchrony save on the way to a return, and what does its staleness cost?

A chain of 32 bits (reward 1 for 22 right ones, a penalty of 0.01 per nat; return exact, of the current policy), two
groups of 8 responses a batch, Adam behind a norm clip of 1. A response takes a lognormal time of mean 0.1 h with spread
`sigma`; training on a batch takes `train` mean responses. One machine: 16 slots for responses, one trainer.
`staleness` 0 is the synchronous system; otherwise generation runs ahead by so many batches (preset `vcpo`), trained
with `method` "tis" (truncated sequence ratios, cap 8) or "vcpo" (these, the off-policy optimal baseline, and the step
scaled by the root of the effective sample size). Target: 95 percent of the best return there is. A run arrives at the
first update whose policy has it and after which no ten consecutive updates have less in the mean; the hour is that at
which this policy exists, the end of the training before. Each step of Adam is run on the same realizations of response
times; every second one chooses the step, the others are reported.

Rows, one quantity each; `low` and `high` are 95 percent intervals:
hours         to the target, of one reported replicate (missing: never, in so many updates as were run)
updates       the same in updates
median        of the hours of reported replicates ("never" counting as infinite)
never         share of reported replicates that never reach the target
selection     hours after which three quarters of the realizations that choose have arrived
chosen        the step with the least of these; missing where that is the edge of the grid
final         mean return of the last 50 updates
return        mean return of reported replicates at `hour`, on the machine on which the staleness is varied
step_seconds  mean seconds between updates
lag           mean number of versions by which the first tokens of responses are old
`trainer` is 1; 0.5 for a synchronous system whose trainer is twice as fast, as if it trained on the generators as well.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from asyncsim.base import uncertainty
from experiments import _vcpo_hours as racing
from experiments._vcpo_collapse import median

COLUMNS = [
    "sigma", "train", "trainer", "staleness", "method", "step", "replicate", "hour", "quantity", "value", "low", "high",
    "samples", "reason",
]  # fmt: skip
BITS, NEEDED, PENALTY = 32, 22, 0.01
GROUPS, SAMPLES = 2, 8
HOUR = 3600.0
LENGTH = 0.1 * HOUR
"""Mean seconds of a response."""
STEPS = (0.042, 0.06, 0.085, 0.12, 0.17, 0.24, 0.34)
MAIN = (1.0, 2.0)
"""Spread of lengths and training time at which the staleness is varied."""
AHEAD = (1, 2, 4, 8, 16, 32)
PAPER = 2
"""The staleness of the paper's timing."""
SIGMAS, TRAINS = (0.0, 0.5, 1.0, 1.5), (0.5, 2.0, 8.0)
METHODS = ("tis", "vcpo")
CHOOSING = 2
"""Of so many realizations the first chooses: a step chosen from few runs would make two arms differ by itself."""
POINTS = 61
"""Hours at which a learning curve is read."""
UNTIL = 30.0


def _arm(sigma: float, train: float, staleness: int, method: str) -> dict[str, Any]:
    own = {"sigma": sigma, "train": train, "staleness": staleness, "method": method, "steps": STEPS}
    return {**own, "realizations": 96, "updates": 240, "seed": 0}


_SYNCHRONOUS = {**_arm(*MAIN, 0, "tis"), "clocks": [(sigma, train) for train in TRAINS for sigma in SIGMAS]}
SETTINGS = [
    _SYNCHRONOUS,
    *(_arm(*MAIN, ahead, method) for ahead in AHEAD for method in METHODS),
    *(
        _arm(sigma, train, PAPER, method)
        for train in TRAINS for sigma in SIGMAS if (sigma, train) != MAIN for method in METHODS
    ),
]  # fmt: skip
_TINY = {"steps": (0.03, 0.085, 0.48), "realizations": 24, "updates": 130}
QUICK = [
    {**_SYNCHRONOUS, **_TINY, "clocks": [MAIN, (0.0, 2.0), (1.0, 0.5), (1.0, 8.0)]},
    *({**_arm(*MAIN, ahead, method), **_TINY} for ahead in (2, 16) for method in METHODS),
    *({**_arm(sigma, train, PAPER, "tis"), **_TINY} for sigma, train in ((0.0, 2.0), (1.0, 0.5), (1.0, 8.0))),
]


def target() -> float:
    """The return to be reached."""
    return 0.95 * racing.largest_return(BITS, NEEDED, PENALTY)


def system_of(sigma: float, train: float, staleness: int) -> Any:
    """The machine under a system: sixteen slots, and as many groups admitted as the staleness allows."""
    import asyncsim as sim

    length = f"lognormal:{LENGTH}:{sigma}" if sigma else LENGTH
    timing: dict[str, Any] = {"length": length, "train_time": train * LENGTH}
    if staleness:
        tickets = (staleness + 1) * GROUPS
        system = sim.systems.vcpo(GROUPS, staleness, concurrent_samples_per_replica=tickets, **timing)
    else:
        system = sim.systems.synchronous(GROUPS, **timing)
    return system.replace(slots=GROUPS * SAMPLES)


def spec_of(setting: dict[str, Any]) -> Any:
    """All steps at once, side by side in the replicates: every step meets the same realizations of lengths."""
    import asyncsim as sim

    each = setting["realizations"]
    step = np.repeat(np.array(setting["steps"]), each)
    links = [sim.updates.clip_norm(1.0), sim.updates.adam(step)]
    vcpo = setting["method"] == "vcpo"
    if vcpo:
        links.append(sim.updates.ess_step("sqrt"))
    return sim.Spec(
        sim.tasks.bit_chain(BITS, NEEDED / BITS, kl_coef=PENALTY, kl_at="current"),
        system_of(setting["sigma"], setting["train"], setting["staleness"]),
        sim.methods.vcpo() if vcpo else sim.methods.truncated_is("sequence", cap=8.0),
        sim.chain(*links),
        samples_per_group=SAMPLES,
        updates=setting["updates"],
        replicates=len(step),
        realizations=each,
        diagnostics=["exact_return"],
    )


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one arm; those of the synchronous one by every clock, as its learning does not depend on the clock."""
    import asyncsim as sim

    trace = sim.run(spec_of(setting), seed=setting["seed"], progress=False)
    each, updates = setting["realizations"], setting["updates"]
    returns = trace["exact_return"].reshape(updates, len(setting["steps"]), each)
    heads = trace.schedule.staleness()[..., 0].reshape(each, updates, -1).mean(axis=2)
    rows = []
    for place in clocks(setting):
        train = place["train"] * place["trainer"]
        system = system_of(place["sigma"], train, setting["staleness"])
        start = system.schedule(updates, SAMPLES, 1, each, setting["seed"]).seconds
        clock = racing.known_at(start, train * LENGTH) / HOUR
        drawn = place == {"sigma": MAIN[0], "train": MAIN[1], "trainer": 1.0}
        rows += [{**place, **row} for row in measured({**setting, "curves": drawn}, returns, clock, heads)]
    shared = {**dict.fromkeys(COLUMNS), "staleness": setting["staleness"], "method": setting["method"]}
    return [{**shared, **row} for row in rows]


def clocks(setting: dict[str, Any]) -> list[dict[str, float]]:
    """The arm's own clock; of the synchronous arm those of all machines, and of a trainer twice as fast."""
    own = [(setting["sigma"], setting["train"])]
    halved = (1.0, 0.5) if "clocks" in setting else (1.0,)
    places = setting.get("clocks", own)
    return [{"sigma": sigma, "train": train, "trainer": half} for half in halved for sigma, train in places]


def measured(
    setting: dict[str, Any], returns: np.ndarray, clock: np.ndarray, heads: np.ndarray
) -> list[dict[str, Any]]:
    """Rows by one clock: `returns` `[U, steps, M]`, `clock` in hours and `heads` in versions `[M, U]`."""
    steps, reports = np.array(setting["steps"]), np.arange(len(clock)) % CHOOSING > 0
    rows, soonest = [], []
    for place, step in enumerate(steps):
        updates = racing.reached(returns[:, place], target())
        hours = racing.timed(updates, clock)
        soonest.append(racing.arrived(hours[~reports], racing.REACHING))
        rows.append({"step": step, "quantity": "selection", **known(soonest[-1], "too few runs arrive")})
        rows += [{"step": step, **row} for row in reported(updates[reports], hours[reports])]
        rows.append({"step": step, "quantity": "final", **between(returns[-50:, place, reports].mean(axis=0))})
        if setting["curves"]:
            rows += [{"step": step, **row} for row in curve(returns[:, place, reports], clock[reports])]
    step, reason = racing.chosen(steps, np.array(soonest))
    rows.append({"quantity": "chosen", **known(step, reason)})
    late = len(clock[0]) // 2
    each = (clock[:, -1] - clock[:, late]) * HOUR / (clock.shape[1] - 1 - late)
    rows.append({"quantity": "step_seconds", **between(each)})
    return [*rows, {"quantity": "lag", **between(heads[:, late:].mean(axis=1))}]


def known(value: float, reason: str) -> dict[str, Any]:
    """A number, or why there is none."""
    return {"value": value, "reason": None} if math.isfinite(value) else {"value": None, "reason": reason}


def between(values: np.ndarray) -> dict[str, Any]:
    """Mean over realizations with its interval."""
    found = uncertainty.between(values)
    half = found.error * uncertainty.critical(0.05, found.freedom)
    return {"value": found.value, "low": found.value - half, "high": found.value + half, "samples": found.samples}


def reported(updates: np.ndarray, hours: np.ndarray) -> list[dict[str, Any]]:
    """When each reported replicate arrives, their median, and the share that never does."""
    rows = []
    for replicate, (update, hour) in enumerate(zip(updates, hours, strict=True)):
        for quantity, value in (("hours", hour), ("updates", float(update) if update >= 0 else math.nan)):
            rows.append({"replicate": replicate, "quantity": quantity, **known(value, "never")})
    middle, low, high = median(np.where(np.isnan(hours), np.inf, hours))
    ends = {"low": low, "high": high, "samples": len(hours)}
    rows.append({"quantity": "median", **ends, **known(middle, "half of the runs never arrive")})
    missing = int((updates < 0).sum())
    share = uncertainty.proportion(missing, len(updates))
    half = share.error * uncertainty.critical(0.05)
    ends = {"low": max(0.0, share.value - half), "high": min(1.0, share.value + half), "samples": len(updates)}
    return [*rows, {"quantity": "never", "value": share.value, **ends}]


def curve(returns: np.ndarray, clock: np.ndarray) -> list[dict[str, Any]]:
    """Mean return at hours on a grid, as long as all runs last."""
    rows = []
    for hour in np.linspace(0.0, UNTIL, POINTS):
        if hour <= clock[:, -1].min():
            now = [np.interp(hour, own, values) for own, values in zip(clock, returns.T, strict=True)]
            rows.append({"hour": float(hour), "quantity": "return", **between(np.array(now))})
    return rows
