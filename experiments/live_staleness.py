"""Do trainers with processes and real clocks get the staleness, throughput and learning that the event model predicts?

Three systems train live: update on arrival (4 workers, each result an update), capped (AReaL, two versions ahead, 2
groups a batch, 6 places) and one step off (4 groups a batch). Two actor processes generate. `mode`: "waits", a token
bandit where a response takes 10 ms on average and training a part of it. In the others nothing waits, so seconds are
those of computing: "none", the token bandit; "cartpole", episodes of CartPole; "characters", sums that the character
model answers.

One row per run and `quantity`: `measured` beside `predicted`, the event model fed with the latencies of that very run
(`return`: other replicates of the replayed log), with the band `low` to `high` of level 0.99. `start_staleness` and
`raced` have no band: staleness of the first token, and the publishes between admission and first token. `publishes` a
second and the machine's `load` (processes that want a core, mean of a minute) stand beside them. `same_bits` says
whether the replay has the parameters of the run; a language model rounds differently where batches are larger than
groups. Clocks are real: no two runs give the same rows.
"""

from __future__ import annotations

from typing import Any

LENGTH = "lognormal:1.0:0.7"
NAMES = ("arrival", "capped", "one step off")
COLUMNS = [
    *("system", "mode", "run", "quantity", "measured", "predicted", "low", "high", "inside"),
    *("publishes", "load", "same_bits"),
]
MODES: dict[str, dict[str, Any]] = {
    "waits": {"runs": 12, "updates": 200, "samples": 4, "replicates": 33, "second": 0.01},
    "none": {"runs": 4, "updates": 200, "samples": 4, "replicates": 33, "second": None},
    "cartpole": {"runs": 3, "updates": 40, "samples": 8, "replicates": 13, "second": None, "steps": 100},
    "characters": {"runs": 3, "updates": 40, "samples": 8, "replicates": 13, "second": None, "recipe": None},
}
SETTINGS = [
    {"system": name, "mode": mode, **sizes, "realizations": 200, "seed": 0}
    for mode, sizes in MODES.items()
    for name in NAMES
]
_FEW = {"runs": 1, "realizations": 50, "replicates": 5}
_SMALL: dict[str, dict[str, Any]] = {
    "cartpole": {"steps": 20},
    "characters": {"recipe": {"width": 32, "layers": 2, "steps": 0}},
}
QUICK = [
    {**setting, **_FEW, "updates": min(40, setting["updates"] // 4), **_SMALL.get(setting["mode"], {})}
    for setting in SETTINGS
    if setting["mode"] in ("waits", "none") or setting["system"] == "capped"
]


def system_of(name: str) -> Any:
    """One of the three systems."""
    import asyncsim as sim

    if name == "arrival":
        return sim.systems.update_on_arrival(4, LENGTH)
    if name == "capped":
        return sim.systems.areal(2, 2, 6, length=LENGTH, train_time=0.5)
    return sim.systems.one_step_off(4, length=LENGTH, train_time=1.0)


def trained(setting: dict[str, Any]) -> dict[str, Any]:
    """Task, policy and update of a mode."""
    import asyncsim as sim

    if setting["mode"] == "cartpole":
        task = sim.tasks.gym("CartPole-v1", steps=setting["steps"])
        return {"task": task, "update": sim.chain(sim.updates.adam(0.01))}
    if setting["mode"] == "characters":
        task = sim.tasks.arithmetic(digits=2, shots=0, style="char", prompts=32, part="even")  # type: ignore[assignment]
        policy = sim.policies.causal_lm("char", recipe=setting["recipe"])
        return {"task": task, "policy": policy, "update": sim.chain(sim.updates.adam(2e-4))}
    return {"task": sim.tasks.token_bandit(), "update": sim.chain(sim.updates.sgd(0.1))}


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of all runs of one system."""
    return [row for number in range(setting["runs"]) for row in one(setting, number)]


def one(setting: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Rows of one run."""
    from dataclasses import replace

    import asyncsim as sim

    spec = sim.Spec(
        **trained(setting),
        system=system_of(setting["system"]),
        method=sim.methods.reinforce(),
        samples_per_group=setting["samples"],
        updates=setting["updates"],
        replicates=1,
        diagnostics=["batch_return"],
        compiled=False,
    )
    seed = setting["seed"] + number
    live = sim.live.run(spec, seed=seed, second=setting["second"])
    predicted = sim.live.predicted(live, replicates=setting["replicates"], realizations=setting["realizations"])
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
