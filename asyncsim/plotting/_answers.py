"""Answers: of a comparison curves and intervals, of a sweep a heat map over two numbers, or lines over one.

A sweep over one knob of a system shows what it costs at each value. A comparison has a row for each task: the arms'
mean curves, and the interval of each difference against replicates.
"""

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from asyncsim.base import checks, notation
from asyncsim.base.answers import PACE, SAME_TASK, SHARE, Answer, Boundary, OnTask, Prediction, Sweep, cell
from asyncsim.plotting import _style
from asyncsim.plotting._curves import meaning
from asyncsim.plotting._metrics import SERIES

BESIDE = 1.12
"""Factor between the places of two pairs that were looked at after as many replicates."""
PANELS = 4
"""Heat maps of one picture."""
TICKS = 8
"""Values of an axis that are all named."""
ROOM = 1.2
"""Times the place where the last replicate reaches the target that a picture shows."""
HEIGHT = 2.6
SHADES = LinearSegmentedColormap.from_list("measured", ["#f1f5fa", _style.COLORS["measured"], "#06243f"])
"""Low to high values of a measurement."""
FAR = 20.0
"""Where all means span more than so many times what their densest half spans, the farthest ones are cut off."""
REACH = 2.0
"""Then shades reach so many times the span of that half beyond it."""
WIDE = 30.0
"""Ratio of the largest to the least value from which an axis is logarithmic."""
COSTS = (
    (("staleness", "staleness_p99"), "staleness (versions)"),
    ((PACE,), "groups per hour"),
    (("seconds_per_update",), "seconds per update"),
    (("trainer_idle", "generator_idle"), "share of time idle"),
)
"""Panels of a system's sweep: what is drawn in each, and its axis."""
LABELS = {"staleness": "mean", "staleness_p99": "99th percentile"}
LABELS |= {"trainer_idle": "trainer", "generator_idle": "generators"}
"""Lines of a panel of costs that has several."""


def draw_sweep(sweep: Sweep) -> Figure:
    """Draw the metrics of a sweep over its settings, or the costs of a system."""
    numbers = [name for name in sweep.names if all(checks.is_number(value) for value in sweep.values[name])]
    checks.require(bool(sweep.summary), "sweep", sweep.id, "one with numbers", "print it for the reasons")
    if PACE in sweep.metrics and len(sweep.names) == 1:
        return _draw_costs(sweep)
    if len(numbers) <= 1:
        return _draw_lines(sweep, (numbers or sweep.names)[-1])
    # Structures lie across, knobs upwards.
    return _draw_maps(sweep, numbers[-2], numbers[-1])


def _draw_costs(sweep: Sweep) -> Figure:
    """Draw staleness, pace and idle fractions against a system's knob, with errors across realizations."""
    figure = _style.picture(_style.WIDTH, 2 * 2.2)
    name = sweep.names[0]
    for ax, (metrics, label) in zip(figure.subplots(2, 2).flat, COSTS, strict=True):
        for number, metric in enumerate(metrics):
            own = [row for row in sweep.summary if row["metric"] == metric]
            _errorbars(ax, own, name, number, LABELS.get(metric, ""))
        _scaled(ax, sweep.values[name])
        ax.set(xlabel=axis(name), ylabel=label)
        if len(metrics) > 1:
            ax.legend(loc="best")
        ax.set_ylim(0.0, 1.0 if "share" in label else None)
    if sweep.title:
        figure.suptitle(sweep.title, ha="left", x=0.02)
    return figure


def _draw_lines(sweep: Sweep, name: str) -> Figure:
    """Draw each metric against one number, with one line per setting of the others."""
    figure = _style.picture(_style.WIDTH, HEIGHT * len(sweep.metrics))
    others = [each for each in sweep.names if each != name]
    axes = figure.subplots(len(sweep.metrics), squeeze=False)[:, 0]
    for ax, metric in zip(axes, sweep.metrics, strict=True):
        settings = _settings([row for row in sweep.summary if row["metric"] == metric], others)
        for number, (own, label) in enumerate(settings):
            _errorbars(ax, own, name, number, label)
        _scaled(ax, sweep.values[name])
        ax.set(xlabel=axis(name), ylabel=_read(sweep, metric))
        if len(settings) > len(SERIES):
            ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        elif others:
            ax.legend(loc="best")
    axes[0].set_title("mean over replicates, 95 % intervals")
    return figure


def _read(sweep: Sweep, metric: str) -> str:
    """Axis of a metric of a sweep, or of an event that its words name."""
    event = sweep.reading.startswith((SHARE, "updates until")) and len(sweep.metrics) == 1
    return textwrap.fill(sweep.reading.partition(";")[0], 36) if event else axis(metric)


def _settings(rows: Iterable[dict[str, Any]], names: Sequence[str]) -> list[tuple[list[dict[str, Any]], str]]:
    """Rows of each setting of these names, with the setting as text."""
    settings: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        settings.setdefault(tuple(row[name] for name in names), []).append(row)
    pairs = [zip(names, each, strict=True) for each in settings]
    words = [", ".join(x if isinstance(x, str) else f"{name}={cell(x)}" for name, x in each) for each in pairs]
    return list(zip(settings.values(), words, strict=True))


def _errorbars(ax: Axes, rows: Sequence[dict[str, Any]], name: str, number: int, label: str, **marks: Any) -> None:
    numeric = all(checks.is_number(row[name]) for row in rows)
    rows = sorted(rows, key=lambda row: row[name]) if numeric else rows
    x = [row[name] if numeric else str(row[name]) for row in rows]
    mean = np.array([row["mean"] for row in rows])
    # An interval of a quantile need not hold the sample's own.
    reach = np.array([[row["mean"] - row["low"], row["high"] - row["mean"]] for row in rows]).T.clip(0.0)
    reach[~np.isfinite(reach)] = 0.0
    marks = marks or {**_style.MEASURED, "linestyle": "-" if numeric else "none", "linewidth": 0.8}
    marks["marker"] = SERIES[number % len(SERIES)][1]
    ax.errorbar(x, mean, yerr=reach, color=color(number), label=label or None, **marks)
    # Automatic placing of the key avoids lines, but not error bars.
    ax.plot(np.repeat(x, 9), np.linspace(mean - reach[0], mean + reach[1], 9).T.ravel(), linestyle="none")


def _draw_maps(sweep: Sweep, across: str, up: str) -> Figure:
    """Heat maps of the means, a row per metric and one per setting of the other names; predictions are dashed."""
    others = [name for name in sweep.names if name not in (across, up)]
    count = min(PANELS, len(_settings(sweep.summary, others)))
    narrow = count == 1 and len(sweep.values[across]) <= TICKS // 2
    figure = _style.picture(_style.COLUMN if narrow else _style.WIDTH, HEIGHT * len(sweep.metrics))
    for row, metric in zip(figure.subplots(len(sweep.metrics), count, squeeze=False), sweep.metrics, strict=True):
        _row_of_maps(row, sweep, metric, (across, up), others)
    if (every := len(_settings(sweep.summary, others))) > PANELS:
        figure.suptitle(f"the first {PANELS} of {every} settings of {', '.join(others)}", ha="left", x=0.02)
    return figure


def _row_of_maps(
    axes: Sequence[Axes], sweep: Sweep, metric: str, names: tuple[str, str], others: Sequence[str]
) -> None:
    """Heat maps of one metric with their color bar."""
    rows = [row for row in sweep.summary if row["metric"] == metric]
    every = _settings(rows, others)
    limits = _range(rows)
    beyond = sum(not limits[0] <= row["mean"] <= limits[1] for row in rows)
    for ax, (own, words) in zip(axes, every, strict=False):
        mesh = _map(ax, own, sweep, names, limits)
        _lines(ax, sweep, names[0], {name: own[0][name] for name in others})
        ax.set_title(", ".join([*[words] * bool(words), *["dashed: predicted"] * bool(sweep.lines)]))
    missing = len(rows) < len(every) * len(sweep.values[names[0]]) * len(sweep.values[names[1]])
    reason = "no numbers" if missing else ""
    if any(row["diverged"] > 0.5 for row in rows):
        reason = "diverged or none" if missing else "most diverged"
    words = f" (grey: {reason})" if reason else ""
    if beyond:
        least, most = (extreme(row["mean"] for row in rows) for extreme in (min, max))
        words += f"\n{beyond} of {len(rows)} beyond the scale, from {least:.3g} to {most:.3g}"
    bar = axes[0].figure.colorbar(mesh, ax=list(axes), extend="both" if beyond else "neither")
    bar.set_label(_read(sweep, metric) + words)


def _range(rows: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """Range of the color scale: that of all means, unless some lie far outside of the range of half of them."""
    means = np.sort([row["mean"] for row in rows if row["diverged"] <= 0.5 and math.isfinite(row["mean"])])
    if len(means) == 0 or means[0] == means[-1]:  # a scale from 0 exceeds no support, as of a share
        ends = (0.0, float(means[0])) if len(means) else (0.0, 1.0)
        return (min(ends), max(ends)) if any(ends) else (0.0, 1.0)
    half = (len(means) + 1) // 2
    first = int(np.argmin(means[half:] - means[: len(means) - half])) if len(means) > half else 0
    low, high = float(means[first]), float(means[min(first + half, len(means) - 1)])
    if means[-1] - means[0] <= FAR * (high - low):
        return float(means[0]), float(means[-1])
    beyond = REACH * (high - low)
    return max(float(means[0]), low - beyond), min(float(means[-1]), high + beyond)


def _map(
    ax: Axes, rows: Sequence[dict[str, Any]], sweep: Sweep, names: Sequence[str], limits: tuple[float, float]
) -> Any:
    """Draw one heat map, with columns of equal width and knobs on their own scale."""
    across, up = names
    x, y = (sorted(sweep.values[name]) for name in names)
    shades = np.full((len(y), len(x)), np.nan)
    for row in rows:
        if row["diverged"] <= 0.5:
            shades[y.index(row[up]), x.index(row[across])] = row["mean"]
    ax.set_facecolor(_style.COLORS["muted"])
    mesh = ax.pcolormesh(np.arange(len(x) + 1) - 0.5, _edges(y), shades, cmap=SHADES, vmin=limits[0], vmax=limits[1])
    named = range(0, len(x), -(-len(x) // (2 * TICKS)))
    ax.set_xticks(named, [f"{x[k]:.3g}" for k in named])
    _scaled(ax, y, ax.yaxis)
    ax.set(xlabel=axis(across), ylabel=axis(up))
    # Numbers where they fit, with half their intervals where two lines do; letters of 7 points are 3.6 points wide.
    place: Any = ax.get_subplotspec()
    points = 0.6 * 72.0 * ax.figure.bbox.width / ax.figure.dpi / place.get_gridspec().ncols / len(x)
    own = [row for row in rows if row["diverged"] <= 0.5 and math.isfinite(row["mean"])]
    words = [notation.measurement(row["mean"], (row["high"] - row["low"]) / 2.0, 0.0).split(" ± ") for row in own]
    lines = 2 if len(y) <= 7 else 1
    if len(y) <= 14 and 3.6 * max((len(each) for text in words for each in text[:lines]), default=0) < points:
        for row, text in zip(own, words, strict=True):
            ink = _style.INK if row["mean"] < 0.6 * limits[0] + 0.4 * limits[1] else "white"
            at, said = (x.index(row[across]), row[up]), "\n±".join(text[:lines])
            ax.annotate(said, at, ha="center", va="center", fontsize=7.0, linespacing=0.9, color=ink)
    return mesh


def _lines(ax: Axes, sweep: Sweep, across: str, setting: dict[str, Any]) -> None:
    """Draw the prediction of a claim inside the map."""
    own = [each for each in sweep.lines if all(each.get(name) == value for name, value in setting.items())]
    if own:
        own = sorted(own, key=lambda each: each[across])
        limits = ax.get_ylim()
        color = {**_style.PREDICTED, "color": _style.COLORS["contrast"], "linewidth": 1.6}
        ax.plot(range(len(own)), [each["predicted"] for each in own], **color)
        ax.set_ylim(limits)


def _edges(values: Sequence[float]) -> np.ndarray:
    """Edges of cells around ascending values: midpoints on the scale of the axis."""
    scale, back = (np.log, np.exp) if _is_log(values) else (np.asarray, np.asarray)
    x = np.asarray(scale(np.asarray(values, dtype=float)))
    if len(x) == 1:
        return np.asarray(back(np.array([x[0] - 0.5, x[0] + 0.5])))
    middle = (x[1:] + x[:-1]) / 2.0
    return np.asarray(back(np.concatenate([[2 * x[0] - middle[0]], middle, [2 * x[-1] - middle[-1]]])))


def _is_log(values: Sequence[float]) -> bool:
    return min(values) > 0 and max(values) / min(values) >= WIDE


def _scaled(ax: Axes, values: Sequence[float], along: Any = None) -> None:
    """Use a logarithmic axis for numbers of several scales, and the values as ticks if there are few."""
    if not all(map(checks.is_number, values)):
        return
    along = along or ax.xaxis
    if _is_log(values):
        (ax.set_xscale if along is ax.xaxis else ax.set_yscale)("log")
    if len(values) <= TICKS:
        along.set_ticks(list(values), [f"{value:.3g}" for value in values])
        along.set_minor_locator(NullLocator())


def draw_boundary(boundary: Boundary) -> Figure:
    """Draw each setting's bracket of the boundary against the last varied number, with a claim's prediction dashed."""
    rows = list(boundary.rows)
    if all("none" in row for row in rows):
        cause, _, remedy = str(rows[0]["none"]).partition("; ")
        raise checks.InputError(boundary.knob, f"none found, as {cause}", "found in one row or more", remedy)
    numbers = [name for name in boundary.names if all(checks.is_number(row[name]) for row in rows)]
    name = numbers[-1] if numbers else ""
    others = [each for each in boundary.names if each != name]
    figure = _style.picture(_style.WIDTH, HEIGHT)
    ax = figure.subplots()
    for number, (own, label) in enumerate(_settings(rows, others)):
        x = [row[name] for row in own] if name else [float(number)]
        middle = np.array([math.sqrt(row["low"] * row["high"]) for row in own])
        reach = np.array([[m - row["low"], row["high"] - m] for m, row in zip(middle, own, strict=True)]).T
        ax.errorbar(x, middle, yerr=reach, color=color(number), label=label or "measured bracket", **_style.MEASURED)
        if all("predicted" in row for row in own):
            ax.plot(x, [row["predicted"] for row in own], label="predicted" * (number == 0), **_style.PREDICTED)
    _scaled(ax, [row.get(name, "") for row in rows])
    ax.tick_params(bottom=bool(name), labelbottom=bool(name))
    ax.set(yscale="log", xlabel=axis(name) if name else "", ylabel=f"{boundary.knob} at the boundary")
    ax.legend(loc="best")
    return figure


def draw_prediction(prediction: Prediction) -> Figure:
    """Draw the ROC curve of each alarm signal; the diagonal is chance. Without curves, draw runs by outcome."""
    figure = _style.picture(_style.WIDTH, 1.4 * _style.COLUMN)
    ax = figure.subplots()
    if not prediction.alarms:
        ax.bar(list(prediction.runs), list(prediction.runs.values()), color=color(0))
        ax.set(ylabel="runs", title=textwrap.fill(f"no curve: {prediction.reason}", 80))
        return figure
    ax.plot([0, 1], [0, 1], label="chance", **_style.REFERENCE)
    for number, (name, alarm) in enumerate(prediction.alarms.items()):
        area = name + ": area {:.2f} ± {:.2f} at equal times".format(*alarm.area)
        if not alarm.why:
            ax.plot(*alarm.roc.T, drawstyle="steps-post", color=color(number), label=area)
            ax.scatter(alarm.false_alarms.value, alarm.detections.value, color=color(number), zorder=3)
    lead, (fell, healthy) = next(iter(alarm.unequal)), prediction.scored.values()
    runs = f"{fell} {alarm.event}s and {healthy} healthy runs, lead of {lead} updates"
    title = [*map(str, prediction.alarms.values()), runs, f"scored: {prediction.stretch}; dots: at the alarm's level"]
    figure.suptitle("\n".join(textwrap.fill(line, 80) for line in title), ha="left", x=0.02)
    ax.set(ylabel=f"share of {alarm.event}s with an alarm", aspect="equal")
    ax.set_xlabel("share of healthy runs with an alarm (curve: at unequal times)")
    ax.legend(loc="lower right")
    return figure


def draw_answer(answer: Answer) -> Figure:
    """Draw a comparison of arms: learning curves (left) and differences (right); along a grid, both per setting."""
    said = {pair.sentence(on.word_of(pair)).partition("; ")[0] for on in answer.tasks for pair in on.pairs}
    words = said.pop() if len(said) == 1 else ""
    if answer.tasks[0].setting:
        return _draw_along(answer, words)
    figure = _style.picture(_style.WIDTH, 0.5 + 2.4 * len(answer.tasks))
    axes = figure.subplots(len(answer.tasks), 2, squeeze=False)
    for (left, right), on in zip(axes, answer.tasks, strict=True):
        curves(left, on, answer.metric)
        decisions(right, on, answer)
    figure.suptitle(words, x=0.01, ha="left")
    return figure


def _draw_along(answer: Answer, words: str) -> Figure:
    """Draw one row per task: each arm's value against the varied number, and differences with their intervals."""
    count = len({str(on.setting) for on in answer.tasks})
    rows = [answer.tasks[k : k + count] for k in range(0, len(answer.tasks), count)]
    figure = _style.picture(_style.WIDTH, 0.3 + 2.4 * len(rows))
    for (left, right), own in zip(figure.subplots(len(rows), 2, squeeze=False), rows, strict=True):
        ((name, _),) = own[0].setting.items()
        values = [on.setting[name] for on in own]
        numbers = all(map(checks.is_number, values))
        x: Any = values if numbers else range(len(values))
        for number, arm in enumerate(own[0].arms):
            table = [{name: at, **vars(on.arms[number])} for at, on in zip(x, own, strict=True)]
            _errorbars(left, table, name, number, short(arm.name))
            if number:
                looks = ((at, on.pairs[number - 1].last) for at, on in zip(x, own, strict=True))
                table = [{name: at, **vars(k), "mean": k.difference} for at, k in looks]
                _errorbars(right, table, name, number, "")
        right.axhspan(-answer.smallest, answer.smallest, color=_style.COLORS["effect"], zorder=0)
        right.axhline(0.0, color=_style.COLORS["muted"], linestyle=":", linewidth=0.9)
        for ax in (left, right):
            ax.set_xlabel(axis(name))
            if numbers:
                _scaled(ax, values)
            else:
                ax.set_xticks(list(x), [short(str(value)) for value in values])
        tuned = own[0].arms[0].tuned.knob.rpartition(".")[2]
        left.legend(loc="best")
        best = f"each arm at its best {tuned}, " if tuned else ""
        left.set(ylabel=axis(answer.unit), title=f"{best}95 % intervals")
        right.set(ylabel=f"difference from {short(own[0].arms[0].name)}", title="shaded: too small to matter")
    reading = f"{words}: " * bool(words) + answer.reading.replace(answer.metric, axis(answer.metric))
    figure.suptitle(textwrap.fill(reading, 100), x=0.01, ha="left")
    return figure


def axis(name: str) -> str:
    """Axis label of a metric or setting: a term with its unit, or an unknown name as it is typed."""
    return meaning(name) if name in notation.WORDS else name


def color(number: int) -> str:
    """Color of a compared arm, by its number."""
    return SERIES[number % len(SERIES)][0]


def curves(ax: Axes, on: OnTask, metric: str) -> None:
    """Draw the mean metric of each arm at its best learning rate against updates."""
    for number, arm in enumerate(on.arms):
        step = f" ({arm.tuned.knob.rpartition('.')[2]} {arm.tuned.chosen:.2g})" if arm.tuned.knob else ""
        marks: Any = {"marker": SERIES[number % len(SERIES)][1], "markevery": (0.04 * number, 0.16), "markersize": 4.0}
        ax.plot(on.updates, arm.curve, color=color(number), label=f"{short(arm.name)}{step}", **marks)
        if arm.band.size:
            ax.fill_between(on.updates, *arm.band, color=color(number), alpha=0.2, linewidth=0)
    for value, name, ink in ((on.optimum, "optimum", _style.COLORS["muted"]), (on.target, "target", _style.INK)):
        if math.isfinite(value):
            ax.axhline(value, color=ink, linestyle=":", linewidth=0.9, label=f"{name} {value:g}")
    end, last = ROOM * on.latest, on.updates[-1]
    cut = f"\n(the first {end:.3g} of {notation.number(last)}; all reach the target there)" if end < last else ""
    ax.set(xlabel=f"{on.axis}{cut}", ylabel=axis(metric), title=textwrap.fill(on.title, 52))
    ax.set_xlim((on.updates[0], end) if cut else None)
    ax.legend(loc="best")


def decisions(ax: Axes, on: OnTask, answer: Answer) -> None:
    """Draw the difference between arms with its interval at every look; negligible differences are shaded.

    A single look is drawn at the right of the difference between the curves.
    """
    once = on.in_metric and all(len(pair.looks) == 1 for pair in on.pairs)
    curve, (start, end) = {arm.name: arm.curve for arm in on.arms}, on.updates[[0, -1]]
    ax.axhspan(-on.smallest, on.smallest, color=_style.COLORS["effect"], zorder=0)
    ax.axhline(0.0, color=_style.COLORS["muted"], linestyle=":", linewidth=0.9)
    for number, pair in enumerate(on.pairs, start=1):
        beside = BESIDE ** (number - (len(on.pairs) + 1) / 2)
        x = [look.replicates * beside for look in pair.looks]
        if once:
            x = [end + 0.06 * number * (end - start)]
            ax.plot(on.updates, curve[pair.arm] - curve[pair.base], color=color(number))
        rows = [{"at": at, "mean": look.difference, **vars(look)} for at, look in zip(x, pair.looks, strict=True)]
        said = textwrap.fill(f"{short(pair.arm)}: {pair.word}", 18)
        _errorbars(ax, rows, "at", number, said, **_style.MEASURED)
    ax.set_xlabel(f"{on.axis} (last mark: {answer.reading.partition(', ')[2] or 'result'})" if once else "replicates")
    counts = [look.replicates for look in max(on.pairs, key=lambda pair: len(pair.looks)).looks]
    if not once:
        ax.set_xscale("log", base=2)
        ax.set_xlim(counts[0] / 1.6, counts[-1] * (3.2 if len(on.pairs) == 1 else 1.6))  # room for words at the mark
        ax.set_xticks(counts, [f"{count:.0f}" for count in counts])
        ax.minorticks_off()
    ax.set_ylabel(f"difference in {axis(answer.unit)}" + ("\n(lower is better)" if answer.better == "lower" else ""))
    ax.set_title(SAME_TASK if on.blind else f"against {short(on.pairs[0].base)}; shaded: too small to matter")
    # Beside its point, since a key would look like another one; of several pairs outside, where no bar is.
    if len(on.pairs) == 1 and math.isfinite(pair.last.difference):
        place = (x[-1], pair.last.difference)
        ax.annotate(said, place, (8.0, 0.0), textcoords="offset points", va="center", color=color(1))
    else:
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def short(text: str, most: int = 26) -> str:
    """Shorten a text to at most `most` characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
