"""Pictures for whoever decides: advice on a staleness limit, a forecast, two arms of finished runs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.patches import Patch

from asyncsim.base.notation import plural
from asyncsim.base.quantiles import critical
from asyncsim.plotting import _style
from asyncsim.plotting._metrics import SERIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from asyncsim.base.advice import Advice, Setting
    from asyncsim.base.forecasts import Forecast
    from asyncsim.base.judgment import Judgment

COLORS = ("measured", "contrast", "tuned", "partial")
"""Of kinds of rollouts and numbers of machines."""
SETTINGS = ("predicted", "contrast", "held", "tuned", "partial")
"""Of numbers of machines in a forecast."""
MOST = len(COLORS)
RING = {"markersize": 11, "fillstyle": "none", "color": _style.INK}
PANELS = {"seconds per update": "seconds", "staleness": "versions", "token ESS": "ESS / tokens", "k3": "nats per token"}
"""Quantities and their units; the first three that are known are drawn."""


def draw_advice(advice: Advice) -> Figure:
    """Draw seconds per update, slot-hours and staleness against the staleness limit, and mark the recommended limit."""
    figure = _style.picture(_style.WIDTH, 3.0)
    axes = figure.subplots(1, 3)
    knee, knees, (low, high) = advice.knee, advice.knees()[:MOST], advice.between
    limits = sorted({each.limit for each in advice.settings})
    least = min((each for each in limits if each > 0.0), default=1.0)  # below it the axis is linear
    place = {each: each / least * 0.3 if each <= least else 0.3 + math.log10(each / least) for each in limits}
    named = list[float]()
    for each in sorted(limits, key=lambda x: x != knee.limit):
        apart = min((abs(place[each] - place[other]) for other in named), default=math.inf)
        named += [each] * (apart >= 0.1 * (place[limits[-1]] - place[limits[0]]))
    curves = list(dict.fromkeys((each.machines, each.partial) for each in advice.settings))[:MOST]
    low = advice.least if low is None else low
    several = len(limits) > 1
    ring: dict[str, Any] = RING | {"visible": several}
    shade: dict[str, Any] = {"color": _style.COLORS["effect"], "visible": several, "zorder": 0}
    for ax, name in zip(axes, ("seconds", "slot_hours"), strict=False):
        for color, (machines, partial), own in zip(COLORS, curves, knees, strict=False):
            words = "today: " * (own is knees[0]) + plural(machines, "machine")
            words += f", partial rollouts {'on' if partial else 'off'}" * (len({p for _, p in curves}) > 1)
            _line(ax, advice.curve(machines, partial), name, _style.COLORS[color], words)
            ax.plot(own.limit, own.interval(name)[0], "o", **ring)
    for name, label, mark in (("staleness", "mean", "o"), ("p99", "99th percentile", "^")):
        _line(axes[-1], advice.curve(), name, _style.COLORS["measured"], label, marker=mark)
        end, say = (advice.curve()[-1].limit, advice.curve()[-1].interval(name)[2]), axes[-1].annotate
        say(label, end, (0.0, 4.0), textcoords="offset points", ha="right", color=_style.COLORS["measured"])
    axes[-1].plot(knee.limit, knee.mean("staleness"), "o", **ring)
    for ax in axes:
        ax.axvspan(low, high, **shade)
        ax.set_xscale("symlog", linthresh=least, linscale=0.3)
        ax.set_xticks(limits, [f"{each:g}" * (each in named) for each in limits])
        ax.minorticks_off()
        ax.set(ymargin=0.12, ylim=(0.0, None), xlabel=advice.knob)
    entries = dict(zip(*reversed(axes[0].get_legend_handles_labels()), strict=True))
    if several:
        entries[f"to set: smallest limit within {100.0 * advice.share:g} % of the fastest"] = axes[0].lines[-1]
        entries["95 % interval of the limit to set today"] = Patch(**shade)
    entries["95 % interval of a point"] = _style.bar()
    figure.legend(entries.values(), entries, loc="outside lower left", ncols=3, frameon=False)
    at = f"at {knee.limit:g}"
    axes[0].set(ylabel="seconds per update", title=rf"$\bf{{a}}$   {knee.mean('seconds'):.3g} s per update {at}")
    title = rf"$\bf{{b}}$   {knee.slot_hours.mean():,.0f} slot-hours {at}"
    axes[1].set(ylabel="slot-hours per 1,000 updates", title=title)
    axes[1].yaxis.set_major_formatter("{x:,.0f}")
    stale = f"mean staleness {knee.mean('staleness'):.2g} {at}"
    axes[2].set(ylabel="staleness of tokens, today (versions)", title=rf"$\bf{{c}}$   {stale}")
    said = f"set {advice.knob} to {knee.limit:g} ({advice.reach})"
    said = said if several else f"{advice.knob} {knee.limit:g} is the only limit tried"
    figure.suptitle(f"{advice.trainer}: {said}", ha="left", x=0.02)
    return figure


def _line(ax: Axes, rows: list[Setting], name: str, color: str, label: str, **more: Any) -> None:
    mean, low, high = np.array([each.interval(name) for each in rows]).T
    # Neither seconds nor staleness is below 0.
    reach = np.stack([mean - np.maximum(low, 0.0), high - mean])
    marks = {**_style.MEASURED, "linestyle": "-", "linewidth": 0.8, **more}
    ax.errorbar([each.limit for each in rows], mean, yerr=reach, color=color, label=label, **marks)


def draw_forecast(found: Forecast, held: Mapping[str, Sequence[float]] | None = None) -> Figure:
    """Draw forecast seconds, staleness and ESS with bands by setting, beside the log and runs `held` out if any.

    `held` has the mean of each quantity in a run at each setting, which no forecast has read.
    """
    figure, count = _style.picture(_style.WIDTH, 2.9), len(found.settings)
    one = [0.0] * count
    name, *more = [each for each in found.at if each != "machines"] or ["machines"]
    machines = one if name == "machines" else found.at.get("machines", one)
    number = not more and len({*found.at.get(name, one)}) > 2 and len({*machines}) <= len(SETTINGS)
    at, machines = (found.at[name], machines) if number else (range(count), one)
    panels = [name for name in PANELS if any(b.value is not None for b in found.line(name).forecasts)][:3]
    for ax, quantity in zip(figure.subplots(1, len(panels)), panels, strict=True):
        line, title = found.line(quantity), f"mean {quantity} of tokens" if quantity == "staleness" else quantity
        if line.measured is None and quantity == "staleness" and (first := found.line("head staleness")).measured:
            line, title = first, "head staleness"
        for color, many in zip(SETTINGS, dict.fromkeys(machines), strict=False):
            drawn = [k for k in range(count) if machines[k] == many and line.forecasts[k].value is not None]
            rows = [(at[k], line.forecasts[k]) for k in sorted(drawn, key=at.__getitem__)]
            words = "forecast, 95 % band" + f", {plural(many, 'machine')}" * (len({*machines}) > 1)
            _mark(ax, rows, color, "_-" if number else "_", words)
        beside = 0.0 if number else 0.22
        if line.measured is not None:
            _mark(ax, [(at[0] - beside, line.measured)], "measured", "o", "the log, 95 % interval")
        if held is not None:
            runs = [(x + beside, type(line.forecasts[0])(v, v, v)) for x, v in zip(at, held[line.name], strict=True)]
            _mark(ax, runs, "contrast", "D", "held-out run at that setting")
        if not number:
            long = max(map(len, found.settings)) * count > 60  # letters that fit below a panel
            ax.set_xticks(at, found.settings, rotation=30 * long, ha="right" if long else "center")
            ax.set_xlim(-0.6, count - 0.5)
        ax.set(xlabel=name if number else "", ylabel=PANELS[quantity], title=title)
        ax.set_ylim(0.0, 1.0 if quantity == "token ESS" else None)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    numbers = ", ".join(f"{name} {found.line(name).forecasts[-1]}" for name in (panels[0], *panels[2:]))
    numbers = (
        f"forecast by {name}; the log is at {at[0]:g}" if number else f"forecast for {found.settings[-1]}: {numbers}"
    )
    said = f"{found.about.partition(' ')[0]}, {numbers}"
    if found.misses:
        said = f"Today's forecast disagrees with the log: {', '.join(found.misses)}. Check what was given."
    figure.suptitle(said, ha="left", x=0.02)
    return figure


def _mark(ax: Any, rows: list[Any], color: str, form: str, label: str) -> None:
    at, bands = zip(*rows, strict=True) if rows else ((), ())
    # The band is what is forecast, its value a line across.
    wide, low, high = form[0] == "_", [b.low for b in bands], [b.high for b in bands]
    marks = {"marker": form[0], "markersize": 8.0 if wide else 4.0, "linestyle": form[1:] or "none", "linewidth": 1.0}
    ax.vlines(at, low, high, color=_style.COLORS[color], linewidth=5.0 if wide else 1.2, alpha=0.4 if wide else 1.0)
    ax.plot(at, [b.value for b in bands], color=_style.COLORS[color], label=label, **marks)


def draw_judgment(judgment: Judgment) -> Figure:
    """Draw the learning curves of A and B (left), and their differences across and within runs (right)."""
    figure = _style.picture(_style.WIDTH, 2.6)
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    for arm, (color, _) in zip(judgment.arms, SERIES, strict=False):
        count, mean = len(arm.curves), arm.curves.mean(0)
        stems = f"{arm.names[0].removesuffix('.csv')}{f' and {count - 1} more' * (count > 1)}"
        left.plot(arm.places, mean, color=color, label=f"{arm.letter}: {stems}")
        if count > 1:
            half = critical(0.05, count - 1.0) * arm.curves.std(0, ddof=1) / math.sqrt(count)
            left.fill_between(arm.places, mean - half, mean + half, color=color, alpha=0.2, linewidth=0)
    left.axvspan(judgment.start, judgment.stop, color=_style.COLORS["muted"], alpha=0.15, linewidth=0, zorder=0)
    bands = "; bands: 95 % between seeds" * (max(len(arm.curves) for arm in judgment.arms) > 1)
    # Bands of two or three seeds are wide, and would hide the curves.
    lows, tops = zip(*((arm.curves.min(), arm.curves.max()) for arm in judgment.arms), strict=True)
    beyond = 0.1 * (max(tops) - min(lows))
    limits, title = (min(lows) - beyond, max(tops) + beyond), f"gray: {judgment.axis} compared{bands}"
    left.set(xlabel=judgment.axis, ylabel=judgment.metric, ylim=limits, title=title)
    left.xaxis.set_major_formatter("{x:,.10g}")
    left.legend(loc="best")
    if judgment.within is not None:
        right.axhspan(-judgment.within, judgment.within, color=_style.COLORS["effect"], zorder=0)
        right.text(-0.55, -judgment.within, "too small to matter", fontsize=7.0, va="bottom")
    right.axhline(0.0, **_style.REFERENCE)
    level = f"{100.0 * (1.0 - judgment.error):.4g} % interval"
    rows = [("fresh seeds", level, judgment.half), ("these two runs", "95 % interval", judgment.inside)]
    rows = [row for row in rows if row[2] is not None]
    labels = [f"{name}:\n{level if math.isfinite(half or 0.0) else 'cannot tell'}" for name, level, half in rows]
    half, places = [each for *_, each in rows], range(len(rows))
    right.errorbar(places, [judgment.difference] * len(rows), yerr=half, color=_style.INK, **_style.MEASURED)
    for place in (k for k in places if not math.isfinite(half[k])):
        right.axvline(place, color=_style.INK, linewidth=1.0)  # a bar without ends
    right.set_xticks(places, labels)
    right.set(xlim=(-0.6, len(rows) - 0.4), ylabel="B minus A", title=f"B against A: {judgment.word}")
    return figure
