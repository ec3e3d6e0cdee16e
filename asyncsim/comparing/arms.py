"""The arms of a comparison: specs that differ in something, may be paired, and have names."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from asyncsim.base import checks, knobs, notation, plugins
from asyncsim.base.records import Schedule, plain
from asyncsim.running.spec import Spec


def named(arms: Sequence[Any]) -> dict[str, Spec]:
    """Specs by name: the names given, else those of methods or systems where all differ, else letters.

    Raises `InputError` for fewer than two arms, arms that are no specs, that differ in nothing or that do not pair.
    """
    if len(arms) == 1 and isinstance(arms[0], (list, tuple)):
        arms = arms[0]
    if len(arms) == 1 and isinstance(arms[0], Mapping):
        specs = {str(name): spec for name, spec in arms[0].items()}
    else:
        specs = dict(zip(_names(arms), arms, strict=True))
    checks.require(len(specs) > 1, "arms", len(specs), "two or more", "write sim.compare(a, b, ...)")
    for name, spec in specs.items():
        checks.require(isinstance(spec, Spec), f"arm {name}", spec, "a Spec", "write sim.Spec(task, system, ...)")
        several = sorted(knobs.lengths(spec.method) | knobs.lengths(spec.update))
        remedy = "give each arm one setting; compare tunes its learning rate itself"
        checks.require(not several, f"arm {name}", f"a knob of {several} values", "one number per knob", remedy)
        saved = isinstance(spec.system, Schedule) and spec.system.realizations > 1
        remedy = "compare on one realization, or on the system that drew them"
        checks.require(not saved, f"system of arm {name}", "a saved schedule of several realizations", "one", remedy)
        rows = np.ndim(spec.initial) if spec.initial is not None else 1
        checks.require(rows == 1, f"initial of arm {name}", np.shape(spec.initial), "one row [P]", "give all one start")
    _refuse_equal(specs)
    (first, base), *others = specs.items()
    for name, spec in others:
        remedy = "use one task for all arms; other tasks go into tasks="
        same = content(spec.task) == content(base.task)
        checks.require(same, f"task of arm {name}", "another", f"that of arm {first}", remedy)
        wanted, lengths = ((each.updates, each.every) for each in (base, spec))
        bound, remedy = f"{wanted}, as of arm {first}", "give all arms the same updates and every"
        checks.require(lengths == wanted, f"updates, every of arm {name}", lengths, bound, remedy)
    return specs


def _names(arms: Sequence[Any]) -> list[str]:
    """What differs between the arms in fewest words, else letters."""
    specs = [arm for arm in arms if isinstance(arm, Spec)]
    names = short_names(specs) if len(specs) == len(arms) else []
    return names or [chr(ord("a") + k) for k in range(len(arms))]


def short_names(specs: Sequence[Spec]) -> list[str]:
    """Names of the methods or of the systems, where each arm has its own; else nothing."""
    headers = [spec.describe() for spec in specs]
    methods = [str(header["method"]) for header in headers]
    systems = [str(plugins.name_of(spec.system)) for spec in specs]
    return next((names for names in (methods, systems) if len(set(names)) == len(names)), [])


def caution(metric: str, specs: Mapping[str, Spec]) -> str:
    """What a reading adds: samples that its metric takes, or that of these arms it is not the trained policies."""
    base, *others = specs.values()
    if metric == notation.TRAINED and base.evaluation is not None:
        return f", {base.evaluation}"
    ages: dict[str, Callable[[Spec], Any]] = {
        "system": lambda spec: content(spec.system),
        "updates on a batch": lambda spec: (spec.rounds, spec.parts),
        "late rewards": lambda spec: content(spec.rewards),
    }
    unlike = [name for name, age in ages.items() if any(age(each) != age(base) for each in others)]
    if metric not in notation.BEHAVIOR or not unlike:
        return ""
    return f"; the arms differ in {', '.join(unlike)}, so this compares policies of different age, not those trained"


def content(value: Any) -> Any:
    """What a value is made of, comparable: `repr` leaves out the middle of long arrays, laws and systems.

    >>> import numpy as np
    >>> one, other = np.zeros(2000), np.zeros(2000)
    >>> other[1000] = 1.0
    >>> repr(one) == repr(other), content(one) == content(other)
    (True, False)
    """
    if isinstance(value, (np.ndarray, Tensor)):
        array = np.asarray(value.detach().cpu() if isinstance(value, Tensor) else value)
        return ("array", array.dtype.str, array.shape, array.tobytes() if array.dtype.kind != "O" else repr(array))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value), [content(getattr(value, f.name)) for f in dataclasses.fields(value) if f.compare]
    if isinstance(value, functools.partial):
        return "partial", value.func, content(value.args), content(value.keywords)
    if isinstance(value, Mapping):
        return "mapping", [(key, content(each)) for key, each in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [content(each) for each in value]
    return repr(value)


def _refuse_equal(arms: Mapping[str, Spec]) -> None:
    seen: list[tuple[str, Any]] = []
    for name, spec in arms.items():
        parts = (spec.task, spec.system, spec.method, spec.update, spec.policy)
        sizes = (spec.samples_per_group, spec.updates, spec.passes, spec.sampling, spec.precision, spec.micro_batches)
        initial = None if spec.initial is None else np.asarray(spec.initial).tolist()
        # All that a spec depends on, comparable: two of one meaning give the same numbers.
        meaning = content(parts), sizes, plain(spec.describe()), initial
        twin = next((other for other, known in seen if known == meaning), None)
        remedy = "change what you want to know about: method, update, system"
        checks.require(twin is None, f"arm {name}", f"as {twin}", "different from every other arm", remedy)
        seen.append((name, meaning))
