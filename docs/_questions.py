"""Questions from trainers' threads: what was asked, the commands that answer it, and the answer with their numbers."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Results = list[dict[str, Any]]


class Question(NamedTuple):
    """One section of the page.

    `asked`: the question, and in `threads` where; `commands`: those that answer it, without the program's name. `keep`:
    beginnings of the lines of their output that are shown. `answer`: sentences from the results, one for each command.
    """

    asked: str
    threads: str
    commands: Sequence[str]
    keep: Sequence[str]
    answer: Callable[[Results], str]


PRIME = "timeline prime_rl --set batch_size=64 --set length=lognormal:600:0.8 --set load=4 --updates 300"
CLIP = (
    "run --task token-bandit --set task.horizon=8 --set schedule.groups_per_batch=4 --method ppo-clip "
    "--link sgd --set sgd.lr=20 --updates 40 --samples 16 --diagnostics clip_active,clip_outside,batch_return "
    "--set method.anchor={anchor} --staleness {staleness}"
)
SPEED = ("lost:", "speed:")


def final(result: dict[str, Any], metric: str) -> float:
    """A metric over the last tenth of a run."""
    return float(result["settings"][0]["final"][metric]["value"])


def share(value: float) -> str:
    """A share in percent.

    >>> share(0.1109), share(0.0002)
    ('11.1 %', '0.02 %')
    """
    return f"{100 * value:.3g} %"


def verl(found: Results) -> str:
    """Whether everything was on-policy."""
    stale = found[0]["staleness"]
    return (
        f"Yes, in the model: the largest staleness is {stale['max']}, and the law says so for any lengths. "
        f"The trainer is busy {share(found[0]['trainer_utilization'])} of the time. "
        "Races of a real counter, and another engine's numerics, are outside of the model."
    )


def cap(found: Results) -> str:
    """When a cap binds."""
    few, many = found
    return (
        f"With 128 rollouts in flight the mean is {few['staleness']['mean']:.3g} steps, and the cap of 8 drops "
        f"{share(few['dropped_fraction'])} of groups. With 512 it drops {share(many['dropped_fraction'])} of "
        f"groups and "
        f"{share(many['wasted_token_fraction'])} of tokens. What is in flight decides, not the target lag."
    )


def lag(found: Results) -> str:
    """What a lead without limit does."""
    result = found[0]
    trained, generated = result["mean_length_trained"], result["mean_length_generated"]
    return (
        f"No, where generation is faster than training: {share(result['staleness']['pmf'][8])} of groups are "
        f"trained at the "
        f"cap, and {share(result['wasted_token_fraction'])} of tokens are thrown away. Responses that are "
        f"trained on are "
        f"{trained / generated:.2f} times as long as those that were generated."
    )


def where(found: Results) -> str:
    """Where staleness arises."""
    slow, fast = found
    return (
        f"It depends on who waits. With a slow generator {slow['in_flight']:.2f} steps arise in flight and "
        f"{slow['in_queue']:.2f} in the queue. With a slow trainer it is {fast['in_flight']:.2f} and "
        f"{fast['in_queue']:.2f}."
    )


def strict(found: Results) -> str:
    """What dropping costs, and what it buys."""
    drops, keeps = found
    return (
        f"Dropping costs {share(drops['dropped_fraction'])} of groups and "
        f"{share(drops['wasted_token_fraction'])} of tokens. "
        f"Responses that are trained on are {drops['mean_length_trained'] / drops['mean_length_generated']:.2f} "
        f"times as "
        f"long as generated ones. Without the limit nothing is lost; the mean staleness is "
        f"{keeps['staleness']['mean']:.3g}, the largest {keeps['staleness']['max']}."
    )


def unit(found: Results) -> str:
    """How far the three numbers of a sample are apart."""
    result = found[0]
    return (
        f"They are three numbers. By its oldest token a sample is {result['staleness']['mean']:.2f} versions "
        f"old, by its "
        f"newest {result['newest']:.2f}, and an average token {result['token_staleness']:.2f}. Say which one a "
        f"limit means."
    )


def steps(found: Results) -> str:
    """Staleness in updates."""
    once, four = (result["update_staleness"] for result in found)
    return (
        f"In versions nothing: {found[0]['staleness']['mean']:.3g} and {found[1]['staleness']['mean']:.3g}. In "
        f"optimizer "
        f"updates the mean goes from {once:.3g} to {four:.3g}: four times as many updates a version, and 1.5 "
        f"more inside "
        "the batch."
    )


def clip(found: Results) -> str:
    """Whether the clip acts."""
    whole, cut = (final(result, "clip_active") for result in found)
    return (
        f"With one update on a batch never: the ratio is 1, and the clip stops {share(whole)} of tokens. With four "
        f"minibatches it stops {share(cut)}: later ones are off-policy by the updates before them."
    )


def anchor(found: Results) -> str:
    """Whether a recomputed anchor sees staleness."""
    recomputed, behavior = (final(result, "clip_outside") for result in found)
    return (
        f"Yes, with one update on a batch: {share(recomputed)} of tokens lie outside of the band, whatever the "
        f"staleness. "
        f"With the recorded log-probs as anchor it is {share(behavior)}."
    )


STALENESS = ("staleness in versions", "  ", *SPEED)
QUESTIONS = [
    Question(
        "Is `staleness_threshold=0` with a publish after every batch on-policy?",
        "verl #4449",
        [
            "timeline verl_fully_async --set ppo_mini_batch_size=64 --set staleness_threshold=0 "
            "--set trigger_parameter_sync_step=1 --set length=lognormal:600:0.8 --set load=1.5 --samples 8"
        ],
        STALENESS,
        verl,
    ),
    Question(
        "Does `max_off_policy_steps=8` ever bite when the target lag is 1?",
        "prime-rl #2812",
        [f"{PRIME} --set max_inflight=128", f"{PRIME} --set max_inflight=512"],
        STALENESS,
        cap,
    ),
    Question(
        "May the target lag go?",
        "prime-rl #3310",
        [f"{PRIME} --set max_inflight=128 --model lead=1000"],
        STALENESS,
        lag,
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
            "timeline open_instruct --set num_unique_prompts_rollout=64 --set length=lognormal:600:1.2 --set load=4 "
            f"--updates 400{more}"
            for more in ("", " --model max_age=None")
        ],
        ("  mean", "  least", "lost:", "lengths:"),
        strict,
    ),
    Question(
        "Oldest, newest or average token: which staleness is meant?",
        "verl #7569 and #7568",
        [
            "timeline verl_fully_async --set ppo_mini_batch_size=64 --set staleness_threshold=1 "
            "--set trigger_parameter_sync_step=1 --set length=lognormal:600:1.2 --set load=1 "
            "--set concurrent_samples_per_replica=128 --samples 8"
        ],
        ("  mean", "parts:"),
        unit,
    ),
    Question(
        "How much staleness do several steps on a rollout add?",
        "miles #1697 and #2524",
        [
            "timeline miles --set rollout_batch_size=32 --set length=lognormal:600:0.8 --set load=2 --samples 8 "
            f"--set num_steps_per_rollout={count} --updates {200 * count}"
            for count in (1, 4)
        ],
        ("recommended", "  mean", "  in updates"),
        steps,
    ),
    Question(
        "Does the clip act with one epoch and several minibatches?",
        "DAPO #11, open-instruct #755",
        [
            f"{CLIP.format(anchor='proximal', staleness=0)} --minibatches 1",
            f"{CLIP.format(anchor='proximal', staleness=0)} --minibatches 4 --cut samples",
        ],
        ("  clip", "  batch_return"),
        clip,
    ),
    Question(
        "Is clipping off when the anchor is recomputed?",
        "SkyRL #1315, miles #1829",
        [CLIP.format(anchor=name, staleness=8) for name in ("proximal", "behavior")],
        ("  clip", "  batch_return"),
        anchor,
    ),
]


def said(command: str) -> tuple[list[str], dict[str, Any]]:
    """The lines that a command prints, and its result."""
    from asyncsim.app.cli import main

    text = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        with contextlib.redirect_stdout(text):
            try:
                main([*shlex.split(command), "--json", str(path)])
            except SystemExit as end:
                if end.code:
                    raise RuntimeError(f"{command} ended with {end.code}") from None
        lines = [line.rstrip() for line in text.getvalue().splitlines() if str(path) not in line]
        return lines, json.loads(path.read_text(encoding="utf-8"))


def section(question: Question) -> str:
    """Question, answer, commands and what they print."""
    results, blocks = [], []
    for command in question.commands:
        lines, result = said(command)
        results.append(result)
        shown = [line for line in lines if line.startswith(tuple(question.keep))]
        blocks.append("\n".join(["```console", f"$ asyncsim {command}", *shown, "```"]))
    answer = question.answer(results)
    return "\n\n".join([f"## {question.asked}", f"Asked in {question.threads}.", f"**{answer}**", *blocks])


HEAD = """# Questions from trainers' threads

Generated by `python -m docs`; a test compares it with what the commands say. Lengths are in tokens, at one token a
second of a sample. Other lengths and loads give other numbers: put in your own."""


def page() -> str:
    """The whole page."""
    return "\n\n".join([HEAD, *(section(question) for question in QUESTIONS)]) + "\n"
