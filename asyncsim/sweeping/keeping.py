"""What a store holds: its sweeps, whether their rows are as they were written and come out again, what nobody needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from asyncsim.base import checks, outside, spec_code
from asyncsim.base import store as storing
from asyncsim.base.store import Store
from asyncsim.comparing.keeping import ROOT
from asyncsim.sweeping import plans, units
from asyncsim.sweeping.plans import SWEEP, Plan

FAILURE = re.compile(r"failed/([0-9a-f]{32})\.json")
UNIT = re.compile(r"units/([0-9a-f]{2})/(\1[0-9a-f]{30})\.parquet|trainings/[0-9a-f]{32}/[0-9a-f]{32}\.parquet")
"""Names of the files that sweeps and comparisons write; others in a store are somebody else's."""


@dataclass(frozen=True)
class Kept:
    """One sweep of a store: its plan, the manifest of its first run, how many of its units are there and failed."""

    plan: Plan
    made: dict[str, Any]
    there: int
    failed: int

    def row(self) -> dict[str, Any]:
        """The JSON object."""
        plan = self.plan
        counts = {"units": len(plan.keys), "there": self.there, "failed": self.failed}
        own = {"id": plan.id, "time": self.made["time"], "asyncsim": self.made["asyncsim"], **counts}
        return {**own, "values": plan.values, "metrics": plan.metrics, "reading": plan.words, "seed": plan.seed}

    def __str__(self) -> str:
        """One line."""
        values = "; ".join(f"{name}: {len(each)} values" for name, each in self.plan.values.items())
        failed = f", {self.failed} failed" if self.failed else ""
        units = f"{self.there} of {len(self.plan.keys)} units{failed}"
        return f"{self.plan.id}  {self.made['time'][:16]}  {units}  {values}"


def sweeps(store: Store) -> list[Kept]:
    """The sweeps of a store, the latest first."""
    there, failures = set(store.names("units")), set(store.names("failed"))
    kept = []
    for name in _ids(store):
        plan, made = plans.loaded(store, name)
        done = sum(units.name_of(key) in there for key in plan.keys)
        failed = sum(units.failure_of(key) in failures for key in plan.keys)
        kept.append(Kept(plan, made, done, failed))
    return sorted(kept, key=lambda each: (each.made["time"], each.plan.id), reverse=True)


def _ids(store: Store) -> list[str]:
    return [match[1] for name in store.names("sweeps") if (match := SWEEP.fullmatch(name)) is not None]


def chosen(store: Store, name: str | None) -> Plan:
    """The plan whose id begins with a name; of several sweeps one has to be named."""
    known = _ids(store)
    fitting = [each for each in known if each.startswith(name or "")]
    remedy = f"name one of {', '.join(known[:8]) or 'none'}; see `asyncsim results ls`"
    checks.require(len(fitting) == 1, "sweep", name, f"the beginning of one id (fits {len(fitting)})", remedy)
    return plans.loaded(store, fitting[0])[0]


@dataclass(frozen=True)
class Fault:
    """A file of a unit that is not what it should be."""

    name: str
    what: str


def verified(store: Store, again: int = 0, seed: int = 0, trust: Sequence[str] = ()) -> tuple[int, list[Fault]]:
    """How many unit files were read, and those that are damaged, altered or misnamed.

    `again`: so many of them, drawn by `seed`, are done once more and compared to the bit. `trust`: places of your own
    code, my.py:name, that they may call.
    """
    names = [name for own in ("units", "trainings") for name in store.names(own) if UNIT.fullmatch(name)]
    faults = [Fault(name, what) for name in names if (what := _fault(store, name))]
    sound = sorted(set(names) - {fault.name for fault in faults})
    drawn = np.random.default_rng(seed).permutation(len(sound))[:again]
    with outside.trusting(trust):
        return len(names), [*faults, *_repeated(store, [sound[k] for k in drawn])]


def _fault(store: Store, name: str) -> str:
    """What is wrong with a unit's file, "" where nothing is."""
    try:
        table, about = storing.unpack(store.read(name), name)
    except checks.InputError:
        return "damaged"
    try:
        own = storing.name_of(about["told"])
    except (AttributeError, KeyError, TypeError):
        own = ""
    if own != name:
        return "not the unit that its name says"
    return "" if storing.content(table) == about.get("rows") else "altered"


def _repeated(store: Store, names: Sequence[str]) -> Iterator[Fault]:
    """Units that give other rows when they are done again, here and now."""
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
    """Files that no sweep of the store needs: units of none, failures of units that are there or of none.

    Raises `InputError` where what the sweeps need is not known: plans are missing, damaged or under other names.
    """
    remedy = "put it back under its name, or move it out of the store"
    for name in store.names("sweeps"):
        known = ".parquet" not in name or SWEEP.fullmatch(name) is not None
        checks.require(known, "plan", name, "named as a sweep names it, sweeps/ID.parquet", remedy)
    # Plans are read last: a sweep that begins meanwhile writes its plan in front of its units.
    there = {match[2]: name for name in store.names("units") if (match := UNIT.fullmatch(name)) is not None}
    failures = {match[1]: name for name in store.names("failed") if (match := FAILURE.fullmatch(name)) is not None}
    needed = {key for name in _ids(store) for key in plans.loaded(store, name)[0].keys}
    remedy = "bring sweeps/ back, or remove units/ by hand"
    checks.require(bool(needed or not there), "plans", "none", f"there beside {len(there)} units", remedy)
    over = [name for key, name in failures.items() if key in there or key not in needed]
    return [*(name for key, name in there.items() if key not in needed), *over]
