"""Settings of a spec by name: a field, an argument of a part, or a knob; and labels of their values in tables."""

import dataclasses
import inspect
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from asyncsim.base import calls, checks, knobs, plugins
from asyncsim.comparing.tuning import knob_of, set_knob
from asyncsim.running.spec import Spec
from asyncsim.updates._link import Chain

REMEDY = "give at least one value for each name, such as {'staleness': [0, 4, 16], 'sgd.lr': [0.1, 0.2]}"
OWN = ("replicates", "realizations", "diagnostics", "block")
"""Fields of a spec that a sweep sets itself, so that values in a grid would be ignored."""
FIELDS = [field.name for field in dataclasses.fields(Spec)]
Scalar = bool | int | float | str | None
COLUMNS = {"metric", "mean", "low", "high", "median", "end", "start", "never", "diverged", "difference"}
"""Columns of the tables: a setting of such a name would overwrite them."""
grid_knob = partial(knob_of, field="grid", whose="the spec")


def with_setting(spec: Spec, name: str, value: Any) -> Spec:
    """A copy of the spec with one field, one argument of a part, or one knob set."""
    if name in FIELDS:
        return spec.replace(**{name: value})
    place, _, argument = {"staleness": "system.staleness"}.get(name, name).rpartition(".")
    if place in ("schedule", "model"):
        place, argument = "system", name.removeprefix("schedule.")
    if place == "policy" and spec.policy is None and inspect.signature(spec.task.policy).parameters:
        return spec.replace(policy=spec.task.policy(**{argument: value}))
    if place in ("task", "system", "method", "policy"):
        return spec.replace(**{place: remade(name, getattr(spec, place), argument, value)})
    names = knobs.numbered(spec.update.links)
    if place in names and calls.of(spec.update.links[names.index(place)]) is not None:
        links = list(spec.update.links)
        links[names.index(place)] = remade(name, links[names.index(place)], argument, value)
        return spec.replace(update=Chain(tuple(links)))
    several = any(knob.endswith(f".{name}") for knob in knobs.values(spec.update, "update"))
    fields = [field for field in FIELDS if field not in OWN]
    known = [*fields, "staleness", "task.KEY", "system.KEY", "method.KEY", *(f"{link}.KEY" for link in names)]
    every = list(knobs.values(spec.update, "update"))
    own = [knob.rpartition(".")[2] for knob in every]
    usual = checks.advice(name, "grid", otherwise="name what is varied, as lr or adam.lr of a link")
    remedy = usual if name in OWN else checks.hint(name, [*own, *fields], usual)
    if place in ("update", "link", "optimizer") and argument in own:
        remedy = f"write {every[own.index(argument)]}"
    checks.require(several or has_knob(spec, name), "grid", name, f"one of {', '.join(known)}", remedy)
    return set_knob(spec, grid_knob(spec, name), checks.real(name, value, "give a number"), spec.replicates)


def full_name(name: str) -> str:
    """Canonical name of a setting that has several names, such as staleness."""
    name = {"staleness": "system.staleness"}.get(name, name)
    if name.startswith("schedule."):
        return f"system.{name.removeprefix('schedule.')}"
    return f"system.{name}" if name.startswith("model.") else name


def once(names: Mapping[str, str]) -> None:
    """Raise `InputError` if two names mean the same setting, which would be set twice."""
    first: dict[str, str] = {}
    for name, full in names.items():
        beside = first.setdefault(full, name)
        checks.require(beside == name, "grid", name, f"another setting than {beside}", "give one of the two names")


def whole_first(names: Iterable[str]) -> list[str]:
    """Sort settings so that complete parts precede their arguments, which the parts would overwrite."""
    return sorted(names, key=lambda name: (name not in FIELDS, full_name(name).count(".")))


def has_knob(spec: Spec, name: str) -> bool:
    """Whether the spec has a knob of this full or short name."""
    try:
        grid_knob(spec, name)
    except checks.InputError:
        return False
    return True


def remade(name: str, part: Any, argument: str, value: Any) -> Any:
    """A part, made again by the function that made it, with one argument changed."""
    made = calls.of(part)
    remedy = "make the part by one call of sim.KIND.NAME(...), or give whole parts as values"
    if made is None:
        raise checks.InputError("grid", name, "an argument of a part that remembers how it was made", remedy)
    rows, written = dict(calls.written(name, part)[made.name]), calls.written(name, value)
    if argument.startswith("model."):
        argument, written = "model", {**rows.get("model", {}), argument.removeprefix("model."): written}
    return calls.read(name, {made.name: {**rows, argument: written}}, plugins.function)


def by_label(name: str, values: Any) -> dict[Scalar, Any]:
    """Values of a setting by their labels in tables."""
    remedy = f"write it with its part, as method.{name}"
    checks.require(name not in COLUMNS, "grid", name, "another name than that of a column of the table", remedy)
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
