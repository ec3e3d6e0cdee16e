"""Run the benchmarks: `python -m benchmarks [NAME ...] [--rounds N] [--out PATH] [--page]`."""

from __future__ import annotations

import argparse
import importlib
import json
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from asyncsim.base import checks
from asyncsim.base.files import write_atomically
from asyncsim.base.manifest import manifest
from benchmarks import _page
from benchmarks._record import Benchmark

HERE = Path(__file__).resolve().parent


def collect() -> dict[str, Benchmark]:
    """All benchmarks by name, from every file of this folder."""
    found: dict[str, Benchmark] = {}
    for path in sorted(HERE.glob("[!_]*.py")):
        own = importlib.import_module(f"benchmarks.{path.stem}").BENCHMARKS
        twice = sorted(set(found) & set(own))
        checks.require(not twice, "benchmark", twice, "a name of its own", f"rename it in {path.name}")
        found |= own
    return found


def compare(name: str, benchmark: Benchmark, rounds: int) -> dict[str, Any]:
    """Medians of both sides, and median, least and greatest ratio of ours to theirs over paired rounds.

    Both sides run once unmeasured, so that compilation and caches count for neither. The side that goes first
    alternates: a machine that slows down or speeds up during a round then favors neither.
    """
    ours, theirs, unit = benchmark[:3]
    ours(), theirs()
    pairs = []
    for index in range(rounds):
        if index % 2:
            second, first = theirs(), ours()
            pairs.append((first, second))
        else:
            pairs.append((ours(), theirs()))
    good = all(math.isfinite(rate) and rate > 0 for pair in pairs for rate in pair)
    checks.require(good, f"rates of {name}", pairs, "positive numbers", "return work over seconds")
    ratios = [a / b for a, b in pairs]
    return {
        "name": name,
        "value": statistics.median(a for a, _ in pairs),
        "unit": unit,
        "against": statistics.median(b for _, b in pairs),
        "ratio": statistics.median(ratios),
        "low": min(ratios),
        "high": max(ratios),
        "values": [min(a for a, _ in pairs), max(a for a, _ in pairs)],
        "others": [min(b for _, b in pairs), max(b for _, b in pairs)],
    }


def compare_all(names: Sequence[str], known: dict[str, Benchmark], rounds: int) -> list[dict[str, Any]]:
    """Rows of the named benchmarks, printed as they are reached; one whose peer is not installed is named and left."""
    rows = []
    print(f"{'benchmark':30} {'ours':>12} {'theirs':>12} {'ratio':>8}  range")
    for name in names:
        benchmark = Benchmark(*known[name])
        if not benchmark.installed:
            print(f"{name:30} left out: {benchmark.needs} is not installed", flush=True)
            continue
        row = compare(name, benchmark, min(rounds, benchmark.rounds or rounds))
        rows.append(row | {"what": benchmark.what, "target": benchmark.target})
        print(
            f"{name:30} {row['value']:12.4g} {row['against']:12.4g} {row['ratio']:8.3g}  "
            f"{row['low']:.3g} to {row['high']:.3g}  ({row['unit']})",
            flush=True,
        )
    return rows


def keep(found: dict[str, Any], path: Path) -> None:
    """Write what was found so far."""
    text = json.dumps(found, indent=1)
    write_atomically(path, lambda file: file.write(text.encode() + b"\n"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 done, 2 input refused."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Compare speed with named peers.")
    parser.add_argument("names", nargs="*", help="benchmarks to run; all of them by default")
    parser.add_argument("--rounds", type=int, default=7, help="paired measurements of each")
    parser.add_argument("--out", type=Path, metavar="PATH", help="default: build/bench.json, of some bench-part.json")
    parser.add_argument("--page", action="store_true", help="of all: also measure limits and growth; write README.md")
    options = checks.options(parser, arguments)
    try:
        checks.integer("rounds", options.rounds, 1, "measure at least once")
        known = collect()
        for name in options.names:
            checks.one_of("benchmark", name, known, "run without names for all of them")
        remedy = "run it without names: the page has all of them"
        checks.require(not (options.page and options.names), "--page", options.names, "asked for without names", remedy)
        options.out = options.out or HERE.parent / "build" / f"bench{'-part' * bool(options.names)}.json"
        options.out.parent.mkdir(parents=True, exist_ok=True)
        rows = compare_all(options.names or list(known), known, options.rounds)
    except checks.InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    found = {"benchmarks": rows, "manifest": manifest({"rounds": options.rounds})}
    keep(found, options.out)
    if options.page:
        found |= _page.measured()
        keep(found, options.out)
        _page.write(found, HERE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
