"""Questions answered in seconds, machines and slot-hours: systems as their owners describe them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from asyncsim.base import files
from docs import _pictures
from docs._page import FOLDER, HERE, Question, Results
from docs._pictures import GPUS, WORK
from docs._words import held, row, rows, share

ADVICE, SWEPT = ("limit ", " ", "0.5 ", "1.5 "), ("train_time", "weight_sync", "  ")
"""Tables of `advise` and of sweeps."""
VERDICT = ("",)


def of(name: str) -> Mapping[str, Any]:
    """The description of a system beside the page."""
    return files.read_mapping(HERE / FOLDER / f"{name}.yaml", name)


def advised(name: str) -> str:
    """The command that asks about a description."""
    return f"asyncsim advise docs/{FOLDER}/{name}.yaml"


def at(result: Mapping[str, Any], limit: float, partial: bool = True) -> Mapping[str, Any]:
    """Numbers of advice at one limit, on today's machines."""
    (found,) = (each for each in result["settings"] if (each["limit"], each["partial"]) == (limit, partial))
    return dict(found)


def oldest(setting: Mapping[str, Any]) -> float:
    """The 99th percentile of the staleness of trained tokens."""
    return float(setting["p99"]["value"])


def seconds(stat: Mapping[str, Any]) -> str:
    """Seconds an update with their interval.

    >>> seconds({"mean": 60.21, "low": 60.1, "high": 60.29})
    '60.21 s [60.1, 60.29]'
    """
    return f"{stat['mean']:.4g} s [{stat['low']:.4g}, {stat['high']:.4g}]"


def pair(result: Mapping[str, Any], name: str, unit: str, sign: float = 1.0) -> tuple[str, str]:
    """Word of an arm against the first, and the difference with its interval."""
    (found,) = (each for each in result["tasks"][0]["pairs"] if each["arm"] == name)
    look = found["looks"][-1]
    low, high = sorted((sign * look["low"], sign * look["high"]))
    return found["word"], f"{sign * look['difference']:.3g} {unit} [{low:.3g}, {high:.3g}]"


def arm(result: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Mean of an arm and its interval."""
    (found,) = (each for each in result["tasks"][0]["arms"] if each["name"] == name)
    return dict(found)


def split(found: Results) -> str:
    """How many GPUs generate."""
    times = [rows(each, "seconds_per_update")[0] for each in found]
    generate = [GPUS - WORK / each["train_time"] for each in times]
    best = min(range(len(times)), key=lambda k: times[k]["mean"])
    waits, waste = ([rows(each, metric)[0]["mean"] for each in found] for metric in ("trainer_idle", "wasted_tokens"))
    balanced = held(
        waits[best] < 0.05 and waits[best - 1] > 0.2, "Use the fewest GPUs for generation that keep the trainer busy"
    )
    return (
        f"{balanced}: in this example, {generate[best]:.0f} of {GPUS}. "
        f"With the recommended division, an update takes {seconds(times[best])}. "
        f"With this division, the staleness limit discards {share(waste[best])} of tokens. "
        f"With {generate[0]:.0f} GPUs for generation, the trainer waits {share(waits[0])} of the time. "
        f"With {generate[-1]:.0f} GPUs for generation, the trainer is the bottleneck, and {share(waste[-1])} of tokens "
        "are discarded. We assume that training time is inversely proportional to the number of trainer GPUs."
    )


def apart(found: Results) -> str:
    """Whether sharing GPUs does as well as separate ones."""
    shared, own = found
    both, alone = at(shared, 2), at(own, 2)
    tight, separate = (at(each, 1)["seconds"] for each in found)
    near = held(
        0.0 < both["seconds"]["mean"] / alone["seconds"]["mean"] - 1.0 < 0.1
        and abs(both["staleness"]["mean"] - alone["staleness"]["mean"]) < 0.1
        and all(at(shared, n)["seconds"]["high"] < at(own, n)["seconds"]["low"] for n in (0, 1)),
        "No. If responses continue under new weights, shared GPUs are faster than separate GPUs at low staleness "
        "limits, and nearly as fast at higher limits",
    )
    return (
        f"{near}. At a limit of one version, an update takes {seconds(tight)} with all machines shared. "
        f"With half of the machines for generation and half for training, an update takes {seconds(separate)}. At a "
        f"limit of two versions, an update takes {both['seconds']['mean']:.4g} s on shared machines, and "
        f"{alone['seconds']['mean']:.4g} s on separate machines. If responses do not continue under new weights, an "
        f"update on shared machines takes {seconds(at(shared, 2, False)['seconds'])} at a limit of two versions. "
        f"Staleness has a heavier tail on shared machines. At this limit, one token in a hundred is at least "
        f"{oldest(both):.2g} versions old on shared machines, and at least {oldest(alone):.2g} on "
        "separate machines. The event model does not include the memory that two engines on one GPU need."
    )


def param_sync(found: Results) -> str:
    """Why a sync takes long."""
    (result,) = found
    given = of("param_sync")
    limit, every, took = given["staleness_limit"][0], given["publish_every"], given["sync_seconds"]
    on, off = at(result, limit)["seconds"], at(result, limit, False)["seconds"]
    longer = every * (off["mean"] - on["mean"])
    waits = held(longer > took, "Without partial rollouts, a weight sync waits for the longest response")
    return (
        f"{waits}. An update of the simulated system takes {seconds(off)} on average without partial rollouts. "
        f"With partial rollouts, in which long responses continue after the sync, an update takes only {seconds(on)}. "
        f"Without partial rollouts, an update takes {longer / every:.3g} s longer. "
        f"One sync follows every {every} updates, so each sync waits for {longer:.2g} s. "
        f"The transfer of weights after this wait takes {took} s. A sync takes many minutes only if the longest "
        "response takes many minutes. The event model does not include requests that hang when they are aborted."
    )


def refit(found: Results) -> str:
    """What weights in flight gain."""
    (result,) = found
    least, *_, large, most = of("refit")["staleness_limit"]
    gain = held(
        at(result, least)["seconds"]["high"] < at(result, least, False)["seconds"]["low"]
        and at(result, most)["seconds"]["high"] < at(result, least)["seconds"]["low"],
        "In-flight weight updates make training faster, especially at high staleness limits",
    )
    flat = held(
        at(result, most, False)["seconds"]["mean"] > 0.95 * at(result, least, False)["seconds"]["mean"],
        "If each sync waits for all responses, a higher limit does not make training faster",
    )
    return (
        f"{gain}. With in-flight weight updates, a training step at the highest limit tried takes "
        f"{seconds(at(result, most)['seconds'])}. Mean staleness at this limit is "
        f"{at(result, most)['staleness']['mean']:.2g} versions. "
        f"{flat}. Without in-flight updates, a training step takes {at(result, least, False)['seconds']['mean']:.3g} "
        f"s at a limit of one version, and {at(result, large, False)['seconds']['mean']:.3g} s at a limit of {large} "
        "versions."
    )


def queue(found: Results) -> str:
    """Whether a longer queue is faster."""
    batches, levels = found
    least, *_, most = of("queue")["staleness_limit"]
    one, many = at(batches, least, False), at(batches, most, False)
    slow = max(levels["values"]["train_time"])
    low, *_, high = levels["values"]["max_async_level"]
    first, last = (row(levels, "seconds_per_update", train_time=slow, max_async_level=each) for each in (low, high))
    stale = [row(levels, "staleness", train_time=slow, max_async_level=each)["mean"] for each in (low, high)]
    no = held(
        abs(many["seconds"]["mean"] / one["seconds"]["mean"] - 1.0) < 0.02 and last["mean"] > 0.98 * first["mean"],
        "No, not if the longest response of a batch or the trainer determines the speed",
    )
    return (
        f"{no}. In the simulated OpenRLHF system, the longest response in a batch determines the speed. "
        f"An update takes {one['seconds']['mean']:.4g} s with the shortest queue, and "
        f"{many['seconds']['mean']:.4g} s with a queue of {most} batches. "
        f"In prime-rl, a higher async level compensates for random delays, but not for a bottleneck. With the slowest "
        f"trainer, a higher async level hardly saves time, but makes rollouts staler. Mean staleness is {stale[0]:.2g} "
        f"version at the lowest async level, and {stale[1]:.2g} versions at the highest level. "
        "The simulation follows an earlier revision of prime-rl."
    )


def every(found: Results) -> str:
    """Whether to sync every update."""
    (result,) = found
    counts = [each["weight_sync_steps"] for each in rows(result, "seconds_per_update")]
    times, stale = ([each["mean"] for each in rows(result, name)] for name in ("seconds_per_update", "staleness"))
    less = held(
        all(a > b for a, b in itertools.pairwise(times)) and counts[-1] * stale[-1] > stale[0],
        "Less frequent syncs save time, but make rollouts staler in optimizer updates",
    )
    second = held(counts[1] == 2, "second update")
    updates = [count * versions for count, versions in zip(counts, stale, strict=True)]
    flat = held(abs(updates[-1] / updates[-2] - 1.0) < 0.01, "updates raises this staleness no further")
    return (
        f"{less}. An update takes {times[0]:.3g} s with a sync after each update, and {times[1]:.3g} s with a sync "
        f"after every {second}. With a sync after every {counts[-1]:.0f} updates, an update takes {times[-1]:.3g} s. "
        f"With a sync after each update, mean staleness is {updates[0]:.2g} optimizer updates (versions times updates "
        f"per sync). With a sync after every {counts[-2]:.0f} updates, mean staleness is {updates[-2]:.2g} optimizer "
        f"updates. A sync after every {counts[-1]:.0f} {flat}. The simulated system admits rollouts as TRL does. The "
        "simulation does not show how this staleness affects learning."
    )


def turns(found: Results) -> str:
    """Why both sides take turns."""
    (result,) = found
    least, *_, most = of("turns")["staleness_limit"]
    tight, loose = at(result, least), at(result, most)
    both = held(
        least == 1 and min(tight["trainer_idle"]["mean"], tight["generator_idle"]["mean"]) > 0.2,
        "lets generation run only one batch ahead of training, the trainer and the generators wait for each other",
    )
    return (
        f"Because `async_generation_ratio={least}` {both}. At a ratio of {least}, the trainer waits "
        f"{share(tight['trainer_idle']['mean'])} of the time, and an update takes "
        f"{tight['seconds']['mean']:.4g} s. At a ratio of {most}, an update takes {loose['seconds']['mean']:.4g} "
        f"s, and mean staleness is {loose['staleness']['mean']:.2g} versions. "
        "The event model does not include overheads inside a training step, such as moving weights."
    )


def idle(found: Results) -> str:
    """Whether both idle shares can be near zero."""
    (result,) = found
    times = [each["train_time"] for each in rows(result, "seconds_per_update")]
    trainer, slots = ([each["mean"] for each in rows(result, name)] for name in ("trainer_idle", "generator_idle"))
    sums = [a + b for a, b in zip(trainer, slots, strict=True)]
    best = sums.index(min(sums))
    bound = held(trainer[-1] == 0.0 and slots[-1] > 0.3, "No. If training is the bottleneck, generator slots are idle")
    return (
        f"{bound}. At {times[-1]:.3g} s per training step, the trainer never waits, but slots are idle "
        f"{share(slots[-1])} of the time. Trainer and slots both have little idle time only if generation and "
        f"training are equally fast: at {times[best]:.3g} s per training step in this example. "
        "If training is slow but your log shows no idle time at all, the log does not record all pauses."
    )


def sweet_spot(found: Results) -> str:
    """Which limit reaches a return first."""
    (result,) = found
    middle, small, large = (each["name"] for each in result["tasks"][0]["arms"])
    held([pair(result, each, "s")[0] for each in (small, large)] == ["worse", "equal"], "small is worse, large equal")
    return (
        f"Yes. Of the limits tried, {middle.removeprefix('limit ')} is best: training is slower at a limit of "
        f"{small.removeprefix('limit ')}, and not faster at a limit of {large.removeprefix('limit ')}. "
        f"At the best limit, training reaches the target return in {seconds(arm(result, middle))} of simulated time. "
        f"At the smallest limit, training takes longer by {pair(result, small, 's')[1]}. "
        "If slots never wait for permits, a larger limit changes neither the speed nor the staleness. "
        "This small task cannot show how much staleness a language model tolerates."
    )


def doubled(found: Results) -> str:
    """Whether twice the generators pay."""
    time, cost = found
    once, twice = (each["name"] for each in time["tasks"][0]["arms"])
    (faster, less), (costlier, more) = pair(time, twice, "s", -1.0), pair(cost, twice, "slot-hours")
    both = held(
        (faster, costlier) == ("better", "worse"), "Doubling the inference GPUs saves time, but costs more slot-hours"
    )
    return (
        f"{both}. The smaller system reaches the target return after {arm(time, once)['mean']:.3g} simulated seconds, "
        f"at a cost of {arm(cost, once)['mean']:.3g} slot-hours. With twice the slots, training reaches this return "
        f"sooner, by {less}. The cost rises by {more}. The cost includes the trainer, which counts as four times as "
        "many slots as the smaller system has. Both systems use the same learning rate."
    )


TRL = (
    "asyncsim timeline trl --set samples_per_step=128 --set num_generations=8 --set max_staleness=4 --samples 8 "
    "--set max_inflight_tasks={slots} --model slots={slots} --model rate=30 --set length=lognormal:1500:0.8 "
    "--sweep train_time={train} --realizations 8"
)
AREAL = (
    "--set system=areal --set system.consumer_batch_size=4 --set model.rate=40 --set task=token-bandit "
    "--set task.actions=4 --set task.horizon=8 --set method=grpo --set link=adam --set adam.lr=0.2 --set samples=8 "
    "--set updates=60 --target 0.7"
)
TWICE = (
    'asyncsim compare "4 at once: system.max_concurrent_rollouts=4" "8 at once: system.max_concurrent_rollouts=8" '
    f"{AREAL} --set system.max_head_offpolicyness=1 --set system.length=lognormal:200:1.0 "
    "--set system.train_time=10 --set system.sync_time=10 --tune none"
)

QUESTIONS = [
    Question(
        "How should GPUs be divided between training and generation?",
        "TRL #4766",
        [TRL.format(slots=32 * n, train=WORK // (GPUS - n)) for n in (2, 3, 4, 6)],
        SWEPT,
        split,
        _pictures.split,
        "Each GPU for generation decodes 32 responses concurrently. The 95 % intervals over 8 realizations are smaller "
        "than the markers.",
    ),
    Question(
        "Does generation need GPUs of its own?",
        "AReaL #168",
        [advised("together"), advised("apart")],
        ADVICE,
        apart,
        _pictures.apart,
        "The staleness limit increases from left to right. Bars are 95 % intervals over 8 realizations; most bars are "
        "smaller than the markers.",
    ),
    Question("Why does a weight sync take minutes?", "verl #4896", [advised("param_sync")], ADVICE, param_sync),
    Question(
        "How much faster is training with in-flight weight updates than with waiting for all responses?",
        "NeMo-RL #1098 and #1381",
        [advised("refit")],
        ADVICE,
        refit,
    ),
    Question(
        "Does a longer queue or a higher async level make training faster?",
        "OpenRLHF #1015, prime-rl #391",
        [
            advised("queue"),
            "asyncsim timeline prime_rl_before --set batch_size=64 --set length=lognormal:600:0.8 --model rate=30 "
            "--sweep train_time=20,60,180 --sweep max_async_level=1,2,4 --realizations 8",
        ],
        (*ADVICE, *SWEPT),
        queue,
    ),
    Question(
        "Should a weight sync of 20 s follow every update, or every second update?",
        "marin #8936",
        [
            "asyncsim timeline trl --set samples_per_step=128 --set num_generations=4 --set max_staleness=4 "
            "--set max_inflight_tasks=128 --model slots=128 --model rate=30 --samples 4 "
            "--set length=lognormal:600:0.8 --set sync_time=20 --set train_time=27 --sweep weight_sync_steps=1,2,4,8 "
            "--realizations 8"
        ],
        SWEPT,
        every,
    ),
    Question("Why do generation and training take turns?", "ROLL #394", [advised("turns")], ADVICE, turns),
    Question(
        "Can the trainer and the generators both have almost no idle time if training is slow?",
        "verl #6693",
        [
            "asyncsim timeline verl_fully_async --set ppo_mini_batch_size=64 --set staleness_threshold=2 "
            "--set trigger_parameter_sync_step=1 --set concurrent_samples_per_replica=64 "
            "--set length=lognormal:1500:0.8 --model rate=40 --model slots=64 "
            "--sweep train_time=20,30,40,50,60,90 --realizations 8"
        ],
        SWEPT,
        idle,
    ),
    Question(
        "Is there a staleness limit that minimizes the time to a target return?",
        "UniRL #94",
        [
            'asyncsim compare "limit 4: system.max_head_offpolicyness=4" "limit 1: system.max_head_offpolicyness=1" '
            f'"limit 8: system.max_head_offpolicyness=8" {AREAL} --set system.max_concurrent_rollouts=16 '
            "--set system.length=lognormal:200:1.5 --set system.train_time=2 --over seconds --smallest 5"
        ],
        VERDICT,
        sweet_spot,
    ),
    Question(
        "Is it worth the cost to double the inference GPUs?",
        "marin #8955",
        [f"{TWICE} --over seconds --smallest 10", f"{TWICE} --over slot-hours --trainer-slots 128 --smallest 0.3"],
        VERDICT,
        doubled,
    ),
]
