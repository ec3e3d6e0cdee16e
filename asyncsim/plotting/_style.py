"""One look for every figure: sizes, one color per concept, and files whose bytes depend on the drawing alone."""

import io
import os
import re
import textwrap
from collections.abc import Mapping
from contextlib import AbstractContextManager
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

from matplotlib import colormaps, font_manager, style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from asyncsim.base import checks, files, notation

COLUMN, WIDTH = 89 / 25.4, 183 / 25.4
"""Width in inches of a figure of one column of a journal, and of one of a page; letters have their true size there."""

COLORS: Mapping[str, str] = MappingProxyType(checks.table(__file__, "colors.toml"))
"""One color per concept; `contrast` is the measurement beside another one. Conditions of a training comparison:
`stale`, data or runs that staleness harms; `controlled`, those under study; `partial`, a part of what is done to them.
`tuned`: a smaller or retuned learning rate instead. `random`: an intervention at random times. The rest: methods."""

INK = COLORS["predicted"]
_MARK = {"linestyle": "none", "marker": "o", "markersize": 4.0, "capsize": 2.0, "elinewidth": 1.0, "capthick": 1.0}
MEASURED: Mapping[str, Any] = MappingProxyType(_MARK)
"""Measured points with their intervals, for `ax.errorbar`."""
_LINE = {"color": COLORS["predicted"], "linestyle": (0, (4, 2)), "linewidth": 1.1}
PREDICTED: Mapping[str, Any] = MappingProxyType(_LINE)
"""The line of a prediction, which is never fitted."""
REFERENCE: Mapping[str, Any] = MappingProxyType({"color": COLORS["muted"], "linestyle": ":", "linewidth": 1.0})
"""The line of a level to compare with, such as the best possible return."""

for cut in ("Regular", "It", "Bold"):
    font_manager.fontManager.addfont(str(resources.files("font_source_sans_pro") / f"files/SourceSansPro-{cut}.ttf"))
STYLE = Path(__file__).with_name("asyncsim.mplstyle")
"""Sizes and fonts; `INKED` are what has the color of ink besides."""
INKED = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
PLACES = 5
"""Digits of a place in a figure, in its widths and heights: a hundredth of a pixel."""
UNDATED: dict[str, dict[str, Any]] = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}


class Picture(Figure):
    """A matplotlib figure that notebooks display although no window system created it."""

    def _repr_png_(self) -> bytes:
        return encode(self, "png")

    def savefig(self, *args: Any, **settings: Any) -> None:
        """Write the figure in this package's style, whose fonts the user's own settings may lack."""
        with applied():
            super().savefig(*args, **settings)


def applied() -> AbstractContextManager[None]:
    """Context with this package's matplotlib style, without the user's own settings."""
    return style.context(["default", STYLE, dict.fromkeys(INKED, INK)])


def picture(width: float, height: float) -> Picture:
    """New empty figure of the given size in inches."""
    return Picture(figsize=(width, height), layout="constrained")


def kind_of(path: str | os.PathLike[str]) -> str:
    """File type of a picture, by its path's ending."""
    kind = files.named("path", path).suffix.lower().removeprefix(".")
    checks.require(kind in UNDATED, "path", str(path), "a path ending in .png, .pdf or .svg", "choose one of them")
    return kind


def encode(figure: Figure, kind: str, notes: Mapping[str, str] | None = None) -> bytes:
    """Encode a figure as a file without a date; `notes` are metadata texts by key."""
    buffer = io.BytesIO()
    with applied():
        if isinstance(figure, Picture):
            _settle(figure)
        figure.savefig(buffer, format=kind, metadata={**UNDATED[kind], **(notes or {})})
    return buffer.getvalue()


def _settle(figure: Picture) -> None:
    """Lay out once and round all positions, since the layout solver differs in the last digits between runs."""
    figure.draw_without_rendering()
    for _ in range(3):  # a narrower title moves panels
        if _fit(figure):
            figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for part in figure.subfigs:
        box = part.bbox_relative
        box.p0, box.p1 = box.p0.round(PLACES), box.p1.round(PLACES)
    for ax in figure.axes:
        left, bottom, width, height = (round(float(each), PLACES) for each in ax.get_position().bounds)
        ax.set_position((left, bottom, width, height))


def _fit(figure: Picture) -> bool:
    """Break titles that reach into the next panel or out of the picture; return whether there are any."""
    panels, edge, broken = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"], figure.bbox.x1, False
    boxes = [ax.get_window_extent() for ax in panels]
    titled: list[tuple[Any, str, float]] = [(figure, figure.get_suptitle(), edge)]
    for ax, box in zip(panels, boxes, strict=True):
        beside = (b.x0 for b in boxes if b.x0 >= box.x1 and b.y0 < box.y1 and box.y0 < b.y1)
        titled.append((ax, ax.get_title(loc="left"), min(beside, default=edge)))
    for title, text, end in ((t, text, end) for of, text, end in titled if text for t in of.findobj(Text)):
        reach, longest = title.get_window_extent(), max(map(len, text.split("\n")))
        if title.get_text() == text and reach.x1 > end and " " in text:
            room = max(1, int(longest * (end - reach.x0) / reach.width) - 2)
            title.set_text(textwrap.fill(text, room, break_long_words=False, break_on_hyphens=False))
            broken = True
    return broken


def write(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure atomically, in the file type of the path's ending."""
    data = encode(figure, kind_of(path))
    files.write_atomically(path, lambda file: file.write(data))


def label(name: str) -> str:
    """Axis label of a metric with its symbol and unit, on two lines if it is long.

    >>> label("log_ratio_variance")
    'log ratio variance\\n$\\\\mathrm{Var}\\\\,\\\\log w$ (nats$^2$)'
    """
    text = re.sub(r"\^(\d)\)$", r"$^\1$)", notation.label(name))
    words = text.partition(" $")[0]
    return text.replace(" $", "\n$", 1) if len(words) > 15 else text


def staleness(share: float) -> tuple[float, float, float, float]:
    """Color of a staleness, from none (0) to the picture's maximum (1); no other quantity uses this color ramp."""
    return colormaps["YlOrRd"](0.25 + 0.65 * share)


def bar() -> Line2D:
    """Error bar as an entry of a legend."""
    return Line2D([], [], color=COLORS["muted"], marker="|", markersize=9, linestyle="none")


def key(figure: Figure) -> None:
    """Add a legend for dashed lines below the panels: predictions, unless a line has another label."""
    words = [str(line.get_label()) for ax in figure.axes for line in ax.lines if line.get_linestyle() == "--"]
    said_there = {text.get_text() for ax in figure.axes for text in ax.texts}
    said: dict[str, Any] = {}
    for word in (word for word in words if word not in said_there):
        said["predicted" if word.startswith("_") else word] = Line2D([], [], **PREDICTED)
    if said:
        look = {"handlelength": 2.2, "fontsize": 7.0, "frameon": False, "labelcolor": COLORS["muted"]}
        figure.legend(said.values(), said.keys(), loc="outside lower right", ncols=len(said), **look)


def note(ax: Axes, text: str) -> None:
    """Add a remark in small type above the right end of a panel."""
    ax.text(1.0, 1.02, text, transform=ax.transAxes, ha="right", va="bottom", fontsize=7.0, color=COLORS["muted"])
