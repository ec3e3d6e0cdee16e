"""Drawn examples are the same whatever was imported before, so that a failure seen once is seen again."""

import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import constants_from_module


def drawn() -> list[float]:
    """What 300 examples of a number are."""
    found: list[float] = []

    @settings(derandomize=True, max_examples=300, database=None)
    @given(st.floats(0.0, 1e9))
    def note(number: float) -> None:
        found.append(number)

    note()
    providers.CONSTANTS_CACHE.cache.clear()
    return found


def test_a_module_that_is_loaded_later_changes_no_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = drawn()
    path = tmp_path / "loaded_later.py"
    path.write_text("\n".join(f"x{i} = {i}.2345" for i in range(50)))
    spec = importlib.util.spec_from_file_location("loaded_later", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "loaded_later", module)
    spec.loader.exec_module(module)
    assert drawn() == first
    # What the suite switches off: constants of modules are among the examples.
    monkeypatch.setattr(providers, "_local_constants", constants_from_module(module))
    assert drawn() != first
