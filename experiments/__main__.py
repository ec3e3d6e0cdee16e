"""Run experiments: `python -m experiments --list`, `python -m experiments NAME [--quick] [--device cpu|cuda] ...`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from asyncsim.app import wording
from asyncsim.base import checks, workers
from asyncsim.base.checks import InputError, RunError
from asyncsim.base.progress import Progress
from experiments import _carried, _contract, _store


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 done, 2 input refused, 130 interrupted."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description="Run experiments and store their rows.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments, or papers that ask several; see --list")
    parser.add_argument("--list", action="store_true", help="name all experiments and their questions, then the papers")
    parser.add_argument("--all", action="store_true", help="every experiment, once")
    parser.add_argument("--quick", action="store_true", help="the small settings, in seconds, under build/")
    parser.add_argument(
        "--set",
        dest="changes",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="another value in every setting that has it, with --out; repeat for more",
    )
    parser.add_argument("--resume", action="store_true", help="keep the parts that are finished and unchanged")
    parser.add_argument("--other-code", action="store_true", help="keep parts that other code of asyncsim made as well")
    parser.add_argument(
        "--workers", type=int, metavar="N", help="worker processes for settings (default: one a core; 1: this process)"
    )
    parser.add_argument("--device", metavar="cpu|cuda", help="where networks run (default: cpu; cuda for --gpu)")
    parser.add_argument("--gpu", action="store_true", help="settings for a card, small ones first, with --out; resumes")
    parser.add_argument("--budget", type=float, default=540.0, metavar="S", help="when --gpu ends (default: 540)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the rows; of several, DIR/NAME for each")
    parser.add_argument(
        "--carry",
        type=Path,
        nargs=2,
        metavar=("BEFORE", "AFTER"),
        help="committed rows count for rewritten code, whose quick rows in AFTER are those in BEFORE to the bit",
    )
    options, unknown = parser.parse_known_args(arguments)
    for word in unknown[:1]:
        name, _, value = word.lstrip("-").partition("=")
        value = value or next((each for each in unknown if not each.startswith("-")), "VALUE")
        checks.options(parser, arguments, _settings(name, value, options.names))
    if not (options.list or options.names or options.all or options.gpu):
        parser.error("give the name of an experiment or of a paper, --all or --list")
    try:
        if options.list:
            _list()
        elif options.gpu:
            from experiments import _gpu

            checks.require(options.out is not None, "--out", None, "given with --gpu", "name a folder for these rows")
            names = [name for asked in options.names for name in _store.questions(asked)] or _gpu.with_settings()
            _gpu.carry_out(names, options.out, options.budget, options.device or "cuda", options.quick)
        elif options.carry:
            before, after = options.carry
            for asked in options.names:
                for name in _store.questions(asked):
                    print(_carried.carry(name, before / name, after / name))
        else:
            _make(options)
    except (InputError, RunError) as error:
        print("\n".join([f"error: {error}", *getattr(error, "__notes__", [])]), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; finished parts are kept, continue with --resume", file=sys.stderr)
        return 130
    return 0


def _settings(word: str, value: str, names: list[str]) -> str:
    """What to write instead of a word that is no option, but maybe a setting of the named experiments."""
    experiments = [
        each for given in names if given in {*_store.names(), *_store.papers()} for each in _store.questions(given)
    ]
    settings = [setting for each in experiments for setting in _store.experiment(each).SETTINGS]
    known = {key: each for setting in settings for key, each in setting.items()}
    own = _contract.meant(word, known) or [key for key in known if key.startswith(word)]
    pairs = [f"'{key}=[{value}]'" if isinstance(known[key], (list, tuple)) else f"{key}={value}" for key in own]
    listed = f"settings are written --set KEY=VALUE --out DIR; KEY is one of {', '.join(known)}" * bool(known)
    return f"write --set {pairs[0]} --out DIR" if pairs else listed


def _list() -> None:
    lines = _store.names()
    for name, summary in lines.items():
        print(f"{name:24} {summary}")
    for paper, asked in _store.papers().items():
        print(f"\n{paper:24} {_store.summaries('experiments')[paper]}")
        for name in asked:
            print(f"  {name!s:22} {lines.get(str(name), f'missing: experiments/{name}.py')}")


def _make(options: argparse.Namespace) -> None:
    names = [*_store.names()] if options.all else []
    names += [each for name in options.names for each in _store.questions(name)]
    names = list(dict.fromkeys(names))
    alone = len(names) == 1 and names[0] == options.names[0].replace("-", "_")
    folders = [options.out and (options.out if alone else options.out / name) for name in names]
    changes = wording.settings(options.changes)
    plans = [
        _store.plan(name, options.quick, options.resume, out, options.device or "cpu", changes, options.other_code)
        for name, out in zip(names, folders, strict=True)
    ]
    for each in plans:
        _note(each, changes)
    total = sum(len(each.left) for each in plans)
    count = workers.count_of(options.workers, total)
    # One crew for all experiments: its processes import the same libraries once.
    with (
        workers.Crew(count) if count > 1 else nullcontext(1) as crew,
        Progress("settings", total, total > 1, KEPT) as bar,
    ):
        for planned in plans:
            where = _store.carry_out(planned, bar.counted, crew)
            print(f"rows in {where}")


KEPT = "an interrupted run keeps finished settings, and goes on with --resume"
"""What a long run says after its first seconds."""
SIZES = ("replicates", "seed", "seeds", "samples", "updates")
"""Settings of whose values no figure asks for several."""


def _note(planned: _store.Plan, changes: Mapping[str, Any]) -> None:
    """Say before the run which changed settings have several values, as figures compare them."""
    for key in changes:
        several = _store.values(planned.module, key, planned.quick)
        if key not in SIZES and len(several) > 1:
            words = ", ".join(str(value) for value in several[:4]) + ", ..." * (len(several) > 4)
            print(f"note: figures of {planned.name} may need all its values of {key} ({words})", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
