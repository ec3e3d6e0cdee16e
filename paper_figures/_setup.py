"""The line under every figure: task, learning rate, staleness and seeds of the rows that are drawn, in this order.

`EXPERIMENTS` of a script may be a dict. For each experiment it has values of columns, which select the rows that are
drawn, and texts for what neither rows nor settings have: for `FIELDS` or their columns, `unit` of staleness, `tuned`.
`names` are what the panels call tasks or laws of staleness; `pooled` says that the panels do not tell tasks apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd
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
    "kinds": "tokens of 8 kinds",
    "peaked": "64 tokens wrong at first",
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
    "rare": "rarely paid",
    "penalty": "bits with a penalty",
    "bits": "pass or fail",
    "heavy": "heavy-tailed",
    "sawtooth": "0 to 16 in turn",
    "fresh": "0",
}
"""Names of tasks and of laws of staleness, where they are not those of rows, for all figures that draw these."""
FEW = 3
"""Most numbers that are listed; of more, the ends are said."""


def line(asked: Any, tables: list[Any]) -> str:
    """One line on the rows that a script draws; what they do not have is left out. The map of all rows has none."""
    if len(tables) > len(FIELDS):
        return ""
    found: dict[str, list[Any]] = {name: [] for name in FIELDS}
    unit, tuned, names = "versions", False, dict(NAMES)
    for name, rows in zip(asked, tables, strict=True):
        drawn = asked[name] if isinstance(asked, Mapping) else {}
        said, own, settings = {}, rows, pd.DataFrame(rows.attrs.get("settings", []))
        for column, values in drawn.items():
            if len(chosen := _chosen(own, column, values)):
                own = chosen
                settings = kept if len(kept := _chosen(settings, column, values)) else settings
            else:
                said[column] = values
        unit = drawn.get("unit", unit)
        names |= drawn.get("names", {})
        tuned |= "tuned" in drawn or "chosen" in drawn or ("tried" in own and bool(own.tried.notna().any()))
        for field, columns in FIELDS.items():
            stated = [said[key] for key in (field, *columns) if key in said]
            found[field] += stated or _values(field, columns, own, settings)
    texts = {field: _text(values, names) for field, values in found.items()}
    texts["learning rate"] = f"own best ({texts['learning rate']})" if tuned else texts["learning rate"]
    texts["staleness"] += f" {unit}" if texts["staleness"][-1:].isdigit() else ""
    pooled = isinstance(asked, Mapping) and any("pooled" in drawn for drawn in asked.values())
    shown = {"tasks, pooled" if pooled and field == "task" else field: text for field, text in texts.items()}
    return " · ".join(f"{field}: {text}" for field, text in shown.items() if text)


def unnamed(figure: Figure, text: str) -> list[str]:
    """What is wrong where panels show several tasks: those that the line names otherwise than they do."""
    tasks = re.match(r"task: ([^·]*?)(?: ·|$)", text)
    several = tasks[1].split(", ") if tasks and ", " in tasks[1] else []
    seen = " | ".join(each.get_text() for each in figure.findobj(Text) if each.get_text().strip() != text.strip())
    words = " ".join(seen.split()).lower()
    return [f"no panel names the task {each}, the line below does" for each in several if each.lower() not in words]


def say(figure: Figure, text: str) -> None:
    """Write the line, if any, at the lower left, above the key of marks where both do not fit beside each other."""
    beside = 1.1 * len(text) + sum(1.1 * len(each.get_text()) + 9.0 for key in figure.legends for each in key.texts
                                   if getattr(key, "_outside_loc", None) == "lower")  # fmt: skip
    more = "\n " if beside > 176.0 else ""
    look = {"handlelength": 0.0, "handletextpad": 0.0, "fontsize": 7.0, "labelcolor": _style.COLORS["muted"]}
    figure.legend([Line2D([], [], linestyle="none")], [text + more], loc="outside lower left", frameon=False, **look)


def _chosen(rows: Any, column: str, values: Any) -> Any:
    """Rows that have one of these values in this column; none where it does not exist."""
    return rows[rows[column].isin(values if isinstance(values, tuple) else [values])] if column in rows else rows[:0]


def _values(field: str, columns: tuple[str, ...], rows: Any, settings: Any) -> list[Any]:
    """Distinct values of the first column that has some; settings come first for seeds, whose number they name."""
    in_rows = [list(rows[column].dropna().unique()) for column in columns if column in rows]
    in_settings = [list(settings[column].explode().dropna().unique()) for column in columns if column in settings]
    order = [*in_settings, *in_rows] if field == "seeds" else [*in_rows, *in_settings]
    return next((values for values in order if set(values) - {""}), [])


def _text(values: list[Any], named: Mapping[str, str]) -> str:
    """Names, and numbers in order; of more than a few numbers the minimum and the maximum."""
    names, numbers = [], set()
    for value in (str(value).removeprefix("constant ") for value in values):
        try:
            numbers.add(round(float(named.get(value, value)), 6))
        except ValueError:
            names.append(named.get(value, value))
    ordered = [
        f"{number:.2g}".replace("e-0", "e−") if number < 1 else f"{number:.3g}" if number % 1 else f"{number:.0f}"
        for number in sorted(numbers)
        if number >= 0.0
    ]
    ends = [" to ".join(ordered[:: len(ordered) - 1])] if len(ordered) > FEW else ordered
    return ", ".join(filter(None, dict.fromkeys([*ends, *names])))
