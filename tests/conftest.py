"""Settings of the whole suite."""

import gc
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, is_hypothesis_test, settings
from hypothesis.internal.conjecture import providers

# Workers fill the cores; a second thread in each would make all of them wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# The readline of a process that starts workers hands them the width of its own screen.
os.environ.pop("COLUMNS", None)
os.unsetenv("COLUMNS")

# A suite in the background of a shell, or under nohup, ignores signals, and so would every command that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Derandomized: the suite's false alarms are a budget, and a draw that is new on every run would spend it unseen. No
# deadline: the first call of a compiled function is slow. No explanation: it takes twice as long as shrinking, and
# planted defects fail on purpose.
settings.register_profile(
    "suite",
    derandomize=True,
    deadline=None,
    phases=[each for each in Phase if each is not Phase.explain],
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)
# Hypothesis would mix in constants of the modules that are loaded so far: then an example depends on the tests that
# this process ran before, and a failure seen once is not seen again.
providers._get_local_constants = lambda: providers._local_constants
# The long check draws anew. Its seed comes from outside and is printed, so that a failure can be repeated.
settings.register_profile("fresh", settings.get_profile("suite"), derandomize=False, print_blob=True)
FRESH = os.environ.get("ASYNCSIM_SEED")
settings.load_profile("suite" if FRESH is None else "fresh")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect without searching for garbage, never search what was collected, and search less often afterwards.

    Thousands of tests are a million objects that live to the end, and each search would look at all of them. Searches
    after every 700 objects took a twentieth of the tests' time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000)
        gc.enable()


ROOT = Path(__file__).parents[1]
WRITTEN = tuple(
    f"{ROOT}/{folder}/" for folder in ("docs", "experiments/results", "notebooks", "paper_figures", "tests/defects")
)
"""Folders where commands of this project write what is committed."""
TEXTS = (".py", ".md", ".css")
"""Endings of code and of words."""
opened: set[str] = set()
"""Files with committed numbers that the running test opened."""


def note(event: str, values: tuple[Any, ...]) -> None:
    """An audit hook: remember what is opened of committed results."""
    if event != "open" or not str(values[0]).startswith(WRITTEN) or str(values[0]).endswith(TEXTS):
        return
    # Python writes what it compiles under a temporary name first.
    if "/__pycache__/" not in str(values[0]):
        opened.add(str(Path(values[0]).relative_to(ROOT)))


sys.addaudithook(note)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """What the test before opened is its own."""
    opened.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """A test of committed numbers says so, so that it runs as an older processor too (`make test-older`)."""
    yield
    assert not opened or item.get_closest_marker("committed"), f"opens {min(opened)}: mark it `committed`"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What a docstring prints is committed too; of the examples that a test asks for, the suite draws half.

    They are the same on every run. The long check draws all of them, and others each time.
    """
    functions = set()
    for item in items:
        if isinstance(item, pytest.DoctestItem):
            item.add_marker("committed")
        elif FRESH is None and is_hypothesis_test(item.obj):
            functions.add(item.obj)
    for each in functions:
        asked = each._hypothesis_internal_use_settings
        each._hypothesis_internal_use_settings = settings(asked, max_examples=-(-asked.max_examples // 2))


def pytest_report_header() -> str:
    """Where the drawn examples come from."""
    if FRESH is None:
        return "drawn examples: the same on every run"
    return f"drawn examples and fresh verdicts: seed {FRESH} (repeat with `make test-long SEED={FRESH}`)"


@pytest.fixture(scope="session")
def fresh_seed() -> int:
    """The seed of a long check."""
    assert FRESH is not None, "run `make test-long`, or set ASYNCSIM_SEED"
    return int(FRESH)


@pytest.fixture
def edited(tmp_path, monkeypatch):
    """Asks a question as if a module of the package had `new` for `old` words, or `new` at its end where `old` is "".

    No file of the package is touched.
    """
    from asyncsim.base import digests

    def ask(change, question):
        module, old, new = change
        files = digests._files()
        text = files[module].read_text(encoding="utf-8")
        assert old in text
        other = tmp_path / files[module].name
        other.write_text(text.replace(old, new, 1) if old else text + new, encoding="utf-8")
        with monkeypatch.context() as patch:
            patch.setattr(digests, "_files", lambda: files | {module: other})
            patch.setattr(digests._Kept, "write", lambda self: None)
            for cached in (digests.modules, digests.reached):
                cached.cache_clear()
            try:
                return question()
            finally:
                for cached in (digests.modules, digests.reached):
                    cached.cache_clear()

    return ask


@pytest.fixture
def own_environments(tmp_path):
    """Environments that a test registers, and modules of its folder, are gone after it: no later test finds them."""
    import gymnasium

    known = {*gymnasium.registry}
    yield
    for id in {*gymnasium.registry} - known:
        del gymnasium.registry[id]
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(f"{tmp_path}/"):
            del sys.modules[name]


@pytest.fixture
def forked_workers(monkeypatch):
    """Worker processes of this one are forked (`tests/forked.py`)."""
    import subprocess

    from asyncsim.base import workers
    from tests.forked import Forked

    class Same:
        """The module, with another class of processes."""

        Popen = Forked

        def __getattr__(self, name):
            return getattr(subprocess, name)

    monkeypatch.setattr(workers, "subprocess", Same())
