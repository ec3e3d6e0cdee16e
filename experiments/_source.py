"""Versions of sources: a digest of what a module, and those it takes from its own folder, compute."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

MACHINERY = frozenset({"__init__", "_carried", "_contract", "_gallery", "_looks", "_pipeline", "_source", "_store"})
"""Modules that store, draw and print what others compute."""


def version(folder: Path, name: str, roots: Iterable[str], read: Callable[[str], str | None] | None = None) -> str:
    """16 hexadecimal digits that change with the code behind the names `roots` of a module.

    That is each statement of the module that a root needs, and all of every module of its package imported there or in
    such a module. Comments, docstrings, layout and quotes do not count, nor does what builds lists of settings alone:
    settings are compared by value. The same on every Python that can parse the source. `read(stem)` gives a source in
    place of the file, None where there is none.
    """

    def found(stem: str) -> str | None:
        path = folder / f"{stem}.py"
        return path.read_text(encoding="utf-8") if path.exists() else None

    code: dict[str, list[ast.stmt]] = {}
    left = [name]
    while left:
        stem = left.pop()
        text = None if stem in code or stem in MACHINERY else (read or found)(stem)
        if text is not None:
            body = ast.parse(text).body
            code[stem] = needed(body, roots) if stem == name else body
            left += imported(code[stem], folder.name)
    return hashlib.sha256(json.dumps([[stem, shape(code[stem])] for stem in sorted(code)]).encode()).hexdigest()[:16]


def needed(body: list[ast.stmt], roots: Iterable[str]) -> list[ast.stmt]:
    """Statements that define the roots, or names that these use and so on, in order; and all that define no name."""
    defined = [(node, names(node)) for node in body]
    wanted, size = set(roots), -1
    while len(wanted) != size:
        size = len(wanted)
        for node, own in defined:
            if not own or own & wanted:
                wanted |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return [node for node, own in defined if not own or own & wanted]


def names(node: ast.stmt) -> set[str]:
    """Names that a statement of a module defines."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names} - {"*"}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    stored = [each for target in targets for each in ast.walk(target)]
    return {each.id for each in stored if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def imported(body: list[ast.stmt], package: str) -> list[str]:
    """Stems of modules of the package that are imported anywhere in these statements."""
    stems = []
    for node in (each for statement in body for each in ast.walk(statement)):
        if isinstance(node, ast.Import):
            paths = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            origin = ".".join(filter(None, [package if node.level else "", node.module or ""]))
            paths = [origin, *(f"{origin}.{alias.name}" for alias in node.names)]
        else:
            continue
        stems += [path.split(".")[1] for path in paths if path.startswith(f"{package}.")]
    return stems


def shape(node: Any) -> Any:
    """Syntax trees in lists and ASCII, without texts that stand alone."""
    if isinstance(node, list):
        return [shape(each) for each in node if not _text(each)]
    if not isinstance(node, ast.AST):
        return ascii(node)
    # Fields that are empty in one version of Python are missing in another.
    fields = [(name, value) for name, value in ast.iter_fields(node) if value is not None and value != []]
    return [type(node).__name__, *([name, shape(value)] for name, value in fields if name != "kind")]


def _text(node: Any) -> bool:
    """Whether a statement is a docstring, or reads like one."""
    alone = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return alone and isinstance(node.value.value, str)
