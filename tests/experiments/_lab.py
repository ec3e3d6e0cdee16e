"""A checkout of its own with the real machinery and experiments of no cost, run as commands."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import _store
from tests.forked import Forked

ROOT = Path(__file__).resolve().parents[2]
MACHINERY = ("__init__.py", "__main__.py", "_carried.py", "_contract.py", "_store.py")

FAKE = '''"""Does a {name} grow?"""

import os, pathlib

from experiments import _powers

SETTINGS = [{{"x": x, "seed": 5}} for x in range({count})]
QUICK = SETTINGS[:1]
COLUMNS = ["x", "value"]

def run(setting):
    with (pathlib.Path(__file__).parent / "log").open("a") as file:
        file.write(f"{name} {{setting['x']}}\\n")
    rows = 20000 if setting["x"] == 2 and os.environ.get("BIG") else 2
    return [{{"x": setting["x"], "value": _powers.power(setting["x"], {power}) + 0.1 * row}} for row in range(rows)]
'''
POWERS = '''"""Powers."""

def power(x, n):
    return x ** float(n)
'''
PAPER = '"""Do powers grow?"""\n\nQUESTIONS = ["squares", "cubes"]\n'


def rows_of(name, quick=False):
    """The fixture of a module: committed rows of an experiment, or quick ones."""
    made = (lambda quick_rows: quick_rows(name)) if quick else lambda: _store.read(name)
    return pytest.fixture(scope="module")(made)


def machinery(tmp_path):
    """The package of a checkout with the real machinery and no experiment."""
    package = tmp_path / "experiments"
    package.mkdir()
    for name in MACHINERY:
        shutil.copy(ROOT / "experiments" / name, package / name)
    return package


def made(tmp_path):
    """A checkout with the real machinery, two experiments and a paper that asks for both."""
    package = machinery(tmp_path)
    (package / "_powers.py").write_text(POWERS)
    (package / "squares.py").write_text(FAKE.format(name="squares", count=4, power=2))
    (package / "cubes.py").write_text(FAKE.format(name="cubes", count=2, power=3))
    (package / "growth.py").write_text(PAPER)
    return tmp_path


def start(lab, *arguments, limit=None, **environment):
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if arguments[:2] == ("-m", "experiments") and "--workers" not in arguments:
        arguments += ("--workers", "1")  # settings in their order
    command = [sys.executable, *arguments]
    return Forked(command, cwd=lab, env=variables, text=True, limit=limit, **streams)


def run(lab, *arguments, **more):
    process = start(lab, *arguments, **more)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def ran(lab):
    log = lab / "experiments" / "log"
    return log.read_text().splitlines() if log.exists() else []


def parts(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.glob("part-*"))}
