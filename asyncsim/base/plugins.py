"""Plug-in folders, whose files are parsed for names and imported only when used.

A plug-in folder is a package of files `name.py` without a leading underscore. Such a file defines one public object
`name` and begins with a one-line docstring, or it is a page. A page defines no object of its own name; its public
objects are all plug-ins, each with a docstring. A new method, link, schedule, task or system is one file. A new metric,
factor or penalty is a few lines on a page.
"""

import ast
import dataclasses
import functools
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from asyncsim.base import arguments, calls, checks, outside

PARTS = {
    "tasks": "task", "policies": "policy", "systems": "system", "schedules": "schedule", "methods": "method",
    "advantages": "advantage", "factors": "factor", "penalties": "penalty", "updates": "link", "rewards": "rewards",
    "diagnostics": "diagnostics",
}  # fmt: skip
"""Kinds of parts, each a plug-in folder, with the noun for one of them in messages: its option, if there is one."""


@cache
def summaries(package: str) -> dict[str, str]:
    """Names in a plug-in folder with the first line of each docstring, read without any import."""
    return {name: line for name, (_, line) in sorted(_read_index(package).items())}


@cache
def listed(package: str) -> dict[str, str]:
    """Names for users to choose from, with first lines: plug-ins of a folder, and its functions that make a part."""
    home, functions = importlib.import_module(package), dict[str, str]()
    for name, file in vars(home).get("_beside", {}).items():
        text = Path(str(home.__file__)).with_name(f"{file}.py").read_text(encoding="utf-8")
        docstring = _read_docstrings(ast.parse(text)).get(name)
        functions |= {name: docstring.splitlines()[0]} if docstring else {}
    return dict(sorted({**summaries(package), **functions}.items()))


RULES = {key[6:]: rule for key, rule in checks.ANSWERS.items() if key.startswith("rules ")}
"""Presets by their rule, for somebody who has a system and no trainer's name."""


def by_name(value: Any, folder: str, otherwise: str) -> str:
    """A remedy for a part that is given as its name, such as "grpo": the call that makes this part."""
    known = isinstance(value, str) and value.replace("-", "_") in summaries(f"asyncsim.{folder}")
    return f"write sim.{folder}.{value.replace('-', '_')}(...)" if known else otherwise


def home_of(package: str, name: str) -> str | None:
    """File, without suffix, that defines an object of a plug-in folder; None for an unknown name."""
    beside = vars(importlib.import_module(package)).get("_beside", {})
    return beside.get(name) or _read_index(package).get(name, (None,))[0]


@cache
def _read_index(package: str) -> dict[str, tuple[str, str]]:
    """The file that defines each public object, and the first line of its docstring."""
    index: dict[str, tuple[str, str]] = {}
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(f"{package} is not a package")
    folder = Path(next(iter(spec.submodule_search_locations)))
    # Elsewhere, as among experiments, a file is what its own name says.
    pages = "plugins.expose(" in (folder / "__init__.py").read_text(encoding="utf-8")
    for path in sorted(folder.glob("*.py")):
        if path.stem.startswith("_"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        objects = _read_docstrings(tree)
        if path.stem in objects or not pages:
            objects = {path.stem: ast.get_docstring(tree)}
        for name, docstring in objects.items():
            if not docstring:
                raise RuntimeError(f"{path.name}: {name} begins with a one-line docstring")
            index[name] = (path.stem, docstring.splitlines()[0])
    return index


def _read_docstrings(tree: ast.Module) -> dict[str, str | None]:
    """Docstrings of public functions and values of a module; that of a value is the argument `doc` of its call."""
    docstrings: dict[str, str | None] = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            docstrings[node.name] = ast.get_docstring(node)
        elif (
            isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.targets[0], ast.Name)
        ):
            text = [k.value for k in node.value.keywords if k.arg == "doc" and isinstance(k.value, ast.Constant)]
            docstrings[node.targets[0].id] = inspect.cleandoc(str(text[0].value)) if text else None
    return {name: text for name, text in docstrings.items() if not name.startswith("_") and name.islower()}


def load(package: str, name: str, kind: str) -> Any:
    """Load the public object `name` of a plug-in folder, in kebab or snake case; `kind` is for messages.

    A name with a colon, such as my_parts.py:power, is an object of a user's file or module.
    """
    beside = vars(importlib.import_module(package)).get("_beside", {})
    if ":" in name or name.endswith(".py"):
        part = outside.loaded(name, kind)
        # What a user writes as a loss or an advantage is no function that makes a part.
        written = {"from_loss": arguments.is_loss, "from_function": arguments.is_advantage}
        make = next((each for each, fits in written.items() if each in beside and fits(part)), "")
        return functools.partial(load(package, make, kind), name) if make else _remembered(part, name)
    snake = name.replace("-", "_")
    if snake in beside:
        return getattr(sys.modules[package], snake)
    known = summaries(package)
    if snake not in known and snake in (others := outside.registered(package)):
        return _remembered(outside.loaded(others[snake], kind, installed=True), f"{package.rpartition('.')[2]}.{snake}")
    if snake not in known:
        place, _, own = name.rpartition(".")
        remedy = f"write {own if own in known else f'{place}:{own} for one of your own'}" if place else ""
        mine = [f"did you mean {each}?" for each in outside.defined(name) if each.endswith(f":{name}")]
        remedy = checks.advice(name, f"--{kind}") or remedy or "".join(mine[:1]) or _hint(package, snake)
        remedy = remedy or f"see `asyncsim list {package.rpartition('.')[2]}`"
        remedy += "; what a link reports is recorded unasked" * (kind == "diagnostics" and remedy.startswith("see "))
        meanings = (RULES if kind == "system" else listed(package)) if remedy.startswith("see ") else None
        checks.one_of(kind, name, listed(package), remedy, meanings, 8)
    home = _read_index(package)[snake][0]
    module = importlib.import_module(f"{package}.{home}")
    return vars(sys.modules[package]).get(snake, vars(module)[snake])


def kinds_of(name: str) -> list[str]:
    """Kinds of parts that have a part of this name."""
    return [kind for kind in PARTS if name in summaries(f"asyncsim.{kind}")]


def reporter(name: str) -> str:
    """The link whose docstring says that it reports a number of this name; "" if there is none."""
    says = re.compile(rf"that\s+reports\s[^`]*\b{re.escape(name)}\b")
    links = summaries("asyncsim.updates")
    return next((each for each in links if says.search(load("asyncsim.updates", each, "link").__doc__)), "")


def unrecorded(metric: Any, recorded: Iterable[str]) -> str:
    """A remedy for a metric that was not `recorded`; for an unknown name, with the most similar metric."""
    known = "asyncsim.diagnostics"
    other = isinstance(metric, str) and metric not in summaries(known)
    hint = (_hint(known, metric) or "see asyncsim list diagnostics") if other else ""
    if not (near := re.match(r"did you mean (\w+)\?|$", hint)):
        return hint
    name = near[1] or metric
    return near[0] if name in recorded else f"{near[0]} record it with Spec(diagnostics=['default', {name!r}])".lstrip()


def _hint(package: str, name: str) -> str:
    """Hint for an unknown name: its name in this folder, or another folder that has it; else a similar name, or ""."""
    if "," in name:
        return f"write {[each.strip() for each in name.split(',')]}"
    if advice := checks.advice(name, package.rpartition(".")[2]):
        return f"{advice}."
    if paper := checks.advice(name, "paper"):
        title, what, page = paper.split(" | ")
        return f"{title.partition(', ')[0]} is {what}; the page {page} of the repository tests its paper."
    if package.endswith(".diagnostics") and (link := reporter(name)):
        return f"leave it out: each run with sim.updates.{link}(...) reports it"
    for kind in kinds_of(name):
        it = f"{'an' if PARTS[kind][0] in 'aeiou' else 'a'} {PARTS[kind]}"
        other = f"{name} is {it}: see `asyncsim list {kind} {name}`, or sim.{kind}.{name}."
        return f"{checks.hint(name, listed(package), '', 3.0)} {other}".lstrip()
    return checks.hint(name, listed(package))


def function(name: str) -> Callable[..., Any]:
    """The function that a file calls kind.name, such as methods.grpo, or file:name, such as my_parts.py:power."""
    if ":" in name:
        return _remembered(outside.loaded(name, "part"), name)
    kind, _, own = name.partition(".")
    checks.one_of("kind of part", kind, PARTS, "write kind.name, such as methods.grpo")
    importlib.import_module(f"asyncsim.{kind}")
    made: Callable[..., Any] = load(f"asyncsim.{kind}", own, kind)
    return made


def _remembered(part: Any, name: str) -> Any:
    return calls.remembering(part, name) if inspect.isfunction(part) or inspect.isclass(part) else part


def described(package: str, name: str, kind: str) -> dict[str, Any]:
    """Signature, arguments with defaults, and docstring of one public object of a plug-in folder.

    >>> described("asyncsim.updates", "sgd", "link")["signature"]
    'sgd(lr: Any)'
    """
    part, snake = load(package, name, kind), name.replace("-", "_")
    function = inspect.isfunction(part)
    signature = inspect.signature(part) if function else inspect.Signature()
    arguments = [
        {"name": p.name, "required": p.default is p.empty, "default": None if p.default is p.empty else p.default}
        for p in signature.parameters.values()
    ]
    doc = inspect.getdoc(part) if function else vars(part).get("__doc__")
    # Types as they are written, without the quotes of annotations that are kept as text.
    words = list[str]()
    for p in signature.parameters.values():
        words += ["*"] * (p.kind is p.KEYWORD_ONLY and "*" not in words)
        default = "" if p.default is p.empty else f" = {p.default!r}"
        words.append(f"{p.name}: {inspect.formatannotation(p.annotation).strip(chr(39))}{default}")
    call = f"{snake}({', '.join(words)})" if function else snake
    return {"name": snake, "signature": call, "arguments": arguments, "doc": doc or ""}


def name_of(part: Any) -> str:
    """Name of the plug-in file that defines a value's class; else the class name in snake case."""
    package, _, module = type(part).__module__.rpartition(".")
    if package.startswith("asyncsim.") and not module.startswith("_") and module in summaries(package):
        return module
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(part).__name__).lower()


def own(part: Any) -> bool:
    """Whether a part and everything it calls belong to the package; a user's functions may do anything."""
    if isinstance(part, functools.partial):
        return own(part.func)
    kind = part if inspect.isfunction(part) else type(part)
    inside = [value for value in vars(part).values() if callable(value)] if dataclasses.is_dataclass(part) else []
    package, _, rest = kind.__module__.partition(".")
    return package == "asyncsim" and rest.partition(".")[0] in PARTS and all(map(own, inside))


def called(name: str, homes: Iterable[str]) -> str:
    """Suggest what to write for a name looked up in the wrong module: one of `homes` or a part; else ""."""
    parts = {each: kind for kind in PARTS for each in summaries(f"asyncsim.{kind}")}
    near = (checks.near(name, homes, 1, 0.7) or checks.near(name, parts, 1, 0.8) or [""])[0]
    if parts.get(near) == "diagnostics":
        return f"write sim.Spec(..., diagnostics=[{near!r}]), then sim.run(spec)[{near!r}]"
    return near and f"did you mean {'.'.join(filter(None, ['sim', parts.get(near), near]))}?"


class Public(ModuleType):
    """A module as users see it: errors about unknown names, and about calls of the module, list its names."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        short, known = self.__name__.rpartition(".")[2], self._known()
        near = [f"did you mean sim.{short}.{each}?" for each in checks.near(name, known, 1, 0.75)]
        remedy = checks.advice(name, short, "sim") or "".join(near)
        has = "; ".join(filter(None, [called(name, sys.modules["asyncsim"].NAMES), f"it has {', '.join(known)}"]))
        abouts = {each: (inspect.getdoc(getattr(self, each)) or "").partition("\n")[0] for each in known if not remedy}
        raise calls.unknown_name(f"sim.{short}", name, remedy or has, abouts, checks.MANY)

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        """Refuse the call: a module is none."""
        short, known = self.__name__.rpartition(".")[2], self._known()
        some = [*known[: checks.MANY], *["..."] * (len(known) > checks.MANY)]
        usual = f"write sim.{short}.NAME(...): it has {', '.join(some)}"
        raise TypeError(f"sim.{short} is a module; {checks.advice('module', short, otherwise=usual)}")

    def _known(self) -> list[str]:
        own = [n for n, x in vars(self).items() if getattr(x, "__module__", "") == self.__name__]
        return sorted(n for n in vars(self).get("__all__", own) or dir(self) if n[0] != "_")


@cache
def public(name: str) -> ModuleType:
    """A copy of a module as users see it, with functions that explain wrong arguments; the module is not changed."""
    view = Public(name)
    vars(view).update(vars(importlib.import_module(name)))
    return answering(view)


def answering(module: ModuleType) -> ModuleType:
    """Make a module `Public`, as its users see it: its functions and classes explain wrong arguments."""
    module.__class__ = Public
    vars(module).update({each: calls.answering(vars(module)[each]) for each in module._known()})
    return module


class Namespace(Public):
    """A plug-in package whose attributes are the public objects of its files.

    The import system binds each imported file to its package under the file's name. Here names belong to public
    objects, so a bound module is replaced by the objects that it defines.
    """

    _beside: Mapping[str, str]
    _tools: Mapping[str, str]

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(value, ModuleType) or name.startswith("_"):
            super().__setattr__(name, value)
            return
        for each, (home, _) in _read_index(self.__name__).items():
            if home == name:
                super().__setattr__(each, self._offer(vars(value)[each]))

    def _offer(self, value: Any) -> Any:
        """The object of a file; parts that it makes record the call."""
        if inspect.isfunction(value):
            value = calls.remembering(value, f"{self.__name__.rpartition('.')[2]}.{value.__name__}")
            # Where it can be found again, as whoever pickles it must.
            value.__module__ = self.__name__
        return value

    def __getattr__(self, name: str) -> Any:
        # No part has such a name; what looks at a module asks for many, and entry points are read for each one unknown.
        if name.startswith("_"):
            raise AttributeError(name)
        package = self.__name__
        if name in self._tools:
            return vars(importlib.import_module(f"{package}.{self._tools[name]}"))[name]
        if name in self._beside:
            return self._offer(vars(importlib.import_module(f"{package}.{self._beside[name]}"))[name])
        if name not in summaries(package) and name not in outside.registered(package):
            it, known = f"{hint} It" if (hint := _hint(package, name)) else "it", listed(package)
            raise calls.unknown_name(package, name, f"{it} has {', '.join(known)}", known if not hint else None)
        return load(package, name, package.rpartition(".")[2])

    def __dir__(self) -> list[str]:
        return sorted({*listed(self.__name__), *(n for n in vars(self) if n.startswith("__"))})

    def _known(self) -> list[str]:
        return sorted(listed(self.__name__))


def expose(package: str, beside: Mapping[str, str] | None = None, tools: Mapping[str, str] | None = None) -> None:
    """Turn the package being imported into a `Namespace`: the only line of a plug-in `__init__`.

    `beside`: public functions that are no plug-ins, each with its private module, such as those that wrap user code.
    `tools`: what a user's own part is made with, such as a decorator; lists of parts leave it out.
    """
    module = sys.modules[package]
    vars(module).update(_beside=beside or {}, _tools=tools or {})
    module.__class__ = Namespace
