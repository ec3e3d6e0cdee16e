"""Digests of code: they change with what code computes, not with its comments, docstrings, layout and quotes.

The code of a run is every module of the package that is reached from its roots and from the parts that a spec names,
every file of a user that it names, and what those files import. Modules are found by reading: nothing is imported.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache, partial
from pathlib import Path
from types import CellType, FunctionType, MethodType
from typing import Any, NamedTuple, cast

from asyncsim.base import outside, plugins
from asyncsim.base.manifest import version_of

PACKAGE = "asyncsim"
ROOT = Path(__file__).resolve().parents[1]
MACHINERY = frozenset(
    f"{PACKAGE}.{name}"
    for name in (
        *("base.digests", "base.files", "base.manifest", "base.outside", "base.progress", "base.showing"),
        *("base.stopping", "base.store", "base.workers", "learning.callbacks", "learning.checkpoint"),
    )
)
"""Modules that keep, hand on and show what others compute: a change in them changes no number."""
BY_SPEC = frozenset(f"{PACKAGE}.{name}" for name in ("base.plugins", "comparing.tuning", "diagnostics._diagnostic"))
"""Modules that load parts whose names a spec has; others that compute a name may load any part of its kind."""
LINES = "carried.jsonl"
"""The file of refactorings, in this package and among experiments; see `carried`."""
MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
INSTALLED = {"site-packages", "dist-packages"}
"""Folders of packages that are installed: nobody writes there while a sweep is planned."""


class Facts(NamedTuple):
    """What is read of a module: the digest of its syntax tree, and the dotted names that it imports or reads."""

    digest: str
    names: tuple[str, ...]


# Syntax trees.


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


def of(value: Any) -> str:
    """16 hexadecimal digits of what a value is as JSON.

    >>> of({"a": 1, "b": 2}) == of({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def needed(body: list[ast.stmt], roots: Iterable[str], acts: bool = True) -> list[ast.stmt]:
    """Statements that define the roots, or names that these use and so on, in order; and all that define no name.

    Without `acts` those that define no name are left out, as in a script whose other lines only use a function.
    """
    defined = [(node, own) for node in body if (own := names(node)) or acts]
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


def read_names(body: Iterable[ast.stmt], own: str, inside: str) -> set[str]:
    """Dotted names that statements of the module `own` of a package `inside` import, or read from what they import.

    `NAME.*` stands for all that a package has: it was used as a value, or one of its parts is loaded by a name that is
    computed.
    """
    nodes = [each for statement in body for each in ast.walk(statement)]
    imported: dict[str, str] = {}
    every: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            every |= {alias.name for alias in node.names}
            imported |= {alias.asname or (top := alias.name.partition(".")[0]): alias.name if alias.asname else top
                         for alias in node.names}  # fmt: skip
        elif isinstance(node, ast.ImportFrom):
            steps = inside.split(".")[: len(inside.split(".")) - max(0, node.level - 1)] if node.level else []
            place = ".".join([*steps, *([node.module] if node.module else [])])
            whole = {alias.asname or alias.name: f"{place}.{alias.name}" for alias in node.names}
            imported |= whole
            every |= {place if name == "*" else full for name, full in whole.items()}
    within: set[int] = set()
    for node in nodes:  # a chain of attributes comes before its parts
        if isinstance(node, (ast.Attribute, ast.Name)) and id(node) not in within:
            chain, start = list[str](), cast(ast.expr, node)
            while isinstance(start, ast.Attribute):
                chain.append(start.attr)
                start = start.value
                within.add(id(start))
            if isinstance(start, ast.Name) and start.id in imported:
                full = ".".join([imported[start.id], *reversed(chain)])
                every.add(f"{full}.*" if full == PACKAGE or _is_kind(full) else full)
        elif isinstance(node, ast.Call) and own not in BY_SPEC:
            every |= _loaded(node)
    return every


def _is_kind(name: str) -> bool:
    return name.startswith(f"{PACKAGE}.") and name[len(PACKAGE) + 1 :] in plugins.PARTS


def _loaded(call: ast.Call) -> set[str]:
    """What `plugins.load(package, name, kind)` loads; all parts where the package is computed."""
    if not (isinstance(call.func, ast.Attribute) and ast.unparse(call.func) == "plugins.load" and call.args):
        return set()
    package, name, *_ = [*(str(each.value) if isinstance(each, ast.Constant) else "" for each in call.args), ""]
    return {f"{package or PACKAGE}.{name if package and name else '*'}"}


# Modules of the package.


def _stamp(path: Path) -> tuple[int, ...]:
    """What changes whenever a file does: nobody but the system sets the third."""
    state = path.stat()
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino


@lru_cache(maxsize=4096)
def _facts(own: str, path: Path, stamp: tuple[int, ...]) -> Facts:
    """Facts of a module; a file that is no Python is known by its bytes."""
    data = path.read_bytes()
    try:
        body = ast.parse(data).body
    except (SyntaxError, ValueError):
        return Facts(hashlib.sha256(data).hexdigest()[:16], ())
    inside = own if path.name == "__init__.py" else own.rpartition(".")[0]
    return Facts(of(shape(body)), tuple(sorted(read_names(body, own, inside))))


class _Kept:
    """Facts of the package's modules, kept on disk beside compiled code: reading them anew takes a second."""

    def __init__(self) -> None:
        from asyncsim.base.compiling import Shelf

        self._shelf, self.fresh = Shelf(shape), False
        self._name = f"digests-{of([_stamp(Path(__file__)), sys.version_info[:2]])}"
        data = self._shelf.read(self._name)
        self._held: dict[str, Any] = json.loads(data) if data else {}

    def facts(self, module: str, path: Path) -> Facts:
        """As `_facts`, of names in this package."""
        stamp = _stamp(path)
        held = self._held.get(module)
        if held is None or held[0] != list(stamp):
            digest, every = _facts(module, path, stamp)
            held = [list(stamp), digest, [name for name in every if name.startswith(f"{PACKAGE}.")]]
            self._held[module], self.fresh = held, True
        return Facts(held[1], tuple(held[2]))

    def write(self) -> None:
        """Keep what is new."""
        if self.fresh:
            self._shelf.write(self._name, json.dumps(self._held).encode())
            self.fresh = False


_kept = cache(_Kept)


@cache
def _files() -> dict[str, Path]:
    """Every module of the package with its file."""
    files: dict[str, Path] = {}
    for folder, _, names in os.walk(ROOT):
        inside = [PACKAGE, *Path(folder).relative_to(ROOT).parts]
        stems = [name.removesuffix(".py") for name in names if name.endswith(".py")]
        files |= {".".join([*inside, *[stem] * (stem != "__init__")]): Path(folder, f"{stem}.py") for stem in stems}
    return files


@cache
def _homes(name: str) -> tuple[str, ...]:
    """The modules that a dotted name of the package means: one, or all parts of a kind."""
    steps, files = name.split("."), _files()
    if steps[-1] == "*":
        kinds = [steps[1]] if len(steps) > 2 else [*plugins.PARTS]
        return tuple(module for module in files if module.count(".") == 2 and module.split(".")[1] in kinds)
    if len(steps) == 2 and (public := sys.modules[PACKAGE].NAMES.get(steps[1])):
        steps = public.split(".")
    elif len(steps) > 2 and steps[1] in plugins.PARTS and ".".join(steps[:3]) not in files:
        home = plugins.home_of(".".join(steps[:2]), steps[2])
        steps = [*steps[:2], home] if home else steps
    prefixes = (".".join(steps[:end]) for end in range(len(steps), 1, -1))
    return tuple(module for module in prefixes if module in files)[:1]


@lru_cache(maxsize=1024)
def modules(*starts: str) -> dict[str, str]:
    """Digests of the package's modules that are reached from dotted names in it, by name; once a process.

    >>> reached = modules("asyncsim.methods.grpo")
    >>> "asyncsim.advantages.group_std" in reached, "asyncsim.advantages.leave_one_out" in reached
    (True, False)
    """
    if not starts:
        return {}
    kept, reached, left, seen = _kept(), dict[str, str](), list(starts), set(starts)
    while left:
        for module in _homes(left.pop()):
            if module not in reached and module not in MACHINERY:
                reached[module], read = kept.facts(module, _files()[module])
                left += [name for name in read if name not in seen]
                seen.update(read)
    kept.write()
    return reached


@lru_cache(maxsize=1024)
def reached(*starts: str) -> str:
    """Digest of all modules of the package that are reached from dotted names in it.

    >>> reached("asyncsim.methods.grpo") == reached("asyncsim.methods.ppo_clip")
    False
    """
    return of(sorted(carried(modules(*starts)).items()))


# Refactorings.


def carried(code: Mapping[str, str], folder: Path = ROOT) -> dict[str, str]:
    """Digests by module, put back behind every refactoring that is known to compute the same.

    A line of the file `LINES` says that modules with the digests `now` compute what those with the digests `before`
    did, and which `rows` were equal. A module that `before` lacks was split off, one that `now` lacks was merged.
    """
    code = dict(code)
    for line in reversed(refactorings(folder)):
        now, before = line["now"], line["before"]
        own = code.keys() & now.keys()
        if own and all(code[name] == now[name] for name in own):
            whole = len(own) == len(now)
            code = {name: digest for name, digest in code.items() if name not in own}
            code |= {name: digest for name, digest in before.items() if name in own or (whole and name not in now)}
    return code


def refactorings(folder: Path = ROOT) -> list[dict[str, Any]]:
    """The lines of a folder's file of refactorings, the oldest first."""
    path = folder / LINES
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


# Modules of a folder beside the package.


def own_code(
    folder: Path,
    name: str,
    roots: Iterable[str],
    apart: frozenset[str],
    read: Callable[[str], str | None] | None = None,
) -> dict[str, list[ast.stmt]]:
    """Statements behind the names `roots` of a module of a folder, by module.

    That is each statement of the module that a root needs, and all of every module of the folder imported there or in
    such a module, but for those `apart`. `read(stem)` gives a source in place of the file, None where there is none.
    """

    def found(stem: str) -> str | None:
        path = folder / f"{stem}.py"
        return path.read_text(encoding="utf-8") if path.exists() else None

    code: dict[str, list[ast.stmt]] = {}
    left = [name]
    while left:
        stem = left.pop()
        text = None if stem in code or stem in apart else (read or found)(stem)
        if text is not None:
            body = ast.parse(text).body
            code[stem] = needed(body, roots) if stem == name else body
            every = read_names(code[stem], f"{folder.name}.{stem}", folder.name)
            left += [each.split(".")[1] for each in every if each.startswith(f"{folder.name}.")]
    return code


def version(code: Mapping[str, list[ast.stmt]]) -> str:
    """Digest of statements by module, the same on every Python that can parse them."""
    return hashlib.sha256(json.dumps([[stem, shape(code[stem])] for stem in sorted(code)]).encode()).hexdigest()[:16]


def reached_by(code: Mapping[str, list[ast.stmt]], inside: str) -> tuple[str, ...]:
    """Dotted names of the package that statements by module read."""
    every = {name for stem, body in code.items() for name in read_names(body, f"{inside}.{stem}", inside)}
    return tuple(sorted(name for name in every if name.startswith(f"{PACKAGE}.")))


# What a spec needs.


def code_of(written: Any, *roots: str) -> dict[str, Any]:
    """The code that a spec as JSON needs beside the modules `roots`.

    That is the version of the package, the digest of its modules that are reached, and digests of files that the spec
    names and of the user's modules that those import. Modules of a user count that stand beside the file, in the
    working directory, or elsewhere on Python's path outside of installed packages. What a file reads or imports by a
    name that it computes is not seen.
    """
    starts, files = set(roots), dict[str, str]()
    if isinstance(written, Live):
        written, starts, files = (), starts | written.modules, dict(written.files)
    if isinstance(written, Mapping) and "task" in written and "diagnostics" not in written:
        starts.add(f"{PACKAGE}.diagnostics.*")
    for text in outside.texts(written):
        starts |= _parts_of(text)
        place, path = _file(text)
        if path is not None and path.suffix != ".py":
            files[place] = hashlib.sha256(path.read_bytes()).hexdigest()[:32]
        elif path is not None:
            name = "" if place.endswith(".py") else place
            every = [*_packages(name), *_facts(name, path, _stamp(path)).names]
            for own, file in {place: path, **_imports(every, path)}.items():
                files[own], read = _facts(own, file, _stamp(file))
                starts.update(each for each in read if each.startswith(f"{PACKAGE}."))
    return {"asyncsim": version_of("asyncsim"), "code": reached(*sorted(starts)), "files": files}


def changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two answers of `code_of`, in words.

    >>> changed({"asyncsim": "1", "code": "a", "files": {"my.py": "b"}}, {"asyncsim": "1", "code": "c", "files": {}})
    ['modules of asyncsim', 'my.py']
    """
    files = sorted({*before["files"], *now["files"]})
    odd = [name for name in files if before["files"].get(name) != now["files"].get(name)]
    version = [f"asyncsim {before['asyncsim']}"] * (before["asyncsim"] != now["asyncsim"])
    return version + ["modules of asyncsim"] * (before["code"] != now["code"]) + odd


class Live:
    """The code of a part that cannot be written: `modules` of its classes and functions, and `files`, digests of a
    user's functions and classes with all that they use of their own file.
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
                cells = [each.cell_contents for each in getattr(value, "__closure__", None) or () if _filled(each)]
                inside = [kind, *cells, *getattr(value, "__dict__", {}).values()]
        for each in inside:
            self._visit(each)

    def _noted(self, code: type | FunctionType) -> bool:
        """Whether it is the package's or the user's own, and not of another package."""
        if code.__module__.partition(".")[0] == PACKAGE:
            self.modules.add(code.__module__)
            return True
        place = None if isinstance(code, type) else code.__code__.co_filename
        path = Path(place or getattr(sys.modules.get(code.__module__), "__file__", None) or "")
        if path.suffix == ".py" and path.is_file() and _is_mine(path.resolve()):
            own = needed(ast.parse(path.read_bytes()).body, [code.__qualname__.partition(".")[0]], acts=False)
            every = read_names(own, code.__module__, code.__module__.rpartition(".")[0])
            self.files[f"{path.name}:{code.__qualname__}"] = of(shape(own))
            for name, file in _imports(every, path).items():
                self.files[name], read = _facts(name, file, _stamp(file))
                every.update(read)
            self.modules |= {each for each in every if each.startswith(f"{PACKAGE}.")}
            return True
        return False


def _filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _parts_of(text: str) -> set[str]:
    """The dotted name of a part that a spec writes as kind.name, or of a metric by its name alone."""
    kind, _, name = text.partition(".")
    if name and kind in plugins.PARTS:
        return {f"{PACKAGE}.{text}"}
    metric = text.replace("-", "_")
    return {f"{PACKAGE}.diagnostics.{metric}"} if metric in plugins.summaries(f"{PACKAGE}.diagnostics") else set()


def _file(text: str) -> tuple[str, Path | None]:
    """The place in a text and its file, None for other texts.

    A place is that of module:name, path.py:name, @table:column, or of a part that another package registers.
    """
    if text.startswith("@"):
        places = (text[1:], text[1:].rpartition(":")[0])
        place = next((each for each in places if Path(each).is_file()), "")
        return place, Path(place) if place else None
    named = outside.NAMED.fullmatch(_registered(text))
    place = named[1] if named is not None else ""
    if place.endswith(".py"):
        return place, Path(place) if Path(place).is_file() else None
    return place, _module(place) if MODULE.fullmatch(place) else None


def _registered(text: str) -> str:
    """The module:name of a part that another package registers; other texts stay."""
    kind, _, name = text.partition(".")
    if not name or kind not in plugins.PARTS or name in plugins.summaries(f"{PACKAGE}.{kind}"):
        return text
    return outside.registered(f"{PACKAGE}.{kind}").get(name, text)


def _module(name: str) -> Path | None:
    """The file of a user's or an installed module, found without importing what is around it; None for no module."""
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
    """The user's modules among dotted names that a file reads, and those that they import, by name."""
    if not _is_mine(beside.resolve()):
        return {}
    roots = list(dict.fromkeys([beside.resolve().parent, *_roots()]))
    found: dict[str, Path] = {}
    left = [each for name in every for each in (*_packages(name), name)]
    while left:
        own = left.pop()
        if own in found or not MODULE.fullmatch(own) or own.partition(".")[0] == PACKAGE:
            continue
        file = next((each for root in roots if (each := _at(root, own)) is not None), None)
        if file is not None:
            found[own] = file
            left += [each for name in _facts(own, file, _stamp(file)).names for each in (*_packages(name), name)]
    return found


def _roots() -> list[Path]:
    """Folders of Python's path that hold neither installed packages nor Python's own."""
    return [path for each in ("", *sys.path) if _is_mine(path := Path(each or ".").resolve())]


def _is_mine(path: Path) -> bool:
    """Whether a whole path belongs neither to an installed package nor to Python."""
    return not (INSTALLED & set(path.parts) or path.is_relative_to(Path(os.__file__).resolve().parent))


def _at(root: Path, name: str) -> Path | None:
    place = root.joinpath(*name.split("."))
    return next((each for each in (place / "__init__.py", place.with_name(f"{place.name}.py")) if each.is_file()), None)


def _packages(name: str) -> list[str]:
    """Packages around a module."""
    steps = name.split(".")
    return [".".join(steps[:k]) for k in range(1, len(steps))]
