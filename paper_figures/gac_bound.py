"""The guarantee of bounded staleness beside what is measured, for plain stale descent and under alignment control."""

from __future__ import annotations

import math
from fractions import Fraction
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
CONTROLLED, MUTED, STALE, TUNED = (_style.COLORS[name] for name in ("controlled", "muted", "stale", "tuned"))
TITLES = {"quadratic": "Quadratic", "bandit": "Bandit, policy gradients"}
LARGEST, QUARTER = "largest step allowed", "1/4 safe step"
"""What the condition allows at most, and a quarter of the safe step 1 / (L (1 + staleness))."""
LOOK: dict[str, dict[str, Any]] = {
    "none": {"color": STALE, "marker": "o"},
    "project": {"color": CONTROLLED, "marker": "s"},
    "skip": {"color": MUTED, "marker": "D", "mfc": "white"},
    "tenth": {"color": TUNED, "marker": "P", "markersize": 4.5},
}
LABEL = {
    "none": "no control",
    "project": "project: drop the part parallel to the gradient before",
    "skip": "project + skip: drop it above cosine 0.05, skip the update above 0.3",
    "tenth": "no control, but 1/10 of the step at which it is judged (C)",
}
QUARTERED, LATE = 0.25, 0.125
"""Shares of the safe step: that of the label, and in the panel on random times, where all must meet the condition."""
STYLES = {"quadratic": "-", "bandit": ":"}
"""Lines of the tasks in the panel of both."""
SMALL: dict[str, Any] = {"fontsize": 6.3, "in_layout": False}


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
    delay: dict[str, float]
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
        ax.plot(gone, [0.77] * len(gone), "^", color=look["color"], markersize=4, transform=ax.get_xaxis_transform())


def draw_ratio(ax: Axes, own: Any) -> None:
    """Measured over guaranteed against the staleness, plain descent at two steps."""
    ages = sorted(set(own.staleness))
    plain = own[own.rule == "none"]
    quarter = plain[plain.fraction == QUARTERED].sort_values("staleness")
    for label, each, filling in ((LARGEST, largest(plain), STALE), (QUARTER, quarter, "white")):
        line(ax, [ages.index(age) for age in each.staleness], each, **{**LOOK["none"], "mfc": filling})
        end, below = each.value_ratio.iloc[-1], label == LARGEST
        low = below and end < 0.5
        if low:
            ax.text(len(ages) - 3.2, 0.08, label.replace(" step ", "\n"), ha="right", **SMALL)
        else:
            shift = (0, -12 if below else 6)
            ax.annotate(label, (len(ages) - 1, end), shift, textcoords="offset points", ha="right", **SMALL)
        if below and not low:
            values = ", ".join(f"{value:.3f}" for value in each.value_ratio.iloc[:2])
            text = f"{values}\nat staleness {ages[0]}, {ages[1]}"
            ax.text(0.03, 0.82, text, transform=ax.transAxes, va="top", **SMALL)
    guarantee(ax)
    ax.set(ylim=(0, 1.15), xticks=range(len(ages)), xticklabels=ages, xlabel="staleness (updates)")


def largest(own: Any) -> Any:
    """Of every staleness the row with the largest step that the condition allows."""
    held = own[own.bound.notna()]
    return held.loc[held.groupby("staleness").fraction.idxmax()].sort_values("staleness")


def draw_arrival(ax: Axes, own: Any) -> None:
    """Measured over guaranteed against the mean staleness, delays from workers with exponential times."""
    ages = sorted(set(own.staleness))
    for task, style in STYLES.items():
        each = own[(own.task == task) & (own.fraction == LATE) & own.bound.notna()].sort_values("staleness")
        look = {**LOOK["none"], "mfc": "white", "linestyle": style}
        line(ax, [ages.index(age) for age in each.staleness], each, **look)
        first = each.iloc[0]
        shift = (0, 7 if task == "quadratic" else -11)
        ax.annotate(task, (0, first.value_ratio), shift, textcoords="offset points", **SMALL)
    text = "1/8 safe step (of the mean staleness):\nthe condition counts the largest\n"
    text += "staleness and so allows smaller steps"
    ax.text(0.98, 0.82, text, transform=ax.transAxes, ha="right", va="top", **SMALL)
    guarantee(ax)
    ax.set(ylim=(0, 1.15), xticks=range(len(ages)), xticklabels=ages, xlabel="mean staleness (updates)")


def guarantee(ax: Axes, at: float = 0.98) -> None:
    """The line that plain descent must not cross."""
    ax.axhline(1.0, **_style.PREDICTED)
    ax.text(at, 1.02, "guarantee", transform=ax.get_yaxis_transform(), ha="right", va="bottom", **SMALL)


def draw_steps(ax: Axes, own: Any) -> None:
    """Average squared gradient of no control and both rules against the step, with the guarantee in its condition."""
    for rule in ("none", "project", "skip"):
        each = own[own.rule == rule].sort_values("fraction")
        line(ax, each.fraction, each, suffix="", **LOOK[rule])
    plain = own[(own.rule == "none") & own.bound.notna()].sort_values("fraction")
    ax.plot(plain.fraction, plain.bound, **_style.PREDICTED)
    task, tau = own.task.iloc[0], int(own.staleness.iloc[0])
    if task == "quadratic":
        edge = limit(tau)
        ax.axvline(edge, **{**_style.PREDICTED, "linewidth": 0.7})
        text = "predicted limit of \nstability, no control \n(▲ diverged) "
        ax.text(edge, 0.985, text, transform=ax.get_xaxis_transform(), ha="right", va="top", **SMALL)
    else:
        ax.text(
            0.98,
            0.95,
            "no limit of stability is\npredicted, none diverged",
            transform=ax.transAxes,
            ha="right",
            va="top",
            **SMALL,
        )
        end = plain.iloc[-1]
        ax.text(0.7 * end.fraction, 1.2 * end.bound, "guarantee", **SMALL)
    ax.set(xscale="log", yscale="log", xlabel="step / safe step")
    ax.set(xticks=[0.0625, 0.25, 1, 3], xticklabels=["1/16", "1/4", "1", "3"])
    # Above the data stand labels.
    ax.set_ylim(top=8.0 * own.high.max())
    ax.minorticks_off()


def draw_worst(ax: Axes, own: Any) -> None:
    """Largest ratio over the steps inside the condition, of each rule, against the staleness."""
    ages = sorted(set(own.staleness))
    for rule in LOOK:
        mine = own[(own.rule == rule) & own.bound.notna() & own.value.notna()]
        each = mine.loc[mine.groupby("staleness").value_ratio.idxmax()].sort_values("staleness")
        line(ax, [ages.index(age) for age in each.staleness], each, **LOOK[rule])
    guarantee(ax)
    ax.set(yscale="log", xticks=range(len(ages)), xticklabels=ages, xlabel="staleness (updates)")


def draw(rows: Any) -> Figure:
    """Upper row: the guarantee holds for plain descent. Lower row: it does not carry over to control."""
    own = judged(rows)
    constant, arrival = own[own.schedule == "constant"], own[own.schedule == "arrival"]
    ages = sorted(set(constant.staleness))
    staleness = 8 if 8 in ages else ages[-2]
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 6.6)
        halves = figure.subfigures(2, 1)
        upper, lower = halves[0].subplots(1, 3), halves[1].subplots(1, 4)
        lower[3].sharey(lower[2])
        for ax, below, worst, task in zip(upper[:2], lower[:2], lower[2:], TITLES, strict=True):
            draw_ratio(ax, constant[constant.task == task])
            draw_steps(below, constant[(constant.task == task) & (constant.staleness == staleness)])
            draw_worst(worst, constant[constant.task == task])
        draw_arrival(upper[2], arrival)
        write(upper, lower, staleness)
        explain(figure, int(own.updates.iloc[0]), int(own.samples.iloc[0]))
    return figure


def write(upper: Any, lower: Any, staleness: int) -> None:
    """Headings, titles of the panels and labels of the axes."""
    headings = (
        "A  Without control: what is measured never exceeds the guarantee (ratio at most 1)",
        "B, C  Control can exceed it, but so does no control that moves less (purple): no test of control",
    )
    titles = (*TITLES.values(), "Both, workers with random times")
    below = (
        *(f"B  {title.partition(',')[0]}, staleness {staleness}" for title in TITLES.values()),
        *(f"C  {title.partition(',')[0]}, worst step" for title in TITLES.values()),
    )
    for axes, heading, row in zip((upper, lower), headings, (titles, below), strict=True):
        # A blank title holds the room, since the layout would widen the column for a long one.
        axes[0].set_title(" ", pad=17)
        text = axes[0].annotate(heading, (0, 1), (0, 17), xycoords="axes fraction", textcoords="offset points")
        text.set(fontsize=7.5, fontweight="bold", in_layout=False)
        for ax, title in zip(axes, row, strict=True):
            ax.text(0.0, 1.03, title, transform=ax.transAxes, va="bottom", fontsize=7).set_in_layout(False)
    upper[0].set_ylabel("average squared gradient,\nmeasured / guaranteed")
    upper[1].text(
        0.03,
        0.84,
        "loose without staleness: the guarantee\nassumes the largest noise all along",
        transform=upper[1].transAxes,
        va="top",
        **SMALL,
    )
    lower[0].set_ylabel("average squared gradient")
    lower[2].set_ylabel("measured / guaranteed")
    text = "C: largest ratio over\nall steps that meet\nthe condition"
    lower[3].text(0.98, 0.95, text, transform=lower[3].transAxes, ha="right", va="top", **SMALL)


def explain(figure: Figure, updates: int, runs: int) -> None:
    """The text above the panels, and the legend below them."""
    _script.caption(
        figure,
        "GAC (gradient alignment control) acts on gradients that point the same way as the one before; its paper",
        "claims convergence under bounded staleness. Dashed: such a guarantee with exact constants, proven for plain",
        "descent with old gradients, drawn only where its condition on the step holds: with constant staleness at",
        "least up to the safe step, 1 / (smoothness × (1 + staleness)). In B the guarantee rises to both sides: small",
        "steps are slow, large ones noisy. Blue and gray are both reconstructions of GAC by us.",
        "Varied: staleness (how many updates old gradients are), step, rule. Measured: squared exact gradient,",
        f"averaged over {updates} updates and {runs} runs, 95 % intervals (mostly smaller than the marks). Found: the",
        "guarantee holds without control. Under control it can be exceeded, but that says nothing about the paper: it",
        "counts on the whole step, and whatever moves less exceeds it, plain descent with a smaller step too.",
    )
    small = {"linewidth": 0.9, "markersize": 4}
    handles = [Line2D([], [], **{**small, **LOOK[rule], "label": LABEL[rule]}) for rule in LOOK]
    handles.insert(1, Line2D([], [], **_style.PREDICTED, label="guarantee for no control"))
    figure.legend(handles=handles, loc="outside lower left", ncols=2, fontsize=6.5)


def worst(own: Any) -> Any:
    """The row with the largest ratio."""
    return own.loc[own.value_ratio.idxmax()]


def with_interval(own: Any, digits: int = 2) -> str:
    """A ratio with its 95 percent interval."""
    return f"{own.value_ratio:.{digits}f} ({own.low_ratio:.{digits}f} to {own.high_ratio:.{digits}f})"


def limit(staleness: int) -> float:
    """Predicted limit of stability on the quadratic without control, in safe steps."""
    point = {"staleness": staleness, "curvatures": (scene("quadratic")["curvature"],)}
    return theory.claim("staleness/stability-boundary").predict(point)["step"] * (1 + staleness)


def numbers(rows: Any) -> dict[str, str]:
    """Largest ratios inside the condition by task and rule, tightness, and what lies outside."""
    own = judged(rows)
    constant, arrival = own[own.schedule == "constant"], own[own.schedule == "arrival"]
    inside = constant[constant.bound.notna() & constant.value.notna()]
    plain = inside[inside.rule == "none"]
    tight = largest(plain[plain.task == "quadratic"]).reset_index()
    ages = [int(age) for age in tight.staleness]
    held = arrival[arrival.bound.notna()]
    last = int(constant.staleness.max())
    latest = held[(held.staleness == int(held.staleness.max())) & (held.task == "quadratic")].iloc[0]
    found = {
        "points": f"{len(plain)}",
        "last": f"{last}",
        "tight": with_interval(tight.iloc[0], 3),
        "tight_late": with_interval(tight.iloc[1], 3),
        "tight_ages": f"{ages[0]} and {ages[1]}",
        "slack": f"{tight.value_ratio.iloc[2]:.2f}",
        "slack_last": f"{tight.value_ratio.iloc[-1]:.2f}",
        "slack_from": f"{ages[2]}",
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
        for rule in ("project", "skip", "tenth"):
            other = inside[(inside.task == task) & (inside.rule == rule)]
            found[f"{task}_{rule}"] = with_interval(worst(other[other.staleness > 0]))
            found[f"{task}_{rule}_above"] = f"{int((other.low_ratio > 1.0).sum())} of {len(other)}"
    frozen = worst(inside[(inside.rule == "skip") & (inside.task == "quadratic") & (inside.staleness == 0)])
    found["frozen"] = with_interval(frozen)
    found["frozen_step"] = f"{Fraction(float(frozen.fraction)).limit_denominator(64)}"
    limits = [limit(int(age)) for age in set(constant.staleness)]
    found |= {"limit_least": f"{min(limits):.2f}", "limit_most": f"{max(limits):.2f}"}
    lost = constant[(constant.task == "quadratic") & (constant.rule == "none") & constant.reason.notna()]
    found["diverging"] = f"{lost.fraction.min():.1f}" if len(lost) else "none"
    return {key: value.replace("-", "−") for key, value in found.items()}
