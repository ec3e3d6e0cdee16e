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

from asyncsim.plotting import _decisions
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
