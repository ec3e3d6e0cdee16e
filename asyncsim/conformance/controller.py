"""Calls to an admission controller, and the mapping to controllers with other method names."""

import difflib
import inspect
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from asyncsim.base import checks

NEEDED = ("capacity", "submitted", "accepted")
OPTIONAL = ("rejected", "failed", "dropped", "consumed", "published", "recovered", "version")
COUNTED = ("submitted", "accepted", "rejected", "failed", "dropped", "consumed")
"""Events of n groups; a method without arguments is called once for each."""

Names = Mapping[str, "str | Callable[..., Any] | None"]


class Controller(Protocol):
    """Interface of an admission controller: how many groups may be submitted; methods that report events are optional.

    `rejected(n)`: running groups finished and are not used. `failed(n)`: running groups came to nothing (`rejected`
    where there is no such method). `dropped(n)`: accepted groups leave without being trained. `consumed(n)`: a batch of
    n groups begins to train. `published(version)`: the generators have the weights of this version. `recovered(version,
    kept)`: the controller is new after a crash, training goes on from this version, nothing runs, `kept` accepted
    groups are still there. `version()`: the version that it believes in.
    """

    def capacity(self) -> int:
        """Number of groups that may be submitted now; the method may take the current version."""

    def submitted(self, n: int) -> None:
        """Called when n groups start to run."""

    def accepted(self, n: int) -> None:
        """Called when n running groups have finished and wait for training."""


class Hooks:
    """The methods of one controller, by their names in `Controller`."""

    def __init__(self, controller: Any, names: Names) -> None:
        checks.each_of("names", names, (*NEEDED, *OPTIONAL), "map the calls of a Controller to your method names")
        kind = type(controller).__name__
        self._left_out = {name for name, target in names.items() if target is None}
        self._methods: dict[str, tuple[Callable[..., Any], int, float]] = {}
        for name in (*NEEDED, *OPTIONAL):
            target = names.get(name, name)
            if target is None:
                continue
            function = target if callable(target) else getattr(controller, target, None)
            bound, remedy = f"a method of {kind}", "name one that exists, or give a function"
            checks.require(callable(function) or name not in names, f"names[{name!r}]", target, bound, remedy)
            remedy = f"give names={{{name!r}: a function that runs the coroutine to its end}}"
            plain = not inspect.iscoroutinefunction(function)
            checks.require(plain, "controller", f"{kind}.{target}", "a plain method", remedy)
            if callable(function):
                call = partial(function, controller) if callable(target) else function
                needed, most = _arity(function, leading=callable(target))
                bound, remedy = "a method without an argument", "one that is told the version is names published=METHOD"
                checks.require(name != "version" or not needed, "controller", f"{kind}.{target}", bound, remedy)
                self._methods[name] = (call, needed, most)
        meant = {call: method for method, call in uncalled(controller, names).items()}
        lacks = {name: meant.get(name, "your_method") for name in NEEDED if name not in self._methods}
        typed = " ".join(f"--names {name}={method}" for name, method in lacks.items())
        remedy = f"give names={lacks}, on the command line {typed}"
        remedy += "; capacity is how many groups may be submitted now (docs/admission-controllers.md)"
        if {*lacks.values()} == {"your_method"} and len(lacks) == len(NEEDED):
            remedy = f"only what admits groups is checked, no buffer (its log: asyncsim log FILE); else {remedy}"
        checks.require(not lacks, "controller", kind, f"an object with a method {', '.join(lacks)}", remedy)
        self.fails = "failed" in self._methods
        if not self.fails and "rejected" in self._methods:
            self._methods["failed"] = self._methods["rejected"]

    def has(self, name: str) -> bool:
        """Whether the controller implements a method of this name."""
        return name in self._methods

    def recovers(self) -> bool:
        """Whether the controller learns of a crash, from `recovered` or from the version that it gets."""
        return self.has("recovered") or (self._methods["capacity"][1] > 0 and "recovered" not in self._left_out)

    def takes_kept(self) -> bool:
        """Whether `recovered` takes the amount of data that was kept."""
        return self.has("recovered") and self._methods["recovered"][2] >= 2

    def capacity(self, version: int) -> Any:
        """Return the controller's capacity at this version."""
        function, needed, _ = self._methods["capacity"]
        return function(version) if needed else function()

    def version(self) -> Any:
        """Return the version that the controller takes for the current one."""
        return self._methods["version"][0]()

    def tell(self, event: str, *values: int) -> None:
        """Report an event to the controller, with as many of the values as its method takes."""
        if event not in self._methods:
            return
        function, _, most = self._methods[event]
        if event in COUNTED and most == 0:
            for _ in range(values[0]):
                function()
        else:
            function(*values[: int(min(most, len(values)))])


def uncalled(controller: Any, names: Names) -> dict[str, str]:
    """Public methods of a controller that no check calls, each with the call it resembles ("" for none)."""
    calls = (*NEEDED, *OPTIONAL)
    used = {names.get(call, call) for call in calls}
    free = [call for call in calls if call not in names and not callable(getattr(controller, call, None))]
    own = [name for name in dir(type(controller)) if not name.startswith("_") and name not in used]
    found = {}
    for name in own:
        if inspect.isroutine(inspect.getattr_static(type(controller), name)):
            words = set(name.lower().split("_"))
            near = [call for call in free if words & set(checks.NAMES["controller"].get(call, ()))]
            best = (near or difflib.get_close_matches(name, free, 1, 0.75) or [""])[0]
            # A version that a method takes is one that it is told.
            told = best == "version" and _arity(getattr(controller, name), leading=False)[0] > 0
            found[name] = "published" * ("published" in free) if told else best
    return found


def _arity(function: Callable[..., Any], *, leading: bool) -> tuple[int, float]:
    """Minimum and maximum number of positional arguments of a function, without the controller if that comes first."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0, math.inf
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = sum(p.default is p.empty for p in positional)
    most = math.inf if any(p.kind is p.VAR_POSITIONAL for p in parameters) else float(len(positional))
    return max(needed - leading, 0), max(most - leading, 0.0)
