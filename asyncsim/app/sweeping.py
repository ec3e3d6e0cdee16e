"""What `asyncsim sweep`, `asyncsim results` and `asyncsim timeline --sweep` do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsim.app import announcing, commands, streams, wording
from asyncsim.base import checks
from asyncsim.base.store import TRASH, opened

if TYPE_CHECKING:
    from asyncsim.base.swept import Sweep
    from asyncsim.sweeping.grids import Grid
    from asyncsim.sweeping.sweeps import Question, Work

FAILED = 1
"""Exit status where a unit failed, or a file of a store is not as it was written."""
STORE = "asyncsim-results"
"""The store of the command line, unless one is named."""
FORM = "write NAME=V1,V2,... or NAME=LOW:HIGH:COUNT for values on a logarithmic scale"


def sweep(
    words: Sequence[str], grid: Sequence[str], reading: Mapping[str, Any], replicates: int, seed: int, work: Work,
    claim: tuple[str | None, Sequence[str]], outputs: Mapping[str, Path | None], dry: bool,
) -> tuple[dict[str, Any], int]:  # fmt: skip
    """Sweep over words, print the table, write what is asked for; JSON object and exit status."""
    from dataclasses import replace

    from asyncsim.sweeping import plans, sweeps

    chosen = grid_of(words, grid)
    own = plans.reading_of(reading["metrics"], reading["over"], reading["target"], reading["better"])
    question = plans.Question(chosen, own, replicates, seed)
    at = {key: wording.understood(value, None) for key, value in wording.settings(claim[1], "--at").items()}
    lines = plans.lines(chosen, claim[0], at) if claim[0] else ()
    if dry:
        return _plan(question, outputs)
    with announcing.announced():
        answer = sweeps.answer(question, work)
    return show(replace(answer, lines=lines), outputs)


def _plan(question: Question, outputs: Mapping[str, Path | None]) -> tuple[dict[str, Any], int]:
    """Print how much work a sweep is; JSON object and exit status."""
    from asyncsim.sweeping import plans

    plan = plans.planned(question)
    print(
        f"{question.grid.size} settings, {sum(plan.blocks)} replicates each, in {len(plan.keys)} units; sweep {plan.id}"
    )
    result = {"id": plan.id, "settings": question.grid.size, "units": len(plan.keys)}
    files = streams.Files()
    files.write("--json", outputs.get("json"), lambda path: commands.write_json(path, result))
    return result, files.status(0)


def show(answer: Sweep, paths: Mapping[str, Path | None]) -> tuple[dict[str, Any], int]:
    """Write and print the answer of a sweep; JSON object and exit status."""
    result = answer.row()
    outputs = streams.Files()
    outputs.write("--json", paths.get("json"), lambda path: commands.write_json(path, result))
    outputs.write("--csv", paths.get("csv"), lambda path: _write_table(answer, path))
    drawn = outputs.write("--plot", paths.get("plot"), lambda path: commands.draw(answer, path))
    print(answer)
    if drawn:
        print(f"plot: {paths['plot']}")
    return result, outputs.status(FAILED if answer.failed else 0)


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

    maybe = [name for name in values if _may_ride(name)]
    return grids.arranged(values, build, maybe)


def _may_ride(name: str) -> bool:
    parts = ("task", "system", "schedule", "model", "policy", "advantage")
    return name == "lr" or ("." in name and name.partition(".")[0] not in parts)


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


def timeline(
    preset: str, knobs: Mapping[str, Any], model: Mapping[str, Any], over: Sequence[str], updates: int, samples: int,
    realizations: int, seed: int, outputs: Mapping[str, Path | None],
) -> tuple[dict[str, Any], int]:  # fmt: skip
    """Simulate a system at every value of its knobs, all else equal, and print what each costs."""
    from asyncsim.sweeping import grids, plans, sweeps

    values = {name: {label: label for label in each} for name, each in values_of(over, "--sweep").items()}
    first = {name: next(iter(each)) for name, each in values.items()}
    own = {key: value for key, value in {**knobs, **first}.items() if not key.startswith("model.")}
    changed = {key.removeprefix("model."): value for key, value in first.items() if key.startswith("model.")}
    system = wording.system(preset, own, {**model, **changed}, "--model")
    grid = grids.system_grid(system, values, samples)
    question = plans.Question(grid, None, realizations, seed, updates, samples)
    with announcing.announced():
        answer = sweeps.answer(question, sweeps.Work(workers=1))
    if knobs.get("load") is not None and "load" not in values:
        where = ", ".join(f"{name}={value}" for name, value in first.items())
        time = system.mean_train_time(samples)
        print(f"training time {time:.4g} s at every value, from load {knobs['load']} at {where}")
    return show(answer, outputs)


def results_ls(where: str, outputs: Mapping[str, Path | None]) -> int:
    """A line for each sweep of a store."""
    from asyncsim.sweeping import keeping

    kept = keeping.sweeps(opened(where, make=False))
    files = streams.Files()
    files.write("--json", outputs.get("json"), lambda path: commands.write_json(path, [each.row() for each in kept]))
    print("\n".join(map(str, kept)) or f"no sweeps in {where}")
    return files.status(0)


def results_show(where: str, name: str | None, outputs: Mapping[str, Path | None]) -> int:
    """The table of one sweep, from what the store holds."""
    from asyncsim.sweeping import keeping, plans

    store = opened(where, make=False)
    return show(plans.answered(store, keeping.chosen(store, name), 0, 0.0), outputs)[1]


def results_verify(where: str, again: int, seed: int, trust: Sequence[str], outputs: Mapping[str, Path | None]) -> int:
    """Read every file of a store again, and do some units again; 1 where one is not as it was written."""
    from asyncsim.sweeping import keeping

    count, faults = keeping.verified(opened(where, make=False), again, seed, trust)
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
    from asyncsim.sweeping import keeping

    store = opened(where, make=False)
    with store.held(alone=True):
        spare = keeping.unneeded(store)
        size = sum(store.size(name) for name in spare)
        folder = store.set_aside(spare) if spare and not dry else TRASH
    moved = f"{len(spare)} files, {size / 1024:.1f} KiB, {'would be ' if dry else ''}moved to {where}/{folder}"
    print(moved + ("; remove that folder to free them" if spare and not dry else ""))
    return 0
