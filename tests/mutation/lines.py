"""Which tests run which lines of the files under mutation, and what an import or a collection runs before any test."""

import dataclasses
import hashlib
import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import pytest

from tests.mutation.operators import Mutant
from tests.mutation.patching import ROOT

FOLDERS = ("methods", "factors", "penalties", "updates", "advantages")
FILES = ("asyncsim/step/ratios.py", "asyncsim/step/step.py")
SUITE = ("tests/contracts", "tests/methods", "tests/core")

NEAR = {
    "asyncsim/step/ratios.py": ("test_ratios",),
    "asyncsim/step/step.py": ("test_methods", "test_extensions", "tests/methods"),
    "asyncsim/updates": ("test_links",),
    "asyncsim/advantages": ("test_advantages", "test_gae"),
    "asyncsim/methods": ("test_methods", "tests/methods"),
    "asyncsim/factors": ("tests/methods",),
    "asyncsim/penalties": ("tests/methods",),
}
"""Words in the names of the tests that are most likely to notice, beside the name of the file itself."""
FINE = ("test_mutants_found", "test_bounds_and_defaults", "test_parts_of_a_step")
"""Tests that hold small things, of every file."""


@dataclass
class Map:
    """Lines by file that each test runs, how long it took, what ran before any test, and tests that fail unchanged."""

    tests: dict[str, dict[str, list[int]]]
    seconds: dict[str, float]
    before: dict[str, list[int]]
    failing: list[str]

    def __post_init__(self) -> None:
        self._found: dict[str, dict[int, set[str]]] = {}

    def early(self, mutant: Mutant) -> bool:
        """Whether an import or a collection runs the mutant's statement."""
        return any(line in self._lines(mutant) for line in self.before.get(mutant.file, ()))

    def covering(self, mutant: Mutant) -> list[str]:
        """Tests that run the mutant's statement, most likely witnesses first.

        What runs before any test is seen by the tests that run anything of the file, or are named after it, or run
        no line at all. Of those that are not near, every function comes with its first case before any comes with its
        second.
        """
        by_line = self._by_line(mutant.file)
        found = set().union(*(by_line.get(line, ()) for line in self._lines(mutant)))
        if self.early(mutant):
            word = Path(mutant.file).stem
            named = () if word.startswith("_") else (name for name in self.tests if word in name)
            # Nor need a test that only looks at what an import has made run any line.
            idle = (name for name, files in self.tests.items() if not files)
            found |= set().union(*by_line.values(), named, idle)
        found -= set(self.failing)
        order = sorted(found, key=lambda name: (self.seconds[name], name))
        turns, turn = Counter[str](), {}
        for name in order:
            function = name.partition("[")[0]
            turn[name] = turns[function]
            turns[function] += 1
        return sorted(order, key=lambda name: (not near(mutant.file, name), turn[name]))

    def within(self, order: list[str], seconds: float) -> list[str]:
        """As many tests from the front as take so long, at least one."""
        total = accumulate(self.seconds[name] for name in order)
        return [name for place, (name, end) in enumerate(zip(order, total, strict=True)) if not place or end <= seconds]

    def _lines(self, mutant: Mutant) -> range:
        return range(mutant.span[0], mutant.span[1] + 1)

    def _by_line(self, file: str) -> dict[int, set[str]]:
        if file not in self._found:
            found: dict[int, set[str]] = defaultdict(set)
            for name, files in self.tests.items():
                for line in files.get(file, ()):
                    found[line].add(name)
            self._found[file] = found
        return self._found[file]


def near(file: str, test: str) -> bool:
    """Whether a test is named after a file, or is one of those that hold what its folder promises."""
    words = next((words for start, words in NEAR.items() if file.startswith(start)), ())
    return any(word in test for word in (Path(file).stem.strip("_"), *words, *FINE))


def targets() -> list[str]:
    """Files that are mutated, relative to the root."""
    found = [path for folder in FOLDERS for path in sorted((ROOT / "asyncsim" / folder).glob("*.py"))]
    return [*FILES, *(path.relative_to(ROOT).as_posix() for path in found if path.name != "__init__.py")]


def suite() -> list[str]:
    """Paths that are collected: the tests, and the examples in the docstrings of the files."""
    return [*(path for path in SUITE if (ROOT / path).exists()), *FILES, *(f"asyncsim/{name}" for name in FOLDERS)]


def digest(paths: Iterable[Path]) -> str:
    """One name for the contents of files."""
    found = hashlib.blake2b(digest_size=12)
    for path in sorted(paths):
        found.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()


def digest_of_all() -> str:
    """One name for the package and its tests: a map holds as long as both are the same."""
    folders = ("asyncsim", *SUITE)
    return digest(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


class Tracer:
    """A pytest plugin that fills a `Map`."""

    def __init__(self) -> None:
        self.files = {str(ROOT / file): file for file in targets()}
        self.map = Map({}, {}, {}, [])
        self._seen: set[tuple[str, int]] = set()

    def start(self) -> None:
        """Trace from here on, whatever runs."""
        sys.settrace(self._call)

    def _call(self, frame, event, argument):
        if frame.f_code.co_filename not in self.files:
            return None
        self._line(frame, event, argument)
        return self._line

    def _line(self, frame, event, argument):
        self._seen.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line

    def _taken(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        for path, line in sorted(self._seen):
            found[self.files[path]].append(line)
        self._seen.clear()
        return dict(found)

    def pytest_collection_finish(self, session):
        """What was seen so far ran before any test."""
        self.map.before = self._taken()

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        """What one test runs, its fixtures included."""
        began = time.perf_counter()
        self.start()
        yield
        self.map.tests[item.nodeid] = self._taken()
        self.map.seconds[item.nodeid] = round(time.perf_counter() - began, 4)

    def pytest_runtest_logreport(self, report):
        """A test that fails as things are is no witness."""
        if report.failed and report.nodeid not in self.map.failing:
            self.map.failing.append(report.nodeid)


def save(path: Path, value: object) -> None:
    """Write JSON so that a reader sees the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(value, indent=1), encoding="utf-8")
    part.replace(path)


def load(path: Path, key: str) -> Map | None:
    """The map of an earlier call, where package and tests are still the same."""
    if not path.exists():
        return None
    stored = json.loads(path.read_text(encoding="utf-8"))
    return Map(**stored["map"]) if stored["key"] == key else None


def store(path: Path, key: str, found: Map) -> None:
    """Keep the map for later calls."""
    save(path, {"key": key, "map": dataclasses.asdict(found)})
