"""Do forecasts from the first third of a real run hold for its rest, and for other settings that are then really run?

`source` of a run: "live", actors that are processes, with real clocks and a token bandit that really learns; a response
takes its imposed tokens over the speed, in real seconds, so what is unknown is what processes, clocks and learning add.
"characters", the character model on sums, and "tables", the token bandit, under the event model of AReaL: what is
unknown is how the policy drifts. `learns`: "coin" rewards teach nothing; "task" rewards do. A `second` of
live runs is slow beside computing, so that other processes on the machine matter little.

A run of `updates` is calibrated on its first third, from a log of samples (live) and of steps. Where: "rest", its other
two thirds; "one" and "two", as many updates at another setting, of one or two fields, begun afresh and without the
updates until staleness has settled. One row per number: `measured` mean, `forecast` with its 95 percent band, `inside`.
Staleness is in versions per token, seconds per update; `idle` is of places, k3 in nats per token, ESS over tokens,
`outside` the share of token ratios outside [0.8, 1.2]. `load`: processes that wanted a core of this machine.
"""

from __future__ import annotations

import json
import math
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from asyncsim.diagnostics._levels import ages
from asyncsim.tasks.bandits import TokenBandit
from experiments.language_ess import Tossed

COLUMNS = ["source", "learns", "trainer", "run", "where", "setting", "number", "measured", "forecast", "low", "high",
           "inside", "why", "load"]  # fmt: skip
LIVE = {
    "machines": 6,
    "slots_per_machine": 1,
    "tokens_per_second": 125.0,
    "response_lengths": "lognormal:60:0.6",
    "prompts_per_batch": 2,
    "samples_per_prompt": 1,
    "train_seconds": "gamma:0.2:50",
    "staleness_limit": 2,
}
STEADY = {
    "machines": 4,
    "slots_per_machine": 8,
    "tokens_per_second": 16.0,
    "response_lengths": "constant:16",
    "prompts_per_batch": 4,
    "samples_per_prompt": 8,
    "train_seconds": "gamma:1:4",
    "staleness_limit": 2,
}
CHANGES = [{}, {"staleness_limit": 6}, {"machines": 12}, {"staleness_limit": 4, "machines": 9}]
SLOTS = [{}, {"staleness_limit": 4}, {"staleness_limit": 6}, {"staleness_limit": 4, "machines": 8}]
KINDS: list[tuple[str, str, float, dict[str, Any]]] = [
    ("coin", "areal", 0.05, {}),
    ("task", "skyrl", 0.05, {}),
    ("task", "areal", 0.005, {"machines": 3}),
]
"""Live runs: every seed has one kind, so that no two runs share their lengths; seeds below 12 served to mend."""
SETTINGS: list[dict[str, Any]] = [
    *({"source": "live", "learns": learns, "trainer": trainer, "system": {**LIVE, **more}, "changes": CHANGES,
       "updates": 300, "replicates": 1, "step": step, "seed": seed, "second": 1.0}
      for seed in range(12, 27) for learns, trainer, step, more in [KINDS[seed % 3]]),
    *({"source": "tables", "learns": learns, "trainer": "areal", "system": STEADY, "changes": SLOTS, "updates": updates,
       "replicates": 24, "step": step, "seed": 0}
      for learns, updates, step in (("coin", 300, 0.1), ("task", 300, 0.003), ("task", 300, 0.03))),
    *({"source": "characters", "learns": learns, "trainer": "areal", "system": STEADY, "changes": SLOTS, "updates": 300,
       "replicates": 4, "step": 2e-5, "seed": 0, "recipe": None}
      for learns in ("coin", "task")),
]  # fmt: skip
_TINY = {"width": 32, "layers": 2, "steps": 0}
QUICK = [
    {**next(s for s in SETTINGS if s["source"] == "live"), "updates": 120, "changes": CHANGES[:1], "second": 0.2},
    {**next(s for s in SETTINGS if s["source"] == "tables"), "replicates": 2, "updates": 66, "changes": SLOTS[:2]},
    {**next(s for s in SETTINGS if s["source"] == "characters"), "replicates": 1, "updates": 66, "changes": SLOTS[:1],
     "recipe": _TINY},
]  # fmt: skip
NAMES = {
    "staleness": "staleness",
    "p99": "staleness p99",
    "seconds": "seconds per update",
    "idle": "idle slots",
    "k3": "k3",
    "ess": "token ESS",
    "outside": "outside grpo's clip",
}
"""Our numbers, as `forecast` calls them."""
CLIP = 0.2
LOW, HIGH = math.log(1.0 - CLIP), math.log(1.0 + CLIP)


class Coin(TokenBandit):
    """A token bandit whose reward is a fair coin."""

    def earn(self, state: Any, action: Any, mask: Any, draws: Any) -> Any:
        """0 or 1, `[R, G, N]`."""
        return (draws.uniform(0, 1) < 0.5).to(mask.dtype)


class Ratios:
    """Means over the tokens of every sample, `[U, R, G, N]` by name, and its tokens."""

    name, outputs = "token_ratios", ("log_prob",)

    def __init__(self) -> None:
        self.found: list[dict[str, np.ndarray]] = []

    def fresh(self) -> Ratios:
        """One that has seen nothing."""
        return Ratios()

    def observe(self, step: Any) -> None:
        """Read the ratios of a step."""
        mask, log = step.batch.mask.double(), step.log_ratio.double()
        count = mask.sum(-1)
        values = {
            "k3": log.expm1() - log,
            "size": log.abs(),
            "first": log.exp(),
            "second": (2.0 * log).exp(),
            "outside": ((log < LOW) | (log > HIGH)).double(),
            "stale": ages(step).token.double().expand_as(log),
        }
        means = {name: ((each * mask).sum(-1) / count.clamp(min=1.0)).numpy() for name, each in values.items()}
        self.found.append(means | {"count": count.numpy(), "reward": step.batch.reward.double().numpy()})

    def result(self) -> dict[str, np.ndarray]:
        """All updates, `[U, G, N, R]`."""
        every = {name: np.stack([each[name] for each in self.found]) for name in self.found[0]}
        return {f"ratios_{name}": np.moveaxis(each, 1, -1) for name, each in every.items()}


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of the runs of one setting."""
    make = live if setting["source"] == "live" else simulated
    own = make(setting, {}, 0)
    others = {k: make(setting, change, k) for k, change in enumerate(setting["changes"]) if change}
    return [row for r in range(setting["replicates"]) for row in rows(setting, r, own, others)]


def rows(setting: dict[str, Any], r: int, own: Any, others: dict[int, Any]) -> list[dict[str, Any]]:
    """Rows of one run: calibrated on its first third, judged on the rest and at the other settings."""
    import asyncsim as sim

    first = setting["updates"] // 3
    known = {name: value for name, value in setting["system"].items() if name not in own["unknown"]}
    made = sim.calibrate(own["logs"](r, first), setting["trainer"], **known)
    shared = {name: setting[name] for name in ("source", "learns", "trainer")}
    shared["run"] = setting["seed"] + r
    found = []
    for k, change in enumerate(setting["changes"]):
        ours, warm = (others[k], first // 2) if change else (own, first)
        told = sim.forecast(made, method="grpo", updates=setting["updates"] - warm, seed=setting["seed"] + r, **change)
        where = ("rest", "one", "two")[len(change)]
        for name, value in ours["means"](r, warm).items():
            band = told.line(NAMES[name]).forecasts[int(bool(change))]
            words = ", ".join(f"{key} {v}" for key, v in change.items())
            inside = None if band.value is None else bool(band.low <= value <= band.high)
            numbers = {"measured": value, "forecast": band.value, "low": band.low, "high": band.high}
            row = {"where": where, "setting": words, "number": name, "inside": inside, "why": band.why}
            found.append({**shared, **row, **numbers, "load": ours["load"]})
    return found


def described(setting: dict[str, Any], change: dict[str, Any]) -> Any:
    """The event model of the setting."""
    from asyncsim.sweeping import advising

    given = advising.read({"trainer": setting["trainer"], **setting["system"], **change}, Path())
    return advising.system_of(given, given["staleness_limit"][0], given["machines"][0], given["partial_rollouts"][0])[0]


def spec(setting: dict[str, Any], system: Any, replicates: int) -> Any:
    """What is trained."""
    import asyncsim as sim

    policy = None
    if setting["source"] == "characters":
        task = coined(sim.tasks.arithmetic(digits=2, shots=0, style="char", prompts=256, part="even"), setting)
        policy = sim.policies.causal_lm("char", recipe=setting["recipe"])
        update = sim.chain(sim.updates.adam(setting["step"]))
    else:
        task = coined(sim.tasks.token_bandit(horizon=64 if setting["source"] == "live" else 16), setting)
        update = sim.chain(sim.updates.sgd(setting["step"]))
    return sim.Spec(
        task, system, sim.methods.reinforce(advantage=sim.advantages.offset(0.5)), update, policy=policy,
        compiled=False, samples_per_group=setting["system"]["samples_per_prompt"], updates=setting["updates"],
        replicates=replicates, diagnostics=[Ratios()],
    )  # fmt: skip


def coined(task: Any, setting: dict[str, Any]) -> Any:
    """The task, or the same with a coin for its reward."""
    if setting["learns"] == "task":
        return task
    kind = Tossed if setting["source"] == "characters" else Coin
    return kind(**{f.name: getattr(task, f.name) for f in fields(task)})


def of_ratios(each: dict[str, np.ndarray], weight: np.ndarray) -> dict[str, np.ndarray]:
    """Numbers of every update `[U]` from means of samples and their tokens, both `[U, G, N]`."""

    def mean(name: str) -> np.ndarray:
        return np.asarray((each[name] * weight).sum((1, 2)) / weight.sum((1, 2)))

    return {"staleness": mean("stale"), "k3": mean("k3"), "outside": mean("outside"), "size": mean("size"),
            "first": mean("first"), "second": mean("second"), "ess": mean("first") ** 2 / mean("second"),
            "reward": each["reward"].mean((1, 2))}  # fmt: skip


def steps(series: dict[str, np.ndarray], first: int) -> dict[str, np.ndarray]:
    """The log of steps: what trainers write of ratios; the staleness is AReaL's, of tokens."""
    return {
        "step": np.arange(1, first + 1),
        "ppo_actor/update/version_stats/sample_staleness_theta_avg": series["staleness"][:first],
        "kl_k3": series["k3"][:first],
        "log_ratio_abs": series["size"][:first],
        "ess": series["ess"][:first],
        "chi_square": series["second"][:first] - 1.0,
        "reward": series["reward"][:first],
    }


def simulated(setting: dict[str, Any], change: dict[str, Any], number: int) -> dict[str, Any]:
    """A policy trained under the event model: series of every replicate."""
    import asyncsim as sim

    made = spec(setting, described(setting, change), setting["replicates"])
    trace = sim.run(made, seed=1000 * (setting["seed"] + 1) + number, progress=False)
    found = {name.removeprefix("ratios_"): each for name, each in trace.accumulated.items()}
    every = [
        of_ratios({k: v[..., r] for k, v in found.items()}, found["count"][..., r]) for r in range(made.replicates)
    ]

    def means(r: int, warm: int) -> dict[str, float]:
        return {name: float(every[r][name][warm:].mean()) for name in ("k3", "ess", "outside")}

    return {"unknown": (), "logs": lambda r, first: steps(every[r], first), "means": means, "load": math.nan}


def live(setting: dict[str, Any], change: dict[str, Any], number: int) -> dict[str, Any]:
    """A run of processes: what it logs, and means from an update on."""
    ran = lived(setting, change, number)
    lines, series, train = ran["lines"], ran["series"], ran["t_train"]
    slots = {**setting["system"], **change}

    def logs(r: int, first: int) -> list[Any]:
        path = Path(tempfile.mkdtemp(), "samples.jsonl")
        path.write_text("".join(json.dumps(line) + "\n" for line in lines if line.get("batch", first) < first))
        return [path, steps(series, first)]

    def means(r: int, warm: int) -> dict[str, float]:
        begin, end = train[warm], train[-1]
        spans = [min(x["t_end"], end) - max(x["t_start"], begin) for x in lines if "t_end" in x]
        ages = np.concatenate([ages_of(line) for line in lines if line.get("batch", -1) >= warm])
        places = slots["machines"] * slots["slots_per_machine"]
        return {
            **{name: float(series[name][warm:].mean()) for name in ("staleness", "k3", "ess", "outside")},
            "p99": float(np.quantile(ages, 0.99, method="inverted_cdf")),
            "seconds": float((end - begin) / (len(train) - 1 - warm)),
            "idle": float(1.0 - np.maximum(spans, 0.0).sum() / (end - begin) / places),
        }

    unknown = ("tokens_per_second", "response_lengths", "train_seconds")
    return {"unknown": unknown, "logs": logs, "means": means, "load": ran["load"]}


def lived(setting: dict[str, Any], change: dict[str, Any], number: int) -> dict[str, Any]:
    """Lines of the log of a run of processes, whose tokens are those that they were given time for, and ratios."""
    import asyncsim as sim
    from asyncsim.base import rng

    system = described(setting, change).replace(slots=None)
    seed = 1000 * (setting["seed"] + 1) + number
    ran = sim.live.run(spec(setting, system, 1), seed=seed, second=setting["second"])
    lines = [json.loads(line) for line in ran.log.read_text().splitlines()]
    ran.log.unlink()
    ran.log.parent.rmdir()
    ids = np.arange(max(line["sample_id"] for line in lines) + 1)
    work = np.maximum(np.round(system.length.sample(rng.Stream(seed, "live work"), 0, ids)), 1).astype(int)
    for line in lines:
        if "tokens" in line:
            tokens, written = int(work[line["sample_id"]]), line["tokens"]
            line["tokens"] = tokens
            if "versions" in line:
                # Every version wrote a token at least.
                order = np.arange(len(line["versions"]))
                places = np.array([at * tokens // written for at, _ in line["versions"]])
                places = np.maximum.accumulate(places - order) + order
                line["versions"] = [[int(at), v] for at, (_, v) in zip(places, line["versions"], strict=True)]
    trained = sorted((line for line in lines if "batch" in line), key=lambda line: line["batch"])
    weight = np.array([line["tokens"] for line in trained], dtype=float).reshape(ran.schedule.log.grid.shape)
    found = {name.removeprefix("ratios_"): each[..., 0] for name, each in ran.trace.accumulated.items()}
    return {"lines": lines, "series": of_ratios(found, weight), "t_train": ran.t_train, "load": ran.load}


def ages_of(line: dict[str, Any]) -> np.ndarray:
    """Staleness of the tokens of a sample."""
    marks = line.get("versions") or [[0, line["start_version"]]]
    at = np.array([mark[0] for mark in marks] + [line["tokens"]])
    return np.repeat(line["train_version"] - np.array([mark[1] for mark in marks]), np.maximum(np.diff(at), 0))
