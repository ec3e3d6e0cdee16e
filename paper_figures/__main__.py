"""Draw figures and write the gallery: `python -m paper_figures [NAME ...] [--quick | --rows DIR [--out DIR]]`."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import IO

from asyncsim.base import checks, workers
from asyncsim.base.checks import InputError
from asyncsim.base.files import write_atomically
from experiments import _contract
from paper_figures import _claims, _gallery, _pipeline


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 done; 2 something refused, one line each; 130 interrupted."""
    parser = argparse.ArgumentParser(prog="python -m paper_figures", description="Draw figures from result rows.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="figures; without any, all of them and the pages")
    parser.add_argument("--quick", action="store_true", help="from rows of `--quick` runs, into build/figures/")
    parser.add_argument(
        "--rows",
        type=Path,
        metavar="DIR",
        help="from rows of `python -m experiments ... --set ... --out DIR`, into DIR; of several, DIR/NAME",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the figures of --rows (default: theirs)")
    parser.add_argument("--text", action="store_true", help="the pages alone, where the pictures stand")
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        asked = next(iter(options.names), "FIGURE")
        experiment = next(iter(_pipeline.script(asked).EXPERIMENTS)) if asked in _pipeline.names() else "EXPERIMENT"
        again = f"python -m experiments {experiment} --set KEY=VALUE --out rows"
        again += f", then python -m paper_figures {asked} --rows rows"
        listed = f"the figures are {' '.join(_pipeline.names())}"
        asks = "--list" in (arguments or sys.argv)
        checks.options(parser, arguments, listed if asks else f"settings belong to the experiment: {again}")
    if options.rows and not options.names:
        parser.error("name the figures that --rows are for")
    if options.out and not options.rows:
        parser.error("--out needs --rows: figures of committed rows have their own folder")
    try:
        wrong = make(options.names, options.quick, options.text, options.rows, options.out)
    except KeyboardInterrupt:
        print("interrupted; figures drawn so far are written", file=sys.stderr)
        return 130
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    return 2 if wrong else 0


def make(
    names: list[str], quick: bool, text: bool = False, rows: Path | None = None, out: Path | None = None
) -> list[str]:
    """Draw the named figures, or all and the gallery; returns what is wrong in one line each.

    Those of other `rows` than the committed ones go beside them, or to `out`; quick ones go under build/; named ones
    of a user who stands outside of the repository into the current folder.
    """
    asked = [name.replace("-", "_") for name in names or _pipeline.names()]
    if names and not (quick or rows or Path.cwd().is_relative_to(_pipeline.HERE.parent)):
        # Who stands elsewhere looks for it there, and the committed picture is not his to draw.
        out = Path()
    made: dict[str, dict[str, str]] = {}
    wrong = []
    calls = ((name, quick, text, rows, out or rows) for name in asked)
    count = workers.count_of(None, len(asked))
    for number, (line, numbers) in workers.each("paper_figures.__main__:make_one", calls, count):
        if line:
            print(line, flush=True)
        if isinstance(numbers, str):
            wrong.append(f"{asked[number]}: {numbers}")
        else:
            made[asked[number]] = numbers
    wrong.sort()
    return wrong if names else [*wrong, *gallery({name: made[name] for name in asked if name in made}, quick)]


def make_one(
    name: str, quick: bool, text: bool, rows: Path | None, out: Path | None
) -> tuple[str, dict[str, str] | str]:
    """Draw one figure: a line about it, and what its entry may quote, or what is wrong."""
    try:
        if text:
            return "", _pipeline.numbers(name, _pipeline.tables(name, quick), not quick)
        picture = _pipeline.drawn(name, quick, rows)
        paths = _pipeline.write(picture, out or _pipeline.folder(quick), "" if out else _gallery.PICTURES)
        return f"{' '.join(path.name for path in paths)} in {paths[0].parent.resolve()}", picture.numbers
    except InputError as error:
        return "", str(error)


def gallery(numbers: _gallery.Numbers, quick: bool) -> list[str]:
    """Write the pages unless something is wrong with them; returns what is."""
    where, here = _pipeline.folder(quick), _pipeline.HERE
    try:
        front = (here.parent / "README.md").read_text(encoding="utf-8")
    except OSError:
        front = ""
    questions = [each for asked in _contract.papers().values() for each in asked]
    wrong = _gallery.faults(here, _pipeline.names(), questions, front)
    if quick:
        numbers = _claims.uncounted(numbers)
    else:
        wrong += _claims.wrong(numbers)
    made, missing = _gallery.pages(here, numbers, _claims.tables())
    # Where a figure could not be drawn, that is said already.
    wrong += missing if set(numbers) == set(_pipeline.names()) else []
    absent = [name for name in numbers if not (where / _gallery.PICTURES / f"{name}.png").exists()]
    wrong += [f"{name}.png: not drawn; run `python -m paper_figures {name}`" for name in absent]
    if wrong or set(numbers) != set(_pipeline.names()):
        return wrong
    if "claim_map" in numbers:
        listed = {"claims.json": _claims.rows(numbers), "items.json": _claims.items(numbers)}
        made |= {name: json.dumps(rows, indent=1, ensure_ascii=False) + "\n" for name, rows in listed.items()}
    try:
        for name, text in made.items():
            write_atomically(where / name, partial(_fill, text))
    except InputError as error:
        return [str(error)]
    print(", ".join(made), "in", where)
    return []


def _fill(text: str, file: IO[bytes]) -> None:
    file.write(text.encode())


if __name__ == "__main__":
    sys.exit(main())
