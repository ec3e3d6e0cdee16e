"""Parts from outside the package: objects in a user's file or module, and parts registered by other packages.

The text module:name or file.py:name refers to code. It runs if the user names it in a program or a command. If a file
names it, it runs only if the user trusts it.
"""

import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from asyncsim.base import checks

FORM = "write module:name or path/to/file.py:name"
NAMED = re.compile(r"(.+):[A-Za-z_][\w.]*", re.DOTALL)
"""The text of a module or file and the name of an object in it."""
_TRUSTED: ContextVar[frozenset[str] | None] = ContextVar("trusted", default=None)
"""Code that the file being read may name; None: no file is being read."""


@contextmanager
def trusting(places: Sequence[str] | None) -> Iterator[None]:
    """Context that treats specs as read from a file, which may name only the code at `places` (None: no change).

    >>> with trusting(["math:pi"]):
    ...     loaded("math:pi")
    3.141592653589793
    """
    listed = places is None or (not isinstance(places, str) and all(isinstance(each, str) for each in places))
    checks.require(listed, "trust", places, "a list of places", "write trust=['my.py:name']")
    before = _TRUSTED.set(_TRUSTED.get() if places is None else frozenset(map(_full, places)))
    try:
        yield
    finally:
        _TRUSTED.reset(before)


def permit(target: str, field: str) -> None:
    """Raise `InputError` if a file names code that the user does not trust."""
    trusted = _TRUSTED.get()
    remedy = f"read what it does, then add --trust {target}, or trust=[{target!r}] in Python"
    checks.require(trusted is None or _full(target) in trusted, field, target, "trusted, as a file names it", remedy)


def _full(target: str) -> str:
    """The same text with the real path of its file."""
    place, _, name = target.rpartition(":")
    return f"{os.path.realpath(place)}:{name}" if place.endswith(".py") else target


def texts(value: Any) -> Iterator[str]:
    """All strings in a JSON value, including keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for each in [*value, *value.values()] if isinstance(value, Mapping) else value:
            yield from texts(each)


def loaded(target: str, field: str = "target", installed: bool = False) -> Any:
    """Load the object that module:name or file.py:name refers to; `field` is its name in messages.

    Raises `InputError` for another form, a file that does not exist or cannot be imported, an unknown name, or code
    that a file names without the user's trust, unless an `installed` package registers it.
    """
    place, colon, name = target.rpartition(":")
    file = re.sub(r"(\.py)?(::|\.)(?=\w+$)", ".py:", target)
    if not (colon and place and name) or "::" in target:
        meant = defined(target) or [file] * Path(file.partition(":")[0]).is_file()
        remedy = f"write {' or '.join(meant[:5])}" if meant else FORM
        raise checks.InputError(field, target, "of the form module:name", remedy)
    if not installed:
        permit(target, field)
    if place.endswith(".py"):
        path = Path(place)
        here = sorted(str(each) for each in Path().glob("*.py"))[:5]
        remedy = f"here is {', '.join(here)}" if here else "give its path: there is no file of Python here"
        checks.require(path.is_file(), field, str(path), "a file that exists", remedy)
        spec = importlib.util.spec_from_file_location(f"outside_{path.stem}", path)
        assert spec is not None
        part = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = part  # where dataclasses look for their module
        # As Python does for a script: a file finds those beside it, also later, inside its functions.
        if str(path.parent.resolve()) not in sys.path:
            sys.path.append(str(path.parent.resolve()))
        # From the text, whose digest is stored: Python's cache takes an edit of equal length for none within a second.
        _imported(str(path), field, lambda: exec(compile(path.read_bytes(), str(path), "exec"), vars(part)))
    else:
        find_here()
        part = _imported(place, field, lambda: importlib.import_module(place))
    for step in name.split("."):
        own = vars(part) if hasattr(part, "__dict__") else {}
        known = [each for each in own if not each.startswith("_") and not isinstance(own[each], ModuleType)]
        # What a file defines before what it imports.
        known.sort(key=lambda each: getattr(vars(part)[each], "__module__", "") != getattr(part, "__name__", ""))
        remedy = checks.hint(step, known, f"it has {', '.join(known[:10]) or 'nothing public'}")
        checks.require(hasattr(part, step), field, target, f"a name in {place}", remedy)
        part = getattr(part, step)
    return part


def defined(word: str) -> list[str]:
    """Objects in the user's file of that name, or of that name in files beside it, as file.py:name; no code is run."""
    files = [path for path in sorted(Path(word).parent.glob("*.py")) if path.is_file() and os.access(path, os.R_OK)]
    texts = {str(path): path.read_text(encoding="utf-8", errors="replace") for path in files}
    places = [f"{path}:{name}" for path in texts for name in re.findall(r"(?m)^(?:class|def) +(\w+)", texts[path])]
    return [each for each in places if each.startswith((f"{word}:", f"{word}.py:")) or each.endswith(f":{word}")]


def find_here() -> None:
    """Put the working directory on the path of modules, as `python -m` does."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def registered(package: str) -> dict[str, str]:
    """Names that installed packages register for a plug-in folder, each with its module:name.

    The group of entry points has the folder's name: `[project.entry-points."asyncsim.methods"]`. While a file is read,
    packages in the working directory count as other files, not as installed.
    """
    points = list(importlib.metadata.entry_points(group=package))
    if _TRUSTED.get() is not None:
        here = os.path.realpath(".")
        points = [each for each in points if each.dist and os.path.realpath(str(each.dist.locate_file(""))) != here]
    return {point.name.replace("-", "_"): point.value for point in points}


def _imported(name: str, field: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except (Exception, SystemExit) as error:
        raise user_error(error, field, name, "a module that can be imported", FORM) from error


def user_error(error: BaseException, field: str, value: Any, bound: str, remedy: str) -> checks.InputError:
    """An `InputError` that names the line of a user's file that raised; `remedy` is used if no such line is known."""
    kind = AttributeError if isinstance(error, AttributeError) else type(error)
    text = " ".join(f"{kind.__name__}: {error}".split()).removesuffix(":")
    return checks.InputError(field, value, f"{bound} ({text})", fix(error) or remedy)


def fix(error: BaseException) -> str:
    """Line of a user's file that raised an error, as a remedy; "" if no such line is known."""
    return "".join(f"fix line {at.tb_lineno} of {_file(at)}{_meant(error, at)}" for at, _ in _own(error)[-1:])


def part_error(error: Exception) -> Exception:
    """An `InputError` for an exception in a user's part: its place and line, and what this kind gets and returns.

    Other exceptions are returned as they are. The traceback of the cause then begins at the user's code.
    """
    own = [] if isinstance(error, (checks.InputError, checks.RunError)) else _own(error)
    for at, caller in own[:1]:
        # The kind is known by the classes of `self` and its method, or by the module that called a function.
        code, part = at.tb_frame.f_code, at.tb_frame.f_locals.get("self")
        words = [kind.__name__ for kind in type(part).__mro__] if part is not None else []
        words += [code.co_name, caller] if part is not None else [caller]
        name, _, method = code.co_qualname.rpartition("<locals>.")[2].partition(".")
        for kind, says in (known.split(" | ") for known in (checks.advice(word, "own") for word in words) if known):
            refused = user_error(error, kind, f"{_file(at)}:{name}", f"able to run {method}".rstrip(), "")
            refused.add_note(says)
            refused.__cause__ = error.with_traceback(at)
            return refused
    return error


def made_by(subject: Any) -> str:
    """The kind of part that a class or function makes, by its methods: link, penalty or factor; else ""."""
    body = inspect.unwrap(subject) if callable(subject) else subject
    known = {"link": "apply", "penalty": "score_weight", "factor": "factor"}
    return next((kind for kind, own in known.items() if hasattr(body, own) and not hasattr(body, "forward")), "")


def kind_of(part: str) -> tuple[str, str]:
    """Name of a kind of part, and what a part of this kind receives and returns."""
    kind, says = checks.advice(f"kind={part}", "own").split(" | ")
    return kind, says


def _own(error: BaseException) -> list[tuple[TracebackType, str]]:
    """Steps of a traceback in a user's files, each with the module of the package that was entered last."""
    libraries = (os.path.dirname(os.__file__), "<frozen")
    at, caller, found = error.__traceback__, "", []
    while at is not None:
        file, module = at.tb_frame.f_code.co_filename, f"{at.tb_frame.f_globals.get('__name__')}."
        if module.startswith("asyncsim."):
            caller = Path(file).stem
        elif not (file.startswith(libraries) or "importlib" in file or "site-packages" in file):
            found.append((at, caller))
        at = at.tb_next
    return found


def _file(at: TracebackType) -> str:
    return at.tb_frame.f_code.co_filename.removeprefix(os.getcwd() + os.sep)


def _meant(error: BaseException, at: TracebackType) -> str:
    """What an attribute that does not exist may mean: that of another local variable, or one of a similar name."""
    name, of = getattr(error, "name", None), getattr(error, "obj", None)
    if "'Tensor' object is not callable" in str(error):
        return ": a value of step has no (), as step.share; a mean over tokens is step.token_mean(values)"
    if not (isinstance(error, AttributeError) and name):
        return ""
    known = ((local, holder(value, name)) for local, value in at.tb_frame.f_locals.items())
    held = next((f"{local}.{place}" for local, place in known if place), "")
    fields = [each for each in getattr(of, "_fields", dir(of)) if _of(of, "asyncsim.") and each[0] != "_"]
    alike = checks.hint(name, fields, f"it has {checks.clipped(', '.join(fields), 900)}" if fields else "")
    return f": write {held}" if held else alike and f": {alike}"


def holder(value: Any, name: str) -> str:
    """The path of an attribute in an object of the package or in its fields, such as step.staleness; else ""."""
    ours = {"": value, **{f"{each}.": x for each, x in getattr(value, "__dict__", {}).items()}}
    rooms = ("asyncsim.updates.", "asyncsim.step.", "asyncsim.methods.")
    return next((f"{each}{name}" for each, x in ours.items() if _of(x, *rooms) and name in dir(x)), "")


def _of(value: Any, *rooms: str) -> bool:
    return f"{type(value).__module__}.".startswith(rooms)
