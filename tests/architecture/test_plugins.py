"""A plug-in file begins with one whole line of docstring and has one public object, named as the file.

A claim is the one class of `asyncsim.claims.Claim` in its file. The class of the value that the object makes may
stand beside it: it is a type to name in annotations, not a second thing to choose.
"""

import ast
from pathlib import Path

import pytest

from asyncsim.base import plugins
from tests.architecture.source import PACKAGE, ROOT, modules, public_names

PAGED = {
    *("advantages", "diagnostics", "factors", "methods", "penalties", "policies", "schedules", "systems", "tasks"),
    "updates",
}
"""Folders whose objects are a few lines each, and stand together by family."""


def plugin_files() -> dict[str, tuple[Path, str]]:
    """Plug-in files with the name that their one public object must have."""
    found = {}
    for module, path in modules().items():
        parts = path.relative_to(PACKAGE).parts
        if path.stem.startswith("_") or len(parts) < 2:
            continue
        opening = (path.parent / "__init__.py").read_text(encoding="utf-8")
        if "plugins.expose(__name__" in opening:
            found[module] = (path, path.stem)
    return found


def faults(source: str, name: str, paged: bool = False) -> list[str]:
    """What keeps a file from being a plug-in of that name, or a page of several where its folder has those."""
    found = []
    objects = plugins._read_docstrings(ast.parse(source))
    if paged and name not in objects:
        lines = {each: (text or "").splitlines() or [""] for each, text in objects.items()}
        return [each for each, text in lines.items() if text[0][-1:] not in (".", "?") or (len(text) > 1 and text[1])]
    lines = (ast.get_docstring(ast.parse(source)) or "").splitlines()
    if not lines or not lines[0].strip():
        found.append("no docstring")
    elif lines[0][-1] not in ".?" or (len(lines) > 1 and lines[1].strip()):
        found.append("the docstring does not begin with one whole line")
    classes = {node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
    names, beside = public_names(source), public_names(source) & classes - {name}
    if names - beside != {name} or len(beside) > 1:
        found.append(f"public names are {sorted(names)}: must be {name}, and at most the class of its value")
    return found


@pytest.mark.parametrize("module", sorted(plugin_files()))
def test_a_plugin_file_has_one_object_and_one_line(module):
    path, name = plugin_files()[module]
    paged = path.parent.name in PAGED
    assert faults(path.read_text(encoding="utf-8"), name, paged) == [], path.relative_to(ROOT)


def test_a_page_without_a_line_for_each_of_its_objects_is_seen():
    page = '"""A page."""\ndef one():\n    """What it is."""\ndef two(): pass\nthree = make(doc="Whose line.")\n'
    assert faults(page, "page", True) == ["two"] and faults(page, "page") != []


@pytest.mark.parametrize(
    "source",
    [
        "def thing(): pass",
        '"""Not a whole line\nbut two."""\ndef thing(): pass',
        '"""No period"""\ndef thing(): pass',
        '"""Two objects."""\ndef thing(): pass\ndef other(): pass',
        '"""Two classes."""\ndef thing(): pass\nclass Thing: pass\nclass Other: pass',
        '"""A public constant."""\nLIMIT = 3\ndef thing(): pass',
        '"""Another name."""\ndef other(): pass',
        '"""Nothing."""',
    ],
)
def test_a_fault_is_seen(source):
    assert faults(source, "thing")


def test_a_good_file_passes():
    source = '"""One line.\n\nMore."""\nfrom a import b\n_LIMIT = 3\nclass Thing: pass\ndef thing(): pass'
    assert faults(source, "thing") == []
