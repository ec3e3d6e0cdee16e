"""How many hours asynchrony saves on the way to a return: curves, staleness, and the machines where it pays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from asyncsim import theory, uncertainty
from asyncsim.plotting import _style
from experiments import _vcpo_hours as racing
from experiments import vcpo_hours
from experiments.vcpo_hours import MAIN, PAPER
from paper_figures import _script

EXPERIMENTS = ("vcpo_hours",)
ARMS: dict[str, dict[str, Any]] = {
    "tis": {"color": _style.COLORS["stale"], "marker": "s", "label": "truncated ratios (TIS)"},
    "vcpo": {"color": _style.COLORS["controlled"], "marker": "o", "label": "VCPO"},
}
SYNCHRONOUS: dict[str, Any] = {"color": _style.COLORS["synchronous"], "marker": "*", "label": "synchronous"}
SPEED: dict[str, Any] = {"color": _style.COLORS["muted"], "marker": "D", "markerfacecolor": "white"}
PLACE = ["sigma", "train", "trainer", "staleness", "method"]
SMALL = 6.5


def pick(rows: Any, quantity: str, **place: Any) -> Any:
    """Rows of a quantity at a place."""
    rows = rows[rows.quantity == quantity]
    for name, value in {"trainer": 1.0, **place}.items():
        rows = rows[rows[name] == value]
    return rows


def machine(sigma: float, train: float) -> dict[str, Any]:
    """A machine by its spread of lengths and its training time."""
    return {"sigma": sigma, "train": train}


def step_of(rows: Any, place: dict[str, Any]) -> float:
    """The step that an arm was given on the realizations that choose; NaN where it is an edge of the grid."""
    found = pick(rows, "chosen", **place)
    return float(found.value.iloc[0]) if len(found) else math.nan


def hours_of(rows: Any, place: dict[str, Any], step: float) -> np.ndarray:
    """Hours of the reported replicates at a step."""
    return pick(rows, "hours", step=step, **place).sort_values("replicate").value.to_numpy(dtype=float)


def gain(rows: Any, place: dict[str, Any], step: float | None = None, trainer: float = 1.0) -> tuple[float, ...] | None:
    """Ratio of median hours, synchronous at its chosen step over this arm at its own (or `step`), with its interval."""
    base = {**machine(place["sigma"], place["train"]), "staleness": 0, "method": "tis", "trainer": trainer}
    own, reference = (step_of(rows, place) if step is None else step), step_of(rows, base)
    before, after = hours_of(rows, base, reference), hours_of(rows, place, own)
    found = racing.speed_up(before, after) if len(before) and len(before) == len(after) else None
    if found is None:
        return None
    half = found.error * uncertainty.critical(0.05, found.freedom)
    return tuple(math.exp(found.value + sign * half) for sign in (0, -1, 1))


def throughput(rows: Any, sigma: float, train: float, staleness: int) -> tuple[float, ...] | None:
    """Ratio of seconds an update, synchronous over asynchronous, with its interval."""
    base = pick(rows, "step_seconds", staleness=0, **machine(sigma, train))
    own = pick(rows, "step_seconds", staleness=staleness, **machine(sigma, train))
    if base.empty or own.empty:
        return None
    one, two = base.iloc[0], own.iloc[0]
    ratio = one.value / two.value
    half = math.hypot((one.high - one.low) / one.value, (two.high - two.low) / two.value) / 2.0
    return ratio, ratio * math.exp(-half), ratio * math.exp(half)


def predicted(sigma: float, train: float) -> float:
    """Ratio of throughputs when nothing limits how far generation runs ahead; NaN outside the domain of the laws."""
    each = vcpo_hours.GROUPS * vcpo_hours.SAMPLES
    point: dict[str, Any] = {
        "groups_per_batch": each, "samples_per_group": 1, "length": f"lognormal:1.0:{sigma}" if sigma else 1.0,
        "train_time": train, "sync_time": 0.0,
    }
    loop = {"places": each, "batches_per_publish": 1, "generator_pauses": True, "capacity": 16 * each}
    free = theory.claim("systems/asynchronous-throughput")
    if free.domain(point | loop | {"overflow": "block"}) is not None:
        return math.nan
    rate = free.predict(point | loop | {"overflow": "block"})["groups_per_second"]
    return theory.claim("systems/synchronous-throughput").predict(point | {"rate": 1.0})["step_seconds"] * rate / each


def first_batches(rows: Any, lead: float) -> float:
    """The speed-up if a lead of k batches cost nothing but its first k batches, which the initial policy writes.

    Limit of the throughput ratio times u / (u + k), u the updates that synchronous training needs. Holds where the
    throughput has reached its limit.
    """
    place = {**machine(*MAIN), "staleness": 0, "method": "tis"}
    needed = racing.arrived(pick(rows, "updates", step=step_of(rows, place), **place).value.to_numpy(dtype=float))
    return predicted(*MAIN) * needed / (needed + lead)


def errors(ax: Axes, found: list[tuple[float, tuple[float, ...] | None]], **look: Any) -> None:
    """Points with intervals; what has no value is left out."""
    known = [(x, *found_) for x, found_ in found if found_ is not None]
    if known:
        x, value, low, high = np.array(known).T
        ax.errorbar(x, value, yerr=[value - low, high - value], **{**_style.MEASURED, **look})


def draw_curves(ax: Axes, rows: Any) -> Axes:
    """Return against hours of the steps that were chosen."""
    place = machine(*MAIN)
    for staleness, method, look in ((0, "tis", SYNCHRONOUS), *((PAPER, name, look) for name, look in ARMS.items())):
        arm = {**place, "staleness": staleness, "method": method}
        own = pick(rows, "return", step=step_of(rows, arm), **arm).sort_values("hour")
        ax.plot(own.hour, own.value, color=look["color"], label=look["label"])
        ax.fill_between(own.hour, own.low, own.high, color=look["color"], alpha=0.2, linewidth=0)
        if len(own) > 12:
            some = own.iloc[4::6]
            ax.plot(some.hour, some.value, ls="none", color=look["color"], marker=look["marker"], ms=4)
    goal = vcpo_hours.target()
    ax.axhline(goal, color=_style.COLORS["muted"], linewidth=0.8, linestyle=":")
    ax.text(0.99, goal - 0.02, "target: 95 % of the best", ha="right", va="top", fontsize=SMALL,
            transform=ax.get_yaxis_transform())  # fmt: skip
    ax.set(xlim=(0.0, vcpo_hours.UNTIL), ylim=(-0.02, 0.95), xlabel="simulated hours", ylabel="expected return")
    ax.set_title(f"Each at its own best step, staleness {PAPER}")
    return ax


def draw_steps(ax: Axes, rows: Any) -> Axes:
    """Median hours against the step of Adam; a ring where the other realizations chose it."""
    most = int(rows.staleness.max())
    arms = [(0, "tis", SYNCHRONOUS), *((s, name, look) for s in (PAPER, most) for name, look in ARMS.items())]
    for staleness, method, look in arms:
        place = {**machine(*MAIN), "staleness": staleness, "method": method}
        own = pick(rows, "median", **place).sort_values("step")
        found = [(row.step, (row.value, row.low, row.high)) for row in own.itertuples() if np.isfinite(row.value)]
        cut = [(x, (v, low, min(high, 1e3))) for x, (v, low, high) in found]
        style = {**look, "linestyle": "-", "linewidth": 1.0, "label": None}
        errors(ax, cut, **style, markerfacecolor="white" if staleness == most else look["color"])
        for x, (v, *_) in found:
            if x == step_of(rows, place):
                ax.plot(x, v, "o", ms=9, mfc="none", mec=_style.INK, mew=0.8)
    ax.set(xscale="log", yscale="log", ylim=(4.0, 70.0), xlabel="learning rate of Adam")
    ax.set(ylabel="median hours to the target")
    steps = sorted(set(rows.step.dropna()))
    ax.xaxis.set_major_locator(FixedLocator(steps))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticklabels([f"{step:g}".lstrip("0") for step in steps])
    ax.yaxis.set_major_locator(FixedLocator([5, 10, 20, 50]))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set_yticklabels(["5", "10", "20", "50"])
    ax.set_title(f"Filled: staleness {PAPER}; open: {most}; ring: chosen")
    return ax


def staleness_axis(ax: Axes, rows: Any) -> list[int]:
    """Levels of staleness, on a logarithmic axis."""
    levels = sorted(int(s) for s in set(rows.staleness) if s > 0)
    ax.set_xscale("log", base=2)
    ax.set(xlabel="staleness allowed (versions)", xlim=(0.8 * levels[0], 1.25 * levels[-1]))
    ax.xaxis.set_major_locator(FixedLocator(levels))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticklabels([str(level) for level in levels])
    return levels


def draw_staleness(ax: Axes, rows: Any) -> Axes:
    """Speed-up against staleness: of updates alone, and of learning, with each arm's own step and a common one."""
    levels = staleness_axis(ax, rows)
    errors(ax, [(s, throughput(rows, *MAIN, s)) for s in levels], **SPEED, linestyle="-", linewidth=0.8)
    ax.axhline(predicted(*MAIN), **_style.PREDICTED)
    ready = [s for s in levels if throughput(rows, *MAIN, s)[0] > 0.97 * predicted(*MAIN)]
    every = np.geomspace(min(ready, default=levels[-1]), levels[-1], 60)
    ax.plot(every, [first_batches(rows, lead) for lead in every], **_style.PREDICTED)
    common = step_of(rows, {**machine(*MAIN), "staleness": 0, "method": "tis"})
    for shift, (name, look) in zip((0.9, 1.06), ARMS.items(), strict=True):
        places = [(s, {**machine(*MAIN), "staleness": s, "method": name}) for s in levels]
        errors(ax, [(s * shift, gain(rows, place)) for s, place in places], **look, linestyle="-", linewidth=1.0)
        matched = [(s * shift * 1.05, gain(rows, place, common)) for s, place in places]
        errors(ax, matched, **{**look, "label": None, "markersize": 2.8}, markerfacecolor="white")
    ax.axhline(1.0, color=_style.COLORS["muted"], linewidth=0.6)
    ax.set(ylim=(0.0, 3.7), ylabel="speed-up over synchronous")
    said = ((0.93, "updates an hour, measured and predicted"), (0.03, "lower dashed: a lead of k costs k batches"))
    for height, text in said:
        ax.text(0.98, height, text, transform=ax.transAxes, ha="right", fontsize=SMALL)
    ax.set_title("Filled: own best step; open: the synchronous one")
    return ax


def draw_never(ax: Axes, rows: Any) -> Axes:
    """Share of runs that never arrive at the largest step that is safe when synchronous."""
    levels, step = staleness_axis(ax, rows), boldest(rows)
    for shift, (name, look) in zip((0.95, 1.05), ARMS.items(), strict=True):
        own = pick(rows, "never", step=step, method=name, **machine(*MAIN)).set_index("staleness")
        found = [(s * shift, tuple(100 * own.loc[s, ["value", "low", "high"]])) for s in levels if s in own.index]
        errors(ax, found, **look, linestyle="-", linewidth=1.0)
    for row in pick(rows, "never", step=step, staleness=0, **machine(*MAIN)).itertuples():
        ax.axhline(100 * row.value, color=SYNCHRONOUS["color"], linewidth=1.0, label="synchronous")
    ax.legend(loc="upper left", borderpad=0.0)
    ax.set(ylim=(-3.0, 103.0), ylabel="runs that never arrive (%)")
    ax.set_title(f"At a bolder step ({step:g}): who fails?")
    return ax


def draw_map(ax: Axes, rows: Any, train: float) -> Axes:
    """Speed-up against the spread of lengths, at the staleness of the paper."""
    sigmas = np.linspace(0.0, 1.5, 31)
    ax.plot(sigmas, [predicted(sigma, train) for sigma in sigmas], **_style.PREDICTED)
    known = sorted(set(rows[(rows.train == train) & (rows.staleness == PAPER)].sigma))
    errors(ax, [(s, throughput(rows, s, train, PAPER)) for s in known], **SPEED)
    for shift, (name, look) in zip((-0.03, 0.03), ARMS.items(), strict=True):
        found = [(s + shift, gain(rows, {**machine(s, train), "staleness": PAPER, "method": name})) for s in known]
        errors(ax, found, **look)
    ax.axhline(1.0, color=_style.COLORS["muted"], linewidth=0.6)
    ax.set(xlim=(-0.12, 1.62), ylim=(0.7, 8.0), yscale="log", xlabel="spread of response times $\\sigma$")
    ax.yaxis.set_major_locator(FixedLocator([1, 2, 4, 8]))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set_yticklabels(["1", "2", "4", "8"])
    ax.set_title(f"Training = {train:g} mean responses")
    return ax


def draw(rows: Any) -> Figure:
    """Curves and steps; staleness; machines."""
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 8.6)
        first, second, third = np.asarray(figure.subfigures(3, 1, height_ratios=(1.4, 1.0, 1.05)))
        curves, steps = first.subplots(1, 2)
        draw_curves(curves, rows)
        curves.legend(loc="lower right", borderpad=0.0)
        draw_steps(steps, rows)
        levels, never = second.subplots(1, 2)
        draw_staleness(levels, rows)
        draw_never(never, rows)
        panels = third.subplots(1, len(vcpo_hours.TRAINS), sharey=True)
        for ax, train in zip(panels, vcpo_hours.TRAINS, strict=True):
            draw_map(ax, rows, train)
        panels[0].set(ylabel=f"speed-up at staleness {PAPER}")
        said(figure)
    return figure


def said(figure: Figure) -> None:
    """What is seen, in words."""
    _script.caption(
        figure,
        "Time until 32 bits are chosen well. Synchronous training waits for the slowest of 16 responses; asynchronous",
        "training runs ahead on the same machine and learns from stale data. Gray diamonds: ratio of updates an hour,",
        "dashed: predicted where nothing limits the lead. Colored: ratio of hours to the target; what it lacks is the",
        "price of staleness. Top, middle: lognormal response times of spread 1, training takes 2 mean responses.",
    )


def ratio(found: tuple[float, ...] | None) -> str:
    """A ratio with its interval."""
    return "no value" if found is None else f"{found[0]:.2f} ({found[1]:.2f} to {found[2]:.2f})"


def hours(rows: Any, place: dict[str, Any]) -> str:
    """Median hours of an arm at its own step."""
    own = pick(rows, "median", step=step_of(rows, place), **place)
    return "no" if own.empty or not np.isfinite(own.value.iloc[0]) else f"{own.value.iloc[0]:.1f}"


def numbers(rows: Any) -> dict[str, str]:
    """What the entry quotes."""
    main = machine(*MAIN)
    sync = {**main, "staleness": 0, "method": "tis"}
    step, most = step_of(rows, sync), int(rows.staleness.max())
    found = {
        "paper": f"{PAPER}", "most": f"{most}", "sync_step": f"{step:g}", "sync_hours": hours(rows, sync),
        "throughput": ratio(throughput(rows, *MAIN, PAPER)), "limit": f"{predicted(*MAIN):.2f}",
        "target": f"{vcpo_hours.target():.3f}",
    }  # fmt: skip
    bold = boldest(rows)
    found |= {"bold_step": f"{bold:g}", "most_predicted": f"{first_batches(rows, most):.2f}"}
    for name in ARMS:
        never = pick(rows, "never", step=bold, staleness=most, method=name, **main)
        found[f"{name}_bold_never"] = "no" if never.empty else f"{100 * never.value.iloc[0]:.0f}"
        for label, staleness in (("paper", PAPER), ("most", most)):
            place = {**main, "staleness": staleness, "method": name}
            found[f"{name}_{label}_speed"] = ratio(gain(rows, place))
        paper = {**main, "staleness": PAPER, "method": name}
        found[f"{name}_paper_hours"] = hours(rows, paper)
        found[f"{name}_matched_speed"] = ratio(gain(rows, paper, step))
    found["tis_fast_trainer"] = ratio(gain(rows, {**main, "staleness": PAPER, "method": "tis"}, trainer=0.5))
    return {**found, **machines(rows)}


def boldest(rows: Any) -> float:
    """The largest step at which three quarters of synchronous runs arrive; NaN without one."""
    own = pick(rows, "never", staleness=0, **machine(*MAIN))
    return float(own[own.value <= 1.0 - racing.REACHING].step.max())


def machines(rows: Any) -> dict[str, str]:
    """Least and largest speed-up of truncated ratios over all machines, at the staleness of the paper."""
    places = sorted({(s, t) for s, t in zip(rows.sigma, rows.train, strict=True)})
    arms = [{**machine(*place), "staleness": PAPER, "method": "tis"} for place in places]
    gains = {place: got for place, arm in zip(places, arms, strict=True) if (got := gain(rows, arm)) is not None}
    found = {"machines": f"{len(gains)}", "all_machines": f"{len(places)}"}
    for label, choose in (("least", min), ("best", max)):
        place = choose(gains, key=lambda one: gains[one][0], default=None)
        at = "no machine" if place is None else f"spread {place[0]:g} and training of {place[1]:g} mean responses"
        found |= {f"{label}_speed": ratio(gains.get(place)), f"{label}_at": at}
    price = [gains[place][0] / throughput(rows, *place, PAPER)[0] for place in gains]
    low, high = (100 * (1.0 - f(price)) for f in (max, min)) if price else (math.nan, math.nan)
    return found | {"price_least": f"{low:.0f}", "price_most": f"{high:.0f}"}
