"""What a figure may look like: few panels, few words, letters that can be read in print, colors from one place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import is_color_like
from matplotlib.figure import Figure
from matplotlib.text import Text

from asyncsim.plotting import _style
from paper_figures import _methods

PANELS, HEIGHT, WORDS, POINTS = 4, 7.0, 25, 7.0
"""Most panels, inches and words in a figure; least size of letters in print."""
COLORED = (
    "color",
    "c",
    "facecolor",
    "fc",
    "edgecolor",
    "ec",
    "facecolors",
    "edgecolors",
    "ecolor",
    "mfc",
    "mec",
    "colors",
)
LINED = ("linestyle", "ls", "linestyles", "dashes")
NEUTRAL = ("none", "white")
"""A background is no concept."""


def faults(figure: Figure) -> list[str]:
    """What is wrong with a drawn figure, in one line each."""
    width, height = figure.get_size_inches()
    wrong, shown = [], panels(figure)
    if len(shown) > PANELS:
        wrong.append(f"{len(shown)} panels; at most {PANELS}: split the figure")
    if height > HEIGHT:
        wrong.append(f"{height:.1f} inches high; at most {HEIGHT}")
    words = caption_words(figure)
    if words > WORDS:
        wrong.append(f"{words} words in its captions; at most {WORDS}: the rest goes under the picture")
    size = least_points(figure) * min(1.0, _style.WIDTH / width)
    if size < POINTS - 0.01:
        wrong.append(f"letters of {size:.1f} points at {_style.WIDTH} inches; at least {POINTS}")
    texts = dict.fromkeys(text.get_text() for text in figure.findobj(Text))
    wrong += [
        f"a hyphen for a minus: {text!r}" for text in texts if "$" not in text and re.search(r"(?<![\w.])-\d", text)
    ]
    return [*wrong, *_methods.faults(figure)]


def panels(figure: Figure) -> list[Axes]:
    """Axes with data; color bars are none."""
    return [ax for ax in figure.axes if ax.has_data() and ax.get_label() != "<colorbar>"]


def caption_words(figure: Figure) -> int:
    """Words above, below and beside the panels, and remarks of four words and more inside."""
    outside = list(figure.texts)
    inside = [text for ax in figure.axes for text in ax.texts if len(text.get_text().split()) >= 4]
    return sum(len(text.get_text().split()) for text in [*outside, *inside] if text.get_visible())


def least_points(figure: Figure) -> float:
    """The smallest letters, in points."""
    figure.draw_without_rendering()
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    return min((float(text.get_fontsize()) for text in texts), default=POINTS)


def choices(path: Path) -> list[str]:
    """Colors and line styles that a script chooses by itself, by line; they belong into `asyncsim.plotting`."""
    found = []
    for name, node in _named(ast.parse(path.read_text(encoding="utf-8"))):
        value = node.value
        if name in COLORED and isinstance(value, str) and is_color_like(value) and value not in NEUTRAL:
            found.append(f"{path.name}:{node.lineno}: color {value!r}; take one of plotting's")
        if name in LINED and isinstance(value, str) and value != "none":
            found.append(f"{path.name}:{node.lineno}: line style {value!r}; take plotting's PREDICTED or REFERENCE")
    return found


def _named(tree: ast.AST) -> Iterator[tuple[str, Any]]:
    """Constants that are given by name: of a keyword, or in a dictionary."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and isinstance(node.value, ast.Constant):
            yield node.arg or "", node.value
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Constant):
                    yield str(key.value), value
