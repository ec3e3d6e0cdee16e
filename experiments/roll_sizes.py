"""How much time do queues, replicated prompts, spare environments and asynchrony save, by the size of pool and batch?

ROLL Flash (arXiv 2510.11345) on the event model. A response takes `MEAN` seconds on average, with lognormal `spread`; a
GPU decodes `WIDTH` samples at once. Every row is `value`, seconds from one step to the next, between realizations with
95 percent `low` and `high`; `x` is what is varied, by `part`:
gpus         x GPUs for 64 prompts of 8 samples, a third of all work being training. "batch": a GPU decodes all samples
             of a prompt; "queue": any GPU, any sample; "asynchronous": ratio 2, the best `share` of the pool trains
queue        x prompts beyond the 8 of 8 samples that a step needs, each kept with probability `ACCEPT`, on 64 slots or
             one for every sample ("queue, free"); "batch": rounds of 8 prompts until enough are kept
replication  x prompts of `y` samples on 8 GPUs of 16 slots: "together", one prompt of a GPU at a time; "replicated"
ratio        x samples of a step on 64 slots, training a third of all work, at asynchronous ratio `y`, best `share`
bound        x samples over 64 slots, no training. "queue": synchronous, beside `bound`, mean work of a slot and the
             mean longest sample; "asynchronous", at ratio `y`: mean work, and the longest of y + 1 steps over y + 1
environments x environments beyond 32 groups of 8, as "groups" or as "samples" of each group; "both": x groups with `y`
             samples in all. A trajectory stops with probability `STOPS` and is begun again `TIMEOUT` seconds later; in
             "slow groups" all trajectories of as large a share of groups take `TIMEOUT` seconds longer instead
latency      x, the standard deviation of an environment step of `LATENCY` seconds; 16 groups of 8 trajectories of
             `TURNS` turns. "lockstep": a turn begins when all environments have answered; "environment": one by one
agents       the same at x = LATENCY with training a third of all work: lockstep, environment, with a spare trajectory
             for each group ("redundant"), and both at asynchronous ratio 2 ("asynchronous")
Generation alone counts where nothing is said of training.
"""

from __future__ import annotations

from typing import Any

import asyncsim as sim
from asyncsim.base import uncertainty
from asyncsim.base.laws import Law

COLUMNS = ["part", "spread", "arm", "x", "y", "share", "value", "low", "high", "bound", "samples"]
MEAN, WIDTH, SAMPLES, SLOTS = 20.0, 4, 8, 64
SHARES = (0.125, 0.1875, 0.25, 0.3125, 0.375, 0.5)
ACCEPT, STOPS, TIMEOUT = 0.5, 0.02, 200.0
LATENCY, TURNS, TURN = 10.0, 5, 2.0
"""Mean seconds of an environment step, turns of a trajectory, and mean seconds that an engine writes in each."""
SOON = 1e-3
"""Seconds of training where generation alone counts."""
GPUS, PROMPTS, RATIO = (16, 32, 64, 128), 64, 2
CONFIGURATIONS, SERVERS, HELD = ((32, 16), (64, 16), (16, 32), (16, 64)), 8, 16
SIZES, RATIOS = (32, 64, 128, 256), (1, 2, 3, 4, 6, 8)
SPARES, BOTH, NEEDED = (0, 32, 64, 128), ((36, 9), (36, 12)), 32
SPREADS = (1.0, 3.0, 5.0, 10.0)
_SIZES: dict[str, Any] = {"batches": 160, "realizations": 8, "seed": 0}
REASONING, AGENTIC = ("gpus", "queue", "replication", "ratio", "bound"), ("environments", "latency", "agents")
SETTINGS = [
    *({"part": part, "spread": spread, **_SIZES} for part in REASONING for spread in (0.5, 1.0)),
    *({"part": part, "spread": None, **_SIZES} for part in AGENTIC),
]
QUICK = [{**setting, "batches": 16, "realizations": 2} for setting in SETTINGS]


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one part."""
    rows = []
    for place, (system, samples) in arms(setting["part"], setting["spread"]).items():
        seconds = measured(system, samples, setting)
        rows.append({"part": setting["part"], "spread": setting["spread"], **dict(place), **seconds})
    return [{name: row.get(name) for name in COLUMNS} for row in rows]


def arms(part: str, spread: float | None) -> dict[Any, Any]:
    """Systems of a part with their samples of a group, by what names their rows."""
    if spread is None:
        return {"environments": environments, "latency": latency, "agents": agents}[part]()
    parts = {"gpus": gpus, "queue": queue, "replication": replication, "ratio": ratio, "bound": bound}
    return parts[part](Law.parse(f"lognormal:{MEAN}:{spread}"))


def measured(system: Any, samples: int, setting: dict[str, Any]) -> dict[str, Any]:
    """Mean seconds of a step with their interval; a list of systems is run one after the other within each step."""
    systems = system if isinstance(system, list) else [(1.0, system)]
    total = [0.0] * setting["realizations"]
    for times, one in systems:
        made = one.summaries(setting["batches"], setting["realizations"], samples, setting["seed"])
        total = [sum_ + times * each["seconds_per_update"] for sum_, each in zip(total, made, strict=True)]
    found = uncertainty.between(total)
    reach = uncertainty.critical(0.05, found.freedom) * found.error
    return {"value": found.value, "low": found.value - reach, "high": found.value + reach, "samples": len(total)}


def at(arm: str, x: float, y: float | None = None, share: float | None = None, bound: float | None = None) -> Any:
    """What names a row."""
    return (("arm", arm), ("x", x), ("y", y), ("share", share), ("bound", bound))


def together(groups: int, training: float, length: Law, **model: Any) -> Any:
    """Synchronous training: all groups of a step begin at once."""
    return sim.systems.synchronous(groups, length=length, train_time=training).modeled(model)


def spare(groups: int, more: int, length: Law, **model: Any) -> Any:
    """Synchronous, with so many groups more than a step needs: what is not finished by then is thrown away."""
    cut = {"max_age": 0, "age_at_pack": "none", "age_at_publish": "all", "mode": "restart", "quantum": 1}
    rates = [1.0] * (groups + more)
    return together(groups, SOON, length, rates=rates, tickets=groups + more, **cut, **model)


def asynchronous(groups: int, ratio: int, training: float, slots: int, length: Law, **model: Any) -> Any:
    """ROLL Flash with so many slots left for generation."""
    made = sim.systems.roll_single_turn(groups, ratio, length=length, train_time=training)
    return made.modeled({"slots": slots, **model})


def gpus(length: Law) -> dict[Any, Any]:
    """Throughput over the size of the pool at a fixed batch."""
    found: dict[Any, Any] = {}
    work = PROMPTS * SAMPLES * MEAN / WIDTH
    for count in GPUS:
        training = work / 2 / count
        found[at("batch", count)] = (
            together(PROMPTS, training, length, servers=min(count, PROMPTS), slots=WIDTH),
            SAMPLES,
        )
        found[at("queue", count)] = together(PROMPTS, training, length, slots=WIDTH * count), SAMPLES
        for share in SHARES:
            slots = round(WIDTH * count * (1.0 - share))
            made = asynchronous(PROMPTS, RATIO, training / share, slots, length)
            found[at("asynchronous", count, share=share)] = made, SAMPLES
    return found


def queue(length: Law) -> dict[Any, Any]:
    """Rounds of prompts, or a queue that goes on until enough are kept."""
    found: dict[Any, Any] = {}
    found[at("batch", 0)] = together(8, SOON, length, rounds=True, tickets=None, accept=ACCEPT), SAMPLES
    for more in (0, 4, 8, 16, 32):
        filtered: dict[str, Any] = {"accept": ACCEPT, "release_dropped": "now"}
        found[at("queue", more)] = spare(8, more, length, slots=8 * SAMPLES, **filtered), SAMPLES
        found[at("queue, free", more)] = spare(8, more, length, **filtered), SAMPLES
    return found


def replication(length: Law) -> dict[Any, Any]:
    """All samples of a prompt on one GPU, or each wherever there is room."""
    found: dict[Any, Any] = {}
    for prompts, samples in CONFIGURATIONS:
        alone = {"quantum": 1, "rates": [1.0] * SERVERS, "servers": SERVERS, "slots": HELD}
        found[at("together", prompts, samples)] = together(prompts, SOON, length, **alone), samples
        found[at("replicated", prompts, samples)] = together(prompts, SOON, length, slots=SERVERS * HELD), samples
    return found


def ratio(length: Law) -> dict[Any, Any]:
    """Asynchronous ratios at several sizes of a step."""
    found: dict[Any, Any] = {}
    for size in SIZES:
        groups, training = size // SAMPLES, size * MEAN / SLOTS / 2
        found[at("synchronous", size, 0)] = together(groups, training, length, slots=SLOTS), SAMPLES
        for each in RATIOS:
            for share in SHARES:
                made = asynchronous(groups, each, training / share, round(SLOTS * (1.0 - share)), length)
                found[at("asynchronous", size, each, share)] = made, SAMPLES
    return found


def bound(length: Law) -> dict[Any, Any]:
    """Seconds of a queue beside their upper bound."""
    found: dict[Any, Any] = {}
    for size in (64, 128, 256, 512):
        mean = size * MEAN / SLOTS
        limit = mean + length.expected_max(size)
        found[at("queue", size, 0, bound=limit)] = together(size // SAMPLES, SOON, length, slots=SLOTS), SAMPLES
        for each in (1, 2, 4):
            limit = mean + length.expected_max((each + 1) * size) / (each + 1)
            made = asynchronous(size // SAMPLES, each, SOON, SLOTS, length)
            found[at("asynchronous", size, each, bound=limit)] = made, SAMPLES
    return found


def environments() -> dict[Any, Any]:
    """More groups, or more samples of each group, where trajectories stop, or where whole groups are slow."""
    stops: dict[str, Any] = {"failure_rate": STOPS / (TURNS * TURN), "restart_delay": TIMEOUT}
    slow: dict[str, Any] = {"difficulty": Law("empirical", (1.0,) * round(1 / STOPS - 1) + (TIMEOUT / (TURNS * TURN),))}
    found: dict[Any, Any] = {}
    for name, trouble in (("", stops), (", slow groups", slow)):
        agents: dict[str, Any] = {**acting(5.0), **trouble}
        for more in SPARES:
            found[at(f"groups{name}", more)] = spare(NEEDED, more // SAMPLES, **agents), SAMPLES
            found[at(f"samples{name}", more)] = spare(NEEDED, 0, redundant=more // NEEDED, **agents), SAMPLES
    for groups, samples in BOTH:
        made = spare(NEEDED, groups - NEEDED, redundant=samples - SAMPLES, **acting(5.0), **stops)
        found[at("both", groups, samples)] = made, SAMPLES
    return found


def acting(deviation: float) -> dict[str, Any]:
    """Trajectories in turns, with an environment step of this standard deviation between them."""
    steps = f"gamma:{LATENCY}:{(LATENCY / deviation) ** 2:.6g}"
    written = f"lognormal:{TURNS * TURN}:0.5"
    return {"length": Law.parse(written), "turns": TURNS, "environment": Law.parse(steps), "environment_holds": False}


def lockstep(groups: int, deviation: float, slots: int | None, training: float) -> list[tuple[float, Any]]:
    """Turns that all trajectories begin together, each a step of its own; training follows the last turn."""
    turn: dict[str, Any] = {"length": Law.parse(f"lognormal:{TURN}:0.5"), "slots": slots}
    environment = Law.parse(f"gamma:{LATENCY}:{(LATENCY / deviation) ** 2:.6g}")
    waits = together(groups * SAMPLES, SOON, **turn, reward=environment)
    return [(TURNS - 1.0, waits), (1.0, together(groups * SAMPLES, training, **turn))]


def latency() -> dict[Any, Any]:
    """Lockstep beside trajectories that go on by themselves, over the spread of latencies."""
    found: dict[Any, Any] = {}
    for deviation in SPREADS:
        found[at("lockstep", deviation)] = lockstep(16, deviation, SLOTS, SOON), 1
        found[at("environment", deviation)] = together(16, SOON, slots=SLOTS, **acting(deviation)), SAMPLES
    return found


def agents() -> dict[Any, Any]:
    """What environment-level rollouts, spare trajectories and asynchrony add to each other."""
    training = 16 * SAMPLES * TURNS * TURN / SLOTS / 2
    found: dict[Any, Any] = {at("lockstep", LATENCY): (lockstep(16, LATENCY, SLOTS, training), 1)}
    for arm, more in (("environment", 0), ("redundant", 1)):
        model = {**acting(LATENCY), "redundant": more}
        found[at(arm, LATENCY)] = together(16, training, slots=SLOTS, **model), SAMPLES
        for share in SHARES:
            slots = round(SLOTS * (1.0 - share))
            made = asynchronous(16, RATIO, training / share, slots, **model)
            name = "asynchronous" if more else "asynchronous, none spare"
            found[at(name, LATENCY, share=share)] = made, SAMPLES
    return found
