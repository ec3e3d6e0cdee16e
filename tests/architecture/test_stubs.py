"""What an editor and mypy see of the package: the committed stubs, and what mypy says of calls that are wrong."""

import re
import subprocess
import sys
import tomllib

from docs import stubs
from tests.architecture.source import PACKAGE, ROOT

RIGHT = """
spec = sim.Spec(sim.tasks.softmax_bandit(arms=4), sim.schedules.fixed(2), sim.methods.grpo(), sim.chain())
trace: sim.Trace = sim.run(spec.replace(updates=10), seed=0)
sim.chain(sim.updates.clip_norm(1.0), sim.updates.adam([0.1, 0.2]), sim.updates.ess_step("linear", floor=0.1))
sim.methods.truncated_is("token", cap=None, advantage=sim.advantages.offset(1), aggregator="constant")
sim.methods.reinforce().replace(factors=(sim.factors.token_mask(0, 2),), penalties=(sim.penalties.k3(to="behavior"),))
sim.systems.areal(4, 32, length=sim.lognormal(1.0, 0.8), load=1.5).staleness(6, 1, 0)
sim.Spec(sim.tasks.gym(), sim.systems.synchronous(), sim.methods.a2c(), sim.chain(), diagnostics=[sim.diagnostics.ess])
"""
WRONG = """
sim.methods.gpro()  # attr-defined
sim.diagnostics.ess_tokens  # attr-defined
sim.conformance.chek_loss  # attr-defined
sim.laws.log_normal(1.0, 0.8)  # attr-defined
sim.Spec("a", 3, 4, 5)  # arg-type
sim.run("spec")  # arg-type
sim.run(spec, sed=1)  # call-arg
sim.chain(0.1)  # arg-type
sim.methods.grpo(lo=0.1)  # call-arg
sim.methods.grpo(low="narrow")  # arg-type
sim.methods.ppo_clip(anchor="behaviour")  # arg-type
sim.methods.truncated_is(advantage=0.5)  # arg-type
sim.advantages.offset()  # call-arg
sim.factors.token_mask(height=2.0)  # call-arg
sim.penalties.k3(to="old")  # arg-type
sim.updates.sgd()  # call-arg
sim.updates.adam("fast")  # arg-type
sim.tasks.softmax_bandit(arms=2.5)  # arg-type
sim.systems.areal(4, 32)  # call-arg
sim.systems.areal(4, 32, max_concurrent_rollouts="many", length=1.0, load=1.0)  # arg-type
sim.systems.verl_separate_async(8, max_off_policy_strategy="stop", length=1.0)  # arg-type
"""


def test_committed_stubs_are_those_of_the_parts_and_are_installed_with_the_package():
    assert stubs.stale() == [], "run `python -m docs.stubs`"
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["asyncsim"]
    packed = {path for pattern in data for path in PACKAGE.glob(pattern)}
    assert packed >= {PACKAGE / "py.typed", *PACKAGE.rglob("*.pyi")}


def test_mypy_refuses_every_wrong_call_and_no_right_one(tmp_path):
    """In a folder elsewhere. Torch and others are not read, which would take a minute for what no line here needs."""
    calls, config = tmp_path / "calls.py", tmp_path / "mypy.ini"
    calls.write_text(f"import asyncsim as sim{RIGHT}{WRONG}")
    config.write_text(
        f"[mypy]\nmypy_path = {ROOT}\ncache_dir = {ROOT / '.mypy_cache/calls'}\nfollow_imports = silent\n"
        "ignore_missing_imports = True\n[mypy-torch.*,matplotlib.*,rich.*,typer.*]\nfollow_imports = skip\n"
    )
    command = [sys.executable, "-m", "mypy", "--no-error-summary", calls.name]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    found = {(int(line), code) for line, code in re.findall(r"calls\.py:(\d+): error: .*\[(.*)\]", said.stdout)}
    lines = enumerate(calls.read_text().splitlines(), 1)
    assert found == {(line, text.partition("  # ")[2]) for line, text in lines if "  # " in text}, said.stdout
