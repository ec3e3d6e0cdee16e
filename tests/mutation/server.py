"""Processes that hold the collected suite and fork for every mutant.

A mutant inside a function is patched into a copy of a process that has collected all tests already. One that an import
or a collection would see is imported anew by a process that holds the other packages only.
"""

import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import hypothesis
import pytest

from tests.mutation import patching
from tests.mutation.lines import Map, Tracer, suite
from tests.mutation.operators import Mutant

HEAVY = ("numpy", "torch", "numba", "scipy.stats", "pandas", "pyarrow", "gymnasium", "transformers",
         "stable_baselines3")  # fmt: skip
SECONDS, LONGER = 60.0, 4.0
"""Processor time that a mutant may take: this much, and so many times what its tests take unchanged."""


@dataclass(frozen=True)
class Outcome:
    """`result`: "killed", "late" (killed by the time limit), "survived" or "unseen" (no test runs the line).

    `by`: the test that noticed, or what went wrong; `tried` of the `tests` that run the line stood ready; `seconds` of
    the clock.
    """

    result: str
    by: str = ""
    tried: int = 0
    tests: int = 0
    seconds: float = 0.0


def preload() -> None:
    """Import what the package and its tests import, and neither of the two."""
    for name in HEAVY:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    assert not [name for name in sys.modules if name == "asyncsim" or name.startswith("asyncsim.")]


def pytest_main(plugin: object, paths: list[str]) -> int:
    """The suite's settings, but no shrinking: the first failure is enough."""
    with tempfile.TemporaryDirectory() as folder:
        # Rewriting assertions would read files of the package anew that are named on the command line.
        options = ["-q", "-s", "-p", "no:cacheprovider", "--assert=plain", "--durations=0"]
        options.append("-x" if isinstance(plugin, Picked) else "--continue-on-collection-errors")
        where = [f"--rootdir={patching.ROOT}", f"--basetemp={folder}/t"]
        return pytest.main([*options, *where, *paths], plugins=[plugin, _Hasty()])


class _Hasty:
    def pytest_configure(self, config):
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        # The profile is that of tests/conftest.py, which is not loaded for examples in docstrings alone.
        parent = hypothesis.settings()
        hypothesis.settings.register_profile("mutation", parent, phases=phases, report_multiple_bugs=False)
        hypothesis.settings.load_profile("mutation")


def forked(work: Callable[[], dict[str, Any]], limit: float) -> tuple[dict[str, Any] | None, bool]:
    """What `work` returns in a silent copy of this process; (None, late) when it ended without a word.

    An exception is a fault of the machinery and not a test's word: nothing was killed.
    """
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, int(limit) + 5))
            # Nothing may wait for ever either; the machine may be shared.
            signal.alarm(int(20 * limit))
            try:
                answer = work()
            except Exception as error:
                answer = {"killed": False, "by": repr(error)}
            with os.fdopen(writer, "wb") as stream:
                stream.write(json.dumps(answer).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        text = stream.read()
    _, status = os.waitpid(child, 0)
    late = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGALRM, signal.SIGKILL)
    return (json.loads(text) if text else None), late


class Picked:
    """A pytest plugin that runs the named tests in the given order and keeps the first failure."""

    def __init__(self, order: list[str]) -> None:
        self.order, self.by = order, ""

    def pytest_collection_modifyitems(self, session, config, items):
        """Only the named ones, in their order."""
        known = {item.nodeid: item for item in items}
        items[:] = [known[name] for name in self.order if name in known]

    def pytest_runtest_logreport(self, report):
        """The first failure."""
        if report.failed and not self.by:
            self.by = report.nodeid


def imported(mutant: Mutant, order: list[str]) -> dict[str, Any]:
    """Run tests on a freshly imported mutant; only in a process that has not imported the package."""
    patching.install(mutant)
    picked = Picked(order)
    code = pytest_main(picked, list(dict.fromkeys(name.partition("::")[0] for name in order)))
    killed = code not in (0, 5)
    return {"killed": killed, "by": picked.by or f"pytest exit {code}" * killed}


class Collected:
    """A pytest plugin whose loop answers requests instead of running tests: (mutant, order, limit) -> what happened."""

    def __init__(self, requests, answers) -> None:
        self.requests, self.answers = requests, answers

    def pytest_runtestloop(self, session):
        """Fork for every mutant until None is asked for."""
        self.known = {item.nodeid: item for item in session.items}
        functions = patching.living(patching.ROOT / "asyncsim")
        self.answers.put(len(self.known))
        for mutant, order, limit in iter(self.requests.get, None):
            pairs = patching.replaced(mutant)
            if pairs is None:
                self.answers.put(("import", None))
                continue
            here = functions.get(str(patching.ROOT / mutant.file), [])
            self.answers.put(forked(lambda: self._tried(session, here, pairs, order), limit))  # noqa: B023
        return True

    def _tried(self, session, functions, pairs, order) -> dict[str, Any]:
        try:
            patching.patch(functions, pairs)
        except ValueError:
            return {"killed": False, "by": "closure"}
        picked = Picked(order)
        session.config.pluginmanager.register(picked)
        items = [self.known[name] for name in order if name in self.known]
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if picked.by:
                return {"killed": True, "by": picked.by}
        return {"killed": False, "by": ""}


class Judge:
    """One worker: a process of imported packages, this one, and a copy of it that has collected the suite."""

    def __init__(self, context, found: Map, patience: float) -> None:
        self.map, self.patience = found, patience
        self.requests, self.answers = context.SimpleQueue(), context.SimpleQueue()
        self.process = context.Process(target=self._serve)
        self.process.start()
        assert self.answers.get(), "the suite cannot be collected"

    def _serve(self) -> None:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        pytest_main(Collected(self.requests, self.answers), suite())
        self.answers.put(0)

    def __call__(self, mutant: Mutant) -> Outcome:
        """Whether a test that runs the mutant's line notices."""
        began = time.perf_counter()
        every = self.map.covering(mutant)
        if not every:
            return Outcome("unseen")
        order = self.map.within(every, self.patience)
        counts = len(order), len(every)
        limit = SECONDS + LONGER * sum(self.map.seconds[name] for name in order)
        self.requests.put((mutant, order, limit))
        found, late = self.answers.get()
        # An import, a closure or what a collection has made may still hide the mutant.
        if not late and (found == "import" or (found and not found["killed"] and self._hidden(mutant, found))):
            found, late = forked(lambda: imported(mutant, order), limit)
        seconds = round(time.perf_counter() - began, 2)
        if late or found is None:
            return Outcome("late" if late else "killed", "the process ended", *counts, seconds)
        return Outcome("killed" if found["killed"] else "survived", found["by"], *counts, seconds)

    def _hidden(self, mutant: Mutant, found: dict[str, Any]) -> bool:
        return found["by"] == "closure" or self.map.early(mutant)

    def close(self) -> None:
        """Let the collected copy end."""
        self.requests.put(None)
        self.process.join()


def traced() -> Map:
    """The map of the suite, made in a copy of this process."""
    tracer = Tracer()

    def work() -> dict[str, Any]:
        tracer.start()
        pytest_main(tracer, suite())
        sys.settrace(None)
        return vars(tracer.map)

    found, _ = forked(work, 1e5)
    assert found is not None and "tests" in found, f"the suite did not come to its end: {found}"
    return Map(**{name: found[name] for name in ("tests", "seconds", "before", "failing")})
