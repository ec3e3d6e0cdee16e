"""What `asyncsim sweep`, `asyncsim results` and `asyncsim timeline --sweep` do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsim.app import commands, streams, wording
from asyncsim.base import checks
from asyncsim.base.store import TRASH, opened

if TYPE_CHECKING:
    from asyncsim.base.answers import Sweep
    from asyncsim.sweeping.grids import Grid
    from asyncsim.sweeping.sweeps import Question

FAILED = 1
"""Exit status where a unit failed, or a file of a store is not as it was written."""
FORM = "write NAME=V1,V2,... or NAME=LOW:HIGH:COUNT for values on a logarithmic scale"


def sweep(o: SimpleNamespace) -> int:
    """Sweep over words, print the table, write what is asked for; the exit status."""
    from dataclasses import replace

    from asyncsim.sweeping import plans, sweeps

    work = sweeps.Work(o.store, o.workers, o.backend, o.address, other_code=o.other_code)
    chosen = grid_of(o.set, o.grid)
    metrics = [name.strip().replace("-", "_") for name in o.metric.split(",")]
    question = plans.Question(chosen, plans.reading_of(metrics, o.over, o.target, o.better), o.replicates, o.seed)
    at = {key: wording.understood(value, None) for key, value in wording.settings(o.at, "--at").items()}
    lines = plans.lines(chosen, o.claim, at) if o.claim else ()
    if o.dry_run:
        return _plan(question, o.json)
    with streams.announced():
        answer = sweeps.answer(question, work)
    return show(replace(answer, lines=lines), o.paths)


def _plan(question: Question, to: Path | None) -> int:
    """Print how much work a sweep is; the exit status."""
    from asyncsim.sweeping import plans

    plan = plans.planned(question)
    print(
        f"{question.grid.size} settings, {sum(plan.blocks)} replicates each, in {len(plan.keys)} units; sweep {plan.id}"
    )
    result = {"id": plan.id, "settings": question.grid.size, "units": len(plan.keys)}
    files = streams.Files()
    files.write("--json", to, lambda path: commands.write_json(path, result))
    return files.status(0)


def show(answer: Sweep, paths: Mapping[str, Path | None]) -> int:
    """Write and print the answer of a sweep; the exit status."""
    outputs = streams.Files()
    outputs.write("--json", paths.get("json"), lambda path: commands.write_json(path, answer.row()))
    outputs.write("--csv", paths.get("csv"), lambda path: _write_table(answer, path))
    drawn = outputs.write("--plot", paths.get("plot"), lambda path: commands.draw(answer, path))
    print(answer)
    if drawn:
        print(f"plot: {paths['plot']}")
    return outputs.status(FAILED if answer.failed else 0)


def _write_table(answer: Sweep, path: Path) -> None:
    from asyncsim.base import files

    text = answer.table().to_csv(index=False)
    files.write_atomically(path, lambda file: file.write(text.encode("utf-8")))


def grid_of(words: Sequence[str], grid: Sequence[str]) -> Grid:
    """The grid over words of a spec, such as staleness=0,4,16, method=grpo,reinforce or lr=0.01:1:9."""
    from asyncsim.sweeping import grids

    values = values_of(grid, "--grid")

    def build(chosen: dict[str, Any]) -> Any:
        kept = [word for word in words if word.partition("=")[0].strip().replace("-", "_") not in chosen]
        return wording.of_words([*kept, *(f"{name}={value}" for name, value in chosen.items())], "--grid")

    parts = ("task", "system", "schedule", "model", "policy", "advantage")
    maybe = [name for name in values if name == "lr" or ("." in name and name.partition(".")[0] not in parts)]
    return grids.arranged(values, build, maybe)


def values_of(grid: Sequence[str], option: str) -> dict[str, dict[Any, Any]]:
    """Values by name, each by what a table shows of it, from NAME=V1,V2 or NAME=LOW:HIGH:COUNT."""
    values: dict[str, dict[Any, Any]] = {}
    for text in grid:
        name, equals, listed = text.partition("=")
        name = name.strip().replace("-", "_")
        checks.require(bool(name and equals and listed), option, text, "of the form NAME=V1,V2", FORM)
        checks.require(name not in values, option, text, f"the only values of {name}", "give each name once")
        each = _range(option, listed) or [word.strip() for word in re.split(r",(?![^(\[]*[)\]])", listed)]
        labelled = {_label(str(word)): word for word in each}
        checks.require(len(labelled) == len(each), option, text, "different values", FORM)
        values[name] = labelled
    checks.require(bool(values), option, "nothing", "given at least once", FORM)
    return values


def _label(word: str) -> Any:
    value = wording.value(word)
    return value if value is None or isinstance(value, (bool, int, float, str)) else word


def _range(option: str, text: str) -> list[str] | None:
    number = r"[-+]?[\d.]+(?:[eE][-+]?\d+)?"
    match = re.fullmatch(rf"({number}):({number}):(\d+)", text.strip())
    if match is None:
        return None
    low = checks.real(option, _number(option, match[1]), FORM, 0.0, open_low=True)
    high = checks.real(option, _number(option, match[2]), FORM, low, open_low=True)
    count = checks.integer(option, int(match[3]), 2, FORM, 10_000)
    return [repr(float(f"{x:.6g}")) for x in np.geomspace(low, high, count)]


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise checks.InputError(option, text, "a number", FORM) from None


def timeline(o: SimpleNamespace, knobs: Mapping[str, Any], model: Mapping[str, Any]) -> int:
    """Simulate a system at every value of its knobs, all else equal, and print what each costs."""
    from asyncsim.sweeping import grids, plans, sweeps

    values = {name: {label: label for label in each} for name, each in values_of(o.sweep, "--sweep").items()}
    first = {name: next(iter(each)) for name, each in values.items()}
    own = {key: value for key, value in {**knobs, **first}.items() if not key.startswith("model.")}
    changed = {key.removeprefix("model."): value for key, value in first.items() if key.startswith("model.")}
    system = wording.system(o.preset, own, {**model, **changed}, "--model")
    grid = grids.system_grid(system, values, o.samples)
    question = plans.Question(grid, None, o.realizations, o.seed, o.updates, o.samples)
    with streams.announced():
        answer = sweeps.answer(question, sweeps.Work(workers=1))
    if knobs.get("load") is not None and "load" not in values:
        where = ", ".join(f"{name}={value}" for name, value in first.items())
        time = system.mean_train_time(o.samples)
        print(f"training time {time:.4g} s at every value, from load {knobs['load']} at {where}")
    return show(answer, {"plot": o.plot, "json": o.json})


def results_ls(where: str, outputs: Mapping[str, Path | None]) -> int:
    """A line for each sweep of a store."""
    from asyncsim.sweeping import plans

    kept = plans.sweeps(opened(where, make=False))
    files = streams.Files()
    files.write("--json", outputs.get("json"), lambda path: commands.write_json(path, [each.row() for each in kept]))
    print("\n".join(map(str, kept)) or f"no sweeps in {where}")
    return files.status(0)


def results_show(where: str, name: str | None, outputs: Mapping[str, Path | None]) -> int:
    """The table of one sweep, from what the store holds."""
    from asyncsim.sweeping import plans

    store = opened(where, make=False)
    return show(plans.answered(store, plans.chosen(store, name), 0, 0.0), outputs)


def results_verify(where: str, again: int, seed: int, trust: Sequence[str], outputs: Mapping[str, Path | None]) -> int:
    """Read every file of a store again, and do some units again; 1 where one is not as it was written."""
    from asyncsim.sweeping import plans

    count, faults = plans.verified(opened(where, make=False), again, seed, trust)
    files = streams.Files()
    result = {"units": count, "again": min(again, count), "faults": [vars(fault) for fault in faults]}
    files.write("--json", outputs.get("json"), lambda path: commands.write_json(path, result))
    for fault in faults:
        print(f"{fault.name}: {fault.what}")
    done = f", {min(again, count)} of them done again" if again else ""
    print(f"{count} units read{done}: {len(faults) or 'none'} not as written")
    if faults:
        print("remove these files; the sweep that needs them makes them again")
    return files.status(FAILED if faults else 0)


def results_gc(where: str, dry: bool) -> int:
    """Move what no sweep of a store needs into its trash."""
    from asyncsim.sweeping import plans

    store = opened(where, make=False)
    with store.held(alone=True):
        spare = plans.unneeded(store)
        size = sum(store.size(name) for name in spare)
        folder = store.set_aside(spare) if spare and not dry else TRASH
    moved = f"{len(spare)} files, {size / 1024:.1f} KiB, {'would be ' if dry else ''}moved to {where}/{folder}"
    print(moved + ("; remove that folder to free them" if spare and not dry else ""))
    return 0
