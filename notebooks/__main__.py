"""Run the notebooks top to bottom: `python -m notebooks [NAME ...] [--check]`."""

from __future__ import annotations

import argparse
import sys
import time

import nbformat
from nbclient.exceptions import CellExecutionError

from asyncsim.base import checks, workers
from asyncsim.base.checks import InputError, RunError
from asyncsim.base.files import write_atomically
from notebooks import _book


def main() -> int:
    """Write outputs into every named notebook, or check all of it; 1 where a notebook is faulty, 2 for bad input."""
    parser = argparse.ArgumentParser(prog="python -m notebooks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="notebooks, as 1_staleness (all of them by default)")
    parser.add_argument(
        "--check",
        action="store_true",
        help="run them and their solutions without writing; fail where a cell fails, prints something else than is "
        "committed, or defines a function, and where text and notebook disagree, outputs or exercises are missing",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="notebooks that run at one time (default: one a core)")
    given = checks.options(parser)
    names = given.names or _book.names()
    sound = True
    try:
        count = workers.count_of(given.workers, len(names))
        for _, (line, is_sound) in workers.each("notebooks.__main__:run_one", ((n, given.check) for n in names), count):
            print(line, flush=True)
            sound &= is_sound
    except (InputError, RunError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return int(not sound)


def run_one(name: str, check: bool) -> tuple[str, bool]:
    """Run one notebook: a line about it, and whether nothing is wrong with it."""
    start = time.perf_counter()
    book = _book.text_of(name)
    faults = _book.faults(name) if check else _refuse_newer(name)
    if not faults:
        try:
            _book.executed(_book.with_solutions(book) if check else book)
        except CellExecutionError as error:
            faults = [f"a cell fails: {error}"]
    if not faults and check:
        moved = _book.changed(_book.outputs(_book.committed(name)), _book.outputs(book))
        faults = [f"code cell {k} prints something else than committed: run python -m notebooks {name}" for k in moved]
    if not faults and not check:
        text = nbformat.writes(book) + "\n"
        write_atomically(_book.HERE / f"{name}.ipynb", lambda file: file.write(text.encode()))
        faults = _book.faults(name)
    return f"{name}: {'; '.join(faults) or 'as it should be'} ({time.perf_counter() - start:.0f} s)", not faults


def _refuse_newer(name: str) -> list[str]:
    """The text is what is run: a notebook that was changed after it would be overwritten."""
    text, book = _book.HERE / f"{name}.md", _book.HERE / f"{name}.ipynb"
    newer = book.exists() and book.stat().st_mtime > text.stat().st_mtime
    same = not newer or [c.source for c in _book.committed(name).cells] == [c.source for c in _book.text_of(name).cells]
    return [] if same else [f"changed in {name}.ipynb, not in {name}.md: run jupytext --sync notebooks/{name}.ipynb"]


if __name__ == "__main__":
    sys.exit(main())
