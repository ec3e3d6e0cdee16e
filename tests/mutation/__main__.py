"""Mutants of the methods, their parts, ratios and updates, and the share of them that the suite notices.

python -m tests.mutation --sample 200 --seed 0
python -m tests.mutation --file asyncsim/step/ratios.py
"""

import argparse
import dataclasses
import hashlib
import json
import multiprocessing
import os
import sys
from collections import defaultdict
from pathlib import Path

# Before torch is imported: a fork keeps no other threads.
os.environ["OMP_NUM_THREADS"] = "1"

from scipy import stats

from tests.mutation import lines, server
from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.operators import Mutant, mutants
from tests.mutation.patching import ROOT

NOTICED = ("killed", "late")


def of_files(files: list[str]) -> list[Mutant]:
    """Every mutant of the files."""
    return [each for file in files for each in mutants(file, (ROOT / file).read_text(encoding="utf-8"))]


def sampled(found: list[Mutant], size: int, seed: int) -> list[Mutant]:
    """The mutants whose keys come first under the seed: those of other files stay when one file changes."""

    def rank(mutant: Mutant) -> bytes:
        return hashlib.blake2b("|".join((str(seed), *mutant.key)).encode(), digest_size=16).digest()

    return sorted(found, key=rank)[:size]


class Results:
    """Outcomes on disk. What was killed stays so while its file is the same; what was not, while the tests are."""

    def __init__(self, path: Path, tests: str, patience: float) -> None:
        self.path, self.tests, self.patience = path, tests, patience
        self.rows = {tuple(row["key"]): row for row in _rows(path)}
        self.digests: dict[str, str] = {}

    def _digest(self, file: str) -> str:
        if file not in self.digests:
            self.digests[file] = lines.digest([ROOT / file])
        return self.digests[file]

    def get(self, mutant: Mutant) -> server.Outcome | None:
        """What is known of the mutant."""
        row = self.rows.get(mutant.key)
        if row is None or row["source"] != self._digest(mutant.file):
            return None
        known = server.Outcome(**row["outcome"])
        same = row["tests"] == self.tests and (row["patience"] >= self.patience or known.tried == known.tests)
        return known if known.result in NOTICED or same else None

    def put(self, mutant: Mutant, outcome: server.Outcome) -> None:
        """Keep an outcome."""
        self.rows[mutant.key] = {
            "key": mutant.key,
            "line": mutant.line,
            "source": self._digest(mutant.file),
            "tests": self.tests,
            "patience": self.patience,
            "outcome": dataclasses.asdict(outcome),
        }
        lines.save(self.path, list(self.rows.values()))


def _rows(path: Path) -> list[dict]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def judged(found: list[Mutant], results: Results, covered: lines.Map, workers: int) -> None:
    """Outcomes of all mutants that have none yet."""
    left = [mutant for mutant in found if results.get(mutant) is None]
    if not left:
        return
    context = multiprocessing.get_context("fork")
    tasks, answers = context.Queue(), context.Queue()

    def work() -> None:
        judge = server.Judge(context, covered, results.patience)
        for mutant in iter(tasks.get, None):
            answers.put((mutant, judge(mutant)))
        judge.close()

    crew = [context.Process(target=work) for _ in range(workers)]
    for each in crew:
        each.start()
    for task in [*left, *[None] * workers]:
        tasks.put(task)
    for count in range(len(left)):
        mutant, outcome = answers.get()
        results.put(mutant, outcome)
        place = f"[{count + 1}/{len(left)}]"
        print(f"{place} {outcome.result} in {outcome.seconds} s: {mutant}", file=sys.stderr, flush=True)
    for each in crew:
        each.join()


def report(found: list[Mutant], results: Results) -> float:
    """Print shares by folder and every survivor; the share of all."""
    outcomes = {mutant: results.get(mutant) for mutant in found if mutant.key not in EQUIVALENT}
    folders: dict[str, list[str]] = defaultdict(list)
    for mutant, outcome in outcomes.items():
        folder = mutant.file.rpartition("/")[0].replace("asyncsim/", "")
        folders[folder if folder != "asyncsim" else Path(mutant.file).stem].append(outcome.result)
    folders["all"] = [outcome.result for outcome in outcomes.values()]
    for folder, each in folders.items():
        killed = sum(result in NOTICED for result in each)
        low, high = stats.binomtest(killed, len(each)).proportion_ci(method="wilson") if each else (0.0, 1.0)
        late = each.count("late")
        print(
            f"{folder:12} {killed}/{len(each)} noticed = {killed / max(len(each), 1):.3f} "
            f"[{low:.3f}, {high:.3f}]{f', {late} of them by the time limit' if late else ''}"
        )
    for mutant, outcome in outcomes.items():
        if outcome.result not in NOTICED:
            print(f"{outcome.result} ({outcome.tried} of {outcome.tests} tests): {mutant} {outcome.by}".rstrip())
    for mutant in found:
        if mutant.key in EQUIVALENT:
            print(f"equivalent: {mutant}: {EQUIVALENT[mutant.key]}")
    seconds = [outcome.seconds for outcome in outcomes.values()]
    print(f"{sum(seconds) / max(len(seconds), 1):.1f} s for each mutant, {max(seconds, default=0.0)} s for the slowest")
    return sum(result in NOTICED for result in folders["all"]) / max(len(outcomes), 1)


def main(arguments: list[str] | None = None) -> int:
    """0 where the share of noticed mutants is at least what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--file", action="append", help="mutate this file only, relative to the root; may be repeated")
    parser.add_argument("--folder", action="append", help="mutate files whose path begins so; may be repeated")
    parser.add_argument("--sample", type=int, default=None, help="so many mutants (default: every one)")
    parser.add_argument("--seed", type=int, default=0, help="key of the sample")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--at-least", type=float, default=0.0, help="exit with 1 where a smaller share is noticed")
    parser.add_argument(
        "--patience", type=float, default=20.0, help="seconds that the tests of one mutant may take unchanged"
    )
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "mutation", help="folder of the results")
    parser.add_argument("--list", action="store_true", help="only print the mutants")
    given = parser.parse_args(arguments)
    starts = (*(given.file or ()), *(given.folder or ()))
    found = of_files([file for file in lines.targets() if not starts or file.startswith(starts)])
    found = found if given.sample is None else sampled(found, given.sample, given.seed)
    if given.list:
        print("\n".join(map(str, found)))
        return 0
    server.preload()
    key = lines.digest_of_all()
    covered = lines.load(given.work / "lines.json", key)
    if covered is None:
        covered = server.traced()
        lines.store(given.work / "lines.json", key, covered)
    for name in covered.failing:
        print(f"no witness, it fails as things are: {name}")
    results = Results(given.work / "results.json", key, given.patience)
    judged([mutant for mutant in found if mutant.key not in EQUIVALENT], results, covered, given.workers)
    return 0 if report(found, results) >= given.at_least else 1


if __name__ == "__main__":
    sys.exit(main())
