"""The guarantee of bounded staleness beside what is measured, for plain stale descent and under alignment control."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.optimize import minimize

from asyncsim import theory
from asyncsim.plotting import _style
from experiments import gac_bound as experiment
from paper_figures import _script

EXPERIMENTS = ("gac_bound",)
SEARCHES = 24
"""Starts of the search for the policy with the noisiest gradient."""
TITLES = {"quadratic": "Quadratic, white noise", "bandit": "Bandit, real policy gradients"}
FRACTIONS = {1.0: ("o", "1"), 0.25: ("s", "1/4"), 0.0625: ("v", "1/16")}
"""Steps as shares of the safe step 1 / (L (1 + staleness)), with marker and label."""
CONTROLLED, PARTIAL, STALE = (_style.COLORS[name] for name in ("controlled", "partial", "stale"))
LOOK: dict[str, dict[str, Any]] = {
    "none": {"color": STALE, "marker": "o"},
    "project": {"color": CONTROLLED, "marker": "s"},
    "skip": {"color": CONTROLLED, "marker": "D", "mfc": "white"},
}
LABEL = {
    "none": "no control",
    "project": "project: drop what is parallel to the last gradient",
    "skip": "project above cosine 0.05, skip the update above 0.3",
}


@cache
def largest_noise() -> float:
    """Standard deviation of the bandit's gradient at the policy where it is largest, by search over policies."""
    claim = theory.claim("convergence/bandit-noise")
    shared = {"rewards": experiment.REWARDS, "samples": experiment.SAMPLES}

    def minus(logits: np.ndarray) -> float:
        return -claim.predict({**shared, "behavior_logits": tuple(logits)})["variance"]

    starts = 2.0 * np.random.default_rng(0).normal(size=(SEARCHES, len(experiment.REWARDS)))
    return math.sqrt(max(-float(minimize(minus, start).fun) for start in starts))


def scene(task: str) -> dict[str, float]:
    """What the guarantee needs of a task: smoothness, noise, and the distance at which L x^2 / 2 is the initial gap."""
    if task == "quadratic":
        spread = math.sqrt(experiment.DIRECTIONS)
        return {"curvature": 1.0, "noise": spread * experiment.NOISE, "start": spread * experiment.START}
    rewards = experiment.REWARDS
    smooth = theory.claim("convergence/bandit-smoothness").predict({"rewards": rewards})["bound"]
    gap = max(rewards) - sum(rewards) / len(rewards)
    return {"curvature": smooth, "noise": largest_noise(), "start": math.sqrt(2.0 * gap / smooth)}


def bound(found: Any) -> float:
    """The guarantee for a row, NaN outside its step condition."""
    if found.schedule == "constant":
        name, delay = "convergence/constant-delay", {"staleness": int(found.staleness)}
    else:
        name = "convergence/arbitrary-delay"
        delay = {"maximum": int(found.maximum), "mean": float(found["mean"]), "in_flight": int(found.in_flight)}
    point = {**scene(found.task), **delay, "step": float(found.step), "updates": int(found.updates)}
    claim = theory.claim(name)
    return claim.predict(point)["bound"] if claim.domain(point) is None else math.nan


def judged(rows: Any) -> Any:
    """The squares with their guarantee and the ratio to it, with its interval."""
    own = rows[rows.quantity == "square"].copy()
    own["bound"] = [bound(found) for _, found in own.iterrows()]
    for name in ("value", "low", "high"):
        own[f"{name}_ratio"] = own[name].astype(float) / own.bound
    return own


def line(ax: Axes, x: Any, own: Any, suffix: str = "_ratio", **look: Any) -> None:
    """Values with their intervals on a thin line; what diverged stands at the upper edge as a triangle."""
    x, values = np.asarray(x, dtype=float), own[f"value{suffix}"].to_numpy(dtype=float)
    there = ~np.isnan(values)
    reach = [values - own[f"low{suffix}"].to_numpy(dtype=float), own[f"high{suffix}"].to_numpy(dtype=float) - values]
    reach = [np.minimum(part[there], 0.999 * values[there]) for part in reach[:1]] + [reach[1][there]]
    style = {**_style.MEASURED, "markersize": 3.2, "linestyle": "-", "linewidth": 0.9}
    ax.errorbar(x[there], values[there], yerr=reach, **{**style, **look})
    gone = x[own.reason.notna().to_numpy()]
    if len(gone):
        ax.plot(gone, [0.97] * len(gone), "^", color=look["color"], markersize=4, transform=ax.get_xaxis_transform())


def draw_ratio(ax: Axes, own: Any) -> None:
    """Measured over guaranteed against the staleness, plain descent at three steps."""
    ages = sorted(set(own.staleness))
    ends = {}
    for fraction, (marker, label) in FRACTIONS.items():
        each = own[(own.fraction == fraction) & (own.rule == "none")].sort_values("staleness")
        line(ax, [ages.index(age) for age in each.staleness], each, color=STALE, marker=marker)
        ends[label] = float(each.value_ratio.iloc[-1])
    apart(ax, len(ages) - 1, ends)
    guarantee(ax)
    ax.set(ylim=(0, 1.12), xticks=range(len(ages)), xticklabels=ages, xlabel="staleness (updates)")


def apart(ax: Axes, x: float, ends: dict[str, float]) -> None:
    """Labels behind the ends of lines, moved so that none covers another."""
    height = -1.0
    for label, value in sorted(ends.items(), key=lambda end: end[1]):
        height = max(value, height + 0.075)
        ax.annotate(label, (x, height), (5, 0), textcoords="offset points", va="center", fontsize=6.5)


def draw_arrival(ax: Axes, own: Any) -> None:
    """Measured over guaranteed against the mean staleness, delays from workers with exponential times."""
    ages = sorted(set(own.staleness))
    ends = {}
    for task, marker, side in (("quadratic", "o", -0.06), ("bandit", "s", 0.06)):
        mine = own[(own.task == task) & own.bound.notna()]
        # At each staleness the largest step that the guarantee's own condition allows.
        each = mine.loc[mine.groupby("staleness").fraction.idxmax()].sort_values("staleness")
        line(ax, [ages.index(age) + side for age in each.staleness], each, color=STALE, marker=marker)
        ends[task] = float(each.value_ratio.iloc[-1])
    apart(ax, len(ages) - 1, ends)
    guarantee(ax)
    ax.set(ylim=(0, 1.12), xticks=range(len(ages)), xticklabels=ages, xlabel="mean staleness (updates)")


def guarantee(ax: Axes) -> None:
    """The line that plain descent must not cross."""
    ax.axhline(1.0, **_style.PREDICTED)
    ax.text(0.02, 1.02, "guarantee", transform=ax.get_yaxis_transform(), va="bottom", fontsize=6.5)


def draw_steps(ax: Axes, own: Any) -> None:
    """Average squared gradient of the three rules against the step, with the guarantee inside its condition."""
    for rule in LOOK:
        each = own[own.rule == rule].sort_values("fraction")
        line(ax, each.fraction, each, suffix="", **LOOK[rule])
    plain = own[(own.rule == "none") & own.bound.notna()].sort_values("fraction")
    ax.plot(plain.fraction, plain.bound, **_style.PREDICTED)
    task, tau = own.task.iloc[0], int(own.staleness.iloc[0])
    if task == "quadratic":
        point = {"staleness": tau, "curvatures": (scene(task)["curvature"],)}
        limit = theory.claim("staleness/stability-boundary").predict(point)["step"] * (1 + tau)
        ax.axvline(limit, **{**_style.PREDICTED, "linewidth": 0.7})
    else:
        first = plain.iloc[0]
        ax.annotate("guarantee", (first.fraction, first.bound), (9, -3), textcoords="offset points", fontsize=6.5)
    ax.set(xscale="log", yscale="log", xlabel="step / safe step")
    ax.set(xticks=[0.0625, 0.25, 1, 3], xticklabels=["1/16", "1/4", "1", "3"])
    ax.minorticks_off()


def draw_worst(ax: Axes, own: Any) -> None:
    """Largest ratio over the steps inside the condition, of each rule, against the staleness."""
    ages = sorted(set(own.staleness))
    for task, style in (("quadratic", "-"), ("bandit", ":")):
        for rule in LOOK:
            mine = own[(own.task == task) & (own.rule == rule) & own.bound.notna() & own.value.notna()]
            each = mine.loc[mine.groupby("staleness").value_ratio.idxmax()].sort_values("staleness")
            line(ax, [ages.index(age) for age in each.staleness], each, **{**LOOK[rule], "linestyle": style})
    ax.axhline(1.0, **_style.PREDICTED)
    ax.set(yscale="log", xticks=range(len(ages)), xticklabels=ages, xlabel="staleness (updates)")


def draw(rows: Any) -> Figure:
    """Upper row: the guarantee holds for plain descent. Lower row: it does not carry over to control."""
    own = judged(rows)
    constant, arrival = own[own.schedule == "constant"], own[own.schedule == "arrival"]
    ages = sorted(set(constant.staleness))
    staleness = 8 if 8 in ages else ages[-2]
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 5.4)
        figure.get_layout_engine().set(hspace=0.1)
        upper, lower = figure.subplots(2, 3)
        for ax, below, (task, title) in zip(upper, lower, TITLES.items(), strict=False):
            draw_ratio(ax, constant[constant.task == task])
            draw_steps(below, constant[(constant.task == task) & (constant.staleness == staleness)])
            ax.set_title(title, pad=15)
        draw_arrival(upper[2], arrival)
        draw_worst(lower[2], constant)
        upper[2].set_title("Workers with random times", pad=15)
        write(upper, lower, staleness, int(own.updates.iloc[0]))
    return figure


def write(upper: Any, lower: Any, staleness: int, updates: int) -> None:
    """Headings, labels and the text above the panels."""
    for ax, text in (
        (upper[0], "A  Plain stale descent: measured over guaranteed never exceeds 1"),
        (lower[0], f"B  At staleness {staleness}: control crosses the guarantee"),
    ):
        ax.text(0.0, 1.04, text, transform=ax.transAxes, va="bottom", fontsize=7.5, fontweight="bold").set_in_layout(
            False
        )
    heading = lower[2].text(0.0, 1.04, "C  Worst step inside it", transform=lower[2].transAxes, fontsize=7.5)
    heading.set(fontweight="bold", va="bottom", in_layout=False)
    upper[0].set_ylabel("average squared gradient,\nmeasured / guaranteed")
    lower[0].set_ylabel("average squared gradient")
    lower[2].set_ylabel("measured / guaranteed")
    lower[2].text(
        0.98, 0.72, "solid: quadratic\ndotted: bandit", transform=lower[2].transAxes, ha="right", fontsize=6.5
    )
    _script.caption(
        upper[0].figure,
        "GAC promises convergence under bounded staleness. Dashed: such a guarantee with exact constants, for plain",
        "stale descent, drawn where its condition on the step holds: about up to the safe step, 1 / (smoothness ×",
        "(1 + staleness)). Varied: staleness, step (labels of A: in safe steps), rule of control. Measured: squared",
        f"exact gradient, averaged over {updates} updates, 95 % intervals. Thin dashes: predicted limit of stability;",
        "triangles: diverged. Inside its condition the guarantee holds for plain descent, not for these rules.",
    )
    upper[0].figure.legend(
        handles=[Line2D([], [], linewidth=0.9, markersize=4, label=LABEL[rule], **LOOK[rule]) for rule in LOOK],
        loc="outside lower left",
        ncols=3,
        fontsize=6.3,
        columnspacing=1.2,
    )


def numbers(rows: Any) -> dict[str, str]:
    """Largest ratios inside the condition by task and rule, tightness, and what lies outside."""
    own = judged(rows)
    constant, arrival = own[own.schedule == "constant"], own[own.schedule == "arrival"]
    inside = constant[constant.bound.notna() & constant.value.notna()]
    plain = inside[inside.rule == "none"]
    tight = plain.loc[plain.value_ratio.idxmax()]
    held = arrival[arrival.bound.notna()]
    last = int(constant.staleness.max())
    latest = held[(held.staleness == int(held.staleness.max())) & (held.task == "quadratic")].iloc[0]
    found = {
        "points": f"{len(plain)}",
        "last": f"{last}",
        "tight": f"{tight.value_ratio:.3f} ({tight.low_ratio:.3f} to {tight.high_ratio:.3f})",
        "tight_staleness": f"{int(tight.staleness)}",
        "exceeding": f"{int((plain.low_ratio > 1.0).sum())}",
        "arrivals": f"{len(held)}",
        "arrival_least": f"{held.value_ratio.min():.2f}",
        "arrival_most": f"{held.value_ratio.max():.2f}",
        "latest_mean": f"{latest['mean']:.0f}",
        "latest_maximum": f"{int(latest.maximum)}",
    }
    for task in TITLES:
        mine = plain[plain.task == task]
        found |= {f"{task}_least": f"{mine.value_ratio.min():.3f}", f"{task}_most": f"{mine.value_ratio.max():.3f}"}
        for rule in ("project", "skip"):
            other = inside[(inside.task == task) & (inside.rule == rule)]
            worst = other.loc[other.value_ratio.idxmax()]
            found[f"{task}_{rule}"] = f"{worst.value_ratio:.2f} ({worst.low_ratio:.2f} to {worst.high_ratio:.2f})"
            found[f"{task}_{rule}_above"] = f"{int((other.low_ratio > 1.0).sum())}"
            found[f"{task}_{rule}_points"] = f"{len(other)}"
    beyond = constant[(constant.task == "quadratic") & (constant.rule == "none") & constant.reason.notna()]
    found["diverging"] = f"{beyond.fraction.min():.1f}" if len(beyond) else "none"
    return {key: value.replace("-", "−") for key, value in found.items()}
