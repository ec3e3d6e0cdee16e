"""Pictures of pages: the command above a picture draws it; that of a forecast shows runs held out of its log, too."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from functools import partial
from pathlib import Path
from unittest import mock

from asyncsim.plotting import _decisions, _style
from docs import _page

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
    shown = partial(_decisions.draw_forecast, held=held)
    for words in commands().values():
        draws = mock.patch.object(_decisions, "draw_forecast", shown)
        with contextlib.chdir(ROOT), contextlib.redirect_stdout(io.StringIO()), draws:
            _page.run("asyncsim", words)
    draw_verdicts(_page.HERE / "pictures" / "verdicts.png")


def draw_verdicts(path: Path) -> None:
    """A sketch of the rule behind four verdicts: deviations with their intervals, in smallest effects."""
    examples = [
        ("held", 0.15, 0.5, "measured"),
        ("violated", 1.7, 0.5, "contrast"),
        ("inconclusive", 0.5, 1.6, "muted"),
        ("holds, not tight\n(bounds only)", -2.2, 0.5, "measured"),
    ]
    with _style.applied():
        figure = _style.picture(1.3 * _style.COLUMN, 1.9)
        ax = figure.subplots()
        ax.axvspan(-1.0, 1.0, color=_style.COLORS["muted"], alpha=0.18, linewidth=0)
        ax.axvline(0.0, **_style.PREDICTED)
        for row, (_, middle, half, color) in enumerate(examples):
            ax.errorbar(middle, row, xerr=half, **{**_style.MEASURED, "color": _style.COLORS[color]})
        ax.set(
            xlim=(-3.0, 3.0), ylim=(len(examples) - 0.5, -0.5), xlabel="measured minus predicted, in smallest effects"
        )
        ax.set_yticks(range(len(examples)), [name for name, *_ in examples])
        ax.set_title("Dashed: the prediction. Shaded: one smallest effect either side.", fontsize=7.5)
        _style.write(figure, path)
