"""Questions that a simulated system answers: how stale data is, what bounds cost, where the time goes."""

from __future__ import annotations

from docs import _pictures
from docs._page import Question, Results
from docs._words import column, held, knob, row, rows, share

PRIME = "asyncsim timeline prime_rl --set batch_size=64 --set length=lognormal:600:0.8 --set load=4 --updates 300"
SLOW = PRIME.replace("load=4", "train_time=1200")
LONG = "--set length=lognormal:600:1.0"
VERL = (
    "asyncsim timeline verl_fully_async --set ppo_mini_batch_size=64 --set staleness_threshold={threshold} "
    "--set trigger_parameter_sync_step=1"
)
ROLL = f"asyncsim timeline roll_environment_groups --set num_env_groups=64 {LONG} --set train_time=1800 --samples 8"
SPEED = ("lost:", "speed:", "generators:")
STALENESS = ("staleness in versions", "  ", *SPEED)
TABLE = ("",)


def verl(found: Results) -> str:
    """Whether everything was on-policy."""
    stale = found[0]["staleness"]
    yes = held(stale["max"] == 0, "Yes, in the model")
    return (
        f"{yes}: the maximum staleness is {stale['max']}, and a hard bound predicts that for any lengths. "
        f"The trainer is busy {share(found[0]['trainer_utilization'])} of the time. "
        "Races of a real counter, and another engine's numerics, are outside the model."
    )


def cap(found: Results) -> str:
    """When a limit binds."""
    few, many, swept = found
    edge = knob(few, "max_off_policy_steps") * knob(few, "batch_size")
    flights, wasted, *_ = column(swept, "wasted_tokens")
    low, high = (
        [waste for n, waste in zip(flights, wasted, strict=True) if (n >= edge) is over] for over in (False, True)
    )
    return (
        f"With {knob(few, 'max_inflight')} rollouts in flight the mean staleness is {few['staleness']['mean']:.3g}, "
        f"and the limit drops {share(few['dropped_fraction'])} of groups. "
        f"With {knob(many, 'max_inflight')} it drops {share(many['dropped_fraction'])} of groups, "
        f"which wastes {share(many['wasted_token_fraction'])} of tokens. "
        f"{held(max(low) < 0.1 * min(high), 'The limit acts once as many are in flight')} "
        f"as limit times batch, here {edge}, whatever `TARGET_LAG` is."
    )


def lead(found: Results) -> str:
    """What a lead without limit does."""
    result = found[0]
    trained, generated = result["mean_length_trained"], result["mean_length_generated"]
    at_limit = result["staleness"]["pmf"][-1]
    no = held(at_limit > 0.5, "Not where generation is faster than training")
    return (
        f"{no}: {share(at_limit)} of groups are trained "
        f"at the limit, and {share(result['wasted_token_fraction'])} of tokens are wasted. "
        f"Trained responses are {trained / generated:.2f} times as long as generated ones."
    )


def where(found: Results) -> str:
    """Where staleness arises."""
    slow, fast = found
    return (
        held(slow["in_flight"] > slow["in_queue"] and fast["in_flight"] < fast["in_queue"], "The slower side decides. ")
        + f"With a slow generator {slow['in_flight']:.2f} versions arise in flight and {slow['in_queue']:.2f} in the "
        f"queue. With a slow trainer they are {fast['in_flight']:.2f} and {fast['in_queue']:.2f}."
    )


def strict(found: Results) -> str:
    """What dropping costs, and what it buys."""
    drops, keeps = found
    return (
        f"Dropping costs {share(drops['dropped_fraction'])} of groups and {share(drops['wasted_token_fraction'])} of "
        f"tokens. Trained responses are {drops['mean_length_trained'] / drops['mean_length_generated']:.2f} times as "
        f"long as generated ones. Without the limit no group is dropped; mean staleness is "
        f"{keeps['staleness']['mean']:.3g}, the maximum {keeps['staleness']['max']}."
    )


def unit(found: Results) -> str:
    """How far the three numbers of a sample are apart."""
    result = found[0]
    return (
        f"They differ. By its oldest token, the sample has staleness {result['staleness']['mean']:.2f}, by its newest "
        f"{result['newest']:.2f}, and an average token has {result['token_staleness']:.2f}. "
        "Say which one a limit means."
    )


def steps(found: Results) -> str:
    """Staleness in updates."""
    once, *_, most, _ = found
    count, versions, updates = knob(most, "num_steps_per_rollout"), most["staleness"]["mean"], most["update_staleness"]
    none = held(abs(versions - once["staleness"]["mean"]) < 0.01, "In versions nothing")
    return (
        f"{none}: {once['staleness']['mean']:.3g} and {versions:.3g}. "
        f"In optimizer updates the mean grows from {once['update_staleness']:.3g} to {updates:.3g} at {count:.3g} "
        f"steps. Each version counts {count:.3g} updates, and the steps of its own batch add "
        f"{updates - count * versions:.3g} on average."
    )


def pace(found: Results) -> str:
    """What discarding loses, what pacing costs."""
    discard, paced, all_discard, all_paced = found
    speed = paced["throughput"] / discard["throughput"]
    last = rows(all_paced, "groups_per_hour")[-1]
    loose = row(all_discard, "groups_per_hour", max_steps_off_policy=last["max_steps_off_policy"])
    none = held(paced["wasted_token_fraction"] == 0.0, "Pacing wastes none and keeps the lengths")
    return (
        f"Discarding wastes {share(discard['wasted_token_fraction'])} of tokens, and trained responses are "
        f"{discard['mean_length_trained'] / discard['mean_length_generated']:.2f} times as long as generated ones. "
        f"{none}, at {speed:.2f} times the throughput. "
        f"At a limit of {last['max_steps_off_policy']:.3g} it has {last['mean'] / loose['mean']:.2f} times the "
        "throughput: a hard bound without waste waits for its longest response."
    )


def overlap(found: Results) -> str:
    """What overlap and partial rollouts are worth where generation dominates."""
    synchronous, ahead, drained, partial = ([each["mean"] for each in rows(each, "groups_per_hour")] for each in found)
    times = [each["train_time"] for each in rows(found[0], "groups_per_hour")]
    best = max(range(len(times)), key=lambda k: ahead[k] / synchronous[k])
    only = held(max(ahead[0], drained[0]) < 1.1 * synchronous[0], "Overlap hides only the training time")
    return (
        f"{only}. With {times[0]:.3g} s of training, one step ahead gains "
        f"{share(ahead[0] / synchronous[0] - 1)} over synchronous, and draining before a publish gains "
        f"{share(drained[0] / synchronous[0] - 1)}. "
        f"At best it gains {share(ahead[best] / synchronous[best] - 1)}, with {times[best]:,.0f} s of training. "
        f"Partial rollouts do not wait for the longest response: {partial[0] / synchronous[0]:.2g} times the "
        "synchronous throughput."
    )


def generators(found: Results) -> str:
    """What twice the slots buys at a bound."""
    tight, _ = found
    (values, speeds, *_), (more, faster, *_) = (column(each, "groups_per_hour") for each in found)
    idle = rows(tight, "generator_idle")[-1]["mean"]
    double = more.index(2 * more[0])
    return (
        f"From {values[0]:.3g} to {values[-1]:.3g} slots throughput grows by {share(speeds[-1] / speeds[0] - 1)} at "
        f"a bound of one version. The slots are then idle {share(idle)} of the time, because no permit is free. "
        f"At a bound of four versions the same doubling gives {share(faster[double] / faster[0] - 1)}. "
        + held(faster[double] / faster[0] > speeds[-1] / speeds[0], "At a tight bound, raise the bound first.")
    )


def first(found: Results) -> str:
    """What redundant samples gain, and what they cost."""
    usual, some, swept = found
    extra, hours, *_ = column(swept, "groups_per_hour")
    gain = [each / hours[0] for each in hours]
    early = held(gain[2] - 1.0 > 0.7 * (gain[-1] - 1.0) > 0.0, "Most of the gain comes with the first few")
    short = held(some["mean_length_trained"] < some["mean_length_generated"], "a bias against long answers")
    return (
        f"No group waits for its longest responses: with {knob(some, 'group_size_redundancy')} more samples "
        f"{some['throughput'] / usual['throughput']:.2g} times as many groups are trained. But "
        f"{share(some['wasted_token_fraction'])} of tokens are discarded. Kept responses are "
        f"{some['mean_length_trained'] / some['mean_length_generated']:.2g} times as long as generated ones: {short}. "
        f"{early}: {gain[2]:.2g} times as many groups with {extra[2]:.0f}."
    )


def miles(count: int) -> str:
    """The system with so many steps on a rollout."""
    return (
        "asyncsim timeline miles --set rollout_batch_size=32 --set length=lognormal:600:0.8 --set load=2 --samples 8 "
        f"--set num_steps_per_rollout={count} --updates {100 * count}"
    )


TINKER = (
    f"asyncsim timeline tinker_cookbook --set groups_per_batch=64 --set max_steps_off_policy=3 {LONG} "
    "--set train_time=300"
)
PACED = TINKER.replace("cookbook", "cookbook_pipelined") + " --model slots=64"
LIMITS = " --sweep max_steps_off_policy=1,2,3,4,6,8 --realizations 8"
TIMES = f"{LONG} --sweep train_time=300,1000,3000,10000 --realizations 8"
PARTIAL = (
    f"{VERL.format(threshold=1)} --set concurrent_samples_per_replica=64 --set partial_rollout={{partial}} {TIMES}"
)
SKYRL = (
    f"asyncsim timeline skyrl --set policy_mini_batch_size=64 {LONG} --set train_time=300 "
    "--set max_staleness_steps={bound} --set num_parallel_generation_workers=64 "
    "--sweep num_parallel_generation_workers={slots} --realizations 8"
)

QUESTIONS = [
    Question(
        "Is `staleness_threshold=0` with a publish after every batch on-policy?",
        "verl #4449",
        [f"{VERL.format(threshold=0)} --set length=lognormal:600:0.8 --set load=1.5 --samples 8"],
        STALENESS,
        verl,
        claims=("systems/hard-bounds",),
    ),
    Question(
        "Does `max_off_policy_steps=8` ever bite when `TARGET_LAG` is 1?",
        "prime-rl #2812",
        [
            f"{SLOW} --set max_inflight=128",
            f"{SLOW} --set max_inflight=512",
            f"{SLOW} --set max_inflight=128 --sweep max_inflight=64,128,256,384,448,512,576,640,768 --realizations 8",
        ],
        (*STALENESS, "max_inflight"),
        cap,
        _pictures.in_flight,
        "Dotted: the limit of 8 versions times the batch of 64. The trainer is the slower side. "
        "Bars: 95 % intervals over 8 realizations.",
    ),
    Question(
        "May `TARGET_LAG` go?",
        "prime-rl #3310",
        [f"{PRIME} --set max_inflight=128 --model lead=1000"],
        STALENESS,
        lead,
        claims=("systems/hard-bounds",),
    ),
    Question(
        "Does staleness arise in flight or in the queue?",
        "prime-rl #2674",
        [f"{PRIME.replace('load=4', load)} --set max_inflight=128" for load in ("load=0.25", "load=4")],
        ("parts:", *SPEED),
        where,
    ),
    Question(
        "Is dropping at `async_steps` too strict?",
        "open-instruct #1799",
        [
            "asyncsim timeline open_instruct --set num_unique_prompts_rollout=64 --set length=lognormal:600:1.2 "
            f"--set load=4 --updates 400{more}"
            for more in ("", " --model max_age=None")
        ],
        ("  mean", "  least", "lost:", "lengths:"),
        strict,
    ),
    Question(
        "Discard stale rollouts, or pace the generators?",
        "tinker-cookbook #822",
        [TINKER, PACED, TINKER + LIMITS, PACED + LIMITS],
        ("  mean", "  least", "lost:", "lengths:", "speed:", "generators:", "max_steps", "      "),
        pace,
        _pictures.discard_or_pace,
        "Both have 64 slots. Bars: 95 % intervals over 8 realizations, mostly smaller than the marks. "
        "The paced system is a proposal that was not checked against running code.",
    ),
    Question(
        "Oldest, newest or average token: which staleness is meant?",
        "verl #7569 and #7568",
        [
            f"{VERL.format(threshold=1)} --set length=lognormal:600:1.2 --set load=1 "
            "--set concurrent_samples_per_replica=128 --samples 8"
        ],
        ("  mean", "parts:"),
        unit,
    ),
    Question(
        "How much staleness do several steps on a rollout add?",
        "miles #1697 and #2524",
        [
            *(miles(count) for count in (1, 2, 4, 8)),
            f"{miles(2)} --sweep num_steps_per_rollout=1,2,4,8 --realizations 8",
        ],
        ("recommended", "  mean", "  in updates", "num_steps", "        "),
        steps,
        _pictures.steps_per_rollout,
        "Dashed: versions times steps, and (steps - 1)/2 for the updates on the batch itself. "
        "Bars: 95 % intervals of the staleness in versions over 8 realizations, smaller than the marks.",
    ),
    Question(
        "Why does overlap alone give no speed-up?",
        "UniRL #94",
        [
            f"asyncsim timeline synchronous --set groups_per_batch=64 {TIMES}",
            f"asyncsim timeline one_step_off --set groups_per_batch=64 {TIMES}",
            PARTIAL.format(partial="false"),
            PARTIAL.format(partial="true"),
        ],
        TABLE,
        overlap,
        _pictures.overlap_alone,
        "Dashed: the synchronous step lasts as long as its longest response and the training (no fit). "
        "Bars: 95 % intervals over 8 realizations.",
        claims=("systems/synchronous-throughput",),
    ),
    Question(
        "8 or 16 generators?",
        "marin #8955 and #1964",
        [SKYRL.format(bound=bound, slots=slots) for bound, slots in ((1, "64,80,96,128"), (4, "64,80,96,128,192,256"))],
        TABLE,
        generators,
        _pictures.more_generators,
        "Dashed: the bound that slots, trainer and permits set (`systems/ticket-throughput`), never fitted. "
        "Bars: 95 % intervals over 8 realizations, smaller than the marks.",
        claims=("systems/ticket-throughput",),
    ),
    Question(
        "First k of n: what do redundant samples gain, and which are discarded?",
        "ROLL Flash, `group_size_redundancy`",
        [
            f"{ROLL} --set group_size_redundancy=0 --updates 400",
            f"{ROLL} --set group_size_redundancy=4 --updates 400",
            f"{ROLL} --sweep group_size_redundancy=0,1,2,4,8 --realizations 8 --updates 60",
        ],
        ("lost:", "lengths:", "speed:", "generators:", "group_size", "      "),
        first,
        _pictures.first_of_many,
        "A group keeps the first 8 of its samples. Dashed: the waste that order statistics predict "
        "(`systems/first-k-length-bias`). Bars: 95 % intervals over 8 realizations.",
        claims=("systems/first-k-length-bias",),
    ),
]
