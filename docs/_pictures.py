"""Pictures of the page of questions: one finding each, drawn from the results of the commands above it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from asyncsim import claims
from asyncsim.plotting import _style
from docs import _engines
from docs._page import Results
from docs._words import column, knob

COLORS = _style.COLORS
NOISE, CAP, BATCH = 0.0283, 2.0, 256
"""Noise of logits that gives the log ratio of two equal actions a standard deviation of 2 %; cap of the weights."""
GPUS, WORK = 8, 240
"""GPUs that are divided, and seconds that a training step takes on one of them."""
LINE = {"linestyle": "solid", "linewidth": 1.0}
"""Joins the points of one system."""
LENGTH, KEPT = "lognormal:600:1.0", 8
"""Distribution of responses, and samples that a group keeps."""


def panels(count: int, height: float = 2.3) -> tuple[Figure, list[Axes]]:
    """A figure of one or two panels."""
    figure = _style.picture(_style.WIDTH, height)
    return figure, list(np.atleast_1d(figure.subplots(1, count)))


def points(ax: Axes, x: Any, ends: Sequence[Any], color: str, mark: str, **more: Any) -> None:
    """Measured points with their intervals: `ends` are means, lower and upper ends."""
    mean, low, high = ends
    apart = [np.subtract(mean, low), np.subtract(high, mean)]
    look = {**_style.MEASURED, "marker": mark, "color": COLORS[color], **more}
    ax.errorbar(x, mean, yerr=np.maximum(apart, 0.0), **look)


def swept(ax: Axes, result: Any, metric: str, color: str, mark: str = "o", scale: float = 1.0) -> list[float]:
    """The points of a sweep over one setting; returns where they stand."""
    x, *rest = column(result, metric)
    points(ax, x, [scale * np.array(each) for each in rest], color, mark)
    return x


def say(ax: Axes, x: float, y: float, text: str, color: str, **more: Any) -> None:
    """Words beside what they name, in its color."""
    ax.text(x, y, text, color=COLORS[color], fontsize=7, **more)


def in_flight(found: Results) -> Figure:
    """Tokens wasted at one limit against the rollouts in flight; waste begins at the threshold."""
    figure, (ax,) = panels(1)
    swept(ax, found[2], "wasted_tokens", "measured", scale=100.0)
    edge = knob(found[0], "max_off_policy_steps") * knob(found[0], "batch_size")
    ax.axvline(edge, color=COLORS["muted"], linestyle=":", linewidth=0.9)
    say(ax, edge - 12, 60, f"staleness limit\n× batch size = {edge}", "muted", ha="right")
    ax.set(xlabel="rollouts in flight", ylabel="tokens wasted (%)", ylim=(-4, 100), xticks=range(0, 769, 128))
    ax.set_title("Rollouts are discarded only from a threshold on")
    return figure


def discard_or_pace(found: Results) -> Figure:
    """Throughput and waste of both against the limit."""
    figure, (left, right) = panels(2)
    for result, color, mark in zip(found[2:], ("contrast", "measured"), ("o", "s"), strict=True):
        swept(left, result, "groups_per_hour", color, mark)
        swept(right, result, "wasted_tokens", color, mark, 100.0)
    say(left, 4.6, 330, "discard", "contrast")
    say(left, 5.0, 120, "pace", "measured")
    left.set(ylim=(0, 430), ylabel="groups per hour", xlabel="largest staleness allowed (versions)")
    right.set(ylim=(-4, 100), ylabel="tokens wasted (%)", xlabel="largest staleness allowed (versions)")
    left.set_title("Pacing wastes nothing and is slower")
    return figure


def steps_per_rollout(found: Results) -> Figure:
    """Staleness in versions and in updates against steps on a rollout."""
    figure, (ax,) = panels(1)
    counts = [float(knob(result, "num_steps_per_rollout")) for result in found[:-1]]
    versions = found[0]["predicted"]["mean"]
    grid = np.linspace(1.0, max(counts), 50)
    ax.plot(grid, versions * grid + (grid - 1.0) / 2.0, **_style.PREDICTED)
    ax.plot(grid, np.full_like(grid, versions), **_style.PREDICTED)
    look = {**_style.MEASURED, "color": COLORS["contrast"]}
    half = np.subtract(*column(found[-1], "staleness")[:1:-1]) / 2.0
    ax.errorbar(counts, [result["update_staleness"] for result in found[:-1]], yerr=half * counts, **look)
    look |= {"color": COLORS["measured"], "marker": "s"}
    ax.errorbar(counts, [result["staleness"]["mean"] for result in found[:-1]], yerr=half, **look)
    say(ax, 5.2, 26.5, "in updates", "contrast", ha="right")
    say(ax, 5.2, 6.0, "in versions", "measured", ha="right")
    ax.set(ylim=(0, 40), xlabel="optimizer steps on a rollout", ylabel="mean staleness", xticks=counts)
    ax.set_title("Steps on a rollout add staleness in updates, not in versions")
    return figure


def overlap_alone(found: Results) -> Figure:
    """Throughput of three systems against training time: synchronous, one step ahead, and partial rollouts."""
    figure, (ax,) = panels(1, 2.9)
    synchronous, ahead, _, partial = found
    looks = ((synchronous, "synchronous", "o"), (ahead, "measured", "s"), (partial, "contrast", "v"))
    for result, color, mark in looks:
        times, *ends = column(result, "groups_per_hour")
        points(ax, times, ends, color, mark, **({} if color == "synchronous" else LINE))
    grid = np.geomspace(min(times), max(times), 40)
    claim = claims.claim("systems/synchronous-throughput")
    point = {"groups_per_batch": 64, "samples_per_group": 1, "length": LENGTH, "rate": 1.0, "sync_time": 0.0}
    seconds = [claim.predict({**point, "train_time": float(time)})["step_seconds"] for time in grid]
    ax.plot(grid, 64 * 3600.0 / np.array(seconds), **_style.PREDICTED)
    say(ax, 480, 330, "partial rollouts", "contrast")
    say(ax, 480, 61, "one step ahead", "measured")
    say(ax, 480, 35, "synchronous", "synchronous")
    ax.set(xscale="log", yscale="log", ylim=(10, 500), xlabel="training time per batch (s)")
    ax.set(ylabel="groups trained per hour", yticks=[10, 30, 100, 300], yticklabels=["10", "30", "100", "300"])
    ax.minorticks_off()
    ax.set_xticks(times, [f"{time:,.0f}" for time in times])
    base, *gains = (np.array(column(result, "groups_per_hour")[1]) for result, *_ in looks)
    overlap, interrupted = (f"{max(gain / base):.1f}" for gain in gains)
    ax.set_title(
        f"Overlap alone is at most {overlap} times as fast as synchronous; partial rollouts {interrupted} times"
    )
    return figure


def more_generators(found: Results) -> Figure:
    """Throughput against slots at two bounds, under the bound of slots, trainer and permits."""
    figure, (ax,) = panels(1)
    claim = claims.claim("systems/ticket-throughput")
    point = {"samples_per_group": 1, "groups_per_batch": 64, "batches_per_publish": 1, "release": "publish"}
    point |= {"length": LENGTH, "train_time": 300.0, "sync_time": 0.0, "generator_pauses": True}
    for result, bound, color, mark in zip(found, (1, 4), ("measured", "contrast"), ("o", "s"), strict=True):
        slots = swept(ax, result, "groups_per_hour", color, mark)
        permits = 64 * (bound + 1)
        grid = np.arange(min(slots), max(slots) + 1, 4)
        most = [claim.predict({**point, "places": int(n), "tickets": permits})["groups_per_second"] for n in grid]
        ax.plot(grid, 3600.0 * np.array(most), label="upper bound", **_style.PREDICTED)
    tight = column(found[0], "groups_per_hour")[1]
    say(ax, 132, 375, "staleness at most 1", "measured")
    say(ax, 192, 690, "staleness at most 4", "contrast")
    ax.set(ylim=(0, 900), xlabel="generator slots", ylabel="groups per hour", xticks=[64, 128, 192, 256])
    gain = f"{100.0 * (tight[-1] / tight[0] - 1.0):.0f} %"
    ax.set_title(f"At a limit of one version, twice the slots raise throughput by only {gain}")
    return figure


def first_of_many(found: Results) -> Figure:
    """Groups per hour and tokens wasted against the samples that a group starts beyond those it keeps."""
    figure, (left, right) = panels(2)
    swept(left, found[2], "groups_per_hour", "measured")
    extra = swept(right, found[2], "wasted_tokens", "contrast", scale=100.0)
    claim, kept = claims.claim("systems/first-k-length-bias"), KEPT
    points_ = [{"length": LENGTH, "started": kept + int(more), "kept": kept} for more in extra]
    right.plot(extra, [100.0 * claim.predict(point)["wasted"] for point in points_], **_style.PREDICTED)
    left.set(xlabel="redundant samples of a group", ylabel="groups per hour", ylim=(0, None), xticks=extra)
    right.set(xlabel="redundant samples of a group", ylabel="tokens wasted (%)", ylim=(-4, 100), xticks=extra)
    left.set_title("Redundant samples save waiting, and waste tokens")
    return figure


def kept_cache(found: Results) -> Figure:
    """Log-probs under the kept cache less those after rereading, and ESS between both, against the learning rate."""
    figure, (left, right) = panels(2, 2.6)
    rates = swept(left, found[0], "cache_gap", "measured")
    _, mean, low, high = column(found[0], "ess_mismatch")
    ends = [np.minimum(100.0 * np.array(each), 100.0) for each in (mean, low, high)]
    points(right, rates, ends, "measured", "o")
    for ax in (left, right):
        ax.set(xscale="log", xlabel="learning rate of Adam", xlim=(min(rates) / 1.3, 1.3 * max(rates)))
        ax.minorticks_off()
        ax.set_xticks(rates, [f"{rate:g}" for rate in rates])
    left.set(ylabel="mean |change of log-prob|\n(nats per token)", ylim=(0, 0.1), title="Log-probs of the sampler")
    right.set(ylabel="ESS / batch size (%)", ylim=(0, 108), title="Effective sample size")
    right.axhline(100.0, **_style.REFERENCE)
    say(right, max(rates), 103, "reread: no mismatch", "muted", ha="right", va="bottom")
    figure.suptitle("A KV cache kept across weight updates changes the sampler", x=0.01, ha="left")
    return figure


def not_on_policy(found: Results) -> Figure:
    """ESS and mean ratio of four samplers at staleness 0, beside closed forms."""
    figure, (ax,) = panels(1, 2.5)
    looks = (("ess_mismatch", "measured", "o", -0.22), ("mean_weight", "contrast", "s", 0.22))
    for place, (result, expected) in enumerate(zip(found, samplers(), strict=True)):
        for (metric, color, mark, shift), value in zip(looks, expected, strict=True):
            each = result["settings"][0]["final"][metric]
            points(ax, [place + shift], [[each[key]] for key in ("value", "low", "high")], color, mark)
            ax.plot([place + shift - 0.18, place + shift + 0.18], [value, value], **_style.PREDICTED)
    say(ax, 1.05, 0.59, "ESS/N", "measured")
    say(ax, 1.95, 0.11, "mean ratio", "contrast", ha="right")
    names = ["no mismatch", "temperature 0.9", "top-p 0.9", "logit noise 0.05"]
    ax.set(ylim=(0, 1.15), ylabel="ESS/N, mean sequence ratio", xticks=range(4), xticklabels=names, xlim=(-0.5, 3.5))
    ax.set_title("ESS is blind to top-p; the mean ratio is blind to temperature")
    return figure


def samplers() -> list[tuple[float, float]]:
    """Predicted (ESS/N of a large batch, mean ratio) of the four samplers of 64 tokens with logits 2, 1, 0, -1."""
    weights = np.exp([2.0, 1.0, 0.0, -1.0])
    policy = weights / weights.sum()
    colder = policy ** (1 / 0.9) / (policy ** (1 / 0.9)).sum()
    kept = policy[: int(np.searchsorted(policy.cumsum(), 0.9)) + 1].sum()
    second = float((policy**2 / colder).sum()), _engines.squared(tuple(policy), 0.05)
    return [(1.0, 1.0), (second[0] ** -64, 1.0), (1.0, float(kept) ** 64), (second[1] ** -64, 1.0)]


def variance_of(tokens: float) -> float:
    """Predicted variance of the log weight in nats^2: T log E w^2, as for a log-normal weight."""
    return float(tokens) * math.log(_engines.squared((0.5, 0.5), NOISE))


def sequence_weight(found: Results) -> Figure:
    """Mean, truncated mean and ESS of sequence weights against length."""
    figure, (left, right) = panels(2)
    grid = np.geomspace(250, 11000, 40)
    left.plot(grid, np.ones_like(grid), **_style.PREDICTED)
    left.plot(grid, [_engines.truncated(variance_of(n), CAP) for n in grid], **_style.PREDICTED)
    swept(left, found[0], "mean_weight", "measured")
    swept(left, found[0], "applied_mean", "contrast", "s")
    right.plot(grid, [_engines.batch_ess(variance_of(n), BATCH) for n in grid], **_style.PREDICTED)
    swept(right, found[0], "ess_mismatch", "measured")
    say(left, 280, 1.18, "mean weight", "measured")
    say(left, 280, 0.8, "truncated at 2", "contrast")
    for ax, top in ((left, 1.5), (right, 1.0)):
        ax.set(xscale="log", ylim=(0, top), xlabel="tokens of a response", xticks=[300, 1000, 3000, 9000])
        ax.set_xticks([], minor=True)
        ax.set_xticklabels(["300", "1,000", "3,000", "9,000"])
    left.set(ylabel="sequence weight")
    right.set(ylabel="ESS/N")
    left.set_title("The mean weight stays one; truncated mean and ESS fall")
    return figure


def clipped_minibatches(found: Results) -> Figure:
    """Share of tokens that the clip stops against the number of minibatches."""
    figure, (ax,) = panels(1)
    counts = swept(ax, found[0], "clip_active", "measured", scale=100.0)
    ax.axhline(0.0, color=COLORS["muted"], linestyle=":", linewidth=0.9)
    ax.set(xlabel="minibatches of a batch", ylabel="tokens stopped (%)", xticks=counts, xlim=(0.4, max(counts) + 0.6))
    ax.set_title("The clip acts from the second minibatch on")
    return figure


def verdict_on_three(found: Results) -> Figure:
    """Differences of staleness 3 from 1 on each task, with the band that does not matter."""
    tasks, smallest = found[0]["tasks"], found[0]["smallest"]
    figure, (ax,) = panels(1, 2.1)
    ax.axvspan(-smallest, smallest, color=COLORS["effect"], linewidth=0)
    ax.axvline(0.0, **_style.REFERENCE)
    say(ax, -1.05 * smallest, 1.3, "shaded: too small to matter", "muted", ha="right")
    for place, on in enumerate(tasks):
        look = on["pairs"][0]["looks"][-1]
        apart = [[look["difference"] - look["low"]], [look["high"] - look["difference"]]]
        ax.errorbar([look["difference"]], [place], xerr=apart, color=COLORS["measured"], **_style.MEASURED)
    lengths = [on["task"]["horizon"] for on in tasks]
    names = [on["task"]["task"].replace("_", " ") for on in tasks]
    labels = [f"{name} ({n} token{'s' * (n > 1)})" for name, n in zip(names, lengths, strict=True)]
    ax.set(yticks=range(len(tasks)), yticklabels=labels, ylim=(len(tasks) - 0.5, -0.5))
    ax.set(xlabel="mean return at staleness 3 − mean return at staleness 1")
    ax.xaxis.set_major_locator(MaxNLocator(5))
    words = [f"{on['pairs'][0]['word']} on the {name}" for on, name in zip(tasks, names, strict=True)]
    ax.set_title(f"Staleness 3 against staleness 1: {', '.join(words)}")
    return figure


def split(found: Results) -> Figure:
    """Seconds per update against the GPUs that generate, out of eight."""
    figure, (ax,) = panels(1, 2.7)
    times = [next(each for each in result["summary"] if each["metric"] == "seconds_per_update") for result in found]
    generate = [GPUS - WORK / each["train_time"] for each in times]
    points(ax, generate, [[each[key] for each in times] for key in ("mean", "low", "high")], "measured", "o")
    grid = np.linspace(min(generate), max(generate), 60)
    ax.plot(grid, WORK / (GPUS - grid), **_style.PREDICTED)
    say(ax, 2.1, 101, "trainer waits for rollouts", "measured", va="center")
    say(ax, 2.12, 33, "training time alone", "muted", va="top")
    say(ax, 5.88, 119, "trainer always busy", "measured", ha="right", va="center")
    ax.set(xlabel=f"GPUs that generate, of {GPUS} (the others train)", ylabel="seconds per update", ylim=(0, 135))
    ax.set_xticks(range(2, 7))
    fastest = generate[int(np.argmin([each["mean"] for each in times]))]
    ax.set_title(f"Updates are fastest with {fastest:g} of {GPUS} GPUs for generation")
    return figure


def apart(found: Results) -> Figure:
    """Seconds per update against mean staleness, for shared and separate GPUs."""
    figure, (ax,) = panels(1, 2.7)
    tight = []
    for result, color, mark in zip(found, ("contrast", "measured"), ("s", "o"), strict=True):
        kept = [each for each in result["settings"] if each["partial"]]
        ends = [[each["seconds"][key] for each in kept] for key in ("mean", "low", "high")]
        points(ax, [each["staleness"]["mean"] for each in kept], ends, color, mark, **LINE)
        tight.append(next(each["seconds"]["mean"] for each in kept if each["limit"] == 1))
    say(ax, 0.62, 75, "all 8 GPUs generate,\nthen train", "contrast", ha="center", va="top")
    say(ax, 1.12, 103, "4 GPUs generate, 4 train", "measured")
    say(ax, 0.08, 232, "synchronous", "muted", va="center")
    ax.set(xlabel="mean staleness of tokens (versions)", ylabel="seconds per update", ylim=(0, 260))
    words = "faster" if tight[0] < tight[1] else "slower"
    ax.set_title(f"At a limit of one version, shared GPUs are {words} than separate ones")
    return figure
