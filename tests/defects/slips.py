"""Slips: a piece of a function's source replaced by what a hurried maintainer would have written.

The file is compiled with the piece replaced, and the function gets the code of the result while the plant is in force:
wherever the function has been imported to, it is the wrong one.
"""

import functools
import importlib
import inspect
import sys
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from numba.core.dispatcher import Dispatcher

from tests.defects.plants import PLANTS, Patches, Plant

ANEW = "written for the map"


def slip(number: int, component: str, what: str, where: str, *pieces: str, killer: str, seen: str = ANEW) -> None:
    """Enter a plant: `where` is module:function, `pieces` what stands there and what replaces it, in turns."""
    assert number not in PLANTS and len(pieces) % 2 == 0, number
    changes = tuple(zip(pieces[::2], pieces[1::2], strict=True))
    PLANTS[number] = Plant(number, component, what, seen, lambda: edited(named(where), changes), killer)


def named(where: str) -> Any:
    """The object that module:name names, as its class or module holds it."""
    module, _, name = where.partition(":")
    holder: Any = importlib.import_module(module)
    *classes, last = name.split(".")
    for each in classes:
        holder = getattr(holder, each)
    return vars(holder)[last]


def plain(part: Any) -> FunctionType:
    """The Python function behind a property, a cached value, a metric or a compiled function."""
    for name in ("fget", "func", "measure", "__wrapped__", "py_func"):
        inner = getattr(part, name, None)
        if inner is not None and not isinstance(part, FunctionType):
            return plain(inner)
    inner = getattr(part, "__wrapped__", None)
    return plain(inner) if inner is not None else part


def edited(part: Any, changes: Iterable[tuple[str, str]]) -> Patches:
    """Patches that give the function its new code, and a compiled one its new machine code, which is not kept."""
    function = plain(part)
    code = _changed(function, changes)
    if not isinstance(part, Dispatcher):
        return [(function, "__code__", code)]
    import numba

    options = {name: value for name, value in part.targetoptions.items() if name not in ("boundscheck", "nopython")}
    wrong = numba.njit(**options)(FunctionType(code, function.__globals__, function.__name__))
    ours = [module for name, module in sys.modules.items() if name.partition(".")[0] in ("asyncsim", "tests")]
    return [(module, key, wrong) for module in ours for key, value in list(vars(module).items()) if value is part]


def _changed(function: FunctionType, changes: Iterable[tuple[str, str]]) -> CodeType:
    path, right = Path(inspect.getsourcefile(function)), function.__code__
    source = path.read_text(encoding="utf-8")
    text = "".join(inspect.getsourcelines(right)[0])
    wrong = functools.reduce(_replaced, changes, text)
    first = sum(map(len, source.splitlines(keepends=True)[: right.co_firstlineno - 1]))
    assert source[first:].startswith(text), function
    whole = compile(source[:first] + wrong + source[first + len(text) :], str(path), "exec", dont_inherit=True)
    return next(each for each in _codes(whole) if _place(each) == _place(right))


def _replaced(text: str, change: tuple[str, str]) -> str:
    right, wrong = change
    assert text.count(right) == 1, f"{text.count(right)} times: {right}\n{text}"
    return text.replace(right, wrong)


def _codes(code: CodeType) -> list[CodeType]:
    inner = [each for value in code.co_consts if isinstance(value, CodeType) for each in _codes(value)]
    return [code, *inner]


def _place(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno
