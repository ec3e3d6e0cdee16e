"""Do trainers with processes and real clocks get the staleness, throughput and learning that the event model predicts?

Three systems train a token bandit live: update on arrival (4 workers, each result an update), capped (AReaL, two
versions ahead, 2 groups a batch, 6 places) and one step off (4 groups a batch). Two actor processes generate.
`mode`: "waits", where a response takes 10 ms on average and training a part of it, or "none", where nothing waits.

One row per run and `quantity`: `measured` beside `predicted`, the event model fed with the latencies of that very run
(`return`: 32 other replicates of the replayed log), with the band `low` to `high` of level 0.99. `start_staleness` and
`raced` have no band: staleness of the first token, and the publishes between admission and first token. `publishes` a
second and the machine's `load` (processes that want a core, mean of a minute) stand beside them, `same_bits` says
whether the replay has the parameters of the run. Clocks are real: no two runs give the same rows.
"""

from __future__ import annotations

from typing import Any

LENGTH = "lognormal:1.0:0.7"
NAMES = ("arrival", "capped", "one step off")
COLUMNS = [
    *("system", "mode", "run", "quantity", "measured", "predicted", "low", "high", "inside"),
    *("publishes", "load", "same_bits"),
]
SETTINGS = [
    {"system": name, "mode": mode, "runs": runs, "updates": 200, "realizations": 200, "second": 0.01, "seed": 0}
    for mode, runs in (("waits", 12), ("none", 4))
    for name in NAMES
]
QUICK = [{**setting, "runs": 1, "updates": 40, "realizations": 50} for setting in SETTINGS]


def system_of(name: str) -> Any:
    """One of the three systems."""
    import asyncsim as sim

    if name == "arrival":
        return sim.systems.update_on_arrival(4, LENGTH)
    if name == "capped":
        return sim.systems.areal(2, 2, 6, length=LENGTH, train_time=0.5)
    return sim.systems.one_step_off(4, length=LENGTH, train_time=1.0)


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of all runs of one system."""
    return [row for number in range(setting["runs"]) for row in one(setting, number)]


def one(setting: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Rows of one run."""
    from dataclasses import replace

    import asyncsim as sim

    spec = sim.Spec(
        sim.tasks.token_bandit(),
        system_of(setting["system"]),
        sim.methods.reinforce(),
        sim.chain(sim.updates.sgd(0.1)),
        samples_per_group=4,
        updates=setting["updates"],
        replicates=1,
        diagnostics=["batch_return"],
        compiled=False,
    )
    seed, second = setting["seed"] + number, setting["second"] if setting["mode"] == "waits" else None
    live = sim.live.run(spec, seed=seed, second=second)
    predicted = sim.live.predicted(live, replicates=33, realizations=setting["realizations"])
    again = sim.run(replace(spec, system=live.schedule), seed=seed, progress=False)
    live.log.unlink()
    live.log.parent.rmdir()
    shared = {
        "system": setting["system"],
        "mode": setting["mode"],
        "run": number,
        "publishes": live.publishes_per_second(predicted.warm),
        "load": live.load,
        "same_bits": bool((again.parameters == live.trace.parameters).all()),
    }
    alone = {
        "start_staleness": float(live.staleness[predicted.warm :].mean()),
        "raced": float(live.raced[predicted.warm :].mean()),
    }
    rows = [{**each._asdict(), "inside": each.inside} for each in predicted.meetings]
    rows += [{"quantity": name, "measured": value} for name, value in alone.items()]
    return [{**dict.fromkeys(COLUMNS), **shared, **{k: v for k, v in row.items() if k in COLUMNS}} for row in rows]
