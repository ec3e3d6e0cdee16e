"""Plans of sweeps: questions, their units, and the content of a store: answers, sweeps, and unneeded files."""

import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from asyncsim import claims
from asyncsim.base import checks, digests, feeds, outside, spec_code
from asyncsim.base import store as storing
from asyncsim.base.answers import SHARE, Sweep, summarized, unseen
from asyncsim.base.manifest import manifest
from asyncsim.base.records import plain
from asyncsim.base.store import Store
from asyncsim.comparing import arms as pairing
from asyncsim.comparing.arms import refuse
from asyncsim.comparing.deciding import seed_of
from asyncsim.comparing.keeping import ROOT
from asyncsim.comparing.readings import FALLS, Reading
from asyncsim.sweeping import grids, units
from asyncsim.sweeping.units import BLOCK, Unit

SWEEP = re.compile(r"sweeps/([0-9a-f]{12})\.parquet")
FAILURE = re.compile(r"failed/([0-9a-f]{32})\.json")
UNIT = re.compile(r"units/([0-9a-f]{2})/(\1[0-9a-f]{30})\.parquet|trainings/[0-9a-f]{32}/[0-9a-f]{32}\.parquet")
"""Names of the files that sweeps and comparisons write; other files in a store are foreign."""
ENDED = {"collapse": "collapsed", "fall": "fell", "reache": "reached"}
COUNTED = ("never", "unlearned", "early")


def reading_of(metrics: Sequence[str], over: str, target: float | None, better: str | None) -> dict[str, Any]:
    """Rule by which curves become numbers, as units store it; raises `InputError` as `Reading` does."""
    remedy = "see `asyncsim list metrics`"
    for metric in metrics:
        checks.require(isinstance(metric, str) and bool(metric), "metric", metric, "a name", remedy)
    good = {Reading(metric, over, target, better).better for metric in metrics}
    different = bool(metrics) and len(set(metrics)) == len(metrics)
    checks.require(different, "metric", list(metrics), "at least one name, each once", remedy)
    aim = None if target is None else float(target)
    return {"metrics": list(metrics), "over": over, "target": aim, "better": good.pop() if len(good) == 1 else None}


@dataclass(frozen=True)
class Question:
    """Question of a sweep: grid of settings, reading of curves, replicates, seed, and for systems updates and samples.

    `reading` None: systems are only simulated. `replicates`: those of a setting.
    """

    grid: grids.Grid
    reading: Mapping[str, Any] | None
    replicates: int
    seed: int
    updates: int = 200
    samples: int = 1

    def __post_init__(self) -> None:
        whole = {
            "replicates": checks.integer("replicates", self.replicates, 1, "ask for at least one replicate"),
            "seed": checks.integer("seed", self.seed, 0, "give a non-negative integer seed", 2**63 - 1),
            "updates": checks.integer("updates", self.updates, 1, "simulate one update at least"),
            "samples": checks.integer("samples", self.samples, 1, "a group has at least one sample"),
        }
        for name, number in whole.items():  # numbers of NumPy are no JSON
            object.__setattr__(self, name, number)

    def units(self) -> Iterator[Unit]:
        """All units of a sweep in the order of the grid, made lazily."""
        for cell in self.grid.cells():
            if self.reading is not None:
                shared = units.of_spec(cell.subject, self.reading)
            else:
                passes = feeds.updates_of(cell.subject)
                whole = f"a multiple of the {passes} updates that are recommended for each batch"
                checks.require(self.updates % passes == 0, "updates", self.updates, whole, "whole batches are trained")
                shared = units.of_system(cell.subject, self.updates // passes, self.samples)
            for riders in self.grid.riders:
                for block, size in enumerate(self.blocks()):
                    place = {"seed": seed_of(self.seed, units.STAGE, block), "block": block, "replicates": size}
                    own = {"setting": dict(cell.setting), "riders": riders, **place}
                    told = {"format": storing.FORMAT, **shared, **own}
                    asked, key = storing.keys_of(told)
                    yield Unit(key, told, asked)

    def blocks(self) -> list[int]:
        """Number of replicates in each block of a setting."""
        whole, rest = divmod(self.replicates, BLOCK)
        return [BLOCK] * whole + [rest] * bool(rest)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the numbers that a sweep records."""
        return tuple(units.COSTS) if self.reading is None else tuple(self.reading["metrics"])

    @property
    def words(self) -> str:
        """Describe how a sweep turns a curve into a number."""
        if self.reading is None:
            return f"{self.updates} updates simulated"
        own = self.reading
        words = str(Reading(", ".join(own["metrics"]), own["over"], own["target"], own["better"]))
        first = units.recording(next(self.grid.cells()).subject, own["metrics"])
        words += "" if first.evaluation is None else f"; trained_return {first.evaluation}"
        return words + f"; method {first.method.name}" * ("method" not in self.grid.names)


def lines(grid: grids.Grid, claim: str, at: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Values of the only vectorized knob that a claim predicts, one for each structure of the grid."""
    claim = claims.claim(claim).id
    remedy = "give a grid with one knob, which it predicts; asyncsim verify CLAIM --at KEY=VALUE checks it alone"
    checks.require(len(grid.knobs) == 1, "claim", claim, f"used with one knob (there are {len(grid.knobs)})", remedy)
    settings = [dict(zip(grid.structures, each, strict=True)) for each in grid.labels()]
    return tuple({**each, "claim": claim, "predicted": predicted(claim, each, at)} for each in settings)


def noted(question: Question, found: Sweep) -> Sweep:
    """Add to a sweep the notes of `compare` on its settings as arms, and why the settings may show nothing."""
    if question.reading is None:
        return found
    own = dict(question.reading)
    metrics, cells = own.pop("metrics"), list(question.grid.cells())
    lines, first = [Reading(", ".join(metrics), **own).aside], cells[0].setting
    for name in question.grid.structures:
        beside = [cell for cell in cells if all(cell.setting[o] == first[o] for o in first if o != name)]
        parts = any(isinstance(cell.setting[name], str) for cell in beside)
        specs = {f"{cell.setting[name]}" if parts else f"{name}={cell.setting[name]}": cell.subject for cell in beside}
        seen = Reading(metrics[0], **own), specs, question.seed
        told = pairing.notes(*seen, those="settings") if len(specs) <= grids.RIDERS else ()
        # Of numbers the grid says how many samples an update has.
        lines += [s.replace("over=", "compare with over=") for s in told if parts or "samples per" not in s]
        for metric in metrics:
            behavior = pairing.caution(metric, specs).replace("arms", "settings")
            lines += [f"{metric}: {behavior[2:]}"] * (behavior[:1] == ";")
    for head in found.metrics if len(found.summary) == question.grid.size * len(metrics) else ():
        rows, spec = [row for row in found.summary if row["metric"] == head], cells[0].subject
        optimum = spec.fitted_task.optimum if "task" not in first else math.nan
        said = unseen(rows, own["over"] * found.shares, optimum, spec.fitted_task.describe()) * (len(rows) > 1)
        lines.append(f"{head}: " * bool(said and len(metrics) > 1) + said)
        apart, near = list[str](), list[tuple[float, str]]()
        for row in rows if own["over"] in FALLS and not said and len(rows) > 1 else ():
            name = grids.Cell({each: row[each] for each in found.names}, spec).name
            early, fell, learned = row["early"], row["mean"] * row["replicates"], row["replicates"] - row["unlearned"]
            apart += [f"{early} of {fell:.0f} at ({name})"] * bool(early)
            nearest = checks.advice("half", "ends").format(name, fell - early, learned, ENDED[own["over"]])
            near.append((min(fell - early, learned - fell + early), nearest))
        lines.append(checks.advice("apart", "alarm").format(own["over"], ", ".join(apart)) * bool(apart))
        lines.append(max(near, default=(0.0, ""))[1])
    return replace(found, notes=tuple(dict.fromkeys(filter(None, lines))))


@dataclass(frozen=True)
class Plan:
    """Units of a sweep by their keys, and the description of the sweep in the store.

    `cells` are the structures; `riders`, settings of vectorized knobs by unit; `blocks`, replicates per block; `keys`,
    those of all units: by structure, then by riders, then by block; `asked`, digests of what each unit is asked,
    without the code.
    """

    id: str
    names: tuple[str, ...]
    values: dict[str, tuple[Any, ...]]
    metrics: tuple[str, ...]
    words: str
    seed: int
    cells: list[dict[str, Any]]
    riders: list[list[dict[str, float]]]
    blocks: list[int]
    keys: list[str]
    asked: list[str]

    @property
    def heads(self) -> tuple[str, ...]:
        """Names of the numbers in a sweep's answer: its metrics, or what is counted instead."""
        counted = re.match("(share) of .* (collapse|reache|fall)s|updates until", self.words)
        name = f"share_{ENDED[counted[2]]}" if counted and counted[1] else "updates_until"
        several = len(self.metrics) > 1
        return tuple(f"{name}{f'_{each}' * several}" if counted else each for each in self.metrics)

    def by(self, keys: list[str]) -> "Plan":
        """Plan of the same settings for units that other code made."""
        return replace(self, keys=keys, id=digests.of(keys, 12))

    def settings(self) -> Iterator[tuple[dict[str, Any], list[dict[str, float]], list[str]]]:
        """Every structure with the knob settings of a unit, and the keys of the unit's blocks."""
        keys = iter(self.keys)
        for cell in self.cells:
            for riders in self.riders:
                yield cell, riders, [next(keys) for _ in self.blocks]


def planned(question: Question) -> Plan:
    """Plan of a sweep's question; every setting is built once, so that invalid settings are refused here."""
    grid = question.grid
    if question.reading is not None:
        own = dict(question.reading)
        metrics = own.pop("metrics")
        specs = ((cell.name, units.recording(cell.subject, metrics)) for cell in grid.cells())
        refuse([Reading(each, **own) for each in metrics], specs)
    every = [(unit.key, unit.asked) for unit in question.units()]
    keys = [key for key, _ in every]
    values = {name: tuple(each) for name, each in grid.structures.items()} | grid.knobs
    cells = [dict(zip(grid.structures, each, strict=True)) for each in grid.labels()]
    return Plan(
        digests.of(keys, 12), grid.names, values, question.metrics, question.words, question.seed, cells,
        grid.riders, question.blocks(), keys, [asked for _, asked in every],
    )  # fmt: skip


def register(store: Store, plan: Plan) -> None:
    """Write the plan of a sweep to the store, unless an undamaged copy is there."""
    with suppress(checks.InputError, FileNotFoundError):
        loaded(store, plan.id)
        return
    rows = asdict(plan)
    columns = {"key": rows.pop("keys"), "asked": rows.pop("asked")}
    store.write(plan_of(plan.id), storing.pack(columns, {"format": storing.FORMAT, "plan": rows, "made": manifest()}))


def plan_of(name: str) -> str:
    """Name of the file that holds the plan of a sweep."""
    return f"sweeps/{name}.parquet"


def loaded(store: Store, name: str) -> tuple[Plan, dict[str, Any]]:
    """Load the plan of a sweep by id, and the manifest of its first run; raises `InputError` if it was changed."""
    remedy = f"start its sweep again, or remove {plan_of(name)}"
    table, about = storing.unpack(store.read(plan_of(name)), plan_of(name), remedy)
    rows = about.get("plan", {})
    checks.require(rows.get("id") == name, "sweep", name, "a plan that a sweep wrote", remedy)
    rows["names"], rows["metrics"] = tuple(rows["names"]), tuple(rows["metrics"])
    rows["values"] = {key: tuple(values) for key, values in rows["values"].items()}
    return Plan(**rows, keys=table["key"].to_pylist(), asked=table["asked"].to_pylist()), about["made"]


def of_other_code(store: Store, plan: Plan, there: set[str]) -> dict[str, str]:
    """Missing units of a plan, with keys of the same units that other code made for other sweeps of the store."""
    lacking = {asked: key for key, asked in zip(plan.keys, plan.asked, strict=True) if units.name_of(key) not in there}
    others: dict[str, str] = {}
    for name in store.names("sweeps") if lacking else ():
        if name != plan_of(plan.id) and (match := SWEEP.fullmatch(name)) is not None:
            with suppress(checks.InputError):  # a damaged plan is in the way of no other sweep
                other = loaded(store, match[1])[0]
                others |= {lacking[asked]: key for key, asked in zip(other.keys, other.asked, strict=True)
                           if asked in lacking and units.name_of(key) in there}  # fmt: skip
    return others


def answered(store: Store, plan: Plan, made: int, seconds: float, folder: Any = None) -> Sweep:
    """Answer of a sweep from the units in the store, one setting after another."""
    there = set(store.names("units"))
    summary: list[dict[str, Any]] = []
    failed: list[dict[str, Any]] = []
    stored = [key for key in plan.keys if units.name_of(key) in there]
    files = [units.name_of(key) for key in stored]
    tables = (units.read(data, key) for key, data in zip(stored, store.read_all(files), strict=True))
    kept = list[np.ndarray]()
    for cell, riders, keys in plan.settings():
        names = [units.name_of(key) for key in keys]
        known = [name for name in names if name in there]
        if known:
            summary += _summary(plan, cell, riders, list(itertools.islice(tables, len(known))), kept)
        if len(known) < len(names):
            lost = [key for key, name in zip(keys, names, strict=True) if name not in there]
            reasons = []
            for name in (units.failure_of(key) for key in lost):
                if store.has(name):
                    try:
                        reasons.append(str(json.loads(store.read(name))["reason"]))
                    except (ValueError, TypeError, KeyError, RecursionError):
                        reasons.append(f"failed, and {name} is damaged")
            riding = {name: [each[name] for each in riders] for name in riders[0]}
            own = {name: x[0] if len(set(x)) == 1 else f"{x[0]:g} to {x[-1]:g}" for name, x in riding.items()}
            reason = reasons[0] if reasons else "not done yet"
            failed.append({"setting": plain({**cell, **own}), "reason": reason, "units": len(lost)})
    count = len(plan.metrics)
    pairs = zip(plan.heads, kept[:count], kept[count:], strict=True) if len(summary) == 2 * count == len(kept) else ()
    differences = ({"metric": head, **summarized(b - a, None)} for head, a, b in pairs if a.shape == b.shape)
    return Sweep(
        plan.id, store.where, plan.names, plan.values, plan.heads, tuple(summary), len(plan.keys), made,
        tuple(failed), sum(plan.blocks), plan.words, seconds, tuple(files), folder,
        differences=tuple(differences),
    )  # fmt: skip


def _summary(
    plan: Plan, cell: Mapping[str, Any], riders: Sequence[Mapping[str, float]], tables: Sequence[Any],
    kept: list[np.ndarray],
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Rows of one structure with the knob settings of a unit; numbers of two runs, to be subtracted, are `kept`."""

    def numbers(column: str) -> np.ndarray:
        parts = [table.column(column).to_numpy().reshape(len(riders), -1) for table in tables]
        return np.concatenate(parts, axis=1)

    lost = numbers("diverged") if "diverged" in tables[0].column_names else None
    readings = {head: numbers(metric) for head, metric in zip(plan.heads, plan.metrics, strict=True)}
    beside = {(h, what): numbers(f"{m} {what}") for h, m in zip(plan.heads, plan.metrics, strict=True)
              for what in (*COUNTED, "start", "end") if f"{m} {what}" in tables[0].column_names}  # fmt: skip
    event = plan.words.startswith(SHARE)
    for k, setting in enumerate(riders):
        for metric, values in readings.items():
            own = {**cell, **setting}
            ordered = {name: own[name] for name in plan.names}
            found = summarized(values[k], None if lost is None else lost[k], event)
            kept += [values[k]] * (lost is not None and not event and len(kept) < 2 * len(readings))
            more = {w: int(x[k].sum()) if w in COUNTED else summarized(x[k], None)["mean"]
                    for (head, w), x in beside.items() if head == metric}  # fmt: skip
            yield {**ordered, "metric": metric, **found, **more}


def predicted(name: str, setting: Mapping[str, Any], at: Mapping[str, Any]) -> float:
    """The single number that a claim predicts at a setting; `at` gives the parameters that the setting lacks.

    >>> round(predicted("staleness/stability-boundary", {"staleness": 0, "method": "gradient"},
    ...                 {"curvatures": (2.0,)}), 3)
    1.0
    """
    claim = claims.claim(name)
    known = [row["name"] for row in claim.point.described()]
    checks.each_of(f"--at of {claim.id}", at, known, f"see `asyncsim list claims {claim.id}`")
    numbers = claim.predict({**{key: value for key, value in setting.items() if key in known}, **at})
    checks.require(len(numbers) == 1, "claim", claim.id, "one that predicts one number", "choose another claim")
    return float(next(iter(numbers.values())))


@dataclass(frozen=True)
class Kept:
    """One sweep of a store: its plan, the manifest of its first run, and its counts of finished and failed units."""

    plan: Plan
    made: dict[str, Any]
    there: int
    failed: int

    def row(self) -> dict[str, Any]:
        """The stored sweep as a JSON object."""
        plan = self.plan
        counts = {"units": len(plan.keys), "there": self.there, "failed": self.failed}
        own = {"id": plan.id, "time": self.made["time"], "asyncsim": self.made["asyncsim"], **counts}
        return {**own, "values": plan.values, "metrics": plan.metrics, "reading": plan.words, "seed": plan.seed}

    def __str__(self) -> str:
        """The sweep in one line."""
        values = "; ".join(f"{name}: {len(each)} values" for name, each in self.plan.values.items())
        failed = f", {self.failed} failed" if self.failed else ""
        units = f"{self.there} of {len(self.plan.keys)} units{failed}"
        return f"{self.plan.id}  {self.made['time'][:16]}  {units}  {values}"


def sweeps(store: Store) -> list[Kept]:
    """All sweeps of a store, latest first."""
    there, failures = set(store.names("units")), set(store.names("failed"))
    kept = []
    for name in _ids(store):
        plan, made = loaded(store, name)
        done = sum(units.name_of(key) in there for key in plan.keys)
        failed = sum(units.failure_of(key) in failures for key in plan.keys)
        kept.append(Kept(plan, made, done, failed))
    return sorted(kept, key=lambda each: (each.made["time"], each.plan.id), reverse=True)


def _ids(store: Store) -> list[str]:
    return [match[1] for name in store.names("sweeps") if (match := SWEEP.fullmatch(name)) is not None]


def chosen(store: Store, name: str | None) -> Plan:
    """Plan of the sweep whose id starts with a name; without a name, the store must have a single sweep."""
    known = _ids(store)
    fitting = [each for each in known if each.startswith(name or "")]
    remedy = f"name one of {', '.join(known[:8]) or 'none'}; see `asyncsim results ls`"
    checks.require(len(fitting) == 1, "sweep", name, f"the beginning of one id (fits {len(fitting)})", remedy)
    return loaded(store, fitting[0])[0]


@dataclass(frozen=True)
class Fault:
    """A unit file of a store with wrong content, and what is wrong."""

    name: str
    what: str


def verified(store: Store, again: int = 0, seed: int = 0, trust: Sequence[str] = ()) -> tuple[int, list[Fault]]:
    """Check all unit files of a store: their number, and those that are damaged, altered or misnamed."""
    names = [name for own in ("units", "trainings") for name in store.names(own) if UNIT.fullmatch(name)]
    faults: list[Fault] = []
    for name in names:
        try:
            table, about = storing.unpack(store.read(name), name)
        except checks.InputError:
            faults.append(Fault(name, "damaged"))
            continue
        own = ""
        with suppress(AttributeError, KeyError, TypeError):
            own = storing.name_of(about["told"])
        if own != name:
            faults.append(Fault(name, "not the unit that its name says"))
        elif storing.content(table) != about.get("rows"):
            faults.append(Fault(name, "altered"))
    sound = sorted(set(names) - {fault.name for fault in faults})
    drawn = np.random.default_rng(seed).permutation(len(sound))[:again]
    with outside.trusting(trust):
        return len(names), [*faults, *_repeated(store, [sound[k] for k in drawn])]


def _repeated(store: Store, names: Sequence[str]) -> Iterator[Fault]:
    """Units that give other rows when they are computed again with the present code."""
    import pyarrow as pa

    for name in names:
        about = storing.unpack(store.read(name), name)[1]
        try:
            rows = storing.content(pa.table(units.measured(about["told"])))
        except (Exception, SystemExit) as error:  # what a file tells, and a part from outside, can raise anything
            yield Fault(name, f"fails now ({error})")
            continue
        if rows != about["rows"]:
            made, told = about["made"], about["told"]
            root = ROOT if told["kind"] == storing.TRAINING else units.__name__
            odd = spec_code.changed(told["code"], spec_code.code_of(told["subject"], root)) or ["no code"]
            by = f"asyncsim {made['asyncsim']}, commit {made['commit']}; {', '.join(odd)} changed"
            yield Fault(name, f"other rows now (made by {by})")


def unneeded(store: Store) -> list[str]:
    """Files that no sweep of a store needs: units of no sweep, and failures of finished units or of no sweep."""
    remedy = "put it back under its name, or move it out of the store"
    for name in store.names("sweeps"):
        known = ".parquet" not in name or SWEEP.fullmatch(name) is not None
        checks.require(known, "plan", name, "named as a sweep names it, sweeps/ID.parquet", remedy)
    # Plans are read last: a sweep that begins meanwhile writes its plan in front of its units.
    there = {match[2]: name for name in store.names("units") if (match := UNIT.fullmatch(name)) is not None}
    failures = {match[1]: name for name in store.names("failed") if (match := FAILURE.fullmatch(name)) is not None}
    needed = {key for name in _ids(store) for key in loaded(store, name)[0].keys}
    remedy = "bring sweeps/ back, or remove units/ by hand"
    checks.require(bool(needed or not there), "plans", "none", f"there beside {len(there)} units", remedy)
    over = [name for key, name in failures.items() if key in there or key not in needed]
    return [*(name for key, name in there.items() if key not in needed), *over]
