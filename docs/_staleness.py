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
SPEED = ("discarded:", "speed:", "generators:")
STALENESS = ("staleness in versions", "  ", *SPEED)
TABLE = ("",)


def verl(found: Results) -> str:
    """Whether everything was on-policy."""
    stale = found[0]["staleness"]
    yes = held(stale["max"] == 0, "Yes. In the event model, every batch is on-policy")
    return (
        f"{yes}. The maximum staleness is {stale['max']}. A proven bound guarantees this maximum for any response "
        f"lengths. The trainer is busy {share(found[0]['trainer_utilization'])} of the time. "
        "The event model does not include race conditions, or numerical differences between the engines for training "
        "and inference."
    )


def cap(found: Results) -> str:
    """When a limit binds."""
    few, many, swept = found
    edge = knob(few, "max_off_policy_steps") * knob(few, "batch_size")
    flights, wasted, *_ = column(swept, "wasted_tokens")
    low, high = (
        [waste for n, waste in zip(flights, wasted, strict=True) if (n >= edge) is over] for over in (False, True)
    )
    yes = held(max(low) < 0.1 * min(high), "Yes, the limit discards rollouts once enough rollouts are in flight")
    return (
        f"{yes}. The limit starts to discard rollouts when the number of rollouts in flight reaches the limit times "
        f"the batch size: in this example, {edge} rollouts. This threshold does not depend on "
        "`TARGET_LAG`, the number of steps that generation may run ahead of training. "
        f"With {knob(few, 'max_inflight')} rollouts in flight, the mean staleness is {few['staleness']['mean']:.3g} "
        f"versions, and the limit discards only {share(few['dropped_fraction'])} of groups. "
        f"With {knob(many, 'max_inflight')} rollouts in flight, {share(many['wasted_token_fraction'])} of tokens are "
        "wasted."
    )


def lead(found: Results) -> str:
    """What a lead without limit does."""
    result = found[0]
    trained, generated = result["mean_length_trained"], result["mean_length_generated"]
    at_limit = result["staleness"]["pmf"][-1]
    waste = result["wasted_token_fraction"]
    no = held(
        min(at_limit, waste) > 0.5, "No, not if generation is faster than training, because most tokens are then wasted"
    )
    return (
        f"{no}. `TARGET_LAG` limits how many steps generation can run ahead of training. Without "
        f"`TARGET_LAG`, {share(at_limit)} of trained groups are as stale as the staleness limit allows, and "
        f"{share(waste)} of tokens become too stale to use. Trained responses are on average {trained / generated:.2f} "
        "times as long as all generated responses."
    )


def where(found: Results) -> str:
    """Where staleness arises."""
    slow, fast = found
    return (
        held(
            slow["in_flight"] > slow["in_queue"] and fast["in_flight"] < fast["in_queue"],
            "If generation is slower than training, most staleness arises in flight; otherwise, most arises in the "
            "queue. ",
        )
        + f"With slow generators, {slow['in_flight']:.2f} versions of staleness arise in flight on average, and "
        f"{slow['in_queue']:.2f} versions in the queue. With a slow trainer, {fast['in_flight']:.2f} versions arise in "
        f"flight, and {fast['in_queue']:.2f} versions in the queue."
    )


def strict(found: Results) -> str:
    """What dropping costs, and what it buys."""
    drops, keeps = found
    costly = held(
        drops["wasted_token_fraction"] > 0.5 and keeps["dropped_fraction"] == 0.0,
        "In this simulation, the limit discards most tokens, but without the limit some groups become very stale",
    )
    return (
        f"{costly}. The limit discards {share(drops['dropped_fraction'])} of groups and "
        f"{share(drops['wasted_token_fraction'])} of tokens. Trained responses are on average "
        f"{drops['mean_length_trained'] / drops['mean_length_generated']:.2f} times as long as all generated "
        f"responses. Without the limit, the mean staleness is {keeps['staleness']['mean']:.3g} versions "
        f"and the maximum is {keeps['staleness']['max']}."
    )


def unit(found: Results) -> str:
    """How far the three numbers of a sample are apart."""
    result = found[0]
    long = held(
        result["token_staleness"] > result["staleness"]["mean"],
        "Long samples have more tokens and are staler, so the average over tokens is the highest of the three values.",
    )
    return (
        "The oldest token, the newest token and the average give different values, so a staleness limit must state "
        f"which value it bounds. The oldest token of a sample is {result['staleness']['mean']:.2f} versions old on "
        f"average, and the newest token is {result['newest']:.2f} versions old. Averaged over all tokens, staleness is "
        f"{result['token_staleness']:.2f} versions. {long} The printed output contains only the staleness of the "
        "oldest token; `--json` writes all three values."
    )


def steps(found: Results) -> str:
    """Staleness in updates."""
    once, *_, most, _ = found
    count, versions, updates = knob(most, "num_steps_per_rollout"), most["staleness"]["mean"], most["update_staleness"]
    none = held(
        abs(versions - once["staleness"]["mean"]) < 0.01 and updates > count * once["update_staleness"],
        "Several steps per batch add staleness in optimizer updates, but not in versions",
    )
    return (
        f"{none}. With {count:.3g} steps per batch instead of one, mean staleness in versions remains {versions:.3g}. "
        f"In optimizer updates, mean staleness grows from {once['update_staleness']:.3g} to {updates:.3g}. "
        f"Each version takes {count:.3g} updates, and earlier steps on the same batch add "
        f"{updates - count * versions:.3g} updates of staleness on average."
    )


def pace(found: Results) -> str:
    """What discarding loses, what pacing costs."""
    discard, paced, all_discard, all_paced = found
    speed = paced["throughput"] / discard["throughput"]
    last = rows(all_paced, "groups_per_hour")[-1]
    loose = row(all_discard, "groups_per_hour", max_steps_off_policy=last["max_steps_off_policy"])
    trade = held(
        paced["wasted_token_fraction"] == 0.0 < discard["wasted_token_fraction"] and speed < 1.0,
        "Discarding is faster, but wastes tokens and trains on shorter responses; slowing generation down (pacing) "
        "avoids both drawbacks",
    )
    return (
        f"{trade}. At a limit of {knob(discard, 'max_steps_off_policy'):.3g} versions, discarding wastes "
        f"{share(discard['wasted_token_fraction'])} of tokens. With discarding, trained responses "
        f"are on average {discard['mean_length_trained'] / discard['mean_length_generated']:.2f} times as long as all "
        f"generated responses. Pacing wastes no tokens, but must wait for the longest response, and reaches only "
        f"{speed:.2f} times the throughput of discarding. At a limit of {last['max_steps_off_policy']:.3g} versions, "
        f"pacing reaches {last['mean'] / loose['mean']:.2f} times the throughput of discarding."
    )


def overlap(found: Results) -> str:
    """What overlap and partial rollouts are worth where generation dominates."""
    synchronous, ahead, drained, partial = ([each["mean"] for each in rows(each, "groups_per_hour")] for each in found)
    times = [each["train_time"] for each in rows(found[0], "groups_per_hour")]
    best = max(range(len(times)), key=lambda k: ahead[k] / synchronous[k])
    only = held(
        max(ahead[0], drained[0]) < 1.1 * synchronous[0],
        "Overlap of generation and training hides no more than the training time",
    )
    return (
        f"{only}, which is short if generation dominates. At {times[0]:.3g} s per training step, generating one step "
        f"ahead of training raises throughput by {share(ahead[0] / synchronous[0] - 1)} compared with synchronous "
        f"training. The gain in throughput is highest at {times[best]:,.0f} s per training step: "
        f"{share(ahead[best] / synchronous[best] - 1)}. With partial rollouts, training does not wait for the longest "
        "response. At the shortest training time, throughput with partial rollouts is "
        f"{partial[0] / synchronous[0]:.2g} times the synchronous throughput."
    )


def generators(found: Results) -> str:
    """What twice the slots buys at a bound."""
    tight, _ = found
    (_, speeds, *_), (more, faster, *_) = (column(each, "groups_per_hour") for each in found)
    idle = rows(tight, "generator_idle")[-1]["mean"]
    double = more.index(2 * more[0])
    tight_first = held(
        faster[double] / faster[0] > speeds[-1] / speeds[0],
        "If the staleness limit is low, raise the limit before you add generators",
    )
    return (
        f"{tight_first}. At a limit of one version, doubling the slots raises throughput by only "
        f"{share(speeds[-1] / speeds[0] - 1)}, because slots wait for permits {share(idle)} of the time. "
        f"At a limit of four versions, doubling the slots raises throughput by {share(faster[double] / faster[0] - 1)}."
    )


def first(found: Results) -> str:
    """What redundant samples gain, and what they cost."""
    usual, some, swept = found
    extra, hours, *_ = column(swept, "groups_per_hour")
    gain = [each / hours[0] for each in hours]
    early = held(gain[2] - 1.0 > 0.7 * (gain[-1] - 1.0) > 0.0, "The first extra samples bring most of the gain")
    short = held(
        some["mean_length_trained"] < some["mean_length_generated"], "so long responses are trained too rarely"
    )
    return (
        "Redundant samples raise throughput, but the longest responses of each group are discarded. "
        f"With {knob(some, 'group_size_redundancy')} extra samples per group, throughput rises by a factor of "
        f"{some['throughput'] / usual['throughput']:.2g}, but "
        f"{share(some['wasted_token_fraction'])} of tokens are discarded. Kept responses are on average "
        f"{some['mean_length_trained'] / some['mean_length_generated']:.2g} times as long as all generated responses, "
        f"{short}. {early}: with only {extra[2]:.0f} extra samples, throughput rises by a factor of {gain[2]:.2g}."
    )


def miles(count: int) -> str:
    """The system with so many steps on a rollout."""
    return (
        "asyncsim timeline miles --set rollout_batch_size=32 --set length=lognormal:600:0.8 --set load=2 "
        f"--set n_samples_per_prompt=8 --set num_steps_per_rollout={count} --updates {100 * count}"
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
        "Is verl on-policy with `staleness_threshold=0` and a weight sync after every batch?",
        "verl #4449",
        [f"{VERL.format(threshold=0)} --set length=lognormal:600:0.8 --set load=1.5 --samples 8"],
        STALENESS,
        verl,
        claims=("systems/hard-bounds",),
    ),
    Question(
        "Does a staleness limit of 8 ever discard rollouts if generation runs only one step ahead?",
        "prime-rl #2812",
        [
            f"{SLOW} --set max_inflight=128",
            f"{SLOW} --set max_inflight=512",
            f"{SLOW} --set max_inflight=128 --sweep max_inflight=64,128,256,384,448,512,576,640,768 --realizations 8",
        ],
        (*STALENESS, "max_inflight"),
        cap,
        _pictures.in_flight,
        "The dotted line marks 512 rollouts in flight: the limit of 8 versions times the batch size of 64. The "
        "trainer is the bottleneck. Bars are 95 % intervals over 8 realizations.",
    ),
    Question(
        "Can generation run ahead of training without a limit?",
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
        SPEED,
        where,
    ),
    Question(
        "Does open-instruct's staleness limit (`async_steps`) discard too much?",
        "open-instruct #1799",
        [
            "asyncsim timeline open_instruct --set num_unique_prompts_rollout=64 --set length=lognormal:600:1.2 "
            f"--set load=4 --updates 400{more}"
            for more in ("", " --model max_age=None")
        ],
        ("  mean", "  min, max", "discarded:", "mean length:"),
        strict,
    ),
    Question(
        "Should stale rollouts be discarded, or should generation be slowed down?",
        "tinker-cookbook #822",
        [TINKER, PACED, TINKER + LIMITS, PACED + LIMITS],
        ("  mean", "  min, max", "discarded:", "mean length:", "speed:", "generators:", "max_steps", "      "),
        pace,
        _pictures.discard_or_pace,
        "Both systems have 64 slots. Bars are 95 % intervals over 8 realizations; most bars are smaller than the "
        "markers. The paced system is a proposal, so we could not check it against running code.",
    ),
    Question(
        "Which token defines staleness: the oldest, the newest or the average?",
        "verl #7569 and #7568",
        [
            f"{VERL.format(threshold=1)} --set length=lognormal:600:1.2 --set load=1 "
            "--set concurrent_samples_per_replica=128 --samples 8"
        ],
        ("  mean",),
        unit,
    ),
    Question(
        "How much staleness do several optimizer steps per rollout batch add?",
        "miles #1697 and #2524",
        [
            *(miles(count) for count in (1, 2, 4, 8)),
            f"{miles(2)} --sweep num_steps_per_rollout=1,2,4,8 --realizations 8",
        ],
        ("  mean", "  in updates", "num_steps", "        "),
        steps,
        _pictures.steps_per_rollout,
        "The dashed line shows staleness in versions times steps per batch, plus (steps - 1)/2 for earlier updates on "
        "the same batch. For staleness in versions, the 95 % intervals over 8 realizations are smaller than the "
        "markers.",
    ),
    Question(
        "Why does overlap alone not make training faster?",
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
        "The dashed line is a prediction without fitted parameters: a synchronous step takes as long as its longest "
        "response plus the training time. Bars are 95 % intervals over 8 realizations.",
        claims=("systems/synchronous-throughput",),
    ),
    Question(
        "Should I double the generators, or raise the staleness limit?",
        "marin #8955 and #1964",
        [SKYRL.format(bound=bound, slots=slots) for bound, slots in ((1, "64,80,96,128"), (4, "64,80,96,128,192,256"))],
        TABLE,
        generators,
        _pictures.more_generators,
        "Dashed lines show the upper bound on throughput that slots, trainer and permits set "
        "(`systems/ticket-throughput`), without fitted parameters. The 95 % intervals over 8 realizations are smaller "
        "than the markers.",
        claims=("systems/ticket-throughput",),
    ),
    Question(
        "How much do redundant samples help if a group keeps only the samples that finish first?",
        "ROLL Flash, `group_size_redundancy`",
        [
            f"{ROLL} --set group_size_redundancy=0 --updates 400",
            f"{ROLL} --set group_size_redundancy=4 --updates 400",
            f"{ROLL} --sweep group_size_redundancy=0,1,2,4,8 --realizations 8 --updates 60",
        ],
        ("discarded:", "mean length:", "speed:", "generators:", "group_size", "      "),
        first,
        _pictures.first_of_many,
        "A group keeps its first 8 samples. The dashed line is the share of wasted tokens predicted by order "
        "statistics (`systems/first-k-length-bias`). Bars are 95 % intervals over 8 realizations.",
        claims=("systems/first-k-length-bias",),
    ),
]
