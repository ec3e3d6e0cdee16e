"""What an editor and mypy see of the package: the committed stubs, and what mypy says of calls that are wrong."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jedi

import asyncsim as sim
from asyncsim.base import plugins
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
print(sim.compare(spec, spec.replace(method=sim.methods.gspo()), smallest=0.01, over="end").row())
sim.compare({"a": spec, "b": spec}, smallest=0.01, tasks=[sim.tasks.token_bandit(4, 8)], seed=3)
trace.final("ess").value + trace.final("ess").error
sim.Trace.load("run.npz").table().shape
sim.plot(trace, "run.png")
sim.sweep(lambda staleness: spec, {"staleness": [0, 4]}, replicates=8)
sim.power(spec, effect=0.01)
sim.predict(trace, "ess", lead=(0, 5)), sim.diagnose("telemetry.csv")
sim.verify("ess/limit", at={"sigma": 1.0})
sim.methods.added(sim.methods.grpo(), penalties=[sim.penalties.k3(0.01)])
sim.systems.trl(64, max_staleness=4, length="lognormal:5:1", load=1.2, model={"rate": 30})
sim.policies.module("my.py:net", observation=4, actions=2)
sim.chain(sim.updates.adam(0.01), sim.updates.lr_schedule(warmup=10, decay="cosine", updates=100))
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
sim.systems.areal(max_staleness=4)  # call-arg
sim.methods.grpo().replace(1)  # call-arg
sim.comapre(spec, smallest=0.1)  # attr-defined
sim.compare(spec, spec)  # call-arg
sim.compare(spec, spec, smallest="small")  # arg-type
trace.finl("ess")  # attr-defined
trace.final("ess").mean  # attr-defined
sim.Spec()  # call-arg
sim.Spec(spec.task, spec.system, spec.method, sim.updates.adam(0.1))  # arg-type
spec.updats  # attr-defined
sim.methods.added(sim.methods.grpo(), penalty=())  # call-arg
sim.systems.areal(4, 32, max_concurrent_rollouts="many", length=1.0, load=1.0)  # arg-type
sim.systems.verl_separate_async(8, max_off_policy_strategy="stop", length=1.0)  # arg-type
"""


def test_committed_stubs_are_those_of_the_parts_and_are_installed_with_the_package():
    assert stubs.stale() == [], "run `python -m docs.stubs`"
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["asyncsim"]
    packed = {path for pattern in data for path in PACKAGE.glob(pattern)}
    assert packed >= {PACKAGE / "py.typed", *PACKAGE.rglob("*.pyi")}


def test_mypy_refuses_every_wrong_call_and_no_right_one(tmp_path):
    """In a folder elsewhere. Of other packages NumPy alone is read; others take a minute that no line needs."""
    calls, config = tmp_path / "calls.py", tmp_path / "mypy.ini"
    calls.write_text(f"import asyncsim as sim{RIGHT}{WRONG}")
    config.write_text(
        f"[mypy]\nmypy_path = {ROOT}\ncache_dir = {ROOT / '.mypy_cache/calls'}\nfollow_imports = skip\n"
        "ignore_missing_imports = True\n[mypy-asyncsim.*,numpy.*]\nfollow_imports = silent\n"
    )
    command = [sys.executable, "-m", "mypy", "--no-error-summary", calls.name]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    found = {(int(line), code) for line, code in re.findall(r"calls\.py:(\d+): error: .*\[(.*)\]", said.stdout)}
    lines = enumerate(calls.read_text().splitlines(), 1)
    assert found == {(line, text.partition("  # ")[2]) for line, text in lines if "  # " in text}, said.stdout


def test_an_editor_completes_names_and_arguments(tmp_path):
    """Of text alone, as an editor reads it, and of living objects, as a notebook does."""
    # Other folders of the checkout would be opened.
    outside = [place for place in sys.path if place and not (ROOT in Path(place).parents and ".venv" not in place)]
    project = jedi.Project(tmp_path, sys_path=[str(ROOT), *outside], smart_sys_path=False)

    def names(text, live):
        alone = jedi.Script(f"import asyncsim as sim\n{text}", project=project)
        code = jedi.Interpreter(text, [{"sim": sim}], project=project) if live else alone
        return {each.name for each in code.complete()}

    for live in (False, True):
        assert names("sim.", live) >= {*sim.NAMES, *sim.PACKAGES}
        assert names("sim.systems.ar", live) == {"areal"}
        assert names("sim.systems.areal(max_", live) == {"max_concurrent_rollouts=", "max_head_offpolicyness="}
        assert names("sim.Spec(min", live) >= {"minibatches="} and names("sim.compare(small", live) == {"smallest="}
    assert names("sim.run(sim.Spec()).fin", live=False) == {"final"}


def test_dir_shows_public_names_alone():
    assert dir(sim) == sorted({*sim.NAMES, *sim.PACKAGES})
    for package in (getattr(sim, kind) for kind in plugins.PARTS):
        shown = {name for name in dir(package) if not name.startswith("__")}
        assert shown == {*plugins.summaries(package.__name__), *vars(package)["_beside"]} - {"engines"}
