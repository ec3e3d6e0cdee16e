"""No circle of imports between modules, whether they import at their top, inside a function or for annotations only.

A lazy import may spare a heavy package (`test_lazy.py`), it does not excuse a circle: of two modules that need each
other neither can be read, tested or changed alone. What both need stands below them, or is handed in.
"""

from __future__ import annotations

from functools import cache
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.architecture.source import imports, modules


def above(module: str, planted: str = "") -> set[str]:
    """Modules that one imports anywhere; `planted` source stands behind its own."""
    path, known = modules()[module], set(modules())
    source = path.read_text(encoding="utf-8") + planted
    return imports(source, module, path.name == "__init__.py", known) - {module}


@cache
def imported() -> dict[str, set[str]]:
    """Every module with those that it imports."""
    return {module: above(module) for module in modules()}


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Modules of a circle, the first also at the end; none where there is no circle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_modules_form_no_circle():
    assert circle(imported()) == []


@pytest.mark.parametrize(
    ("module", "source", "length"),
    [
        ("asyncsim.base.showing", "def f():\n    from asyncsim.base import records", 2),
        ("asyncsim.base.showing", "def f():\n    from .records import Estimate", 2),
        ("asyncsim.methods._given", "if TYPE_CHECKING:\n    from asyncsim.methods._method import Method", 2),
        ("asyncsim.schedules._delay_report", "from asyncsim.schedules.imposed import Delays", 2),
        ("asyncsim.claims._openloop", "def f():\n    from asyncsim.claims.staleness_rules import _predicted", 3),
    ],
)
def test_a_planted_circle_is_seen(module, source, length):
    found = circle(imported() | {module: above(module, f"\n{source}\n")})
    assert module in found and len(set(found)) == length
