"""Imports go down only: the drawing of the layout, held by reading every import of the package."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import pytest

from tests.architecture.source import imports, modules

FLOORS = {
    0: {"base", "learning", "app", "fusing"}
    | {
        f"base.{name}"
        for name in (
            "notation",
            "records",
            "answers",
            "rng",
            "rng_compiled",
            "checks",
            "declared",
            "uncertainty",
            "quantiles",
            "plugins",
            "outside",
            "digests",
            "spec_code",
            "calls",
            "manifest",
            "laws",
            "measured",
            "knobs",
            "parts",
            "feeds",
            "trace",
            "memory",
            "stopping",
            "progress",
            "showing",
            "files",
            "store",
            "workers",
            "swept",
            "columns",
            "labelled",
            "compiling",
        )
    },
    1: {
        "systems",
        "schedules",
        "tasks",
        "policies",
        "learning.batch",
        "learning.versions",
        "learning.ratios",
        "learning.step",
        "learning.minibatches",
        "learning.standing",
        "learning.packing",
        "learning.callbacks",
    },
    2: {
        "advantages",
        "penalties",
        "factors",
        "methods",
        "updates",
        "rewards",
        "learning.rollouts",
        "learning.evaluating",
        "learning.drawing",
        "learning.rng_torch",
    },
    3: {
        "learning.spec",
        "learning.updating",
        "learning.fused",
        "learning.sources",
        "learning.loop",
        "learning.blocks",
        "learning.joining",
        "learning.checkpoint",
        "learning.spreading",
        "learning.parcels",
        "learning.helping",
        "learning.training",
        "learning.running",
        "diagnostics",
        "learning.oracle",
    },
    4: {"claims", "validation", "conformance", "comparing", "sweeping", "live"},
    5: {"plotting", "testing", "diagnosing"},
    6: {
        f"app.{name}"
        for name in (
            "verifying",
            "comparing",
            "sweeping",
            "formulas",
            "evidence",
            "page",
            "judgments",
            "markdown",
            "reporting",
            "verdicts",
            "wording",
            "streams",
            "timelines",
            "conforming",
            "logs",
            "diagnosing",
            "commands",
            "completing",
            "complaints",
            "options",
            "cli",
        )
    },
    7: {"", "__main__"},  # the package itself: lazy public names, and `python -m asyncsim`
}
FOLDERS = {"base", "learning", "app"}
"""Folders whose files are parts of their own."""
"""Every part of the package; a new one takes its place here first."""

GROUND_ONLY = {"systems", "validation", "plotting"}
"""Parts above floor 0 that may import floor 0 alone."""

BESIDE = {
    "schedules": {"systems"},
    "learning.batch": {"learning.versions"},
    "policies": {"learning.batch", "learning.versions"},
    "tasks": {"policies", "learning.batch", "learning.versions"},
    "learning.step": {"learning.batch", "learning.ratios", "learning.versions"},
    "learning.minibatches": {"learning.batch", "learning.step", "learning.versions"},
    "methods": {"advantages", "penalties", "factors"},
    "learning.drawing": {"learning.rollouts"},
    "learning.evaluating": {"learning.rollouts"},
    "updates": {"methods"},
    "diagnostics": {"learning.oracle"},
    "learning.fused": {"diagnostics", "learning.updating"},
    "learning.loop": {"diagnostics", "learning.updating"},
    "learning.spec": {"diagnostics"},
    "learning.checkpoint": {"learning.spec"},
    "learning.sources": {"learning.spec"},
    "learning.blocks": {
        "learning.spec",
        "learning.sources",
        "learning.updating",
        "learning.fused",
        "learning.loop",
        "diagnostics",
    },
    "learning.joining": {"learning.spec", "learning.sources", "diagnostics"},
    "learning.spreading": {"learning.spec"},
    "learning.parcels": {"learning.spec", "learning.blocks"},
    "learning.helping": {"learning.sources", "learning.blocks", "learning.spreading", "learning.parcels"},
    "learning.training": {
        "learning.sources",
        "learning.blocks",
        "learning.checkpoint",
        "learning.spreading",
        "learning.parcels",
        "learning.helping",
        "diagnostics",
    },
    "learning.running": {
        "learning.spec",
        "learning.fused",
        "learning.sources",
        "learning.blocks",
        "learning.joining",
        "learning.checkpoint",
        "learning.spreading",
        "learning.training",
        "diagnostics",
    },
    "claims": {"validation", "live"},
    "sweeping": {"comparing", "claims"},
    "live": {"conformance"},
    "app.page": {"app.evidence"},
    "app.judgments": {"app.evidence", "app.page"},
    "app.markdown": {"app.judgments", "app.page"},
    "app.reporting": {"app.formulas", "app.judgments", "app.markdown", "app.page"},
    "app.verdicts": {
        "app.commands",
        "app.evidence",
        "app.judgments",
        "app.page",
        "app.reporting",
        "app.streams",
        "app.verifying",
    },
    "app.timelines": {"app.wording", "app.streams"},
    "app.conforming": {"app.wording"},
    "app.logs": {"app.wording"},
    "app.diagnosing": {"app.markdown", "app.reporting"},
    "app.wording": {"app.options"},
    "app.commands": {"app.options", "app.logs", "app.wording", "app.streams", "app.timelines"},
    "app.comparing": {"app.commands", "app.streams", "app.wording"},
    "app.sweeping": {"app.commands", "app.streams", "app.wording"},
    "app.completing": {"app.commands"},
    "app.cli": {
        "app.options",
        "app.commands",
        "app.comparing",
        "app.completing",
        "app.complaints",
        "app.conforming",
        "app.logs",
        "app.diagnosing",
        "app.streams",
        "app.sweeping",
        "app.verdicts",
        "app.wording",
    },
}
"""What a part may import from its own floor."""

PLUGINS = {part for floor in (1, 2, 3) for part in FLOORS[floor] if "." not in part} | {"claims"}

PLACE = {part: floor for floor, parts in FLOORS.items() for part in parts}


def known_modules() -> set[str]:
    """Modules that exist, and the parts of the drawing that do not exist yet."""
    return set(modules()) | {f"asyncsim.{part}" for part in PLACE if part}


def part_of(module: str) -> str:
    _, part, name = [*module.split("."), "", ""][:3]
    return f"{part}.{name}" if part in FOLDERS and name else part


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
    if PLACE[there] < PLACE[here] or PLACE[here] == PLACE[there] == 0 or there in BESIDE.get(here, ()):
        return None
    return f"{module} (floor {PLACE[here]}) imports {imported} (floor {PLACE[there]})"


def violations(source: str, module: str, is_package: bool = False) -> list[str]:
    known = known_modules() | {module}
    found = (violation(module, imported, known) for imported in sorted(imports(source, module, is_package, known)))
    return [reason for reason in found if reason]


@pytest.mark.parametrize("module", sorted(modules()))
def test_imports_go_down_only(module):
    path = modules()[module]
    assert violations(path.read_text(encoding="utf-8"), module, path.name == "__init__.py") == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("asyncsim.base.checks", "from asyncsim.claims import claims"),
        ("asyncsim.base.records", "import asyncsim.systems"),
        ("asyncsim.base.checks", "import asyncsim"),
        ("asyncsim.claims.ess.limit", "from asyncsim.claims.ess import clamp_floor"),
        ("asyncsim.claims.ess.limit", "from .clamp_floor import ClampFloor"),
        ("asyncsim.learning.spec", "import asyncsim as sim\nsim.claims.claim"),
        ("asyncsim.learning.rollouts", "def f():\n    from asyncsim.claims._delay import critical_step"),
        ("asyncsim.validation.judging", "from asyncsim.learning import ratios"),
        ("asyncsim.validation.judging", "from ..claims import claims"),
        ("asyncsim.advantages.traces", "from asyncsim.advantages.baselines import group_mean"),
        ("asyncsim.advantages.traces", "from . import optimal"),
        ("asyncsim.systems._system", "from asyncsim.schedules import fixed"),
        ("asyncsim.learning.batch", "from asyncsim.learning.rollouts import x"),
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


def test_every_part_stands_on_one_floor():
    assert sum(map(len, FLOORS.values())) == len(PLACE)


def test_parts_of_one_floor_form_no_circle():
    TopologicalSorter(BESIDE).prepare()
    with pytest.raises(CycleError):
        TopologicalSorter({**BESIDE, "learning.versions": {"tasks"}}).prepare()
