"""Pictures of pages: the command above a picture draws it; that of a forecast shows runs held out of its log, too.

The rule behind verdicts is a sketch, and measured values in their forecast bands are drawn from rows of an experiment.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from matplotlib.figure import Figure

from asyncsim.plotting import _decisions, _style
from docs import _page
from experiments import _store

ROOT = _page.HERE.parent
COMMAND = re.compile(r"^\$ asyncsim ((?:.*\\\n)*.*--plot (\S+\.png))$", re.M)


def commands() -> dict[Path, list[str]]:
    """Words of the command that draws each picture of `docs/`; a name without a folder goes to `docs/pictures`."""
    found = {}
    for page in (ROOT / "README.md", *sorted(_page.HERE.glob("*.md"))):
        for line, name in COMMAND.findall(page.read_text(encoding="utf-8")):
            path = ROOT / (name if "/" in name else f"docs/pictures/{name}")
            found[path] = [*shlex.split(line.replace("\\\n", ""))[:-1], str(path)]
    return found


def draw() -> None:
    """Draw all of them, in about a minute."""
    held = json.loads((_page.HERE / "your-run" / "held-out.json").read_text(encoding="utf-8"))
    shown = partial(draw_held_out, held=held)
    for words in commands().values():
        draws = mock.patch.object(_decisions, "draw_forecast", shown)
        with contextlib.chdir(ROOT), contextlib.redirect_stdout(io.StringIO()), draws:
            _page.run("asyncsim", words)
    draw_verdicts(_page.HERE / "pictures" / "verdicts.png")
    draw_bands(_page.HERE / "pictures" / "bands.png")


def draw_held_out(found: Any, held: dict[str, list[float]], drawn: Any = _decisions.draw_forecast) -> Figure:
    """The forecast beside runs held out, titled by what they show; `drawn` is bound before `draw` replaces it."""
    figure = drawn(found, held=held)
    inside = [
        band.low <= value <= band.high
        for name, values in held.items()
        for band, value in zip(found.line(name).forecasts, values, strict=True)
        if name in _decisions.PANELS and name != "k3"
    ]
    words = "Forecast bands from one log contain the held-out runs in time, staleness and ESS"
    part = f"Forecast bands from one log contain {sum(inside)} of {len(inside)} values of held-out runs"
    figure.suptitle(words if all(inside) else part, ha="left", x=0.02)
    if found.line("staleness").measured is None:
        left = {"transform": figure.axes[1].transAxes, "color": _style.COLORS["muted"], "fontsize": 7.5}
        figure.axes[1].text(0.05, 0.9, "the log has no staleness", **left)
    return figure


def draw_verdicts(path: Path) -> None:
    """A sketch of the rule behind four verdicts: deviations with their intervals, in smallest effects."""
    examples = [
        ("held", 0.15, 0.5, "measured"),
        ("violated", 1.7, 0.5, "contrast"),
        ("inconclusive", 0.5, 1.6, "muted"),
        ("holds, not tight\n(of a bound: safe, but loose)", -2.2, 0.5, "measured"),
    ]
    with _style.applied():
        figure = _style.picture(1.3 * _style.COLUMN, 1.9)
        ax = figure.subplots()
        ax.axvspan(-1.0, 1.0, color=_style.COLORS["muted"], alpha=0.18, linewidth=0)
        ax.axvline(0.0, **_style.PREDICTED)
        for row, (_, middle, half, color) in enumerate(examples):
            ax.errorbar(middle, row, xerr=half, **{**_style.MEASURED, "color": _style.COLORS[color]})
        ax.set(xlim=(-3.0, 3.0), ylim=(len(examples) - 0.5, -0.5), xlabel="measured − predicted, in smallest effects")
        ax.set_yticks(range(len(examples)), [name for name, *_ in examples])
        figure.suptitle("How an interval becomes a verdict on a formula", x=0.01, ha="left")
        ax.set_title("Dashed: the prediction. Shaded: deviations below the smallest effect.", fontsize=7.5)
        _style.write(figure, path)


BANDS = {
    "seconds": "seconds per update", "staleness": "staleness", "p99": "staleness p99", "idle": "idle slots",
    "ess": "token ESS", "k3": "k3", "outside": "outside GRPO's clip",
}  # fmt: skip
"""Numbers of the experiment on forecasts, as the page calls them."""


def draw_bands(path: Path) -> None:
    """Where measured values of live runs lie in their bands: 0 is the forecast, -1 and 1 are the ends of the band."""
    rows = _store.read("forecasts")
    rows = rows[(rows.source == "live") & rows.inside.notna()]
    half = (rows.high - rows.forecast).where(rows.measured > rows.forecast, rows.forecast - rows.low)
    rows = rows.assign(place=(rows.measured - rows.forecast) / half, inside=rows.inside == 1)
    with _style.applied():
        figure = _style.picture(1.5 * _style.COLUMN, 2.6)
        ax = figure.subplots()
        ax.axvspan(-1.0, 1.0, color=_style.COLORS["muted"], alpha=0.18, linewidth=0)
        ax.axvline(0.0, **_style.PREDICTED)
        for place, name in enumerate(BANDS):
            own = rows[rows.number == name].sort_values("place")
            shift = 0.3 * ((np.arange(len(own)) * 0.618) % 1.0 - 0.5)  # neighbors stay apart
            for inside, color, size in ((True, "measured", 6), (False, "contrast", 14)):
                chosen = (own.inside == inside).to_numpy()
                ax.scatter(own.place[chosen], place + shift[chosen], s=size, color=_style.COLORS[color], linewidths=0)
            ax.text(1.02, place, f"{own.inside.sum()} of {len(own)}", transform=ax.get_yaxis_transform(), va="center")
        most = 1.05 * rows.place.abs().max()
        ax.set(xlim=(-most, most), ylim=(len(BANDS) - 0.5, -0.5), xlabel="measured value, relative to its 95 % band")
        ax.set_xticks([-1.0, 0.0, 1.0], ["lower end", "forecast", "upper end of the band"])
        ax.set_yticks(range(len(BANDS)), list(BANDS.values()))
        own = rows[rows.number != "idle"]
        words = f"{own.inside.sum()} of {len(own)} measured values lie in their 95 % bands (without idle slots)"
        figure.suptitle(words, x=0.01, ha="left")
        _style.write(figure, path)
