"""What runs ask of the device, stage by stage: `python -m tests.device.counting` writes it to budget.json."""

import json
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import asyncsim as sim
from asyncsim.diagnostics._diagnostic import Recorder
from asyncsim.running import updating
from asyncsim.sampling import drawing
from asyncsim.updates._link import Chain
from tests.device.configurations import acting, coupled, in_flight, module, run, talking
from tests.device.tagged import pretended

BUDGET = Path(__file__).with_name("budget.json")
WHAT = ("launches", "waits", "copies")
SHORT, LONG = 4, 8
"""Tokens of a response."""
FEW, MORE = 3, 5
"""Updates of a run."""


def sums(horizon):
    return sim.tasks.arithmetic(digits=1, prompts=4, horizon=horizon)


def steps(horizon):
    return sim.tasks.gym("CartPole-v1", trajectory="segment", steps=horizon)


def of_language(policy=None, **changes):
    """A run by its horizon; the way in which a device draws is its own."""
    return lambda horizon: talking({"decode": "auto", **(policy or {})}, task=sums(horizon), **changes)


KINDS = {
    "language": of_language(),
    "language, packed": of_language({"decode": "packed"}),
    "language, drawn late": of_language(drawing="late"),
    "language, versions in flight": of_language(system=in_flight),
    "language, coupled": of_language(system=coupled("in flight")),
    "language, rates per replicate": of_language(
        replicates=2, update=lambda: sim.chain(sim.updates.clip_norm(1.0), sim.updates.adam((1e-3, 1e-2)))
    ),
    "an environment": lambda horizon: acting(task=steps(horizon), update=lambda: sim.chain(sim.updates.adam(1e-3))),
    "a module": lambda horizon: acting(module, task=steps(horizon)),
}
"""Kinds of runs that are counted, as functions of the tokens of a response."""

STAGES = {
    "draw": [(kind, name) for kind in (drawing.Early, drawing.Late, drawing.Ahead) for name in ("publish", "take")],
    "evaluate": [(updating, "evaluate")],
    "optimizer": [(Chain, "apply"), (updating, "advance")],
    "record": [(Recorder, "observe")],
}
"""Functions of each stage of an update."""


def asked(spec):
    """Totals of a run by stage, {stage: {what: count}}; the innermost stage counts."""
    totals, open_stages = defaultdict(lambda: dict.fromkeys(WHAT, 0)), []

    def watched(function, stage, ledger):
        def call(*args, **kwargs):
            if stage in open_stages:
                return function(*args, **kwargs)
            before = ledger.totals
            open_stages.append(stage)
            try:
                return function(*args, **kwargs)
            finally:
                open_stages.pop()
                for name, count in ledger.totals.items():
                    totals[stage][name] += count - before[name]

        return call

    with pretended(same=False) as ledger, ExitStack() as stack:
        for stage, functions in STAGES.items():
            for owner, name in functions:
                stack.enter_context(mock.patch.object(owner, name, watched(getattr(owner, name), stage, ledger)))
        run(spec("cuda"))
        totals["update"] = ledger.totals
    return totals


def counted(kind):
    """What a kind of run asks for with each token step and with each update, {"token" or stage: {what: count}}."""

    def spec(horizon, updates):
        return lambda device: KINDS[kind](horizon)(device).replace(updates=updates)

    short, more, long = asked(spec(SHORT, FEW)), asked(spec(SHORT, MORE)), asked(spec(LONG, FEW))
    token = {n: (long["draw"][n] - short["draw"][n]) / (FEW * (LONG - SHORT)) for n in WHAT}
    each = {s: {n: (more[s][n] - short[s][n]) / (MORE - FEW) for n in WHAT} for s in ("update", *STAGES)}
    return {s: {n: round(value, 1) for n, value in row.items()} for s, row in {"token": token, **each}.items()}


def moved(found, budget, slack=0.1):
    """What has grown beyond a budget, and what lies so far below that the budget is to be lowered, in words."""
    rows = [(f"{s}: {n}", found[s][n], budget[s][n]) for s in budget for n in WHAT]
    return [f"{name} grew from {b} to {x}" for name, x, b in rows if x > b + 0.05], [
        f"{name} fell from {b} to {x}" for name, x, b in rows if x < b * (1.0 - slack) - 1.0
    ]


if __name__ == "__main__":
    table = {kind: counted(kind) for kind in KINDS}
    BUDGET.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    print(BUDGET.read_text(encoding="utf-8"))
