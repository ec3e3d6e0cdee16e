"""How many hours asynchrony saves on the way to a return: curves, staleness, and the machines where it pays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from asyncsim.plotting import _style
from experiments import _vcpo_hours as racing
from experiments import vcpo_hours
from experiments.vcpo_hours import MAIN, PAPER
from paper_figures import _script
from paper_figures._vcpo_hours import (
    first_batches,
    gain,
    hours_of,
    machine,
    pick,
    predicted,
    spread,
    step_of,
    throughput,
)

EXPERIMENTS = ("vcpo_hours",)
ARMS: dict[str, dict[str, Any]] = {
    "tis": {"color": _style.COLORS["stale"], "marker": "s", "label": "TIS"},
    "vcpo": {"color": _style.COLORS["controlled"], "marker": "o", "label": "VCPO"},
}
SYNCHRONOUS: dict[str, Any] = {"color": _style.COLORS["synchronous"], "marker": "*", "label": "synchronous"}
SPEED: dict[str, Any] = {"color": _style.COLORS["muted"], "marker": "D", "markerfacecolor": "white",
                         "label": "updates an hour"}  # fmt: skip
SMALL = 6.5
NEVER = 220.0
"""Hours at which medians are drawn where half of the runs never arrive."""


def errors(ax: Axes, found: list[tuple[float, tuple[float, ...] | None]], **look: Any) -> None:
    """Points with intervals; what has no value is left out."""
    known = [(x, *found_) for x, found_ in found if found_ is not None]
    if known:
        x, value, low, high = np.array(known).T
        ax.errorbar(x, value, yerr=[value - low, high - value], **{**_style.MEASURED, **look})


def draw_curves(ax: Axes, rows: Any) -> Axes:
    """Return against hours of the steps that were chosen."""
    for place, look in arms_at(PAPER):
        own = pick(rows, "return", step=step_of(rows, place), **place).sort_values("hour")
        ax.plot(own.hour, own.value, color=look["color"])
        ax.fill_between(own.hour, own.low, own.high, color=look["color"], alpha=0.2, linewidth=0)
        if len(own) > 12:
            some = own.iloc[4::6]
            ax.plot(some.hour, some.value, ls="none", color=look["color"], marker=look["marker"], ms=4)
    goal, best = vcpo_hours.target(), racing.largest_return(vcpo_hours.BITS, vcpo_hours.NEEDED, vcpo_hours.PENALTY)
    ax.axhline(goal, color=_style.COLORS["muted"], linewidth=0.8, linestyle=":")
    said = f"dotted: target, 95 % of\nthe best possible ({best:.2f});\nslow runs hold the mean back"
    ax.text(0.99, goal - 0.14, said, ha="right", va="top", fontsize=SMALL, transform=ax.get_yaxis_transform())
    ax.set(xlim=(0.0, 20.0), ylim=(-0.02, 1.0), xlabel="simulated hours", ylabel="mean return of the runs")
    ax.xaxis.set_major_locator(FixedLocator([0, 5, 10, 15, 20]))
    ax.set_title(f"Staleness {PAPER} learns sooner than synchronous")
    return ax


def arms_at(staleness: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Synchronous and both asynchronous arms on the machine on which staleness is varied, with their looks."""
    arms = [(0, "tis", SYNCHRONOUS), *((staleness, name, look) for name, look in ARMS.items())]
    return [({**machine(*MAIN), "staleness": ahead, "method": name}, look) for ahead, name, look in arms]


def draw_steps(ax: Axes, rows: Any) -> Axes:
    """Median hours against the step of Adam, or "never"; a ring where the other realizations chose it."""
    for shift, (place, look) in zip((0.965, 1.0, 1.035), arms_at(PAPER), strict=True):
        own = pick(rows, "median", **place).sort_values("step")
        known = [np.isfinite(row.value) for row in own.itertuples()]
        found = [(row.step * shift, (row.value, row.low, min(row.high, NEVER))) for row in own[known].itertuples()]
        errors(ax, found, **look, linestyle="-", linewidth=1.0)
        late = own[~np.array(known)].step * shift
        ax.plot(late, np.full(len(late), NEVER), ls="none", color=look["color"], marker=look["marker"], ms=4)
        for row in own[own.step == step_of(rows, place)].itertuples():
            ax.plot(row.step * shift, row.value, "o", ms=9.5, mfc="none", mec=_style.INK, mew=0.8)
    steps = sorted(set(rows.step.dropna()))
    ax.set(xscale="log", yscale="log", ylim=(3.2, 1.35 * NEVER), xlabel="learning rate of Adam")
    ax.set(ylabel="median hours (never: half do not arrive)")
    ticks(ax.xaxis, steps, [f"{step:g}".lstrip("0") for step in steps])
    ticks(ax.yaxis, [5, 10, 20, 50, 100, NEVER], ["5", "10", "20", "50", "100", "never"])
    ring = "ring: chosen on separate runs (three in\nfour arrive soonest); used wherever no\nlearning rate is named"
    ax.text(0.03, 0.78, ring, transform=ax.transAxes, va="top", fontsize=SMALL)
    ax.set_title(f"Staleness {PAPER}: sooner at any good learning rate")
    return ax


def ticks(axis: Any, places: Any, labels: list[str]) -> None:
    """These ticks and no others."""
    axis.set_major_locator(FixedLocator(places))
    axis.set_minor_locator(NullLocator())
    axis.set_ticklabels(labels)


def staleness_axis(ax: Axes, rows: Any) -> list[int]:
    """Levels of staleness, on a logarithmic axis."""
    levels = levels_of(rows)
    ax.set_xscale("log", base=2)
    ax.set(xlabel="staleness allowed (batches generated ahead)", xlim=(0.8 * levels[0], 1.25 * levels[-1]))
    ticks(ax.xaxis, levels, [str(level) for level in levels])
    return levels


def draw_staleness(ax: Axes, rows: Any) -> Axes:
    """Speed-up against staleness: of updates alone, and of learning, each arm at its own step."""
    levels = staleness_axis(ax, rows)
    errors(ax, [(s, throughput(rows, *MAIN, s)) for s in levels], **SPEED, linestyle="-", linewidth=0.8)
    limit = predicted(*MAIN)
    ax.axhline(limit, **_style.PREDICTED)
    ready = saturated(rows)
    every = np.geomspace(min(ready, default=levels[-1]), levels[-1], 60)
    ax.plot(every, [first_batches(rows, lead) for lead in every], **_style.PREDICTED)
    for shift, (name, look) in zip((0.95, 1.05), ARMS.items(), strict=True):
        places = [(s, {**machine(*MAIN), "staleness": s, "method": name}) for s in levels]
        errors(ax, [(s * shift, gain(rows, place)) for s, place in places], **look, linestyle="-", linewidth=1.0)
    even(ax)
    ax.set(ylim=(0.7, 3.8), ylabel="speed-up (synchronous = 1)")
    ax.text(0.02, 0.97, f"updates an hour; dashed: predicted limit {limit:.1f}", va="top", fontsize=SMALL,
            transform=ax.transAxes)  # fmt: skip
    ax.text(0.98, 0.69, lost(rows, ready), ha="right", va="top", fontsize=SMALL, transform=ax.transAxes)
    ax.set_title("The gain in hours is largest at little staleness")
    return ax


def lost(rows: Any, levels: list[int]) -> str:
    """What the lower dashed line is, and where a measured interval lies off it."""
    arms = [(s, gain(rows, {**machine(*MAIN), "staleness": s, "method": name})) for s in levels for name in ARMS]
    off = sorted({s for s, own in arms if own is not None and not own[1] <= first_batches(rows, s) <= own[2]})
    named = f"\n(fails: {_script.listed(map(str, off))})" if off else ""
    return f"hours; dashed:\npredicted if staleness\n$k$ costs $k$ batches{named}"


def even(ax: Axes) -> None:
    """The line of no gain."""
    ax.axhline(1.0, color=_style.COLORS["muted"], linewidth=0.6)


def draw_never(ax: Axes, rows: Any) -> Axes:
    """Share of runs that never arrive at the largest step that is safe when synchronous."""
    levels, step = staleness_axis(ax, rows), boldest(rows)
    for shift, (name, look) in zip((0.95, 1.05), ARMS.items(), strict=True):
        own = pick(rows, "never", step=step, method=name, **machine(*MAIN)).set_index("staleness")
        found = [(s * shift, tuple(100 * own.loc[s, ["value", "low", "high"]])) for s in levels if s in own.index]
        errors(ax, found, **look, linestyle="-", linewidth=1.0)
    for row in pick(rows, "never", step=step, staleness=0, **machine(*MAIN)).itertuples():
        ax.axhspan(100 * row.low, 100 * row.high, color=SYNCHRONOUS["color"], alpha=0.15, linewidth=0)
        ax.axhline(100 * row.value, color=SYNCHRONOUS["color"], linewidth=1.0)
    ax.text(0.99, 0.0, "synchronous", color=SYNCHRONOUS["color"], ha="right", va="top", fontsize=SMALL,
            transform=ax.get_yaxis_transform())  # fmt: skip
    ax.set(ylim=(-9.0, 103.0), ylabel="runs that never arrive (%)")
    ax.set_title(f"At learning rate {step:g} TIS fails, VCPO less often")
    return ax


def draw_map(ax: Axes, rows: Any, train: float) -> Axes:
    """Speed-up against the spread of lengths, at the staleness of the paper."""
    sigmas = np.linspace(0.0, 1.5, 31)
    ax.plot(sigmas, [predicted(sigma, train) for sigma in sigmas], **_style.PREDICTED)
    known = sorted(set(rows[(rows.train == train) & (rows.staleness == PAPER)].sigma))
    errors(ax, [(s, throughput(rows, s, train, PAPER)) for s in known], **SPEED)
    for shift, (name, look) in zip((-0.05, 0.05), ARMS.items(), strict=True):
        found = [(s + shift, gain(rows, {**machine(s, train), "staleness": PAPER, "method": name})) for s in known]
        errors(ax, found, **look)
    even(ax)
    if train == min(vcpo_hours.TRAINS):
        ax.text(0.03, 0.97, "dashed: updates an hour\nif staleness were\nunbounded (predicted)", va="top",
                fontsize=SMALL, transform=ax.transAxes)  # fmt: skip
    ax.set(xlim=(-0.12, 1.62), ylim=(0.7, 8.0), yscale="log", xlabel="spread $\\sigma$ of response times")
    ticks(ax.yaxis, [1, 2, 4, 8], ["1", "2", "4", "8"])
    ax.set_title(f"Training a batch takes {train:g} mean response{'s' * (train != 1)}", fontsize=7.0)
    return ax


def draw(rows: Any) -> Figure:
    """Curves and steps; staleness; machines."""
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 9.0)
        first, second, third = np.asarray(figure.subfigures(3, 1, height_ratios=(1.5, 1.15, 1.0)))
        curves, steps = first.subplots(1, 2)
        draw_curves(curves, rows)
        draw_steps(steps, rows)
        levels, never = second.subplots(1, 2)
        draw_staleness(levels, rows)
        draw_never(never, rows)
        panels = third.subplots(1, len(vcpo_hours.TRAINS), sharey=True)
        for ax, train in zip(panels, vcpo_hours.TRAINS, strict=True):
            draw_map(ax, rows, train)
        panels[0].set(ylabel=f"speed-up at staleness {PAPER}\n(synchronous = 1)")
        key = [
            Line2D([], [], **{"linestyle": "-", "markersize": 4.5, **look})
            for look in (SYNCHRONOUS, *ARMS.values(), SPEED)
        ]
        key.append(Line2D([], [], label="predicted", **_style.PREDICTED))
        first.legend(handles=key, loc="outside upper center", ncols=5, handlelength=2.2, columnspacing=1.2)
        said(figure, int(pick(rows, "median").samples.max()))
    return figure


def said(figure: Figure, runs: int) -> None:
    """What is seen, in words."""
    bits = f"{vcpo_hours.NEEDED} of {vcpo_hours.BITS} bits"
    text = (
        f"Hours until a policy sets at least {bits} right. Synchronous training waits for the slowest of 16 "
        "responses; asynchronous training on the same machine generates ahead and learns from stale data, with "
        "truncated importance ratios (TIS) or with VCPO (TIS, a smaller step when few samples count, and another "
        "baseline). A run arrives when its return reaches the target to stay (no ten updates below it in the mean). "
        "Speed-up: ratio of median hours to the target (colored) or of updates an hour (gray). "
        f"{runs} runs a point; bars and bands: 95 % intervals; points moved sideways. "
        "Rows 1, 2: lognormal response times of spread $\\sigma$ = 1, "
        "training a batch takes 2 mean responses. Row 3: other machines; asynchrony pays where response times are "
        "uneven and training is short."
    )
    _script.caption(figure, text)


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
    found |= {"bold_step": f"{bold:g}", "levels": _script.listed(f"{s}" for s in levels_of(rows))}
    found |= {"over_tis": _script.listed(over_tis(rows)), "over_tis_same": _script.listed(over_tis(rows, same=True))}
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
    return {**found, **by_level(rows), **machines(rows)}


def levels_of(rows: Any) -> list[int]:
    """Levels of staleness above none."""
    return sorted(int(s) for s in set(rows.staleness) if s > 0)


def saturated(rows: Any) -> list[int]:
    """Levels of staleness at which updates an hour have reached their limit."""
    limit = predicted(*MAIN)
    return [s for s in levels_of(rows) if throughput(rows, *MAIN, s)[0] > 0.97 * limit]


def by_level(rows: Any) -> dict[str, str]:
    """Speed-ups where updates an hour are at their limit, and those predicted if staleness cost its first batches."""
    levels = saturated(rows) or levels_of(rows)[-1:]
    found = {"limit_levels": _script.listed(map(str, levels))}
    found["limit_predicted"] = _script.listed(f"{first_batches(rows, s):.2f}" for s in levels)
    for name in ARMS:
        gains = [gain(rows, {**machine(*MAIN), "staleness": s, "method": name}) for s in levels]
        found[f"{name}_limit_speeds"] = _script.listed("none" if one is None else f"{one[0]:.2f}" for one in gains)
    return found


def over_tis(rows: Any, same: bool = False) -> list[str]:
    """Hours of truncated ratios over those of VCPO on the same realizations, by staleness, each at its own step.

    With `same` both at the step that VCPO was given, so that the choice of the step makes no difference.
    """
    found = []
    for staleness in levels_of(rows):
        tis, vcpo = ({**machine(*MAIN), "staleness": staleness, "method": name} for name in ARMS)
        own = step_of(rows, vcpo)
        pair = hours_of(rows, tis, own if same else step_of(rows, tis)), hours_of(rows, vcpo, own)
        one = racing.speed_up(*pair) if len(pair[0]) == len(pair[1]) > 0 else None
        found.append(ratio(None if one is None else spread(one)))
    return found


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
