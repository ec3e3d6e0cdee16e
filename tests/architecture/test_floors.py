"""Imports go down only: the drawing of the layout, held by reading every import of the package."""

import re

import pytest

from tests.architecture.source import ROOT, imports, modules

FLOORS = [
    {"base", "fusing"},
    {"systems", "step"},
    {"schedules", "policies"},
    {"tasks"},
    {"advantages", "penalties", "factors", "rewards"},
    {"methods"},
    {"updates", "sampling"},
    {"diagnostics"},
    {"running"},
    {"validation", "conformance", "comparing"},
    {"live", "exporting"},
    {"claims"},
    {"sweeping"},
    {"plotting", "testing", "diagnosing"},
    {"forecasting"},
    {"app"},
    {"", "__main__"},  # the package itself: lazy public names, and `python -m asyncsim`
]
"""Every room of the package from the ground up; a new one takes its place here first."""

GROUND_ONLY = {"systems", "validation", "plotting"}
"""Rooms above the ground that may import the ground alone."""

PLUGINS = set().union(*FLOORS[1:9]) - {"step", "sampling", "running"} | {"claims"}

PLACE = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def known_modules() -> set[str]:
    """Modules that exist, and the rooms of the drawing."""
    return set(modules()) | {f"asyncsim.{room}" for room in PLACE if room}


def part_of(module: str) -> str:
    return [*module.split("."), ""][1]


def plugin_folder(module: str, known: set[str]) -> str:
    """The folder in which a plug-in file stands: files there do not know one another; "" for all other modules."""
    folder, _, name = module.rpartition(".")
    is_file = module not in {other.rpartition(".")[0] for other in known} and folder != "asyncsim"
    plugin = part_of(module) in PLUGINS and is_file and not name.startswith("_") and folder != "asyncsim.claims.lab"
    return folder if plugin else ""


def violation(module: str, imported: str, known: set[str]) -> str | None:
    """Why this module may not import that one; None where it may."""
    here, there = part_of(module), part_of(imported)
    for part in (here, there):
        if part not in PLACE:
            return f"{part} has no place in FLOORS"
    folder = plugin_folder(module, known)
    if folder and folder == plugin_folder(imported, known) and module != imported:
        return f"{module} imports its sibling {imported}"
    if here == there:
        return None
    if here in GROUND_ONLY and PLACE[there] > 0:
        return f"{module} imports {imported}: only floor 0 is open to {here}"
    if PLACE[there] < PLACE[here] or PLACE[here] == PLACE[there] == 0:
        return None
    return f"{module} (floor {PLACE[here]}) imports {imported} (floor {PLACE[there]})"


def violations(source: str, module: str, is_package: bool = False) -> list[str]:
    known = known_modules() | {module}
    found = (violation(module, imported, known) for imported in sorted(imports(source, module, is_package, known)))
    return [reason for reason in found if reason]


def test_imports_go_down_only():
    for module, path in modules().items():
        assert violations(path.read_text(encoding="utf-8"), module, path.name == "__init__.py") == [], module


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("asyncsim.base.checks", "from asyncsim.claims import claims"),
        ("asyncsim.base.records", "import asyncsim.systems"),
        ("asyncsim.base.checks", "import asyncsim"),
        ("asyncsim.claims.ess.limit", "from asyncsim.claims.ess import clamp_floor"),
        ("asyncsim.claims.ess.limit", "from .clamp_floor import ClampFloor"),
        ("asyncsim.running.spec", "import asyncsim as sim\nsim.claims.claim"),
        ("asyncsim.sampling.rollouts", "def f():\n    from asyncsim.claims._delay import critical_step"),
        ("asyncsim.validation.judging", "from asyncsim.step import ratios"),
        ("asyncsim.validation.judging", "from ..claims import claims"),
        ("asyncsim.advantages.traces", "from asyncsim.advantages.baselines import group_mean"),
        ("asyncsim.advantages.traces", "from . import optimal"),
        ("asyncsim.systems._system", "from asyncsim.schedules import fixed"),
        ("asyncsim.step.batch", "from asyncsim.sampling.rollouts import x"),
        ("asyncsim.methods.clipped", "from asyncsim.updates._link import Link"),
        ("asyncsim.nowhere", "from asyncsim.base import checks"),
    ],
)
def test_a_wrong_import_is_seen(module, source):
    assert violations(source, module)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("asyncsim.base.uncertainty", "from asyncsim.base.rng import Stream\nimport numpy"),
        ("asyncsim.schedules.fixed", "from asyncsim.systems import _system\nfrom asyncsim.schedules._imposed import x"),
        ("asyncsim.app.verifying", "from asyncsim import claims, validation"),
        ("asyncsim.app.verdicts", "from asyncsim.app import verifying"),
        ("asyncsim.claims.ess.limit", "from .._bandit import softmax"),
    ],
)
def test_a_right_import_passes(module, source):
    assert violations(source, module) == []


def test_every_room_stands_on_one_floor():
    assert sum(map(len, FLOORS)) == len(PLACE)


def test_the_page_of_the_design_has_the_same_floors():
    page = (ROOT / "asyncsim" / "DESIGN.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (.+?) \|", page, re.M)
    drawn = {room: int(floor) for floor, rooms in rows for room in re.findall(r"`(\w+)/`", rooms)}
    # The page has the signals of a collapse where they are going: in `diagnosing`.
    assert drawn == {room: floor for room, floor in PLACE.items() if room not in ("", "__main__")}
