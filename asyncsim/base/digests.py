"""Digests of code, which change with what the code computes, not with comments, docstrings, layout or quotes.

The modules that a module imports are found by parsing; nothing is imported.
"""

import ast
import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from asyncsim.base import plugins

PACKAGE = "asyncsim"
ROOT = Path(__file__).resolve().parents[1]
MACHINERY = frozenset(
    f"{PACKAGE}.{name}"
    for name in (
        *("base.digests", "base.files", "base.manifest", "base.outside", "base.progress"),
        *("base.showing", "base.spec_code", "base.stopping", "base.store", "base.workers"),
        *("running.callbacks", "running.checkpoint", "running.evaluating"),
    )
)
"""Modules that store, pass on and display what others compute: changes in them change no numbers."""
BY_SPEC = frozenset(f"{PACKAGE}.{name}" for name in ("base.plugins", "comparing.tuning", "diagnostics._diagnostic"))
"""Modules that load parts by names from a spec; any other module with a computed name may load every part of a kind."""
LINES = "carried.jsonl"
"""The file that lists refactorings, in this package and among experiments; see `carried`."""


class Facts(NamedTuple):
    """Facts about a module: digest of its syntax tree, dotted names that it imports or uses, and its imports."""

    digest: str
    names: tuple[str, ...]
    imported: dict[str, str]


def shape(node: Any) -> Any:
    """Nested lists of syntax trees in ASCII, without docstrings and other bare strings, for a digest."""
    if isinstance(node, list):
        texts = (isinstance(x, ast.Expr) and isinstance(getattr(x.value, "value", None), str) for x in node)
        return [shape(each) for each, is_text in zip(node, texts, strict=True) if not is_text]
    if not isinstance(node, ast.AST):
        return ascii(node)
    # Fields that are empty in one version of Python are missing in another.
    fields = [(name, value) for name, value in ast.iter_fields(node) if value is not None and value != []]
    return [type(node).__name__, *([name, shape(value)] for name, value in fields if name != "kind")]


def of(value: Any, digits: int = 16) -> str:
    """Hexadecimal digest of a value, from its JSON text."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:digits]


def needed(body: list[ast.stmt], roots: Iterable[str], acts: bool = True) -> list[ast.stmt]:
    """Statements that define the root names, directly or through names used, and those that define no name."""
    defined = [(node, own) for node in body if (own := names(node)) or acts]
    wanted, size = set(roots), -1
    while len(wanted) != size:
        size = len(wanted)
        for node, own in defined:
            if not own or own & wanted:
                wanted |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return [node for node, own in defined if not own or own & wanted]


def names(node: ast.stmt) -> set[str]:
    """Names that a top-level statement of a module defines."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names} - {"*"}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    stored = [each for target in targets for each in ast.walk(target)]
    return {each.id for each in stored if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def read_names(body: Iterable[ast.stmt], own: str, inside: str) -> set[str]:
    """Dotted names that statements of the module `own` in the package `inside` import, or use from their imports.

    `NAME.*` stands for every part of a package: the package was used as a value, or one of its parts is loaded by a
    computed name.
    """
    return _read(body, own, inside)[0]


def _read(body: Iterable[ast.stmt], own: str, inside: str) -> tuple[set[str], dict[str, str]]:
    """The same names, and a map from local names to the dotted names imported."""
    wholes = {PACKAGE, *(f"{PACKAGE}.{kind}" for kind in plugins.PARTS)}
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
                every.add(f"{full}.*" if full in wholes else full)
        elif isinstance(node, ast.Call) and own not in BY_SPEC:
            # What `plugins.load(package, name, kind)` loads; all parts where the package is computed.
            loads = isinstance(node.func, ast.Attribute) and ast.unparse(node.func) == "plugins.load"
            if loads and node.args:
                package, name, *_ = [*(str(x.value) if isinstance(x, ast.Constant) else "" for x in node.args), ""]
                every.add(f"{package or PACKAGE}.{name if package and name else '*'}")
    return every, imported


def stamp(path: Path) -> list[int]:
    """Stamp that changes whenever a file does: size, times and inode; only the system sets the third number."""
    state = path.stat()
    return [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]


def facts(own: str, path: Path) -> Facts:
    """Facts of the module `own`, cached until its file changes; a file that does not parse is digested as bytes."""
    return _facts(own, path, *stamp(path))


@lru_cache(maxsize=4096)
def _facts(own: str, path: Path, *_: int) -> Facts:
    data = path.read_bytes()
    try:
        body = ast.parse(data).body
    except (SyntaxError, ValueError):
        return Facts(hashlib.sha256(data).hexdigest()[:16], (), {})
    every, imported = _read(body, own, own if path.name == "__init__.py" else own.rpartition(".")[0])
    return Facts(of(shape(body)), tuple(sorted(every)), imported)


class _Kept:
    """Disk cache of facts about the package's modules, stored beside compiled code: parsing them takes a second."""

    def __init__(self) -> None:
        from asyncsim.base.compiling import Shelf

        self._shelf, self._by = Shelf(shape), stamp(Path(__file__))
        self._name = "digests-{}{}".format(*sys.version_info)
        by, held = json.loads(self._shelf.read(self._name) or b"[0, {}]")
        self._held: dict[str, Any] = held if by == self._by else {}
        self._fresh = False

    def facts(self, module: str, path: Path) -> Facts:
        """As the function `facts`, restricted to names in this package."""
        now, held = stamp(path), self._held.get(module)
        if held is None or held[0] != now:
            digest, every, imported = facts(module, path)
            inside = [each for each in every if each.startswith(f"{PACKAGE}.")]
            handed = {own: each for own, each in imported.items() if f"{each}.".startswith(f"{PACKAGE}.")}
            held = self._held[module] = [now, digest, inside, handed]
            self._fresh = True
        return Facts(held[1], tuple(held[2]), held[3])

    def write(self) -> None:
        """Write new facts to disk."""
        if self._fresh:
            self._shelf.write(self._name, json.dumps([self._by, self._held]).encode())
            self._fresh = False


_kept = cache(_Kept)


@cache
def _files() -> dict[str, Path]:
    found = ((path, path.relative_to(ROOT.parent).with_suffix("")) for path in ROOT.rglob("*.py"))
    return {".".join(name.parts).removesuffix(".__init__"): path for path, name in found}


@cache
def _homes(name: str) -> tuple[str, ...]:
    """The modules that define a dotted name of the package: one, or all parts of a kind."""
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
    """Digests by name of the package's modules that dotted names import, also indirectly; cached per process."""
    if not starts:
        return {}
    kept, reached, left, seen = _kept(), dict[str, str](), list(starts), set(starts)
    while left:
        name = left.pop()
        for module in _homes(name):
            if module in MACHINERY:
                continue
            digest, read, imported = kept.facts(module, _files()[module])
            found = [] if module in reached else list(read)
            reached[module] = digest
            # What the module itself imports may be meant: `asyncsim.claims._claim.sim.run` is `asyncsim.run`.
            handed, _, rest = name.removeprefix(f"{module}.").partition(".")
            full = imported.get(handed) if name != module else None
            if full is not None and (rest or full != PACKAGE):
                found.append(f"{full}.{rest}".rstrip("."))
            left += [each for each in found if each not in seen]
            seen.update(found)
    kept.write()
    return reached


@lru_cache(maxsize=1024)
def reached(*starts: str) -> str:
    """Digest of all modules of the package that the dotted names import, directly or indirectly."""
    return of(sorted(carried(modules(*starts)).items()))


def carried(code: Mapping[str, str], folder: Path = ROOT) -> dict[str, str]:
    """Replace digests of refactored modules by those before the refactoring, where results are known to be equal.

    A line of the file `LINES` states that modules with the digests `now` compute the same as those with the digests
    `before`, and which `rows` were equal. A module missing in `before` was split off, one missing in `now` was merged.
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
    """Recorded refactorings of a folder, one per line of its file, oldest first."""
    path = folder / LINES
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
