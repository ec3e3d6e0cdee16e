"""The line under every figure: task, learning rate, staleness and seeds of the rows that are drawn, in this order.

`EXPERIMENTS` of a script may be a dict. For each experiment it has values of columns, which select the rows that are
drawn, and texts for what neither rows nor settings have: for `FIELDS` or their columns, `unit` of staleness, `tuned`.
`names` are what the panels call tasks or laws of staleness, `means` what tasks pay where `MEANS` does not say so;
`pooled` says that the panels do not tell tasks apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.collections import PolyCollection
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from asyncsim.plotting import _style

FIELDS = {
    "task": ("task", "problem", "regime", "model"),
    "learning rate": ("rate", "rates", "step", "learning_rates"),
    "staleness": ("staleness", "law", "lag", "eta", "ratio", "knob", "steps", "limit", "stalenesses", "levels"),
    "seeds": ("replicates", "seeds", "realizations", "samples"),
}
"""What a line says, and columns or settings that have it, the first of them that is there."""
NAMES = {
    "chain": "chain of bits",
    "kinds": "tokens of 4 kinds",
    "peaked": "64 graded tokens",
    "arms": "many arms",
    "gaussian": "Gaussian",
    "noisy": "16 tokens with noise",
    "uniform 64": "random up to 64",
    "partial": "partial rollouts",
    "long": "64 tokens",
    "cliff": "CliffWalking",
    "lake": "FrozenLake",
    "firm": "non-slippery FrozenLake",
    "cartpole": "CartPole",
    "forks": "pass or fail",
    "rare": "rarely rewarded",
    "penalty": "bits with a penalty",
    "bits": "pass or fail",
    "heavy": "heavy-tailed",
    "sawtooth": "0 to 16 in turn",
    "fresh": "0",
}
"""Names of tasks and of laws of staleness, where they are not those of rows, for all figures that draw these."""
MEANS = {
    "graded": "fraction of correct tokens",
    "noisy graded": "fraction of correct tokens",
    "sparse": "1 if 3/4 of the bits are correct",
    "pass or fail": "1 if 12 of 16 bits are correct",
    "chain of bits": "1 if 12 of 16 are correct, less a KL penalty",
    "bits with a penalty": "1 if enough are correct, less a KL penalty",
    "forks": "every fourth bit uncertain; 1 if enough are correct",
    "rarely rewarded": "1 if nearly all bits are correct",
    "64 graded tokens": "the initial policy favors wrong tokens",
    "many arms": "bandits of 16 or more arms",
}
"""What tasks pay or are, where their names do not say so; for all figures."""
SIZE, LEADING = 8.0, 0.14
"""Points of the line, which is read at the width of a page of the site; inches that each further line needs."""
FEW = 3
"""Most numbers that are listed; of more, the ends are said."""


def line(asked: Any, tables: list[Any]) -> str:
    """One line on the rows that a script draws; what they do not have is left out. The map of all rows has none."""
    if len(tables) > len(FIELDS):
        return ""
    found: dict[str, list[Any]] = {name: [] for name in FIELDS}
    unit, tuned, names, means = "versions", False, dict(NAMES), dict(MEANS)
    for name, rows in zip(asked, tables, strict=True):
        drawn = asked[name] if isinstance(asked, Mapping) else {}
        said, own, settings = {}, rows, pd.DataFrame(rows.attrs.get("settings", []))
        for column, values in drawn.items():
            chosen, kept = _chosen(own, column, values), _chosen(settings, column, values)
            own, settings = chosen if len(chosen) else own, kept if len(kept) else settings
            if not len(chosen) and not len(kept):
                said[column] = values
        unit = drawn.get("unit", unit)
        names |= drawn.get("names", {})
        means |= drawn.get("means", {})
        tuned |= "tuned" in drawn or "chosen" in drawn or ("tried" in own and bool(own.tried.notna().any()))
        for field, columns in FIELDS.items():
            stated = [said[key] for key in (field, *columns) if key in said]
            found[field] += stated or _values(field, columns, own, settings)
    texts = {field: _text(values, names) for field, values in found.items()}
    texts["learning rate"] = f"own best ({texts['learning rate']})" if tuned else texts["learning rate"]
    texts["staleness"] += (
        f" {unit.rstrip('s') if texts['staleness'] == '1' else unit}" if texts["staleness"][-1:].isdigit() else ""
    )
    texts["task"] = ", ".join(
        each + (f" ({means[each]})" if each in means else "") for each in texts["task"].split(", ")
    )
    pooled = isinstance(asked, Mapping) and any("pooled" in drawn for drawn in asked.values())
    if "," in texts["seeds"] or " to " in texts["seeds"]:
        texts["seeds"] = f"{' or '.join(texts['seeds'].rsplit(', ', 1))} per point"
    shown = {"tasks, pooled" if pooled and field == "task" else field: text for field, text in texts.items()}
    return " · ".join(f"{field}: {text}" for field, text in shown.items() if text)


def unnamed(figure: Figure, text: str) -> list[str]:
    """What is wrong where panels show several tasks: those that the line names otherwise than they do."""
    tasks = re.match(r"task: ([^·]*?)(?: ·|$)", re.sub(r" \([^)]*\)", "", text))
    several = tasks[1].split(", ") if tasks and ", " in tasks[1] else []
    seen = " | ".join(each.get_text() for each in figure.findobj(Text) if each.get_text().strip() != text.strip())
    words = " ".join(seen.split()).lower()
    return [f"no panel names the task {each}, the line below does" for each in several if each.lower() not in words]


def longer(figure: Figure) -> bool | None:
    """Whether any bar is longer than its point; None where there are no bars."""
    figure.draw_without_rendering()
    found = []
    for box, each in [(ax, each) for ax in figure.axes for each in ax.containers]:
        if isinstance(each, ErrorbarContainer):
            mark = each.lines[0].get_markersize() if each.lines[0] else 0.0
            ends = [box.transData.transform(end) for part in each.lines[2] for end in part.get_segments() if len(end)]
            lengths = [float(np.abs(end[-1] - end[0]).max()) for end in ends]
            found += [length * 72.0 / figure.dpi > mark for length in lengths if np.isfinite(length)]
    return any(found) if found else None


def say(figure: Figure, text: str) -> None:
    """Write the line, with what bars and bands are, at the lower left; the key of dashes beside it, or below it."""
    bands = [each for ax in figure.axes for each in ax.collections if isinstance(each, PolyCollection)]
    named = sorted({str(each.get_label()) for each in bands if not str(each.get_label()).startswith("_")})
    shown, usual = longer(figure), "95 % intervals"
    both = bool(shown) and usual in named
    named = [each for each in named if not (both and each == usual)]
    bars = {True: f"bars{' and bands' * both}: {usual}", False: f"{usual}: within the points", None: ""}[shown]
    text = " · ".join(filter(None, [text, bars, *(f"bands: {name}" for name in named)]))
    look = {"handlelength": 0.0, "handletextpad": 0.0, "fontsize": SIZE, "labelcolor": _style.COLORS["plain"]}
    more: dict[str, Any] = {"loc": "outside lower left", "frameon": False, **look}
    keys = [each for each in figure.legends if getattr(each, "_outside_loc", None) == "lower"]
    for key in keys:
        for word in key.get_texts():
            word.set(fontsize=SIZE, color=_style.COLORS["plain"])
    line = figure.legend([Line2D([], [], linestyle="none")], [text], **more)
    written: list[str] = []
    for part in text.split(" · "):
        line.get_texts()[0].set_text(" · ".join([*written[-1:], part]))
        if written and line.get_window_extent().width <= 0.98 * figure.bbox.width:
            written[-1] += f" · {part}"
        else:
            written.append(part)
    text = "\n".join(written)
    line.get_texts()[0].set_text(text)
    if keys and sum(each.get_window_extent().width for each in [line, *keys]) > 0.96 * figure.bbox.width:
        line.get_texts()[0].set(text=f"{text}\n ", linespacing=1.7 if len(written) == 1 else 1.3)
        for key in keys:
            key.set_loc("lower left")
    figure.set_figheight(figure.get_figheight() + LEADING * (len(written) - 1))


def _chosen(rows: Any, column: str, values: Any) -> Any:
    """Rows that have one of these values in this column; none where it does not exist."""
    return rows[rows[column].isin(values if isinstance(values, tuple) else [values])] if column in rows else rows[:0]


def _values(field: str, columns: tuple[str, ...], rows: Any, settings: Any) -> list[Any]:
    """Distinct values of the first column that has some; settings come first for seeds, whose number they name."""
    in_rows = [list(rows[column].dropna().unique()) for column in columns if column in rows]
    in_settings = [list(settings[column].explode().dropna().unique()) for column in columns if column in settings]
    order = [*in_settings, *in_rows] if field == "seeds" else [*in_rows, *in_settings]
    found = next((values for values in order if set(values) - {""}), [])
    # A setting may be that of a part: the seeds of all parts are more.
    every = rows.seed.nunique() if field == "seeds" and "seed" in rows else 0
    return [every] if every and every >= max(found, default=0) else found


def _text(values: list[Any], named: Mapping[str, str]) -> str:
    """Names, and numbers in order; of more than a few numbers the minimum and the maximum."""
    names, numbers = [], set()
    for value in (str(value).removeprefix("constant ") for value in values):
        try:
            numbers.add(round(float(named.get(value, value)), 8))
        except ValueError:
            names.append(named.get(value, value))
    ordered = [
        f"{number:.0f}"
        if not number % 1
        else f"{float(f'{number:.3g}'):.7f}".rstrip("0")
        if number < 1e-3
        else f"{number:.2g}"
        if number < 1
        else f"{number:.3g}"
        for number in sorted(numbers)
        if number >= 0.0
    ]
    ends = [" to ".join(ordered[:: len(ordered) - 1])] if len(ordered) > FEW else ordered
    return ", ".join(filter(None, dict.fromkeys([*ends, *names])))
