"""What loads neither torch nor numba, each in a process of its own."""

import subprocess
import sys

import pytest

from tests.architecture.source import modules

HEAVY = ("torch", "numba")


def light_modules() -> list[str]:
    """Modules that must stay light; underscore files inside plug-in folders may hold kernels, imported by need."""
    floor_0 = ["notation", "records", "rng", "checks", "uncertainty", "plugins", "manifest", "laws", "knobs", "feeds"]
    names = ["asyncsim", *(f"asyncsim.base.{name}" for name in floor_0)]
    towers = ("asyncsim.systems", "asyncsim.schedules", "asyncsim.claims")
    names += [
        m for m in modules() if m.startswith(towers) and not m.rpartition(".")[2].startswith("_") and ".lab" not in m
    ]
    return [name for name in names if name in modules()]


def heavy_after(code: str) -> set[str]:
    """Heavy packages in `sys.modules` after the code."""
    ending = f"\nimport sys\nprint('loaded:', *[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code + ending], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("loaded:")[2].split())


@pytest.mark.parametrize("module", ["asyncsim", "asyncsim.systems", "asyncsim.schedules", "asyncsim.claims"])
def test_each_by_itself_is_light(module):
    assert heavy_after(f"import {module}") == set()


def test_everything_that_must_be_light_is():
    assert len(light_modules()) > 10
    assert heavy_after("\n".join(f"import {name}" for name in light_modules())) == set()


def test_the_help_of_the_command_line_is_light():
    code = """
import sys
from asyncsim.app.cli import main
sys.argv = ["asyncsim", "--help"]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""
    assert heavy_after(code) == set()


@pytest.mark.parametrize("heavy", HEAVY)
def test_a_heavy_import_is_seen(heavy):
    assert heavy in heavy_after(f"import asyncsim\nimport {heavy}")
