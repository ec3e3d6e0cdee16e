"""From rows to pictures: the contract of figure scripts, and files that say what they were drawn from."""

from __future__ import annotations

import difflib
import importlib
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from asyncsim.base import checks, files
from asyncsim.base.plugins import summaries
from asyncsim.plotting import _style
from experiments import _contract, _source, _store
from paper_figures import _gallery, _looks

HERE = Path(__file__).resolve().parent
ROWS, SCRIPT, LOOKS = "asyncsim rows", "asyncsim script", "asyncsim looks"
"""Keys in a picture: digests of the rows and of the script it was drawn from, and what is wrong with its looks."""


@dataclass(frozen=True)
class Drawn:
    """A figure with what its entry may quote, and notes: digests of what it was made from, and how it looks.

    `page`: all of its rows as HTML, where the script has a function `page`.
    """

    name: str
    figure: Figure
    numbers: dict[str, str]
    origin: dict[str, str]
    page: str = ""


def names() -> dict[str, str]:
    """Figures with the first line of their scripts."""
    return summaries("paper_figures")


def folder(quick: bool) -> Path:
    """Where the gallery and its folder of pictures go: here, those of quick rows under build/."""
    return HERE.parent / "build" / "figures" if quick else HERE


def script(name: str) -> Any:
    """The module of a figure, its contract checked; kebab and snake case.

    Raises `InputError` for an unknown name or a file that breaks the contract of `paper_figures`.
    """
    snake, known = name.replace("-", "_"), names()
    near = difflib.get_close_matches(snake, known, n=1)
    hint = f"did you mean {near[0]}?" if near else "see paper_figures/README.md"
    checks.one_of("figure", snake, known, hint)
    module = importlib.import_module(f"paper_figures.{snake}")
    asked = getattr(module, "EXPERIMENTS", None)
    listed = isinstance(asked, (list, tuple)) and bool(asked) and all(isinstance(each, str) for each in asked)
    checks.require(listed, f"{snake}.EXPERIMENTS", asked, "a tuple of names", "name the experiments that it reads")
    for each in asked:
        checks.one_of(f"{snake}.EXPERIMENTS", each, _contract.names(), "see `python -m experiments --list`")
    for field in ("draw", "numbers"):
        function = getattr(module, field, None)
        checks.require(callable(function), f"{snake}.{field}", function, "a function", f"define {field}(*tables)")
        try:
            inspect.signature(function).bind(*asked)
        except TypeError:
            shown, bound = str(inspect.signature(function)), f"a function of {len(asked)} tables"
            raise checks.InputError(f"{snake}.{field}", shown, bound, "take one table for each experiment") from None
    return module


def origin(name: str, quick: bool = False) -> dict[str, str]:
    """Digests of the rows and of the script that a picture says it was drawn from."""
    rows = [_store.content(each, quick) for each in script(name).EXPERIMENTS]
    code = _source.version(HERE, name.replace("-", "_"), ("EXPERIMENTS", "draw", "numbers"))
    return {ROWS: _contract.digest(rows), SCRIPT: code}


def tables(name: str, quick: bool = False) -> list[Any]:
    """Rows of a figure's experiments, in order."""
    return [_store.read(each, quick) for each in script(name).EXPERIMENTS]


def numbers(name: str, rows: list[Any]) -> dict[str, str]:
    """What a figure's entry may quote, by key."""
    found = script(name).numbers(*rows)
    formatted = isinstance(found, dict) and all(isinstance(v, str) and str(k).isidentifier() for k, v in found.items())
    checks.require(formatted, f"{name}.numbers", found, "a dict of texts by identifier", "format every number")
    return found


def drawn(name: str, quick: bool = False) -> Drawn:
    """Draw a figure from its rows."""
    module, rows = script(name), tables(name, quick)
    figure = module.draw(*rows)
    checks.require(isinstance(figure, Figure), f"{name}.draw", type(figure).__name__, "a Figure", "return it")
    _style.key(figure)
    if quick:
        figure.text(0.998, 0.002, "QUICK: few samples", ha="right", va="bottom", fontsize=7, color="#c22f2f")
    notes = origin(name, quick) | {LOOKS: "; ".join(_looks.faults(figure)) or "well"}
    return Drawn(name.replace("-", "_"), figure, numbers(name, rows), notes, page(name, rows))


def page(name: str, rows: list[Any]) -> str:
    """A page of HTML beside the figure, if its script writes one."""
    written = getattr(script(name), "page", None)
    return written(*rows) if written else ""


def write(picture: Drawn, where: Path) -> list[Path]:
    """Write NAME.png, which says what it was drawn from, NAME.pdf and its page, each whole or not; returns paths."""
    data = {kind: _style.encode(picture.figure, kind, picture.origin if kind == "png" else None)
            for kind in _gallery.KINDS}  # fmt: skip
    paths = []
    for kind, content in data.items():
        paths.append(where / _gallery.PICTURES / f"{picture.name}.{kind}")
        files.write_atomically(paths[-1], lambda file, content=content: file.write(content))
    if picture.page:
        paths.append(where / f"{picture.name}.html")
        files.write_atomically(paths[-1], lambda file: file.write(picture.page.encode()))
    return paths
