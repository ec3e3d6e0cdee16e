"""Alignment control against a smaller step: at the step tuned without staleness, and each at its own best step."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asyncsim import theory
from asyncsim.base import uncertainty
from asyncsim.plotting import _style
from experiments import _gac_control as arms
from paper_figures import _script

EXPERIMENTS = ("gac_control",)
TITLES = {
    "fixed": "Bandit, exact rewards",
    "random": "Bandit, noisy rewards (0 or 1)",
    "stiff": "Quadratic, 1 direction 20 × steeper",
}
STALE, CONTROLLED = _style.COLORS["stale"], _style.COLORS["controlled"]
SYNCHRONOUS, TUNED, MUTED = (_style.COLORS[name] for name in ("synchronous", "tuned", "muted"))
LOOK: dict[str, dict[str, Any]] = {
    "synchronous": {"color": SYNCHRONOUS, "marker": "*", "markersize": 3.5},
    "none": {"color": STALE, "marker": "o"},
    "tuned": {"color": TUNED, "marker": "P", "markersize": 4.5},
    "project": {"color": CONTROLLED, "marker": "s"},
    "skip": {"color": MUTED, "marker": "D", "mfc": "white", "linewidth": 0.6},
}
"""One look for each arm; `tuned` is no control at the best step for the staleness."""
LABEL = {
    "synchronous": "no staleness, no control (band in B, C: its 95 % interval)",
    "none": "no control (A, B)",
    "tuned": "no control, at its own best step (C)",
    "project": "GAC, project: drop the part along the gradient before if c > 0",
    "skip": "GAC, project + skip (A): drop it if c > 0.05, skip the update if c > 0.3",
}
SCALES = {"fixed": (5e-9, 1e2), "random": (1e-3, 1.0), "stiff": (0.1, 60.0)}
STEPS = {"fixed": (5e-9, 1e3), "random": (1.8e-3, 1.2), "stiff": (0.1, 3e4)}
"""Limits of the axes against staleness, and against the step, where labels of predictions stand above the data."""
SMALL: dict[str, Any] = {"fontsize": 6.0, "va": "top", "in_layout": False}
NOTE = {"fixed": (0.98, 0.45, "right"), "random": (0.074, 0.7, "left"), "stiff": (0.02, 0.62, "left")}
"""Where the ratio of each panel of B stands."""
BESIDE = {"none": -0.09, "project": 0.09}
"""Points that would cover each other stand side by side."""


NEAR = 1.1
"""Times the synchronous regret: up to here a rule counts as matching it."""


def parted(rows: Any) -> tuple[Any, Any]:
    """Rows of the usual length, and of longer runs."""
    short = rows.updates == rows.updates.min()
    return rows[short], rows[~short]


def best(rows: Any, task: str, staleness: int, rule: str) -> float:
    """The step that the choosing replicates prefer."""
    own = rows[(rows.quantity == "tuning") & (rows.task == task) & (rows.staleness == staleness) & (rows.rule == rule)]
    return float(own.step[own.value.idxmin()])


def row(rows: Any, task: str, staleness: int, rule: str, step: float, quantity: str = "regret") -> Any:
    """The one row of a rule at a step."""
    own = rows[(rows.quantity == quantity) & (rows.task == task) & (rows.staleness == staleness)]
    return own[(own.rule == rule) & (own.step == step)].iloc[0]


def boundary(task: str, staleness: int) -> float:
    """Predicted largest stable step without control."""
    name, points, factor = arms.points(task, staleness)
    return factor * min(theory.claim(name).predict(point)["step"] for point in points)


def line(ax: Axes, x: list[float], found: list[Any], **look: Any) -> None:
    """Values with their intervals on a thin line; what diverged stands at the upper edge as a triangle."""
    there = [(at, own) for at, own in zip(x, found, strict=True) if not math.isnan(own.value)]
    places, values = [at for at, _ in there], [own.value for _, own in there]
    # On a logarithmic axis an interval that reaches below 0 would have no lower end.
    below = [min(own.value - own.low, 0.999 * own.value) for _, own in there]
    above = [own.high - own.value for _, own in there]
    style = {**_style.MEASURED, "markersize": 3.2, "linestyle": "-", "linewidth": 0.9}
    ax.errorbar(places, values, yerr=[below, above], **{**style, **look})
    gone = [at for at, own in zip(x, found, strict=True) if math.isnan(own.value)]
    if gone:
        ax.plot(gone, [0.8] * len(gone), "^", color=look["color"], markersize=4.0, transform=ax.get_xaxis_transform())


def draw_steps(ax: Axes, rows: Any, task: str, staleness: int) -> None:
    """Final regret against the step at one staleness and without any, with the predicted limit of stability."""
    regret = rows[(rows.task == task) & (rows.quantity == "regret")]
    ax.set_xscale("log", base=2)
    ax.set(yscale="log", ylim=STEPS[task], xlabel="step (learning rate)")
    for arm, age in (("synchronous", 0), ("none", staleness), ("project", staleness), ("skip", staleness)):
        own = regret[(regret.rule == ("none" if arm == "synchronous" else arm)) & (regret.staleness == age)]
        each = [found for _, found in own.sort_values("step").iterrows()]
        dense = {"markersize": 2.0} if len(each) > 20 else {}
        line(ax, [found.step for found in each], each, **{**LOOK[arm], **dense})
    synchronous = row(rows, task, 0, "none", best(rows, task, 0, "none"))
    ax.plot([synchronous.step], [synchronous.value], "*", color=SYNCHRONOUS, markersize=11, mec="white", zorder=6)
    limit, left = boundary(task, staleness), task == "random"
    ax.axvline(limit, **_style.PREDICTED)
    text = "predicted stability \nlimit, no control " if left else " predicted stability\n limit, no control"
    ax.text(limit, 0.99, text, transform=ax.get_xaxis_transform(), ha="right" if left else "left", **SMALL)


def draw_stale(ax: Axes, rows: Any, task: str, tuned: bool) -> None:
    """Final regret against staleness at the synchronous step, or of each rule at its own best step."""
    ages = ages_of(rows, task)
    step = best(rows, task, 0, "none")
    ax.set(yscale="log", ylim=SCALES[task], xticks=range(len(ages)), xticklabels=ages, xlim=(-0.4, len(ages) - 0.6))
    ax.set_xlabel("staleness (updates)")
    if task == "random":
        # Here all is within a factor of two, which the axis of the others would hide.
        top = max(row(rows, task, age, "none", step).high for age in ages)
        limits = (0.9 * row(rows, task, 0, "none", step).low, 1.2 * top)
        ticks = [tick / 1000 for tick in range(1, 30) if limits[0] <= tick / 1000 <= limits[1]]
        ax.set(ylim=limits, yticks=ticks, yticklabels=[f"{tick}" for tick in ticks])
        ax.minorticks_off()
    low, high = row(rows, task, 0, "none", step)[["low", "high"]]
    ax.axhspan(max(low, SCALES[task][0]), high, color=SYNCHRONOUS, alpha=0.35, linewidth=0)
    for rule in ("none", "project"):
        found = [row(rows, task, age, rule, best(rows, task, age, rule) if tuned else step) for age in ages]
        look = LOOK["tuned" if tuned and rule == "none" else rule]
        line(ax, [place + BESIDE[rule] for place in range(len(ages))], found, **look)
    if tuned:
        return
    unstable = [place for place, age in enumerate(ages) if boundary(task, age) < step]
    text, edge = "predicted stable, but old gradients\namplify noise: regret still rises", 0.0
    if unstable:
        edge = unstable[0] - 0.5
        ax.axvline(edge, **_style.PREDICTED)
        text = "predicted unstable\nwithout control"
    right = 2.0 * edge >= len(ages)
    place = edge - 0.1 if right else edge + 0.1
    ax.text(place, 0.99, text, transform=ax.get_xaxis_transform(), ha="right" if right else "left", **SMALL)


def ages_of(rows: Any, task: str) -> list[int]:
    """Stalenesses of a task in order."""
    return sorted(int(age) for age in set(rows[rows.task == task].staleness))


def draw(rows: Any) -> Figure:
    """Columns: tasks. Rows: regret against the step; against staleness at one step, and at the best steps."""
    rows, longer = parted(rows)
    ages = ages_of(rows, "fixed")
    staleness = 16 if 16 in ages else ages[-1]
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 7.8)
        panels = figure.subplots(3, 3, height_ratios=(1.25, 1, 1))
        for (top, middle, low), task in zip(panels.T, TITLES, strict=True):
            draw_steps(top, rows, task, staleness)
            draw_stale(middle, rows, task, tuned=False)
            draw_stale(low, rows, task, tuned=True)
        write(panels, rows, staleness)
        for ax, task in zip(panels[2], TITLES, strict=True):
            compare(ax, rows, longer[longer.task == task], task)
        explain(figure, rows)
    return figure


def write(panels: Any, rows: Any, staleness: int) -> None:
    """Headings of the rows, titles of the panels, and remarks."""
    last = ages_of(rows, "fixed")[-1]
    headings = (
        f"A  Staleness {staleness}, all steps: projection allows larger steps (left, right), but staleness still costs",
        "B  All at the star's step, best without staleness: projection delays the damage, it does not undo it",
        "C  Each at its own best step: projection gains left, right only in short runs; not with noisy rewards",
    )
    for axes, text in zip(panels, headings, strict=True):
        # A blank title holds the room, since the layout would widen the column for a long one.
        axes[0].set_title(" ", pad=17)
        heading = axes[0].annotate(text, (0, 1), (0, 17), xycoords="axes fraction", textcoords="offset points")
        heading.set(fontsize=7.5, fontweight="bold", in_layout=False)
        axes[0].set_ylabel("final regret (lower is better)")
    for task, (top, middle, low) in zip(TITLES, panels.T, strict=True):
        for ax in (top, middle, low):
            ax.text(0.0, 1.03, TITLES[task], transform=ax.transAxes, va="bottom", fontsize=6.8).set_in_layout(False)
        x, y, side = NOTE[task]
        remark = f"at staleness {last}:\nproject {times(rows, task, last)} green"
        middle.text(x, y, remark, transform=middle.transAxes, ha=side, **SMALL)
    panels[0, 1].text(
        0.3, 0.58, "noise limits the\nstep before\ninstability does", transform=panels[0, 1].transAxes, **SMALL
    )
    for ax, at, text in ((panels[0, 2], 0.46, "▲ diverged (beyond\n100 × start)"), (panels[1, 2], 0.73, "▲ diverged")):
        ax.text(at, 0.75, text, color=STALE, transform=ax.transAxes, **SMALL)


def compare(ax: Axes, rows: Any, longer: Any, task: str) -> None:
    """The ratio of no control to projection at the largest staleness, and in longer runs where there are any."""
    last = ages_of(rows, "fixed")[-1]
    text = f"at staleness {last}:\nno control {against(rows, task, last)} project"
    if len(longer):
        text += f"\n(after {int(longer.updates.iloc[0])} updates: {against(longer, task, last)[2:]})"
    ax.text(0.05, 0.96, text, transform=ax.transAxes, **SMALL)


def times(rows: Any, task: str, last: int) -> str:
    """How many times the synchronous regret projection ends at, at the synchronous step."""
    ratio = behind(rows, task, last, "project")
    return f"≈ $10^{{{round(math.log10(ratio))}}}$ ×" if ratio > 1e3 else f"= {ratio:.1f} ×"


def against(rows: Any, task: str, last: int) -> str:
    """How many times the regret of projection no control ends at, each at its best step."""
    plain, control = (row(rows, task, last, rule, best(rows, task, last, rule)) for rule in ("none", "project"))
    return f"= {plain.value / control.value:.2f} ×"


def explain(figure: Figure, rows: Any) -> None:
    """The text above the panels, and the legend below them."""
    regret = rows[rows.quantity == "regret"]
    runs = {task: int(regret[regret.task == task].samples.iloc[0]) for task in TITLES}
    length = int(rows.updates.iloc[0])
    _script.caption(
        figure,
        "GAC, gradient alignment control, acts when a gradient points the same way as the one before",
        "(c: their cosine). Blue and gray are both our readings of it. Varied: step, rule, staleness (how many",
        "updates old gradients are). Measured: final regret, the best possible return minus the return reached",
        f"(quadratic: its loss). Means of {runs['fixed']} runs ({runs['random']} with noisy rewards) of {length}",
        "updates, 95 % intervals; best steps were chosen on other runs.",
        "Found: projection does not bring back training without staleness (green). Compared with no control at its",
        "own best step it gains with exact rewards, on the quadratic only while runs are short, and nothing",
        "with noisy rewards.",
        "Skipping updates as well (gray) mostly stops learning where rewards are exact, and on the quadratic.",
        "Points of B and C are moved sideways.",
    )
    handles = [Line2D([], [], **{"linewidth": 0.9, "markersize": 4, "label": LABEL[arm], **LOOK[arm]}) for arm in LABEL]
    handles[0].set_markersize(7)
    handles.append(Line2D([], [], **_style.PREDICTED, label="predicted limit of stability, no control"))
    figure.legend(handles=handles, loc="outside lower left", ncols=2, fontsize=6.5)


def behind(rows: Any, task: str, staleness: int, rule: str) -> float:
    """How many times the synchronous regret a rule ends at, at the synchronous step; NaN where it diverges."""
    step = best(rows, task, 0, "none")
    return float(row(rows, task, staleness, rule, step).value / row(rows, task, 0, "none", step).value)


def fold(one: Any, other: Any) -> str:
    """Ratio of two regrets with its 95 percent interval, from independent replicates, in logarithms."""
    ratio = one.value / other.value
    spread = math.hypot(one.error / one.value, other.error / other.value)
    reach = math.exp(uncertainty.critical(0.05, min(one.samples, other.samples) - 1) * spread)
    digits = 2 if ratio < 10 else 1
    return f"{ratio:.{digits}f} ({ratio / reach:.{digits}f} to {ratio * reach:.{digits}f})"


def shown(found: Any) -> str:
    """A regret with half of its interval, or that it diverged."""
    if math.isnan(found.value):
        return "diverges"
    power = math.floor(math.log10(found.value))
    scale = 10.0**power if not -2 <= power <= 2 else 1.0
    digits = 2 if scale != 1.0 else max(0, 2 - power)
    text = f"{found.value / scale:.{digits}f} ± {(found.high - found.low) / 2 / scale:.{digits}f}"
    return text if scale == 1.0 else f"({text}) · 1e{power}"


def matches(rows: Any) -> dict[str, str]:
    """Ratios to the synchronous regret at the synchronous step, and the staleness up to which all are near 1."""
    found = {}
    for task in ("random", "stiff"):
        for rule in ("none", "project"):
            ages = ages_of(rows, task)
            ratios = {age: behind(rows, task, age, rule) for age in ages[1:]}
            failed = [age for age, ratio in ratios.items() if not ratio <= NEAR]
            found[f"{task}_{rule}_matches"] = f"{max(age for age in ages if age < min([*failed, math.inf]))}"
            found[f"{task}_{rule}_behinds"] = _script.listed(
                "diverges" if math.isnan(ratio) else f"{ratio:.{2 if ratio < 10 else 1}f}" for ratio in ratios.values()
            )
    return found


def numbers(rows: Any) -> dict[str, str]:
    """Final regrets at the largest staleness by task and arm, and ratios between arms."""
    rows, longer = parted(rows)
    ages = ages_of(rows, "fixed")
    last = ages[-1]
    found = {"last": f"{last}", "replicates": f"{int(rows.samples[rows.quantity == 'regret'].iloc[0])}"}
    for task in TITLES:
        step = best(rows, task, 0, "none")
        synchronous = row(rows, task, 0, "none", step)
        same = {rule: row(rows, task, last, rule, step) for rule in ("none", "project", "skip")}
        own = {rule: row(rows, task, last, rule, best(rows, task, last, rule)) for rule in ("none", "project", "skip")}
        found |= {
            f"{task}_synchronous": shown(synchronous),
            f"{task}_none": shown(same["none"]),
            f"{task}_project": shown(same["project"]),
            f"{task}_behind": fold(same["project"], synchronous),
            f"{task}_smaller": shown(own["none"]),
            f"{task}_tuned": shown(own["project"]),
            f"{task}_gain": fold(own["none"], own["project"]),
            f"{task}_skip": shown(own["skip"]),
            f"{task}_skipped": f"{100 * row(rows, task, last, 'skip', step, 'skipped').value:.0f}",
            f"{task}_cosine": f"{row(rows, task, last, 'none', step, 'cosine').value:.2f}",
            f"{task}_cosine_synchronous": f"{row(rows, task, 0, 'none', step, 'cosine').value:.2f}",
            f"{task}_wider": f"{best(rows, task, last, 'project') / best(rows, task, last, 'none'):.1f}",
            f"{task}_gains": _script.listed(against(rows, task, age)[2:-2] for age in ages[1:]),
        }
    early = row(rows, "fixed", ages[1], "project", best(rows, "fixed", 0, "none"))
    found |= {"first": f"{ages[1]}", "fixed_first": shown(early)}
    found["fixed_first_none"] = shown(row(rows, "fixed", ages[1], "none", best(rows, "fixed", 0, "none")))
    found |= matches(rows)
    for task in ("fixed", "stiff"):
        own = longer[longer.task == task]
        pair = [row(own, task, last, rule, best(own, task, last, rule)) for rule in ("none", "project")]
        found |= {f"{task}_long": f"{int(own.updates.iloc[0])}", f"{task}_gain_long": fold(*pair)}
    found |= {"updates": f"{int(rows.updates.iloc[0])}", "near": f"{100 * (NEAR - 1):.0f}"}
    found["ages"] = _script.listed(f"{age}" for age in ages[1:])
    # Where everything is lost a ratio to nearly nothing says no more than that.
    found.pop("fixed_behind")
    return {key: value.replace("-", "−") for key, value in found.items()}
