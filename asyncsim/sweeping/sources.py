"""What a unit depends on beside its settings: the version of the package, the user's files and what those import."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from asyncsim.base import outside, plugins
from asyncsim.base.manifest import version_of

NAMED = re.compile(r"(.+):[A-Za-z_][\w.]*", re.DOTALL)
"""A place and the name of an object in it."""
MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
INSTALLED = {"site-packages", "dist-packages"}
"""Folders of packages that are installed: nobody writes there while a sweep is planned."""


def code_of(written: Any) -> dict[str, Any]:
    """The version of the package, and digests of the user's files that a spec names and of the modules they import.

    Modules count that stand beside the file, in the working directory, or elsewhere on Python's path outside of
    installed packages. What a file reads or imports by a name that it computes is not seen.
    """
    files: dict[str, str] = {}
    for text in _texts(written):
        place, path = _file(text)
        if path is not None:
            files[place] = _digest(path)
            if path.suffix == ".py":
                name = "" if place.endswith(".py") else place
                files |= {each: _digest(file) for each, file in _imports(name, path).items()}
    return {"asyncsim": version_of("asyncsim"), "files": files}


def _texts(written: Any) -> Iterator[str]:
    if isinstance(written, str):
        yield written
    elif isinstance(written, Mapping):
        for key, value in written.items():
            yield key
            yield from _texts(value)
    elif isinstance(written, list):
        for each in written:
            yield from _texts(each)


def _file(text: str) -> tuple[str, Path | None]:
    """The place in a text and its file, None for other texts.

    A place is that of module:name, path.py:name, @table:column, or of a part that another package registers.
    """
    if text.startswith("@"):
        places = (text[1:], text[1:].rpartition(":")[0])
        place = next((each for each in places if Path(each).is_file()), "")
        return place, Path(place) if place else None
    named = NAMED.fullmatch(_registered(text))
    place = named[1] if named is not None else ""
    if place.endswith(".py"):
        return place, Path(place) if Path(place).is_file() else None
    return place, _module(place) if MODULE.fullmatch(place) else None


def _registered(text: str) -> str:
    """The module:name of a part that another package registers; other texts stay."""
    kind, _, name = text.partition(".")
    if not name or kind not in plugins.PARTS or name in plugins.summaries(f"asyncsim.{kind}"):
        return text
    return outside.registered(f"asyncsim.{kind}").get(name, text)


def _module(name: str) -> Path | None:
    """The file of a module that was imported or is found; None for what is no module."""
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # its package is none, or the module has no file
        return None
    origin = Path(found.origin) if found is not None and found.origin else None
    return origin if origin is not None and origin.is_file() else None


def _imports(name: str, path: Path) -> dict[str, Path]:
    """The user's modules that a file imports, and those that they import; `name` is its own, "" for a script."""
    roots = list(dict.fromkeys([path.resolve().parent, *_roots()]))
    found: dict[str, Path] = {}
    left = [(name, path), *((each, None) for each in _packages(name))]
    while left:
        own, file = left.pop()
        if file is None:
            file = next((each for root in roots if (each := _at(root, own)) is not None), None)
            if file is None or own in found or own.partition(".")[0] == "asyncsim":
                continue
            found[own] = file
        state = file.stat()
        left += [(each, None) for each in _imported(own, str(file), state.st_mtime_ns, state.st_size)]
    return found


def _roots() -> list[Path]:
    """Folders of Python's path that hold neither installed packages nor Python's own."""
    python = Path(os.__file__).resolve().parent
    every = [Path(each or ".").resolve() for each in ("", *sys.path)]
    return [each for each in every if not (INSTALLED & set(each.parts) or each.is_relative_to(python))]


def _at(root: Path, name: str) -> Path | None:
    place = root.joinpath(*name.split("."))
    return next((each for each in (place / "__init__.py", place.with_name(f"{place.name}.py")) if each.is_file()), None)


def _packages(name: str) -> list[str]:
    """Packages around a module."""
    steps = name.split(".")
    return [".".join(steps[:k]) for k in range(1, len(steps))]


@lru_cache(maxsize=4096)
def _imported(own: str, path: str, changed: int, size: int) -> tuple[str, ...]:
    """Names that the module `own` imports and that may be modules; read again where its file has changed."""
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (SyntaxError, ValueError):
        return ()
    inside = own if Path(path).name == "__init__.py" else own.rpartition(".")[0]
    names: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            whole = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            steps = inside.split(".")[: len(inside.split(".")) - max(0, node.level - 1)] if node.level else []
            place = ".".join([*steps, *([node.module] if node.module else [])])
            whole = [place, *(f"{place}.{alias.name}" for alias in node.names)]
        else:
            continue
        names |= dict.fromkeys(each for name in whole for each in (*_packages(name), name) if MODULE.fullmatch(each))
    return tuple(names)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:32]
