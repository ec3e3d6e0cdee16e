"""Run experiments: `python -m experiments --list`, `python -m experiments NAME [--quick] [--device cpu|cuda] ...`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from asyncsim.checks import InputError
from experiments import _store


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 done, 2 input refused, 130 interrupted."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description="Run one experiment and store its rows.")
    parser.add_argument("name", nargs="?", help="an experiment, see --list")
    parser.add_argument("--list", action="store_true", help="name all experiments and their questions")
    parser.add_argument("--quick", action="store_true", help="the small settings, in seconds, under build/")
    parser.add_argument("--resume", action="store_true", help="keep the parts that are finished")
    parser.add_argument("--device", default="cpu", metavar="cpu|cuda", help="where the networks run")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the rows")
    options = parser.parse_args(arguments)
    try:
        if options.list:
            for name, summary in _store.names().items():
                print(f"{name:24} {summary}")
        elif options.name is None:
            parser.error("give the name of an experiment, or --list")
        else:
            where = _store.make(options.name, options.quick, options.resume, options.out, _bar, options.device)
            print(f"rows in {where}")
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; finished parts are kept, continue with --resume", file=sys.stderr)
        return 130
    return 0


def _bar(indices: Iterable[int]) -> Iterator[int]:
    """The indices, with a bar and the time left on standard error."""
    from rich import progress
    from rich.console import Console

    left = list(indices)
    columns = (
        progress.TextColumn("settings"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True)) as bar:
        yield from bar.track(left, total=len(left))


if __name__ == "__main__":
    sys.exit(main())
