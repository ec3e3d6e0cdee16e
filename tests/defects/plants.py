"""The field's bugs, each as a patch of the product: what trainers have shipped, planted here one by one.

A plant replaces attributes (or entries of tables) of product modules while it is in force. `killer` is a test of this
repository that passes on the product and must fail on the plant; `python -m tests.defects` writes the table of
everything that fails.
"""

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

Patches = list[tuple[Any, str, Any]]


@dataclass(frozen=True)
class Plant:
    """One bug: where it was seen, how it is planted, and the test that names it."""

    number: int
    component: str
    what: str
    seen: str
    patches: Callable[[], Patches]
    killer: str
    settings: dict[str, Any] = field(default_factory=dict)

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        """The product with the bug in it."""
        forget()
        with contextlib.ExitStack() as stack:
            stack.callback(forget)
            for target, name, value in self.patches():
                if name == "__code__":  # which mock would delete
                    stack.callback(setattr, target, name, target.__code__)
                    target.__code__ = value
                    continue
                table = isinstance(target, dict)
                stack.enter_context(
                    mock.patch.dict(target, {name: value}) if table else mock.patch.object(target, name, value)
                )
            yield

    def test(self) -> Callable[[], Any]:
        """The killer, ready to be called."""
        path, _, name = self.killer.partition("::")
        function = getattr(importlib.import_module(path.removesuffix(".py").replace("/", ".")), name)
        return lambda: function(**self.settings)


def forget() -> None:
    """Empty every cache of the package's functions: what a plant left in one would outlive it."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "asyncsim":
            for value in list(vars(module).values()):
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()


PLANTS: dict[int, Plant] = {}


def plant(number: int, component: str, what: str, seen: str, killer: str, **settings: Any) -> Callable[[Any], Any]:
    """Enter the function that returns the patches of a bug."""

    def enter(patches: Callable[[], Patches]) -> Callable[[], Patches]:
        assert number not in PLANTS
        PLANTS[number] = Plant(number, component, what, seen, patches, killer, settings)
        return patches

    return enter
