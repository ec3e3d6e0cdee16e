"""Parts from outside the package: an object of a user's file or module, and what other packages register."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from asyncsim.base import checks

FORM = "write module:name or path/to/file.py:name"


def loaded(target: str, field: str = "target") -> Any:
    """The object that module:name (or file.py:name) names; `field` is what messages call it.

    Raises `InputError` for another form, a file that does not exist or cannot be imported, or a name it does not have.

    >>> loaded("math:pi")
    3.141592653589793
    """
    place, colon, name = target.rpartition(":")
    checks.require(bool(colon and place and name), field, target, "of the form module:name", FORM)
    part = _file(Path(place), field) if place.endswith(".py") else _module(place, field)
    for step in name.split("."):
        known = [each for each in vars(part) if not each.startswith("_")] if hasattr(part, "__dict__") else []
        remedy = f"it has {', '.join(known[:10]) or 'nothing public'}"
        checks.require(hasattr(part, step), field, target, f"a name in {place}", remedy)
        part = getattr(part, step)
    return part


def registered(package: str) -> dict[str, str]:
    """Names that installed packages register for a plug-in folder, each with its module:name.

    The group of entry points is the folder's own name: `[project.entry-points."asyncsim.methods"]`.
    """
    points = importlib.metadata.entry_points(group=package)
    return {point.name.replace("-", "_"): point.value for point in points}


def _file(path: Path, field: str) -> Any:
    checks.require(path.is_file(), field, str(path), "a file that exists", FORM)
    spec = importlib.util.spec_from_file_location(f"outside_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    loader, module = spec.loader, importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for their module
    _imported(str(path), field, lambda: loader.exec_module(module))
    return module


def _module(name: str, field: str) -> Any:
    # As with `python -m`: modules of the folder in which one stands are found.
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    return _imported(name, field, lambda: importlib.import_module(name))


def _imported(name: str, field: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except (Exception, SystemExit) as error:
        bound = f"a module that can be imported ({type(error).__name__}: {error})"
        raise checks.InputError(field, name, bound, FORM) from error
