"""The commands `asyncsim sweep` and `asyncsim timeline --sweep`, and the output of sweeps in `asyncsim results`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsim.app import streams, timelines, wording
from asyncsim.app.options import Options
from asyncsim.base import checks, feeds, knobs, notation
from asyncsim.base.notation import plural

if TYPE_CHECKING:
    from asyncsim.base.answers import Sweep
    from asyncsim.sweeping.grids import Grid

FAILED = 1
"""Exit status if a unit failed, or if a file of a store was changed."""
FORM = "write NAME=V1,V2,... or NAME=LOW:HIGH:COUNT for values on a logarithmic scale"


def sweep(o: Options) -> int:
    """Run a sweep from command-line words, print the table, write the requested files, and return the exit status."""
    from dataclasses import replace

    from asyncsim.sweeping import plans, sweeps

    work = sweeps.Work(o.store, o.workers, o.backend, o.address, other_code=o.other_code)
    chosen = grid_of(o.set, o.grid)
    metrics = [name.strip().replace("-", "_") for name in o.metric.split(",")]
    words = {} if "replicates" in o.given else wording.settings(o.set)
    replicates = words.get("replicates", o.replicates)
    question = plans.Question(chosen, plans.reading_of(metrics, o.over, o.target, o.better), replicates, o.seed)
    at = {key: wording.understood(value, None) for key, value in wording.settings(o.at, "--at").items()}
    lines = plans.lines(chosen, o.claim, at) if o.claim else ()
    if o.dry_run:
        plan, settings = plans.planned(question), chosen.size
        many = f"{plural(settings, 'setting')}, {plural(sum(plan.blocks), 'replicate')} each"
        print(f"{many}, in {plural(len(plan.keys), 'unit')}; sweep {plan.id}")
        o.files.json({"id": plan.id, "settings": settings, "units": len(plan.keys)})
        return o.files.status(0)
    with streams.announced():
        answer = sweeps.answer(question, work)
    status = show(replace(answer, lines=lines), o.files)
    wording.tell_unnamed({"every setting": [*o.set, *o.grid]})
    if not wording.names_rate([*o.set, *o.grid]) and {*notation.RETURNS} & {*metrics}:
        each = (knobs.values(cell.subject.update, "update").items() for cell in chosen.cells())
        rates = dict.fromkeys(f"{name}={rate:g}" for own in each for name, rate in own if name.endswith(".lr"))
        said = f"no learning rate was given, so every setting trains at {' or '.join(rates)}"
        streams.complain(f"{said}; --grid lr=LOW:HIGH:COUNT varies it")
    return status


def show(answer: Sweep, files: streams.Files) -> int:
    """Write and print the answer of a sweep from the command line; return the exit status."""
    return files.answer(answer, FAILED if answer.failed else 0)


def grid_of(words: Sequence[str], grid: Sequence[str]) -> Grid:
    """Grid of settings from command-line words such as staleness=0,4,16, method=grpo,reinforce or lr=0.01:1:9."""
    from asyncsim.sweeping import grids

    values = values_of(grid, "--grid")
    for word in (word for word in words if word.partition("=")[0] in {*values} & {*wording.LISTS}):
        streams.complain(f"--grid has the values of {word.partition('=')[0]}, so {word} of all settings is left out")

    def build(chosen: dict[str, Any]) -> Any:
        kept = [word for word in words if word.partition("=")[0].strip().replace("-", "_") not in chosen]
        # A learning rate that varies need not be given beside the grid.
        given = {word.partition("=")[0].strip() for word in kept}
        absent = (name for name in values if f".{name}".endswith(".lr") and name not in {*chosen, *given})
        first = {name: next(iter(values[name])) for name in absent}
        kept += [f"{name}={value}" for name, value in first.items() if isinstance(value, (int, float))]
        try:
            return wording.of_words([*kept, *(f"{name}={value}" for name, value in chosen.items())], "--grid")
        except checks.InputError as error:
            meant = "samples" if error.field == "samples_per_group" else error.value
            each = next((own for name, own in values.items() if name.rpartition(".")[2] == meant), {})
            listed = error.remedy.replace(f"={next(iter(each), '-')}", f"={','.join(map(str, each))}")
            listed = listed.replace("--set ", "--grid ").replace("for both", "without samples") if each else listed
            raise checks.InputError(error.field, error.value, error.bound, listed) from None

    parts = ("task", "system", "schedule", "model", "policy", "advantage")
    maybe = [name for name in values if name == "lr" or ("." in name and name.partition(".")[0] not in parts)]
    return grids.arranged(values, build, maybe)


def values_of(grid: Sequence[str], option: str) -> dict[str, dict[Any, Any]]:
    """Grid values by name and label, from words NAME=V1,V2 or NAME=LOW:HIGH:COUNT."""
    values: dict[str, dict[Any, Any]] = {}
    for text in grid:
        name, equals, listed = text.partition("=")
        name = name.strip().replace("-", "_")
        listed = re.sub(r"(?<=\d)\s+(?=[-\d.])", ",", listed.strip())
        ends = re.fullmatch(r"(\d+)(?:-|\.\.)(\d+)", listed)
        fits = name and equals and listed and not re.fullmatch(r"\d+-\d+|[-+\d.e]+(:|\.\.)[-+\d.e]+(:log)?", listed)
        form = f"write {option} {name}={ends[1]},{ends[2]}, with values between" if ends else ""
        form = form or FORM.replace("NAME", name or "NAME")
        checks.require(bool(fits), option, text, "of the form NAME=V1,V2", form)
        checks.require(name not in values, option, text, f"the only values of {name}", "give each name once")
        listed = re.sub(r"^\[([^\[]*)\]$", r"\1", listed)
        each = _range(option, listed) or [word.strip() for word in re.split(r",(?![^(\[]*[)\]])", listed)]
        labelled: dict[Any, Any] = {}
        for word in each:
            value = wording.value(word)
            labelled[value if value is None or isinstance(value, (bool, int, float, str)) else word] = word
        checks.require(len(labelled) == len(each), option, text, "different values", FORM)
        values[name] = labelled
    checks.require(bool(values), option, "nothing", "given at least once", FORM)
    return values


def _range(option: str, text: str) -> list[str] | None:
    number = r"[-+]?[\d.]+(?:[eE][-+]?\d+)?"
    match = re.fullmatch(rf"({number}):({number}):(\d+)", text.strip())
    if match is None:
        return None
    above = f"a logarithmic scale has no 0: write 0.001:{match[2]}:{match[3]} or values by commas"
    low = checks.real(option, wording.value(match[1]), above, 0.0, open_low=True)
    high = checks.real(option, wording.value(match[2]), FORM, low, open_low=True)
    count = checks.integer(option, int(match[3]), 2, FORM, 10_000)
    return [repr(float(f"{x:.6g}")) for x in np.geomspace(low, high, count)]


def timeline(o: Options, knobs: Mapping[str, Any], model: Mapping[str, Any]) -> int:
    """Simulate a system at every value of its knobs, other settings equal, and print the results."""
    from asyncsim.sweeping import grids, plans, sweeps

    values = {name: {label: label for label in each} for name, each in values_of(o.sweep, "--sweep").items()}
    if wording.is_file(o.preset):
        values = wording.of_trainer(o.preset, values)
    first = {name: next(iter(each)) for name, each in values.items()}
    for name, each in values.items():
        near = re.match(r"(?:.*; )?write --(model |set )(\w+)=", wording.of_preset(o.preset, name))
        near = None if wording.is_file(o.preset) else near
        if near and name not in wording.takes("systems", o.preset) and not name.startswith("model."):
            own_name = f"model.{name}" if near[1] == "model " else near[2]
            listed = f"write --sweep {own_name}={','.join(str(word) for word in each)}"
            raise checks.InputError("--sweep", name, f"an option of {o.preset}", listed)
    own = {key: value for key, value in {**knobs, **first}.items() if not key.startswith("model.")}
    changed = {key.removeprefix("model."): value for key, value in first.items() if key.startswith("model.")}
    system = wording.system(o.preset, own, {**model, **changed}, "--model")
    for name in {*feeds.GROUPS} & {*system.knobs} & {*values}:
        remedy = "run the command for each value, with --set"
        raise checks.InputError("--sweep", name, "an option that leaves the groups as they are", remedy)
    o.samples = wording.samples_of(o.preset, knobs, system, o.samples, 1, "")
    grid = grids.system_grid(system, values, o.samples)
    question = plans.Question(grid, None, o.realizations or 16, o.seed, o.updates, o.samples)
    with streams.announced():
        answer = sweeps.answer(question, sweeps.Work(workers=1))
    if knobs.get("load") is not None and "load" not in values:
        where = ", ".join(f"{name}={value}" for name, value in first.items())
        time = system.mean_train_time(o.samples)
        print(f"training time {time:.4g} s at every value, from load {knobs['load']} at {where}")
    status = show(answer, o.files)
    about = ({**cell.subject.summary(20, o.samples), "system": {"name": cell.subject.name}} for cell in grid.cells())
    notes = {timelines.unused(each) for each in about} - {""}
    rows = [[row for row in answer.summary if row["metric"] == metric] for metric in answer.metrics]
    if len(values) == 1 and all(max(r["low"] for r in each) <= min(r["high"] for r in each) for each in rows):
        none = "a queue that never fills, or a limit that nothing reaches, has no effect"
        none = f"--model {' '.join(model)} may replace it; {none}" if model else none
        notes |= {f"all rows agree within their intervals: {next(iter(values))} changes nothing here; {none}"}
    for said in sorted(notes):
        streams.complain(said)
    return status
