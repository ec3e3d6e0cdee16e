"""Sentences are short: on every page of Markdown, and in every public docstring."""

import ast
from collections.abc import Iterator

import pytest

from docs import _prose
from tests.architecture.source import ROOT
from tests.architecture.test_text import files

LONGER = ("notebooks", "paper_figures/entries/_")


def docstrings(node: ast.Module | ast.ClassDef | ast.FunctionDef, name: str) -> Iterator[tuple[str, str]]:
    """(name, docstring) of a module, its public classes and functions."""
    yield name, ast.get_docstring(node) or ""
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef) and not child.name.startswith("_"):
            yield from docstrings(child, f"{name}:{child.name}")


def test_pages() -> None:
    pages = [path for path in files() if path.suffix == ".md"]
    found = {str(path.relative_to(ROOT)): _prose.faults(path.read_text(encoding="utf-8")) for path in pages}
    assert len(pages) > 40
    assert {name: wrong for name, wrong in found.items() if wrong and not name.startswith(LONGER)} == {}


def test_docstrings() -> None:
    modules = [path for path in files() if path.suffix == ".py" and path.is_relative_to(ROOT / "asyncsim")]
    texts = [
        pair
        for path in modules
        for pair in docstrings(ast.parse(path.read_text(encoding="utf-8")), str(path.relative_to(ROOT)))
    ]
    assert len(texts) > 1000
    assert {name: wrong for name, text in texts if (wrong := _prose.too_long(text))} == {}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("One. " + "word " * 36, 1),
        ("word " * 35 + ". W" + "word " * 35, 0),
        ("Arguments: `a`, " + "word " * 20 + "; `b`, " + "word " * 20, 0),
        ("So " + "word " * 20 + "; and " + "word " * 20, 1),
        ("c = " + "log pi x_i " * 40, 0),
        (">>> f()\n" + "word " * 40, 0),
        ("a  case " + "word " * 40, 0),
    ],
)
def test_what_counts_in_a_docstring(text: str, count: int) -> None:
    assert len(_prose.too_long(text)) == count
