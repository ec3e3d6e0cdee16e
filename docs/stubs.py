"""Stubs: what an editor and mypy see of names that a package loads when they are first used.

`python -m docs.stubs` writes `__init__.pyi` beside each such `__init__.py`. With `--check` it changes nothing; its exit
status is 1 where a stub is out of date, or where `mypy.stubtest` finds another signature than Python.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import asyncsim
from asyncsim.base import checks, plugins
from asyncsim.methods._method import AGGREGATORS, ANCHORS

ROOT = Path(asyncsim.__file__).parents[1]
MADE = {
    "advantages": "Advantage",
    "diagnostics": "Metric",
    "factors": "Factor",
    "methods": "Method",
    "penalties": "Penalty",
    "systems": "System",
    "updates": "Link",
}
"""What the functions of a kind return where a decorator makes them."""
HOMES = {
    "asyncsim.advantages._advantage": ("Advantage",),
    "asyncsim.base.laws": ("Law",),
    "asyncsim.diagnostics._diagnostic": ("Metric",),
    "asyncsim.base.knobs": ("Number",),
    "asyncsim.methods._method": ("Factor", "Method", "Penalty"),
    "asyncsim.systems._system": ("System",),
    "asyncsim.updates._link": ("Link",),
    "collections.abc": ("Mapping", "Sequence"),
    "typing": ("Any", "Literal"),
}
"""Types in signatures, by the module of each."""
SHARED = {
    "advantage": "Advantage | None",
    "aggregator": f"Literal{list(AGGREGATORS)}",
    "anchor": f"Literal{list(ANCHORS)}",
}
"""Types of arguments that are no knobs of one method."""
ALIASES = {"_Aggregator": SHARED["aggregator"], "_Anchor": SHARED["anchor"]}
"""Types that many signatures of a stub have, by a name in that stub, so that many fit a line."""


class _Text(str):
    """An annotation that a signature prints as it is."""

    __repr__ = str.__str__


def stubs() -> dict[str, str]:
    """The stub of each package that needs one, by the package's name."""
    kinds = {f"asyncsim.{kind}": _parts(kind) for kind in plugins.PARTS}
    others = {name: _exported(importlib.import_module(name)) for name in ("asyncsim.conformance", "asyncsim.testing")}
    texts = {"asyncsim": _root(), **kinds, **others}
    return {name: _formatted(name, "\n".join(lines)) for name, lines in texts.items()}


def path(package: str) -> Path:
    """Where a stub stands."""
    return ROOT.joinpath(*package.split("."), "__init__.pyi")


def stale() -> list[str]:
    """Packages whose stub is not what it would be today."""
    return [name for name, text in stubs().items() if not path(name).exists() or path(name).read_text("utf-8") != text]


def _root() -> Iterator[str]:
    yield f'"""{_summary(asyncsim)}"""'
    yield from (f"from asyncsim import {name} as {name}" for name in asyncsim.PACKAGES)
    for name, home in asyncsim.NAMES.items():
        above, _, last = home.rpartition(".")
        yield f"from {above if last == name else home} import {name} as {name}"
    yield "__version__: str\nPACKAGES: tuple[str, ...]\nNAMES: dict[str, str]"


def _exported(package: ModuleType) -> Iterator[str]:
    """What a package lists in its `__all__`, each from the module that defines it."""
    yield f'"""{_summary(package)}"""'
    for name in package.__all__:
        value = getattr(package, name)
        home = package.__name__ if inspect.ismodule(value) else value.__module__
        yield f"from {home} import {name} as {name}"
    yield f"__all__ = {package.__all__}"


def _parts(kind: str) -> Iterator[str]:
    """The public objects of a kind of parts, first what is imported."""
    package = importlib.import_module(f"asyncsim.{kind}")
    yield f'"""{_summary(package)}"""'
    tools = vars(package)["_tools"].items()
    yield from (f"from {package.__name__}.{home} import {name} as {name}" for name, home in tools)
    made = []
    for name in [*plugins.summaries(package.__name__), *vars(package)["_beside"]]:
        part, home = getattr(package, name), f"{package.__name__}.{plugins.home_of(package.__name__, name)}"
        plain = vars(importlib.import_module(home))[name]
        if not inspect.isfunction(plain):
            yield f"from {type(part).__module__} import {type(part).__name__}"
            made.append(f"{name}: {type(part).__name__}")
        elif kind not in MADE or not hasattr(plain, "__wrapped__"):
            yield f"from {home} import {name} as {name}"
        else:
            made.append(f'def {name}{_signature(part, MADE[kind])}:\n    """{_summary(part)}"""')
    for name, long in ALIASES.items():
        if any(long in each for each in made):
            made = [f"{name} = {long}", *(each.replace(long, name) for each in made)]
    words = set(re.findall(r"\w+", " ".join(each.partition('"""')[0] for each in made)))
    yield from (f"from {home} import {name}" for home, names in HOMES.items() for name in names if name in words)
    yield from made


def _signature(make: Any, made: str) -> inspect.Signature:
    """The signature of a decorated function, with the types that its knobs declare."""
    parameters = []
    for name, each in inspect.signature(make).parameters.items():
        knob = make.knobs.get(name)
        declared = getattr(knob, "kind", "") + " | None" * getattr(knob, "optional", False)
        # A page may do without `from __future__ import annotations`.
        own = each.annotation if isinstance(each.annotation, str) else inspect.formatannotation(each.annotation)
        written = SHARED.get(name, "Any") if own == "Any" else own
        optional = " | None" * (written == SHARED["aggregator"] and each.default is None)
        parameters.append(each.replace(annotation=_Text(declared or written + optional)))
    return inspect.Signature(parameters, return_annotation=_Text(made))


def _summary(value: Any) -> str:
    return (inspect.getdoc(value) or "").partition("\n")[0]


def _formatted(package: str, text: str) -> str:
    """A text as ruff lays it out."""
    for words in (["check", "--select", "I", "--fix-only", "--quiet"], ["format", "--quiet"]):
        command = [sys.executable, "-m", "ruff", *words, "--stdin-filename", str(path(package)), "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return text


def differences() -> list[str]:
    """What `mypy.stubtest` says of the stubs, a line each; what they import is not followed, mypy itself reads it."""
    stubtest, options = importlib.import_module("mypy.stubtest"), importlib.import_module("mypy.options").Options()
    options.incremental, options.follow_imports = False, "skip"
    names = stubtest.build_stubs(list(stubs()), options)
    return [error.get_description(concise=True) for name in names for error in stubtest.test_module(name)]


def main(words: list[str] | None = None) -> int:
    """Exit status: 0 done; 1 something is not up to date, or not what Python has."""
    parser = argparse.ArgumentParser(prog="python -m docs.stubs", description="Write the stubs of packages.")
    parser.add_argument("--check", action="store_true", help="change nothing; status 1 where something is out of date")
    if checks.options(parser, words).check:
        wrong = [f"{name}: out of date; run `python -m docs.stubs`" for name in stale()] or differences()
        print("\n".join(wrong) or "stubs: up to date")
        return 1 if wrong else 0
    for name, text in stubs().items():
        path(name).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
