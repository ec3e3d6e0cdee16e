"""What every figure script does: say what is shown above the panels, and write the files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from asyncsim.checks import InputError
from asyncsim.plotting import _style

HERE = Path(__file__).resolve().parent


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
