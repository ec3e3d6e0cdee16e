"""What measurements of claims share, loaded when it is first used: plants, runs and searches on the product.

Names of the modules in `GENERAL` are reached as `lab.NAME`, others as `lab.MODULE.NAME`.
"""

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # so that digests of claims reach them
    from asyncsim.claims.lab import chains, parts, plants, runs, sequences, threshold, windows

GENERAL = ("windows", "plants", "runs", "parts", "sequences", "chains", "threshold")


def __getattr__(name: str) -> Any:
    if name in {each.name for each in pkgutil.iter_modules(__path__)}:
        return importlib.import_module(f"{__name__}.{name}")
    for module in GENERAL:
        if hasattr(home := importlib.import_module(f"{__name__}.{module}"), name):
            # Metrics of a run read such names at every update.
            return globals().setdefault(name, getattr(home, name))
    raise AttributeError(f"{__name__} has no {name!r}")
