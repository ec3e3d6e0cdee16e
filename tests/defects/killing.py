"""`python -m tests.defects.killing [NUMBER ...]`: run the killer of every slip on the product with the slip in it.

It prints one JSON object: by number "killed", "passed", "not collected", or the name of an exception that is no
assertion. A process of its own, since what a defective product leaves in caches must not reach other tests.
"""

import contextlib
import json
import sys
from typing import Any

import pytest

from tests.defects import catalog
from tests.defects.plants import PLANTS


def failures(error: BaseException) -> list[BaseException]:
    """The single errors inside a group of them."""
    if isinstance(error, BaseExceptionGroup):
        return [single for part in error.exceptions for single in failures(part)]
    return [error]


def verdict(error: BaseException) -> str:
    """What an error says: an assertion has seen the plant, anything else may be the plant falling over."""
    others = [each for each in failures(error) if not isinstance(each, (AssertionError, pytest.fail.Exception))]
    return type(others[0]).__name__ if others else "killed"


class Killers:
    """A pytest plugin that calls each named test once for every plant that it is the killer of."""

    def __init__(self, numbers: list[int]) -> None:
        self.outcome = dict.fromkeys(numbers, "not collected")
        self.of: dict[str, list[int]] = {}
        for number in numbers:
            self.of.setdefault(f"tests/{PLANTS[number].killer}", []).append(number)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """The killers only."""
        items[:] = [item for item in items if item.nodeid in self.of]

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: Any) -> bool:
        """Call it on every defective product instead of on the right one."""
        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        for number in self.of[pyfuncitem.nodeid]:
            with PLANTS[number].planted():
                try:
                    pyfuncitem.obj(**arguments)
                    self.outcome[number] = "passed"
                except BaseException as error:
                    self.outcome[number] = verdict(error)
        return True


def killed(numbers: list[int]) -> dict[int, str]:
    """Outcomes by number."""
    assert len(PLANTS) == catalog.COUNT
    plugin = Killers(numbers)
    files = sorted({name.partition("::")[0] for name in plugin.of})
    options = ["-q", "-p", "no:cacheprovider", "--assert=plain", "-m", "not long", "-n", "0"]
    with contextlib.redirect_stdout(sys.stderr):
        pytest.main([*options, *files], plugins=[plugin])
    return plugin.outcome


if __name__ == "__main__":
    asked = [int(word) for word in sys.argv[1:]] or sorted(number for number in PLANTS if number > catalog.FIELD)
    print(json.dumps(killed(asked)))
