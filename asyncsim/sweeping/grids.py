"""The settings of a sweep: structures that are built one after another, and knobs that ride as replicates."""

import dataclasses
import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from asyncsim.base import calls, checks, knobs, plugins
from asyncsim.comparing.tuning import knob_of, set_knob
from asyncsim.running.spec import Spec
from asyncsim.updates._link import Chain

RIDERS = 16
"""Settings of knobs that ride in one unit."""
REMEDY = "give at least one value for each name, such as {'staleness': [0, 4, 16], 'sgd.lr': [0.1, 0.2]}"
OWN = ("replicates", "realizations", "diagnostics", "block")
"""Fields of a spec that a sweep sets itself, so that values of a grid would be shown and not run."""
FIELDS = [field.name for field in dataclasses.fields(Spec)]
STRUCTURES = ("task.", "system.", "schedule.", "model.", "policy.")
"""Beginnings of names of arguments that are no knobs."""
Scalar = bool | int | float | str | None
_knob = partial(knob_of, field="grid", whose="the spec")


@dataclass(frozen=True)
class Cell:
    """One structure: its values by name, as a table shows them, and what is run there (a `Spec` or a system)."""

    setting: dict[str, Scalar]
    subject: Any

    @property
    def name(self) -> str:
        """What messages call it."""
        return ", ".join(f"{name}={value}" for name, value in self.setting.items()) or "this spec"


@dataclass(frozen=True)
class Grid:
    """All settings: `structures` by name (shown value -> value), and `knobs` by name, whose numbers ride as replicates.

    `build` makes what is run from one value of each structure.
    """

    structures: dict[str, dict[Scalar, Any]]
    knobs: dict[str, tuple[float, ...]]
    build: Callable[[dict[str, Any]], Any]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the settings, structures first."""
        return (*self.structures, *self.knobs)

    @property
    def size(self) -> int:
        """How many settings there are."""
        return math.prod([len(v) for v in (*self.structures.values(), *self.knobs.values())])

    def labels(self) -> Iterator[tuple[Scalar, ...]]:
        """Shown values of every structure."""
        return itertools.product(*self.structures.values())

    def cells(self) -> Iterator[Cell]:
        """Every structure, the last name fastest; each is refused by name where its parts do not fit."""
        for values in itertools.product(*(each.items() for each in self.structures.values())):
            chosen = dict(zip(self.structures, values, strict=True))
            setting = {name: label for name, (label, _) in chosen.items()}
            try:
                subject = self.build({name: value for name, (_, value) in chosen.items()})
                _once({name: _knob(subject, name) for name in self.knobs})
                for name, numbers in self.knobs.items():
                    for number in numbers:
                        set_knob(subject, _knob(subject, name), number, subject.replicates)
            except checks.InputError as error:
                if not setting:
                    raise
                where = f"{error.field} at {Cell(setting, None).name}"
                raise checks.InputError(where, error.value, error.bound, error.remedy) from None
            yield Cell(setting, subject)

    @property
    def riders(self) -> list[list[dict[str, float]]]:
        """Settings of the knobs, a list for each unit."""
        every = [dict(zip(self.knobs, each, strict=True)) for each in itertools.product(*self.knobs.values())]
        return [every[k : k + RIDERS] for k in range(0, len(every), RIDERS)]


def grid_of(subject: Any, given: Any, samples: int = 1) -> Grid:
    """The grid over a spec or a system that a mapping from names to values describes.

    A name is a field of `Spec` (method, task, updates), "staleness", an argument of a part (task.arms, system.load,
    adam.beta1), or a knob ("lr", "sgd.lr", "method.cap"). Knobs of a spec with numbers for values ride as replicates. A
    mapping from labels to values names parts. A system whose training time follows from its `load` keeps the time that
    it has for groups of so many `samples`: what is varied would move it else.
    """
    checks.require(isinstance(given, Mapping) and bool(given), "grid", given, "a mapping that names values", REMEDY)
    values = {str(name): _labelled(str(name), each) for name, each in given.items()}
    _once({name: _argument(name) for name in values})
    if not isinstance(subject, Spec):
        return system_grid(subject, values, samples)

    def build(chosen: dict[str, Any]) -> Spec:
        spec = subject
        for name in _whole_first(chosen):
            spec = with_setting(spec, name, chosen[name])
        return spec

    structure = {*FIELDS, "staleness"}
    maybe = [name for name in values if name not in structure and not name.startswith(STRUCTURES)]
    return arranged(values, build, maybe)


def arranged(
    values: dict[str, dict[Scalar, Any]], build: Callable[[dict[str, Any]], Any], maybe: Sequence[str]
) -> Grid:
    """The grid whose numeric knobs ride: names among `maybe` that the first structure has as knobs."""
    own = next((name for name in values if name in OWN), None)
    remedy = "leave it out; a sweep has its own replicates and metric"
    checks.require(own is None, "grid", own, "a setting that the sweep does not choose itself", remedy)
    spec = build({name: next(iter(each.values())) for name, each in values.items() if name not in maybe})
    riding = {name for name in maybe if _has_knob(spec, name)}
    remedy, knobs = "give a number for each value of a knob", dict[str, tuple[float, ...]]()
    for name in (name for name in values if name in riding):
        odd = [label for label in values[name] if not checks.is_number(label)]
        checks.require(not odd, f"grid {name}", odd[:1], "numbers", remedy)
        knobs[name] = tuple(checks.real(f"grid {name}", label, remedy, finite=False) for label in values[name])
    return Grid({name: each for name, each in values.items() if name not in riding}, knobs, build)


def with_setting(spec: Spec, name: str, value: Any) -> Spec:
    """The spec with one field, one argument of one part, or one knob set.

    >>> import asyncsim as sim
    >>> spec = sim.Spec(sim.tasks.softmax_bandit(), sim.schedules.fixed(2), sim.methods.reinforce(),
    ...                 sim.chain(sim.updates.sgd(0.1)))
    >>> with_setting(spec, "task.arms", 3).task.describe()["actions"], with_setting(spec, "updates", 7).updates
    (3, 7)
    """
    if name in FIELDS:
        return spec.replace(**{name: value})
    place, _, argument = {"staleness": "system.staleness"}.get(name, name).rpartition(".")
    if place in ("schedule", "model"):
        place, argument = "system", name.removeprefix("schedule.")
    if place == "policy" and spec.policy is None and inspect.signature(spec.task.policy).parameters:
        return spec.replace(policy=spec.task.policy(**{argument: value}))
    if place in ("task", "system", "method", "policy"):
        return spec.replace(**{place: _remade(name, getattr(spec, place), argument, value)})
    names = knobs.numbered(spec.update.links)
    if place in names and calls.of(spec.update.links[names.index(place)]) is not None:
        links = list(spec.update.links)
        links[names.index(place)] = _remade(name, links[names.index(place)], argument, value)
        return spec.replace(update=Chain(tuple(links)))
    several = any(knob.endswith(f".{name}") for knob in knobs.values(spec.update, "update"))
    fields = [field for field in FIELDS if field not in OWN]
    known = [*fields, "staleness", "task.KEY", "system.KEY", "method.KEY", *(f"{link}.KEY" for link in names)]
    checks.require(several or _has_knob(spec, name), "grid", name, f"one of {', '.join(known)}", "name what is varied")
    return set_knob(spec, _knob(spec, name), checks.real(name, value, "give a number"), spec.replicates)


def _argument(name: str) -> str:
    """The one name of an argument that has several."""
    name = {"staleness": "system.staleness"}.get(name, name)
    if name.startswith("schedule."):
        return f"system.{name.removeprefix('schedule.')}"
    return f"system.{name}" if name.startswith("model.") else name


def _once(names: Mapping[str, str]) -> None:
    """Refuse two names of one thing: the second would be run at both."""
    first: dict[str, str] = {}
    for name, full in names.items():
        beside = first.setdefault(full, name)
        checks.require(beside == name, "grid", name, f"another setting than {beside}", "give one of the two names")


def _whole_first(names: Iterable[str]) -> list[str]:
    """Whole parts before their arguments, which a part that comes later would undo."""
    return sorted(names, key=lambda name: (name not in FIELDS, _argument(name).count(".")))


def _has_knob(spec: Spec, name: str) -> bool:
    try:
        _knob(spec, name)
    except checks.InputError:
        return False
    return True


def _remade(name: str, part: Any, argument: str, value: Any) -> Any:
    """The part that its own function makes with one argument changed."""
    made = calls.of(part)
    remedy = "make the part by one call of sim.KIND.NAME(...), or give whole parts as values"
    if made is None:
        raise checks.InputError("grid", name, "an argument of a part that remembers how it was made", remedy)
    rows, written = dict(calls.written(name, part)[made.name]), calls.written(name, value)
    if argument.startswith("model."):
        argument, written = "model", {**rows.get("model", {}), argument.removeprefix("model."): written}
    return calls.read(name, {made.name: {**rows, argument: written}}, plugins.function)


def system_grid(system: Any, values: dict[str, dict[Scalar, Any]], samples: int) -> Grid:
    """The grid over arguments of a system, all else equal."""
    made = calls.of(system)
    clocked = {"load", "train_time"} & {name.removeprefix("system.") for name in values}
    if made is not None and made.arguments.get("load") is not None and not clocked:
        rows = {name: each for name, each in calls.written("system", system)[made.name].items() if name != "load"}
        timed = {**rows, "train_time": system.mean_train_time(samples)}
        system = calls.read("system", {made.name: timed}, plugins.function)

    def build(chosen: dict[str, Any]) -> Any:
        changed = system
        for name in _whole_first(chosen):
            changed = _remade(name, changed, name.removeprefix("system."), chosen[name])
        return changed

    return Grid(values, {}, build)


def _labelled(name: str, values: Any) -> dict[Scalar, Any]:
    """Values by what a table shows of them."""
    if isinstance(values, Mapping):
        labelled: dict[Scalar, Any] = {str(label): value for label, value in values.items()}
        remedy = "give each label once; a label is a text"
        checks.require(len(labelled) == len(values), f"grid {name}", list(values), "different labels", remedy)
    else:
        if hasattr(values, "tolist"):
            values = values.tolist()
        several = isinstance(values, (list, tuple, range))
        checks.require(several, "grid", f"{name}={values!r}", "several values", REMEDY)
        values = [value.item() if isinstance(value, np.generic) else value for value in values]
        labels: list[Scalar] = []
        for value in values:
            made = calls.of(value)
            plain = value is None or isinstance(value, (bool, int, float, str))
            labels.append(value if plain else str(value) if made is None else made.name.rpartition(".")[2])
        twice = [label for label in labels if labels.count(label) > 1]
        remedy = "give each value once; name parts by a mapping {'label': part}"
        checks.require(not twice, f"grid {name}", twice[:1], "different values", remedy)
        labelled = dict(zip(labels, values, strict=True))
    checks.require(bool(labelled), f"grid {name}", [], "at least one value", REMEDY)
    return labelled
