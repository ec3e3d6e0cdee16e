"""Code and files that a spec depends on: modules of the package, a user's files, tables and models.

Nothing is imported: names in texts are resolved by parsing, and files are read.
"""

import ast
import hashlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from glob import glob
from inspect import getclosurevars
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

from asyncsim.base import digests, outside, plugins
from asyncsim.base.digests import PACKAGE
from asyncsim.base.manifest import version_of

MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
INSTALLED = {"site-packages", "dist-packages"}
"""Folders of installed packages, which are not modified while a sweep is planned."""
MARKS = ("config.json", "state.json", "dataset_dict.json")
"""Files that mark a folder with a model, or with data saved by `datasets`."""


def code_of(written: Any, *roots: str) -> dict[str, Any]:
    """Versions and digests of the code that a spec in JSON needs, in addition to the modules `roots`.

    These are the version of the package, the digest of the modules reached, and digests of files that the spec names
    (code, tables, logs, models) and of the user's modules that those import. Computed names of files are not found.
    """
    starts, files = set(roots), dict[str, str]()
    if isinstance(written, Live):
        written, starts, files = (), starts | written.modules, dict(written.files)
    if isinstance(written, Mapping) and "task" in written and "diagnostics" not in written:
        starts.add(f"{PACKAGE}.diagnostics.*")
    for text in outside.texts(written):
        starts |= _parts_of(text)
        files |= {str(path): _bytes(path, *digests.stamp(path)) for path in _data(text)}
        place, path = _module_of(text)
        if path is not None:
            name = "" if place.endswith(".py") else place
            every = [*_packages(name), *digests.facts(name, path).names]
            for own, file in {place: path, **_imports(every, path)}.items():
                files[own], read, _ = digests.facts(own, file)
                starts.update(each for each in read if each.startswith(f"{PACKAGE}."))
    return {"asyncsim": version_of("asyncsim"), "code": digests.reached(*sorted(starts)), "files": files}


def changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Describe the differences in code between two results of `code_of`.

    >>> changed({"asyncsim": "1", "code": "a", "files": {"my.py": "b"}}, {"asyncsim": "1", "code": "c", "files": {}})
    ['modules of asyncsim', 'my.py']
    """
    files = sorted({*before["files"], *now["files"]})
    odd = [name for name in files if before["files"].get(name) != now["files"].get(name)]
    version = [f"asyncsim {before['asyncsim']}"] * (before["asyncsim"] != now["asyncsim"])
    return version + ["modules of asyncsim"] * (before["code"] != now["code"]) + odd


class Live:
    """Code of a part that has no written form, as digests: its `modules` and its `files`.
    `modules` define its classes and functions; `files` digest a user's own, with all that they use in their file.
    """  # fmt: skip

    def __init__(self, part: Any) -> None:
        self.modules, self.files, self._seen = set[str](), dict[str, str](), set[int]()
        self._visit(part)

    def _visit(self, value: Any) -> None:
        if id(value) in self._seen or isinstance(value, (str, int, float, type(None))):
            return
        self._seen.add(id(value))
        inside: list[Any] = []
        if isinstance(value, Mapping):
            inside = [*value, *value.values()]
        elif isinstance(value, (list, tuple)):
            inside = list(value)
        elif isinstance(value, partial):
            inside = [value.func, value.args, value.keywords]
        elif isinstance(value, MethodType):
            inside = [value.__func__, value.__self__]
        else:
            kind = value if isinstance(value, (type, FunctionType)) else type(value)
            if self._noted(kind) and not isinstance(value, type):
                inside = [kind, *getattr(value, "__dict__", {}).values()]
                with suppress(TypeError, ValueError):  # no function, or a name that has no value yet
                    inside += getclosurevars(value).nonlocals.values()
        for each in inside:
            self._visit(each)

    def _noted(self, code: type | FunctionType) -> bool:
        """Record the code if it belongs to the package or the user, and return whether it does."""
        if code.__module__.partition(".")[0] == PACKAGE:
            self.modules.add(code.__module__)
            return True
        place = None if isinstance(code, type) else code.__code__.co_filename
        path = Path(place or getattr(sys.modules.get(code.__module__), "__file__", None) or "")
        if path.suffix == ".py" and path.is_file() and _is_mine(path.resolve()):
            own = digests.needed(ast.parse(path.read_bytes()).body, [code.__qualname__.partition(".")[0]], acts=False)
            every = digests.read_names(own, code.__module__, code.__module__.rpartition(".")[0])
            self.files[f"{path.name}:{code.__qualname__}"] = digests.of(digests.shape(own))
            for name, file in _imports(every, path).items():
                self.files[name], read, _ = digests.facts(name, file)
                every.update(read)
            self.modules |= {each for each in every if each.startswith(f"{PACKAGE}.")}
            return True
        return False


def _parts_of(text: str) -> set[str]:
    """The dotted name of a part written as kind.name in a spec, or of a metric given by name alone."""
    kind, _, name = text.partition(".")
    if name and kind in plugins.PARTS:
        return {f"{PACKAGE}.{text}"}
    metric = text.replace("-", "_")
    return {f"{PACKAGE}.diagnostics.{metric}"} if metric in plugins.summaries(f"{PACKAGE}.diagnostics") else set()


def _data(text: str) -> Iterator[Path]:
    """Data files named in a text: a table, @table:column*factor, logs by a pattern, or files of a model or data set."""
    bare = text.removeprefix("@")
    for place in (bare, bare.rpartition(":")[0], bare.rpartition("*")[0]):
        marked = any(os.path.isfile(os.path.join(place, name)) for name in MARKS)
        if "." in place or os.sep in place or marked:
            for path in map(Path, [place] if os.path.exists(place) else sorted(glob(place))):
                every = sorted(path.rglob("*") if marked else path.iterdir()) if path.is_dir() else [path]
                yield from (each for each in every if each.is_file() and each.suffix != ".py")


@lru_cache(maxsize=4096)
def _bytes(path: Path, *_: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]


def _module_of(text: str) -> tuple[str, Path | None]:
    """The code that a text names, and its file; None for other texts."""
    kind, _, name = text.partition(".")
    if name and kind in plugins.PARTS and name not in plugins.summaries(f"{PACKAGE}.{kind}"):
        text = outside.registered(f"{PACKAGE}.{kind}").get(name, text)
    named = outside.NAMED.fullmatch(text)
    place = named[1] if named is not None else ""
    if place.endswith(".py"):
        return place, Path(place) if Path(place).is_file() else None
    return place, _module(place) if MODULE.fullmatch(place) else None


def _module(name: str) -> Path | None:
    """The file of a user's or an installed module, found without importing its packages; None if there is none."""
    if name == "__main__":
        return None
    places: Any = None
    for end in range(1, name.count(".") + 2):
        own = ".".join(name.split(".")[:end])
        found = next((spec for finder in sys.meta_path if (spec := finder.find_spec(own, places)) is not None), None)
        if found is None:
            return None
        places = found.submodule_search_locations
    origin = Path(found.origin) if found is not None and found.origin else None
    return origin if origin is not None and origin.is_file() else None


def _imports(every: Iterable[str], beside: Path) -> dict[str, Path]:
    """The user's modules among the dotted names that a file uses, and the modules that they import, by name."""
    if not _is_mine(beside.resolve()):
        return {}
    # Folders of Python's path that hold neither installed packages nor Python's own.
    mine = [path for each in ("", *sys.path) if _is_mine(path := Path(each or ".").resolve())]
    roots = list(dict.fromkeys([beside.resolve().parent, *mine]))
    found: dict[str, Path] = {}
    left = [each for name in every for each in (*_packages(name), name)]
    while left:
        own = left.pop()
        if own in found or not MODULE.fullmatch(own) or own.partition(".")[0] == PACKAGE:
            continue
        places = (root.joinpath(*own.split(".")) for root in roots)
        tried = (each for at in places for each in (at / "__init__.py", at.with_name(f"{at.name}.py")))
        file = next((each for each in tried if each.is_file()), None)
        if file is not None:
            found[own] = file
            left += [each for name in digests.facts(own, file).names for each in (*_packages(name), name)]
    return found


def _is_mine(path: Path) -> bool:
    """Whether a resolved path belongs neither to an installed package nor to Python."""
    return not (INSTALLED & set(path.parts) or path.is_relative_to(Path(os.__file__).resolve().parent))


def _packages(name: str) -> list[str]:
    steps = name.split(".")
    return [".".join(steps[:k]) for k in range(1, len(steps))]
