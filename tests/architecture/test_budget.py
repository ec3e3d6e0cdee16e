"""What whoever carries this on must hold in the head, and what it may grow to: `budget.json`.

A number is raised together with a sentence in CHANGELOG.md that says what it bought, and lowered whenever it can be.
"""

import json
import sys
from pathlib import Path

import asyncsim as sim
from asyncsim.running import updating
from paper_figures._gallery import FOLDED
from tests.architecture.source import PACKAGE, ROOT, modules

BUDGET = json.loads(Path(__file__).with_name("budget.json").read_text(encoding="utf-8"))
SLACK = 0.03
"""How far below its limit a number may lie before the limit is lowered."""


def lines(paths):
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def words(name):
    return len((ROOT / name).read_text(encoding="utf-8").split())


def told(path):
    """Words of a page of the gallery but for bars of tables, and for tables of settings, which are folded lists."""
    return sum(word != "|" for word in FOLDED.sub("", path.read_text(encoding="utf-8")).split())


def spec(updates):
    """The update whose way through the code is counted."""
    return sim.Spec(
        sim.tasks.softmax_bandit(arms=4),
        sim.schedules.fixed(2),
        sim.methods.truncated_is(cap=4.0),
        sim.chain(sim.updates.clip_norm(1.0), sim.updates.adam(0.1)),
        samples_per_group=4,
        updates=updates,
        replicates=2,
        compiled=False,
    )


def entered(call):
    """Files of the package and functions of them that a call enters."""
    found = set()

    def note(frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            found.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {file for file, _ in found}, found


def measured(monkeypatch):
    """Every number of the budget, as it is."""
    sim.run(spec(3), progress=False)  # loading is over before anything is counted
    run, _ = entered(lambda: sim.run(spec(3), progress=False))
    update, plain = [], updating.Updater.__call__

    def counted(*given):
        made = []
        update.append(entered(lambda: made.append(plain(*given))))
        return made[0]

    monkeypatch.setattr(updating.Updater, "__call__", counted)
    sim.run(spec(3), progress=False)
    files, functions = update[-1]
    return {
        "lines of asyncsim/": lines(modules().values()),
        "files of asyncsim/": len(modules()),
        "lines of tests/": lines((ROOT / "tests").rglob("*.py")),
        "words of DESIGN.md": words("asyncsim/DESIGN.md"),
        "words of EXTENDING.md": words("asyncsim/EXTENDING.md"),
        "words of the gallery": sum(told(path) for path in (ROOT / "paper_figures").glob("*.md")),
        "files that one update enters": len(files),
        "functions that one update enters": len(functions),
        "files that one run enters": len(run),
    }


def test_the_budget_is_kept(monkeypatch):
    now = measured(monkeypatch)
    assert list(now) == list(BUDGET)
    above = {name: (value, BUDGET[name]) for name, value in now.items() if value > BUDGET[name]}
    assert not above, f"take something out, or raise the limit and say in CHANGELOG.md what it bought: {above}"
    loose = {name: (value, BUDGET[name]) for name, value in now.items() if value < (1.0 - SLACK) * BUDGET[name]}
    assert not loose, f"lower the limit: {loose}"
