"""What holds on every processor: bits that DESIGN.md promises, and a second run of all tests of what is committed."""

import contextlib
import io
import os
import platform
import re
import shlex
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.architecture.source import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
OLDER = dict(word.split("=", 1) for word in shlex.split(" ".join(re.findall(r"^OLDER .?= (.*)$", MAKEFILE, re.M))))
"""Variables under which `make test-older` runs."""
PROMISED = """
import hashlib
import numpy as np
import asyncsim as sim
from asyncsim.base import laws, rng

spec = sim.Spec(
    sim.tasks.token_bandit(), sim.schedules.fixed(2), sim.methods.ppo_clip(), sim.chain(sim.updates.adam(0.01)),
    updates=20, replicates=8, compiled=True,
)
run, stream = sim.run(spec, seed=1), rng.Stream(3, "actions")
system = sim.systems.areal(4, 8, load=2.0, length=laws.empirical(np.arange(100.0, 900.0, 7.0)))
line = system.timeline(60, samples_per_group=2, seed=1)
found = {"draws": stream.uniform(np.arange(999), 0, 0, 0), "parameters": run.parameters, **run.metrics}
found |= {f"{table}/{name}": column for table in line.TABLES for name, column in getattr(line, table).items()}
print({name: hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest() for name, values in found.items()})
"""
"""Keyed draws, a program's updates and metrics, and the event kernel on lengths that no exponential makes."""


def said(program: str, **variables: str) -> str:
    """What a program prints as a processor that the variables describe."""
    plain = {name: value for name, value in os.environ.items() if name not in OLDER}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env={**plain, **variables}, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.rows
@pytest.mark.committed
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the variables name processors of one family")
def test_promised_bits_are_those_of_an_older_processor_too() -> None:
    """Beside a matrix product, which is not promised: the variables do choose another processor.

    Run by `make test-older`, which has code for the older one; compiling it here alone takes 17 seconds.
    """
    with contextlib.redirect_stdout(io.StringIO()) as found:
        exec(PROMISED, {})
    # Here this is the older one already, and the processor at hand the other.
    other = {} if OLDER.items() <= os.environ.items() else OLDER
    assert found.getvalue().count("/") > 30 and said(PROMISED, **other) == found.getvalue()
    matrix = "import numpy as np; m = np.random.default_rng(0).normal(size=(99, 99)); print((m @ m).sum().hex())"
    assert said(matrix, OPENBLAS_CORETYPE="Sandybridge") != said(matrix, **OLDER)


def test_ci_runs_what_is_committed_a_second_time() -> None:
    assert set(OLDER) == {"OPENBLAS_CORETYPE", "ATEN_CPU_CAPABILITY", "NPY_DISABLE_CPU_FEATURES", "NUMBA_CPU_NAME"}
    steps = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert steps.index("step make test\n") < steps.index("step make test-older\n")
    assert re.search(r"^test-older:.*\n\t\$\(OLDER\) .* -m \"committed and ", MAKEFILE, re.M)
    assert "\t$(OLDER) $(MAKE) test\n" in MAKEFILE.partition("\ntest-long:")[2].partition("\n\n")[0]


def test_no_test_opens_committed_numbers_without_saying_so(request: pytest.FixtureRequest) -> None:
    """So the second run is complete: tests/conftest.py fails one that is not marked."""
    (suite,) = (each for each in request.config.pluginmanager.get_plugins() if hasattr(each, "opened"))

    def ended(*marks: str) -> None:
        list(suite.pytest_runtest_teardown(SimpleNamespace(get_closest_marker=marks.count)))

    for path in ("docs/explorer.html", "notebooks/1_staleness.ipynb", "experiments/results/league/part-0.parquet"):
        suite.opened.clear()
        ended()
        suite.note("open", (str(ROOT / path), "rb", 0))
        with pytest.raises(AssertionError, match=f"opens {path}: mark it `committed`"):
            ended()
        ended("committed")
    suite.opened.clear()
    (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    (ROOT / "paper_figures" / "league.py").read_text(encoding="utf-8")
    assert not suite.opened
    (ROOT / "paper_figures" / "claims.json").read_bytes()
    assert suite.opened == {"paper_figures/claims.json"}
    suite.opened.clear()
