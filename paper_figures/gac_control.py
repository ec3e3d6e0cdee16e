"""Alignment control against a smaller step: at the step tuned without staleness, and each at its own best step."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asyncsim import theory, uncertainty
from asyncsim.plotting import _style
from experiments import _gac_control as arms
from experiments import gac_control as experiment
from paper_figures import _script

EXPERIMENTS = ("gac_control",)
TITLES = {
    "fixed": "Bandit, exact rewards",
    "random": "Bandit, noisy rewards (0 or 1)",
    "stiff": "Quadratic, one steep direction",
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
    "synchronous": "no staleness, no control (band in B, C)",
    "none": "no control (A, B)",
    "tuned": "no control, smaller step (C)",
    "project": "project: drop the part parallel to the gradient before",
    "skip": "project + skip (A): drop it above cosine 0.05, skip update above 0.3",
}
SCALES = {"fixed": (5e-9, 3.0), "random": (2.6e-3, 5.2e-3), "stiff": (0.1, 60.0)}
STEPS = {"fixed": (5e-9, 1e3), "random": (1.8e-3, 1.2), "stiff": (0.1, 3e3)}
"""Limits of the axes against staleness, and against the step, where labels of predictions stand above the data."""
SMALL: dict[str, Any] = {"fontsize": 6.0, "va": "top", "in_layout": False}
BESIDE = {"none": -0.09, "project": 0.09}
"""Points that would cover each other stand side by side."""


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
        line(ax, [found.step for found in each], each, **LOOK[arm])
    synchronous = row(rows, task, 0, "none", best(rows, task, 0, "none"))
    ax.plot([synchronous.step], [synchronous.value], "*", color=SYNCHRONOUS, markersize=11, mec="white", zorder=6)
    limit, left = boundary(task, staleness), task == "random"
    ax.axvline(limit, **_style.PREDICTED)
    text = "predicted limit \nof stability, \nno control " if left else " predicted limit of stability,\n no control"
    ax.text(limit, 0.99, text, transform=ax.get_xaxis_transform(), ha="right" if left else "left", **SMALL)


def draw_stale(ax: Axes, rows: Any, task: str, tuned: bool) -> None:
    """Final regret against staleness at the synchronous step, or of each rule at its own best step."""
    ages = ages_of(rows, task)
    step = best(rows, task, 0, "none")
    ax.set(yscale="log", ylim=SCALES[task], xticks=range(len(ages)), xticklabels=ages, xlim=(-0.4, len(ages) - 0.6))
    ax.set_xlabel("staleness (updates)")
    if task == "random":
        ticks = (0.003, 0.004, 0.005)
        ax.set(yticks=ticks, yticklabels=[f"{tick}" for tick in ticks])
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
    text, edge = "predicted stable without\ncontrol at each staleness shown", 0.0
    if unstable:
        edge = unstable[0] - 0.5
        ax.axvline(edge, **_style.PREDICTED)
        text = "predicted unstable\nwithout control" if edge > 2 else "predicted unstable without control"
    right = edge > 2
    place = edge - 0.1 if right else edge + 0.1
    ax.text(place, 0.99, text, transform=ax.get_xaxis_transform(), ha="right" if right else "left", **SMALL)


def ages_of(rows: Any, task: str) -> list[int]:
    """Stalenesses of a task in order."""
    return sorted(int(age) for age in set(rows[rows.task == task].staleness))


def draw(rows: Any) -> Figure:
    """Columns: tasks. Rows: regret against the step; against staleness at one step, and at the best steps."""
    ages = ages_of(rows, "fixed")
    staleness = 16 if 16 in ages else ages[-1]
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 7.6)
        panels = figure.subplots(3, 3, height_ratios=(1.25, 1, 1))
        for (top, middle, low), task in zip(panels.T, TITLES, strict=True):
            draw_steps(top, rows, task, staleness)
            draw_stale(middle, rows, task, tuned=False)
            draw_stale(low, rows, task, tuned=True)
        write(panels, rows, staleness)
        explain(figure, rows)
    return figure


def write(panels: Any, rows: Any, staleness: int) -> None:
    """Headings of the rows, titles of the panels, and remarks."""
    last = ages_of(rows, "fixed")[-1]
    headings = (
        f"A  Staleness {staleness}, every step: projection keeps larger steps usable, up to a point",
        "B  All at the star's step, best without staleness: projection delays the damage, it does not undo it",
        "C  Each at its own best step: projection beats a smaller step with little noise (left, right), not with much",
    )
    for axes, text in zip(panels, headings, strict=True):
        # A blank title holds the room, since the layout would widen the column for a long one.
        axes[0].set_title(" ", pad=17)
        heading = axes[0].annotate(text, (0, 1), (0, 17), xycoords="axes fraction", textcoords="offset points")
        heading.set(fontsize=7.5, fontweight="bold", in_layout=False)
        axes[0].set_ylabel("final regret (lower is better)")
    for task, (top, middle, low) in zip(TITLES, panels.T, strict=True):
        name, _, kind = TITLES[task].partition(", ")
        short = name if task == "stiff" else kind.partition(" (")[0].capitalize()
        for ax, text in (
            (top, TITLES[task]),
            (middle, f"{short}: at {last}, {times(rows, task, last)} synchronous"),
            (low, f"{short}: at {last}, {against(rows, task, last)}"),
        ):
            ax.text(0.0, 1.03, text, transform=ax.transAxes, va="bottom", fontsize=7).set_in_layout(False)
    panels[0, 1].text(0.3, 0.58, "noise limits the\nstep before\ninstability does", transform=panels[0, 1].transAxes, **SMALL)
    for ax in (panels[0, 2], panels[1, 2]):
        ax.text(0.99, 0.74, "▲ diverged", color=STALE, transform=ax.transAxes, ha="right", **SMALL)


def times(rows: Any, task: str, last: int) -> str:
    """How many times the synchronous regret projection ends at, at the synchronous step."""
    step = best(rows, task, 0, "none")
    ratio = row(rows, task, last, "project", step).value / row(rows, task, 0, "none", step).value
    return "over 1000 ×" if ratio > 1e3 else f"{ratio:.1f} ×"


def against(rows: Any, task: str, last: int) -> str:
    """Projection beside a smaller step, each at its best: how many times lower or higher the regret is."""
    plain, control = (row(rows, task, last, rule, best(rows, task, last, rule)) for rule in ("none", "project"))
    ratio, word = (plain.value / control.value, "lower") if plain.value > control.value else (0.0, "higher")
    return f"{ratio or control.value / plain.value:.2f} × {word}"


def explain(figure: Figure, rows: Any) -> None:
    """The text above the panels, and the legend below them."""
    regret = rows[rows.quantity == "regret"]
    runs = {task: int(regret[regret.task == task].samples.iloc[0]) for task in TITLES}
    settings = [*experiment.SETTINGS, *experiment.QUICK]
    length = next(own["updates"] for own in settings if own["replicates"] - own["choosing"] == runs["fixed"])
    _script.caption(
        figure,
        "GAC, gradient alignment control (our reconstruction), acts when a gradient points the same way as the one before.",
        "Varied: the step (one grid for all arms), the staleness (how many updates old gradients are), the rule of control.",
        "Measured: final regret, the best possible return minus the return reached (quadratic: its loss). Means of",
        f"{runs['fixed']} runs ({runs['random']} with noisy rewards) of {length} updates, 95 % intervals; best steps were chosen on other runs.",
        "Found: projection does not bring back training without staleness (green). Against just a smaller step it gains",
        "where gradients carry little noise and loses a little where they carry much. Skipping (gray) then mostly stops learning.",
    )
    handles = [Line2D([], [], **{"linewidth": 0.9, "markersize": 4, "label": LABEL[arm], **LOOK[arm]}) for arm in LABEL]
    handles[0].set_markersize(7)
    handles.append(Line2D([], [], **_style.PREDICTED, label="predicted limit of stability, no control"))
    figure.legend(handles=handles, loc="outside lower left", ncols=2, fontsize=6.5)


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


def numbers(rows: Any) -> dict[str, str]:
    """Final regrets at the largest staleness by task and arm, and ratios between arms."""
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
        }
    early = row(rows, "fixed", ages[1], "project", best(rows, "fixed", 0, "none"))
    found |= {"first": f"{ages[1]}", "fixed_first": shown(early)}
    found["fixed_first_none"] = shown(row(rows, "fixed", ages[1], "none", best(rows, "fixed", 0, "none")))
    # Where everything is lost a ratio to nearly nothing says no more than that.
    found.pop("fixed_behind")
    return {key: value.replace("-", "−") for key, value in found.items()}
