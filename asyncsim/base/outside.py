"""Parts from outside the package: objects in a user's file or module, and parts registered by other packages.

The text module:name or file.py:name refers to code. It runs if the user names it in a program or a command. If a file
names it, it runs only if the user trusts it.
"""

import importlib
import importlib.metadata
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from asyncsim.base import checks

FORM = "write module:name or path/to/file.py:name"
NAMED = re.compile(r"(.+):[A-Za-z_][\w.]*", re.DOTALL)
"""The text of a module or file and the name of an object in it."""
_TRUSTED: ContextVar[frozenset[str] | None] = ContextVar("trusted", default=None)
"""Code that the file being read may name; None: no file is being read."""


@contextmanager
def trusting(places: Sequence[str] | None) -> Iterator[None]:
    """Mark what is read inside as content of a file, which may name only this code (None: as outside the context).

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
    """Raise `InputError` for code that a file names and the user does not trust."""
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

    >>> loaded("math:pi")
    3.141592653589793
    """
    place, colon, name = target.rpartition(":")
    if not (colon and place and name):
        remedy = f"write {' or '.join(defined(target)[:5])}" if defined(target) else FORM
        raise checks.InputError(field, target, "of the form module:name", remedy)
    if not installed:
        permit(target, field)
    if place.endswith(".py"):
        path = Path(place)
        checks.require(path.is_file(), field, str(path), "a file that exists", FORM)
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
        known = [each for each in vars(part) if not each.startswith("_")] if hasattr(part, "__dict__") else []
        remedy = f"it has {', '.join(known[:10]) or 'nothing public'}"
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
    """An `InputError` that names the line of a user's file that raised, with `remedy` where no such line is known."""
    packages = (str(Path(__file__).parents[1]), os.path.dirname(os.__file__), "<frozen")
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(packages)]
    own = [f for f in frames if "importlib" not in f.filename and "site-packages" not in f.filename]
    text = " ".join(f"{type(error).__name__}: {error}".split())
    remedy = f"fix line {own[-1].lineno} of {own[-1].filename}" if own else remedy
    return checks.InputError(field, value, f"{bound} ({text})", remedy)
