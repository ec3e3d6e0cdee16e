"""What must stay when code moves: `python -m tests.golden FOLDER [KIND ...]`, at a commit and at the next.

Writes one JSON file a kind: verdict rows of all claims with their defects, what `list` says, settings of all presets,
gradients of every part on one batch, what each argument of a part refuses and in which words, help of every command.
`diff -r` of both folders says what a change did. Both are made on one machine and compared to the bit; nothing of them
is committed, since last bits are a processor's.
"""

import inspect
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

import asyncsim as sim
from asyncsim.app import verifying
from asyncsim.base import plugins, workers
from asyncsim.base.checks import InputError
from tests.contracts import laboratory
from tests.systems import contract

LISTED = (
    *("tasks", "policies", "systems", "schedules", "methods", "advantages", "factors", "penalties", "updates"),
    *("rewards", "diagnostics", "claims", "papers", "logs"),
)
COMMANDS = (
    *("run", "list", "compare", "sweep", "verify", "timeline", "log", "diagnose", "conformance", "device", "results"),
)
FIELDS = {"advantages": "advantage", "factors": "factors", "penalties": "penalties"}
BAD = (-1, 2.5, math.nan, "word", None, (1, -2))
"""Tried in place of every argument."""


def verdict(id):
    """The row of a claim at the quick size, with all its defects."""
    return {**verifying.verify_one(id, defects=True).row(), "seconds": 0.0}


def verdicts():
    """Rows of all claims."""
    names = verifying.every_claim()
    rows = workers.each("tests.golden:verdict", [(name,) for name in names], 2)
    return {names[number]: row for number, row in rows}


def parts():
    """What `list KIND --json` says."""
    return {kind: said("list", kind, "--json") for kind in LISTED}


def commands():
    """Help of every command."""
    return {" ".join(call): said(*call, "--help") for call in ((), *((name,) for name in COMMANDS))}


def said(*call):
    """Lines of a command."""
    script = str(Path(sys.executable).parent / "asyncsim")
    return subprocess.run([script, *call], capture_output=True, text=True, check=True).stdout.splitlines()


def presets():
    """Settings of every preset and schedule with its defaults."""
    return {name: answer(lambda name=name: preset(name)) for name in known("systems")}


def preset(name):
    """One preset, made with what it requires."""
    factory = getattr(sim.systems, name)
    usual = {"load": 1.5, "length": "lognormal:1.0:0.8", "workers": 4}
    accepted = inspect.signature(factory).parameters
    required = {each: 4 for each, p in accepted.items() if p.default is p.empty and p.kind is not p.VAR_KEYWORD}
    return factory(**{**required, **{each: value for each, value in usual.items() if each in accepted}}).describe()


def weights():
    """Gradients of every method, and of REINFORCE with every advantage, factor and penalty, on one batch."""
    return {f"{kind}/{name}": answer(lambda kind=kind, name=name: gradient(kind, name)) for kind, name in made_of()}


def made_of():
    """Kinds and names of what a method is made of."""
    return [(kind, name) for kind in ("methods", *FIELDS) for name in known(kind)]


def gradient(kind, name):
    """That of the part on a random batch."""
    part = laboratory.make(kind, name)
    if kind != "methods":
        field = FIELDS[kind]
        part = sim.methods.reinforce().replace(**{field: part if kind == "advantages" else (part,)})
    return laboratory.trial_of(part).gradient(part).tolist()


def refusals():
    """What every argument of every part says to values that most of them cannot take."""
    found = {}
    for kind in (*FIELDS, "methods", "updates", "systems", "schedules", "tasks"):
        for name in known(kind):
            factory = plugins.load(f"asyncsim.{kind}", name, kind)
            found[f"{kind}/{name}(unknown)"] = answer(lambda factory=factory: factory(surely_unknown=1), False)
            for argument in inspect.signature(factory).parameters:
                for bad in BAD:
                    call = f"{kind}/{name}({argument}={bad!r})"
                    given = {argument: bad}
                    if kind == "systems":
                        found[call] = answer(lambda make=factory, n=name, g=given: make(**{**settings(n), **g}), False)
                    else:
                        found[call] = answer(lambda k=kind, n=name, g=given: laboratory.make(k, n, **g), False)
    return found


def settings(preset):
    """What a preset needs at least."""
    knobs = next(case[0] for name, case in contract.CASES.items() if name.partition(" ")[0] == preset)
    takes = contract.parameters(preset)
    if "service" in takes:
        return {**knobs, "service": 1.0}
    return {**knobs, "length": 1.0, **({"load": 0.5} if "load" in takes else {"train_time": 1.0})}


def known(kind):
    """Names of a kind."""
    return list(plugins.summaries(f"asyncsim.{kind}"))


def answer(call, whole=True):
    """What a call gives, or how it refuses."""
    try:
        made = call()
    except (InputError, AssertionError, TypeError, ValueError, AttributeError, pytest.skip.Exception) as error:
        return f"{type(error).__name__}: {error}"
    return made if whole else "taken"


KINDS = (parts, presets, commands, weights, refusals, verdicts)


if __name__ == "__main__":
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    folder.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        if not names or kind.__name__ in names:
            made = json.dumps(kind(), default=str, sort_keys=True, indent=1)
            (folder / f"{kind.__name__}.json").write_text(made + "\n", encoding="utf-8")
