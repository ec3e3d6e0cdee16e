"""From rows to pictures: the contract of figure scripts, and files that say what they were drawn from."""

from __future__ import annotations

import difflib
import importlib
import inspect
import json
import re
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from PIL import Image

from asyncsim.base import checks, files
from asyncsim.base.plugins import summaries
from asyncsim.plotting import _style
from experiments import _contract, _store
from paper_figures import _claim, _claims, _gallery, _grids, _looks, _script, _setup

HERE = Path(__file__).resolve().parent
ROWS, SCRIPT, LOOKS = "asyncsim rows", "asyncsim script", "asyncsim looks"
"""Keys in a picture: digests of the rows and of the script it was drawn from, and what is wrong with its looks."""
LEVELED, LEVELS = "asyncsim levels", 16
"""Key in a picture: what stood in the columns of its rows that have at most so many distinct values."""
BREAKS = (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError)
"""What a script raises that finds no rows where it looks for them."""


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
    listed = isinstance(asked, (list, tuple, dict)) and bool(asked) and all(isinstance(each, str) for each in asked)
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


def origin(name: str, quick: bool = False, where: Path | None = None) -> dict[str, str]:
    """Digests of the rows and of the script that a picture says it was drawn from."""
    rows = [_store.content(each, quick, *place) for each, place in places(name, where).items()]
    roots = ("EXPERIMENTS", "draw", "numbers")
    snake = name.replace("-", "_")
    code = _contract.version(_contract.own_code(HERE, snake, roots, _contract.MACHINERY))
    return {ROWS: _contract.digest(rows), SCRIPT: _contract.digest([code, _gallery.heading(HERE, snake)])}


def tables(name: str, quick: bool = False, where: Path | None = None) -> list[Any]:
    """Rows of a figure's experiments, in order: the committed ones, or those that a folder `where` holds."""
    return [_store.read(each, quick, *place) for each, place in places(name, where).items()]


def places(name: str, where: Path | None) -> dict[str, tuple[Path | None, bool]]:
    """The folder of each experiment of a figure, and whether its rows have settings of their own.

    In a folder `where` of rows, those of several experiments stand in folders of their names.
    """
    asked = script(name).EXPERIMENTS
    return {each: (where if where is None or len(asked) == 1 else where / each, where is not None) for each in asked}


@contextmanager
def reading(name: str, rows: list[Any]) -> Iterator[None]:
    """Where a figure looks for rows that are not there, one line says which, where it did, and what to do.

    Levels of short columns are compared with those that the picture says it was drawn from. Raises `InputError`.
    """
    asked = script(name).EXPERIMENTS
    make = " and ".join(f"`{_store.command(each, False)}`" for each in asked)
    for experiment, table in zip(asked, rows, strict=True):
        checks.require(len(table) > 0, f"rows of {experiment}", len(table), "one or more", f"make them with {make}")
    try:
        yield
    except BREAKS as error:
        place = [each for each in traceback.extract_tb(error.__traceback__) if Path(each.filename).parent == HERE][-1]
        at = f"{Path(place.filename).name}:{place.lineno}"
        found = _missing(name, rows) or f"{type(error).__name__}: {error}"
        bound = f"what figure {name} draws ({at})"
        remedy = (
            f"give the settings their levels back and run {make}, or change {at}; leave them out of --set of own rows"
        )
        raise checks.InputError(f"rows of {', '.join(asked)}", found, bound, remedy) from error


def levels(rows: list[Any]) -> str:
    """What stands in each column of few distinct values, of all tables, as JSON."""
    found: dict[str, list[str]] = {}
    for table in rows:
        for column in table.columns:
            values = {
                f"{value:g}" if isinstance(value, float) else str(value) for value in table[column].dropna().unique()
            }
            if len(values) <= LEVELS:
                found[column] = sorted({*values, *found.get(column, [])})
    return json.dumps(found, ensure_ascii=True)


def _missing(name: str, rows: list[Any]) -> str:
    """Levels that the picture was drawn from and these rows lack; none where it does not say."""
    path = HERE / _gallery.PICTURES / f"{name.replace('-', '_')}.png"
    try:
        with Image.open(path) as picture:
            before = json.loads(getattr(picture, "text", {}).get(LEVELED, "{}"))
    except (OSError, ValueError):
        return ""
    now = json.loads(levels(rows))
    lost = {column: [each for each in before[column] if each not in now[column]] for column in before if column in now}
    words = [f"{column} {' or '.join(each[:4])}" for column, each in lost.items() if each]
    return f"no {', no '.join(words[:3])}" if words else ""


def numbers(name: str, rows: list[Any], count: bool = True) -> dict[str, str]:
    """What a figure's entry may quote, by key, and what the settings of its claims come to if they are to be counted.

    Raises `InputError` that names rows which the figure lacks.
    """
    with reading(name, rows):
        found = script(name).numbers(*rows)
        for claim, known in (settings(name, rows) if count else {}).items():
            counts = _claim.counted(known) | {"places": _grids.placed(known)}
            found |= {f"{claim}_{key}": text for key, text in counts.items()}
    formatted = isinstance(found, dict) and all(isinstance(v, str) and str(k).isidentifier() for k, v in found.items())
    checks.require(formatted, f"{name}.numbers", found, "a dict of texts by identifier", "format every number")
    return found


def settings(name: str, rows: list[Any]) -> dict[str, list[_claim.Setting]]:
    """Settings of a figure's claims, with those of the second figure that a claim names; what it lends is left out."""
    held = getattr(script(name), "held", None)
    found = dict(held(*rows)) if held else {}
    for claim in (each for each in _claims.CLAIMS if each.also):
        if claim.figure == name:
            found[claim.held] = [*found[claim.held], *script(claim.also).held(*tables(claim.also))[claim.held]]
        elif claim.also == name:
            found.pop(claim.held, None)
    return found


def drawn(name: str, quick: bool = False, where: Path | None = None) -> Drawn:
    """Draw a figure from its rows. Raises `InputError` that names rows which the figure lacks."""
    rows = tables(name, quick, where)
    quoted = numbers(name, rows, not quick and where is None)
    figure, looks = picture(name, rows, own(name, rows, where) if where else "", "" if where else title(name, quoted))
    if quick:
        figure.text(
            0.002, 0.002, "QUICK: few samples", ha="left", va="bottom", fontsize=7, color=_style.COLORS["violated"]
        )
    notes = origin(name, quick, where) | {LOOKS: looks, LEVELED: levels(rows)}
    return Drawn(name.replace("-", "_"), figure, quoted, notes, page(name, rows))


def title(name: str, said: Mapping[str, str]) -> str:
    """The heading of a figure's entry with its numbers; `said` are the figure's own."""

    def number(found: re.Match[str]) -> str:
        own = said if not found[1] else numbers(found[1], tables(found[1]), False)
        return own.get(found[2], found[0])

    return _gallery.PLACEHOLDER.sub(number, _gallery.heading(HERE, name.replace("-", "_")))


def own(name: str, rows: list[Any], where: Path) -> str:
    """What is special about the rows of a folder: settings that differ from the experiment's, or few samples."""
    words, asked = ["own rows"], script(name).EXPERIMENTS
    for (each, (place, _)), table in zip(places(name, where).items(), rows, strict=True):
        small, mine = _store.quick_rows(place or where), table.attrs["settings"]
        usual = _store.settings_of(_store.experiment(each), small)
        drawn = asked[each] if isinstance(asked, Mapping) else {}
        changed = [key for key in dict.fromkeys(key for one in usual for key in one) if _differ(usual, mine, key)]
        usual, mine = (_chosen(settings, drawn) for settings in (usual, mine))
        here = [key for key in changed if _differ(usual, mine, key)]
        pairs = [f"{key} {', '.join(_values(mine, key))} (not {', '.join(_values(usual, key))})" for key in here]
        idle = [key for key in changed if key not in here]
        words += [*pairs, *[f"{', '.join(idle)} changed, which is not drawn here"] * bool(idle)]
        words += [f"quick rows of {each}: few samples"] * small
    return " · ".join(words)


def _chosen(settings: list[dict[str, Any]], drawn: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Settings of the rows that a figure draws."""
    known = {key: x if isinstance(x, tuple) else (x,) for key, x in drawn.items()}
    return [one for one in settings if all(one[key] in x for key, x in known.items() if key in one)] or settings


def _differ(usual: list[dict[str, Any]], mine: list[dict[str, Any]], key: str) -> bool:
    return _values(usual, key) != _values(mine, key)


def _setting(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_setting, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _values(settings: list[dict[str, Any]], key: str) -> list[str]:
    found = [_setting(setting[key]) for setting in settings if key in setting]
    return list(dict.fromkeys(found))


@contextmanager
def _without_findings(module: Any) -> Iterator[None]:
    """Titles that say what is drawn: what the gallery says of its rows, and of their numbers, is not said of others."""
    homes = [each for each in (_script, module) if hasattr(each, "finding")]
    before = [each.finding for each in homes]
    try:
        for each in homes:
            each.finding = lambda holds, words, drawn: drawn
        yield
    finally:
        for each, function in zip(homes, before, strict=True):
            each.finding = function


def picture(name: str, rows: list[Any], own: str = "", heading: str = "") -> tuple[Figure, str]:
    """What a script draws from tables, and what is wrong with its looks.

    Arguments: `own`, what is special about the rows; `heading`, the title where they support it.
    """
    with reading(name, rows), _without_findings(script(name)) if own else nullcontext():
        figure = script(name).draw(*rows)
    checks.require(isinstance(figure, Figure), f"{name}.draw", type(figure).__name__, "a Figure", "return it")
    shows = figure.get_label() == _script.FOUND
    if heading and shows:
        figure.suptitle(heading, x=0.01, ha="left")
    shown = _looks.panels(figure)
    with reading(name, rows), _style.applied():
        _style.key(figure)
        line = _setup.line(script(name).EXPERIMENTS, rows)
        _setup.say(figure, " · ".join(filter(None, [line, own])))
        for ax, letter in zip(shown, "abcd", strict=False):
            words = re.sub("^[a-z]", lambda first: first[0].upper(), ax.get_title("left"))
            ax.set_title(rf"$\bf{{{letter}}}$   {words}" if len(shown) > 1 else words, loc="left")
        # What has no place on its axes shows when it is laid out.
        wrong = [f"the rows do not show what its entry is headed: {heading}"] * bool(heading and not shows)
        return figure, "; ".join([*wrong, *_looks.faults(figure), *_setup.unnamed(figure, line)]) or "well"


def page(name: str, rows: list[Any]) -> str:
    """A page of HTML beside the figure, if its script writes one."""
    written = getattr(script(name), "page", None)
    with reading(name, rows):
        return written(*rows) if written else ""


def write(picture: Drawn, where: Path, pictures: str = _gallery.PICTURES) -> list[Path]:
    """Write NAME.png, which says what it was drawn from, NAME.pdf and its page, each whole or not; returns paths.

    `pictures`: the folder inside of `where` for all but the page.
    """
    data = {kind: _style.encode(picture.figure, kind, picture.origin if kind == "png" else None)
            for kind in _gallery.KINDS}  # fmt: skip
    paths = []
    for kind, content in data.items():
        paths.append(where / pictures / f"{picture.name}.{kind}")
        files.write_atomically(paths[-1], lambda file, content=content: file.write(content))
    if picture.page:
        paths.append(where / f"{picture.name}.html")
        files.write_atomically(paths[-1], lambda file: file.write(picture.page.encode()))
    return paths
