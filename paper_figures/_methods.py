"""One name, color and marker for each method in all figures, and what is wrong with those of a figure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from matplotlib.artist import Artist
from matplotlib.colors import is_color_like, to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from asyncsim.plotting import _style

# A hue says what a method does about stale data, and hues stay apart for color-blind readers. Green: data are fresh.
# Gray: nothing is done. Orange: clips of PPO's kind; brown: clips around log-probs that are not the recorded ones.
# Wine: ratios are weights. VCPO, M2PO, GAC and BAPO, which meet in pictures, have colors of their own. TBA and DG have
# VCPO's, TOPR and RLOO with the current penalty GAC's: these meet in no picture that tells methods apart by color.
# Forms of a method have its color and another marker, or hollow ones. Trainers, data and rates are no methods.
METHODS: dict[str, tuple[str, str]] = {
    "fresh data": ("synchronous", "s"),
    "synchronous": ("synchronous", "s"),
    "RLOO on fresh data": ("synchronous", "s"),
    "RLOO": ("plain", "D"),
    "A2C": ("plain", "s"),
    "no correction": ("plain", "o"),
    "no control": ("plain", "o"),
    "no projection": ("plain", "o"),
    "no ratio": ("plain", "o"),
    "PPO": ("clip", "o"),
    "naive PPO": ("clip", "o"),
    "clip-higher": ("clip", "h"),
    "GRPO": ("clip", "o"),
    "Dr. GRPO": ("clip", "D"),
    "Proximal RLOO": ("clip", "P"),
    "GSPO": ("clip", "v"),
    "GPPO": ("clip", "s"),
    "decoupled PPO": ("anchored", "X"),
    "PPO, recomputed": ("anchored", "v"),
    "truncated IS": ("weights", "o"),
    "token truncated IS": ("weights", "D"),
    "exact IS": ("weights", "s"),
    "untruncated IS": ("weights", "s"),
    "sequence masked IS": ("weights", "X"),
    "token masked IS": ("weights", "d"),
    "geometric masked IS": ("weights", "p"),
    "RLOO with ratios": ("weights", "s"),
    "no clip": ("weights", "v"),
    "CISPO": ("weights", "D"),
    "V-trace": ("weights", "^"),
    "VCPO": ("vcpo", "^"),
    "TBA": ("vcpo", "^"),
    "delightful gradient (DG)": ("vcpo", "^"),
    "M2PO": ("m2po", "^"),
    "BAPO": ("bapo", "^"),
    "BAPO as released": ("partial", "D"),
    "BAPO, target on the gradient": ("partial", "D"),
    "GAC": ("gac", "^"),
    "projection": ("gac", "s"),
    "TOPR": ("gac", "D"),
    "RLOO, current penalty": ("gac", "s"),
}
"""Color and marker by name; a name with more words is that of a form."""
RETIRED = {
    "TIS": "truncated IS",
    "MIS": "masked IS",
    "truncated IS, token": "token truncated IS",
    "ratio without a clip": "no clip",
    "token weights": "no clip (token ratios)",
    "without ratios": "no ratio",
}
"""What is not written in a figure, and what is instead."""


def named(label: str) -> str | None:
    """The method that a label begins with, the longest of several."""
    words = " ".join(label.split())
    found = [name for name in METHODS if re.match(rf"{re.escape(name)}(?![\w-])", words)]
    return max(found, key=len, default=None)


def look(label: str, **more: Any) -> dict[str, Any]:
    """Color and marker of a method, or of a form of it."""
    color, marker = METHODS[str(named(label))]
    return {"color": _style.COLORS[color], "marker": marker, **more}


def called(arm: str) -> str:
    """An arm of the rows: the level before the method, which is spelled out; truncated IS is that of sequences."""
    if arm in METHODS:
        return arm
    words = " ".join(reversed(arm.split(", "))).replace("TIS", "truncated IS").replace("MIS", "masked IS")
    return words.replace("sequence truncated", "truncated")


def _labels(figure: Figure) -> Iterator[tuple[str, Any]]:
    """Texts in panels and in legends, with the colors of what they name."""
    for ax in figure.axes:
        yield from ((text.get_text(), text.get_color()) for text in [*ax.texts, *ax.get_yticklabels()])
    boxes = [*figure.legends, *(ax.get_legend() for ax in figure.axes if ax.get_legend())]
    for box in boxes:
        for text, mark in zip(box.get_texts(), box.legend_handles, strict=True):
            yield text.get_text(), _color(mark, text.get_color())


def _color(mark: Artist | None, otherwise: Any) -> Any:
    """The color of a mark in a legend; a mark of several parts has none of its own."""
    found = getattr(mark, "get_color", None) or getattr(mark, "get_facecolor", None)
    color = found() if found else otherwise
    return color if is_color_like(color) else otherwise


def faults(figure: Figure) -> list[str]:
    """Methods with another name, or another color, than theirs, in one line each."""
    neutral = {to_hex(_style.COLORS[name]) for name in ("predicted", "muted", "plain")}
    wrong = []
    for text in dict.fromkeys(each.get_text() for each in figure.findobj(Text)):
        words = " ".join(text.split())
        wrong += [f"{old!r} in {words!r}: {new!r} in all figures"
                  for old, new in RETIRED.items() if re.search(rf"\b{old}\b", words)]  # fmt: skip
    for label, color in _labels(figure):
        method = named(label)
        if method and to_hex(color) not in neutral | {to_hex(_style.COLORS[METHODS[method][0]])}:
            wrong.append(f"{' '.join(label.split())!r} is {to_hex(color)}: {method!r} has another color in all figures")
    return list(dict.fromkeys(wrong))
