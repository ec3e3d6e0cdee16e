"""The settings of a sweep: structures that are built one by one, and numeric knobs that are vectorized."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asyncsim.base import calls, checks, plugins
from asyncsim.comparing import settings
from asyncsim.comparing.tuning import set_knob
from asyncsim.running.spec import Spec

RIDERS = 16
"""Number of knob settings in one unit."""
STRUCTURES = ("task.", "system.", "schedule.", "model.", "policy.")
"""Prefixes of arguments that are not knobs."""


@dataclass(frozen=True)
class Cell:
    """One combination of a grid's structural settings: their values by name, as in tables, and its `Spec` or system."""

    setting: dict[str, settings.Scalar]
    subject: Any

    @property
    def name(self) -> str:
        """Name of the structure in messages: its values by setting."""
        return ", ".join(f"{name}={value}" for name, value in self.setting.items()) or "this spec"


@dataclass(frozen=True)
class Grid:
    """All settings of a sweep: `structures` by name (label -> value), and vectorized numeric `knobs` by name."""

    structures: dict[str, dict[settings.Scalar, Any]]
    knobs: dict[str, tuple[float, ...]]
    build: Callable[[dict[str, Any]], Any]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the grid's settings, structures first."""
        return (*self.structures, *self.knobs)

    @property
    def size(self) -> int:
        """Number of settings in the grid."""
        return math.prod([len(v) for v in (*self.structures.values(), *self.knobs.values())])

    def labels(self) -> Iterator[tuple[settings.Scalar, ...]]:
        """Labels of the structural settings in every combination of the grid."""
        return itertools.product(*self.structures.values())

    def cells(self) -> Iterator[Cell]:
        """All structures in the grid, the last name fastest; raises `InputError` with a setting if parts do not fit."""
        for values in itertools.product(*(each.items() for each in self.structures.values())):
            chosen = dict(zip(self.structures, values, strict=True))
            setting = {name: label for name, (label, _) in chosen.items()}
            try:
                subject = self.build({name: value for name, (_, value) in chosen.items()})
                settings.once({name: settings.grid_knob(subject, name) for name in self.knobs})
                for name, numbers in self.knobs.items():
                    for number in numbers:
                        set_knob(subject, settings.grid_knob(subject, name), number, subject.replicates)
            except checks.InputError as error:
                if not setting:
                    raise
                where = f"{error.field} at {Cell(setting, None).name}"
                raise checks.InputError(where, error.value, error.bound, error.remedy) from None
            yield Cell(setting, subject)

    @property
    def riders(self) -> list[list[dict[str, float]]]:
        """All combinations of the vectorized knobs, as one list per unit of work."""
        every = [dict(zip(self.knobs, each, strict=True)) for each in itertools.product(*self.knobs.values())]
        return [every[k : k + RIDERS] for k in range(0, len(every), RIDERS)]


def grid_of(subject: Any, given: Any, samples: int = 1) -> Grid:
    """The grid over a spec or a system, from a mapping of names to values.

    A name is a field of `Spec` (method, task, updates), "staleness", an argument of a part (task.arms, system.load,
    adam.beta1), or a knob ("lr", "sgd.lr", "method.cap"). Knobs of a spec with numeric values are vectorized over
    replicates. A mapping from labels to values names parts. If a system's training time follows from its `load`, the
    time for groups of `samples` samples is kept, which would otherwise change with the grid.
    """
    checks.require(isinstance(given, Mapping) and bool(given), "grid", given, "values by name", settings.REMEDY)
    values = {str(name): settings.by_label(str(name), each) for name, each in given.items()}
    settings.once({name: settings.full_name(name) for name in values})
    if not isinstance(subject, Spec):
        return system_grid(subject, values, samples)

    def build(chosen: dict[str, Any]) -> Spec:
        spec = subject
        for name in settings.whole_first(chosen):
            spec = settings.with_setting(spec, name, chosen[name])
        return spec

    structure = {*settings.FIELDS, "staleness"}
    maybe = [name for name in values if name not in structure and not name.startswith(STRUCTURES)]
    return arranged(values, build, maybe)


def arranged(
    values: dict[str, dict[settings.Scalar, Any]], build: Callable[[dict[str, Any]], Any], maybe: Sequence[str]
) -> Grid:
    """Grid whose numeric knobs are vectorized: the names in `maybe` that are knobs of the first structure."""
    own = next((name for name in values if name in settings.OWN), None)
    remedy = "a sweep stores one metric: write --metric NAME" if own == "diagnostics" else "leave it out"
    checks.require(own is None, "grid", own, "a setting that the sweep does not choose itself", remedy)
    for name, each in values.items():
        settings.by_label(name, each)
    spec = build({name: next(iter(each.values())) for name, each in values.items() if name not in maybe})
    riding = {name for name in maybe if settings.has_knob(spec, name)}
    remedy, knobs = "give a number for each value of a knob", dict[str, tuple[float, ...]]()
    for name in (name for name in values if name in riding):
        odd = [label for label in values[name] if not checks.is_number(label)]
        checks.require(not odd, f"grid {name}", odd[:1], "numbers", remedy)
        knobs[name] = tuple(checks.real(f"grid {name}", label, remedy, finite=False) for label in values[name])
    return Grid({name: each for name, each in values.items() if name not in riding}, knobs, build)


def system_grid(system: Any, values: dict[str, dict[settings.Scalar, Any]], samples: int) -> Grid:
    """Grid over arguments of a system, with all other settings fixed."""
    made = calls.of(system)
    clocked = {"load", "train_time"} & {name.removeprefix("system.") for name in values}
    if made is not None and made.arguments.get("load") is not None and not clocked:
        rows = {name: each for name, each in calls.written("system", system)[made.name].items() if name != "load"}
        timed = {**rows, "train_time": system.mean_train_time(samples)}
        system = calls.read("system", {made.name: timed}, plugins.function)

    def build(chosen: dict[str, Any]) -> Any:
        changed = system
        for name in settings.whole_first(chosen):
            changed = settings.remade(name, changed, name.removeprefix("system."), chosen[name])
        return changed

    return Grid(values, {}, build)
