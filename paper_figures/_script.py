"""What figure scripts share: intervals, shades, the text above the panels, and writing the files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from asyncsim import uncertainty
from asyncsim.checks import InputError
from asyncsim.plotting import _style

HERE = Path(__file__).resolve().parent


def interval(values: Any) -> tuple[float, float]:
    """Mean over replicates or seeds, and half of its 95 percent interval."""
    found = uncertainty.between(np.asarray(values, dtype=float))
    return found.value, found.error * uncertainty.critical(0.05, found.freedom)


def shades(values: Any) -> list[tuple[int, Any]]:
    """The distinct levels of a column in order, each with its shade."""
    levels = sorted(int(value) for value in set(values))
    return list(zip(levels, colormaps["viridis"](np.linspace(0.0, 0.88, len(levels))), strict=True))


def caption(figure: Figure, *lines: str) -> None:
    """What is varied, measured and predicted, in small type above the panels."""
    figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=8)


def make(name: str, draw: Callable[[], Figure]) -> int:
    """Write NAME.png and NAME.pdf; exit status 2 with one line where rows are missing."""
    try:
        figure = draw()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for kind in ("png", "pdf"):
        _style.write(figure, HERE / f"{name}.{kind}")
    return 0
