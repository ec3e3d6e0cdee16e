"""Run the benchmarks: `python -m benchmarks [NAME ...] [--rounds N] [--out PATH]`."""

from __future__ import annotations

import argparse
import importlib
import json
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from asyncsim.base import checks
from asyncsim.base.files import write_atomically
from asyncsim.base.manifest import manifest

Measure = Callable[[], float]
Benchmark = tuple[Measure, Measure, str]
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
    ours, theirs, unit = benchmark
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
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 done, 2 input refused."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Compare speed with named peers.")
    parser.add_argument("names", nargs="*", help="benchmarks to run; all of them by default")
    parser.add_argument("--rounds", type=int, default=7, help="paired measurements of each")
    parser.add_argument("--out", type=Path, default=HERE.parent / "build" / "bench.json", metavar="PATH")
    options = parser.parse_args(arguments)
    try:
        checks.integer("rounds", options.rounds, 1, "measure at least once")
        known = collect()
        for name in options.names:
            checks.one_of("benchmark", name, known, "run without names for all of them")
        options.out.parent.mkdir(parents=True, exist_ok=True)
        rows = []
        print(f"{'benchmark':24} {'ours':>12} {'theirs':>12} {'ratio':>8}  range")
        for name in options.names or known:
            row = compare(name, known[name], options.rounds)
            rows.append(row)
            print(
                f"{name:24} {row['value']:12.4g} {row['against']:12.4g} {row['ratio']:8.3g}  "
                f"{row['low']:.3g} to {row['high']:.3g}  ({row['unit']})",
                flush=True,
            )
    except checks.InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    text = json.dumps({"benchmarks": rows, "manifest": manifest({"rounds": options.rounds})}, indent=1)
    write_atomically(options.out, lambda file: file.write(text.encode() + b"\n"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
