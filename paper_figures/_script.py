"""What figure scripts share: intervals, shades, rows that belong together."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from asyncsim.base import uncertainty
from asyncsim.plotting import _style

FOUND = "found"
"""Label of a figure whose rows support the heading of its entry."""


def interval(values: Any) -> tuple[float, float]:
    """Mean over replicates or seeds, and half of its 95 percent interval; one value has none (NaN)."""
    if len(values) == 1:
        return float(np.asarray(values, dtype=float)[0]), math.nan
    found = uncertainty.between(np.asarray(values, dtype=float))
    return found.value, found.error * uncertainty.critical(0.05, found.freedom)


def shades(values: Any) -> list[tuple[int, Any]]:
    """The distinct levels of staleness in a column, each with its color."""
    levels = sorted(int(value) for value in set(values))
    return [
        (level, _style.staleness(share)) for level, share in zip(levels, np.linspace(0, 1, len(levels)), strict=True)
    ]


def finding(holds: Any, words: str, drawn: str) -> str:
    """A title: what the rows show where they do (`holds`), else what is drawn, without a verdict."""
    return words if bool(holds) else drawn


def headline(figure: Figure, holds: Any, drawn: str) -> None:
    """Title a figure with what is drawn; where the rows support it (`holds`), its entry's heading will replace that."""
    figure.suptitle(drawn, x=0.01, ha="left")
    figure.set_label(FOUND if bool(holds) else "")


def settings(rows: Any, name: str) -> list[Any]:
    """Values of a setting of the experiment that made these rows; none where they do not say."""
    return sorted({each[name] for each in rows.attrs.get("settings", []) if name in each})


def pick(rows: Any, **place: Any) -> Any:
    """Rows whose columns have these values."""
    chosen = np.ones(len(rows), dtype=bool)
    for name, value in place.items():
        chosen &= (rows[name] == value).to_numpy(dtype=bool)
    return rows[chosen]


def apart(places: Iterable[float], gap: float) -> list[float]:
    """Heights of labels in rising order, moved so that none is closer than `gap` to the next."""
    found = sorted(places)
    for _ in range(50):
        for i in range(len(found) - 1):
            lack = gap - (found[i + 1] - found[i])
            if lack > 0:
                found[i], found[i + 1] = found[i] - lack / 2, found[i + 1] + lack / 2
    return found


def listed(words: Iterable[str]) -> str:
    """Words in a sentence: "1, 2 and 3"."""
    words = list(words)
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
