"""The digest of code: everything that a run reaches and nothing else, wherever rows and states are kept."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import asyncsim as sim
from asyncsim.base import digests, spec_code
from asyncsim.base.checks import InputError
from asyncsim.running import checkpoint
from tests.refusals import refused
from tests.sweeping.laboratory import bandit

RUN = "asyncsim.running.running"
MORE = "\n\nADDED = 1\n"
LINE = ("asyncsim.methods.clipped", "", MORE)
"""A change of a module that a GRPO run reaches and a REINFORCE run does not."""


def grpo(**changes):
    return bandit(**changes).replace(method=sim.methods.grpo())


def code(spec):
    return checkpoint.identified(spec)[2]["code"]


# What is reached.


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (LINE, "grpo"),
        (("asyncsim.running.loop", "", MORE), "both"),
        (("asyncsim.base.rng_compiled", "", MORE), "both"),
        (("asyncsim.schedules.imposed", "", MORE), "both"),
        (("asyncsim.methods.clipped", '"""', '"""Other words. '), "none"),
        (("asyncsim.methods.clipped", "import numpy as np", "# a comment\nimport numpy as np"), "none"),
        (("asyncsim.advantages.traces", "", MORE), "none"),
        (("asyncsim.plotting._style", "", MORE), "none"),
        (("asyncsim.app.commands", "", MORE), "none"),
        (("asyncsim.base.store", "", MORE), "none"),
    ],
)
def test_a_change_is_seen_by_the_runs_that_reach_it(edited, change, seen):
    specs = {"grpo": grpo(diagnostics=["ess"]), "reinforce": bandit(diagnostics=["ess"])}
    before = {name: code(spec) for name, spec in specs.items()}
    after = edited(change, lambda: {name: code(spec) for name, spec in specs.items()})
    expected = {"both": {"grpo", "reinforce"}, "none": set(), "grpo": {"grpo"}}[seen]
    assert {name for name in specs if before[name] != after[name]} == expected


def test_metrics_by_name_and_by_default_count(edited):
    change = ("asyncsim.diagnostics.gradients", "", MORE)
    for metrics, seen in (("default", True), (["gradient_norm"], True), (["ess"], False)):
        spec = bandit(diagnostics=metrics)
        assert (edited(change, lambda spec=spec: code(spec)) != code(spec)) == seen, metrics


EVERY = """
import sys
import asyncsim as sim
from asyncsim.base import digests, spec_code
areal = dict(length=1.0, train_time=2.0)
S, D, few = sim.systems, ["batch_return"], dict(updates=4, replicates=2, samples_per_group=2)
SPECS = [
    lambda: sim.Spec(sim.tasks.softmax_bandit(), sim.schedules.fixed(2), sim.methods.grpo(),
                     sim.chain(sim.updates.sgd(0.1)), diagnostics=D, **few),
    lambda: sim.Spec(sim.tasks.token_bandit(), S.areal(2, 2, 3, **areal), sim.methods.ppo_clip(),
                     sim.chain(sim.updates.clip_norm(1.0), sim.updates.adam(0.1)), diagnostics=["ess_token"],
                     compiled=True, **few),
    lambda: sim.Spec(sim.tasks.arithmetic(horizon=4), sim.schedules.coupled(S.areal(1, 1, 2, **areal)),
                     sim.methods.reinforce(), sim.chain(sim.updates.adam(0.1)), diagnostics=D,
                     policy=sim.policies.causal_lm("char", recipe={"width": 32, "layers": 1, "steps": 0}), **few),
    lambda: sim.Spec(sim.tasks.gym("CartPole-v1", steps=5), sim.schedules.fixed(1), sim.methods.a2c(),
                     sim.chain(sim.updates.adam(0.1)), policy=sim.policies.mlp(4, 2, critic=True, hidden=(8,)),
                     diagnostics=D, **few),
    lambda: sim.Spec(sim.tasks.softmax_bandit(), sim.schedules.fixed(2), sim.methods.reinforce(),
                     sim.chain(sim.updates.sgd(0.1)), rewards=sim.rewards.late(0.2, "drop"), **few),
]
def ours():
    files = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
    return {name for name, file in files.items() if name.startswith("asyncsim.") and not file.endswith("__init__.py")}
for make in SPECS[:int(sys.argv[1])]:
    before = ours()
    spec = make()
    sim.run(spec, progress=False)
    loaded, reached = ours() - before, {}
    digests.reached = lambda *starts: reached.update(digests.modules(*starts)) or ""
    spec_code.code_of(spec.to_dict(), "asyncsim.running.running")
    print(len(loaded), *sorted(loaded - reached.keys() - digests.MACHINERY))
"""


@pytest.mark.parametrize("count", [1, pytest.param(5, marks=pytest.mark.long)])
def test_every_module_that_a_run_loads_is_in_its_digest(count):
    """Seen from the other side: what Python really imported for a spec, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", EVERY, str(count)], capture_output=True, text=True, check=True)
    counts = [line.split() for line in done.stdout.splitlines()]
    assert len(counts) == count and int(counts[0][0]) > 60
    assert [each[1:] for each in counts] == [[]] * count


def test_names_are_read_through_packages_attributes_and_loads():
    def read(text):
        import ast

        return {name for name in digests.read_names(ast.parse(text).body, "own.module", "own") if "." in name}

    assert read("import asyncsim as sim\nsim.updates.sgd(0.1).lr") == {"asyncsim.updates.sgd"}
    assert read("from asyncsim import updates\nupdates.sgd(0.1)") >= {"asyncsim.updates.sgd"}
    assert "asyncsim.updates.*" not in read("from asyncsim import updates\nupdates.sgd(0.1)")
    assert "asyncsim.updates.*" in read("import asyncsim as sim\ngetattr(sim.updates, name)")
    assert "asyncsim.*" in read("import asyncsim as sim\ngetattr(sim, name)")
    load = "from asyncsim.base import plugins\nplugins.load({})"
    assert "asyncsim.policies.mlp" in read(load.format('"asyncsim.policies", "mlp", "policy"'))
    assert "asyncsim.policies.*" in read(load.format('"asyncsim.policies", name, "policy"'))
    assert "asyncsim.*" in read(load.format("package, name, kind"))
    assert read("from . import beside\nfrom .sub import x\nfrom ..far import y") == {"own.beside", "own.sub.x", "far.y"}
    assert digests.modules("asyncsim.penalties.k3").keys() >= {"asyncsim.penalties.divergences"}
    assert digests.modules("asyncsim.chain").keys() >= {"asyncsim.updates._link"}
    assert digests.modules("asyncsim.methods.from_loss").keys() >= {"asyncsim.methods._from_loss"}


def test_facts_that_are_kept_are_those_of_the_files(monkeypatch):
    """Kept facts are taken only where size, times and inode agree; an edit is read anew."""
    kept = digests._kept()
    name = "asyncsim.methods.clipped"
    path = digests._files()[name]
    fresh = digests._facts.__wrapped__(name, path)
    assert kept.facts(name, path).digest == fresh.digest
    monkeypatch.setitem(kept._held, name, [[0, 0, 0, 0], "stale", []])
    assert kept.facts(name, path).digest == fresh.digest


# Where it stands.


def test_units_of_changed_code_are_made_anew_and_the_old_ones_stay(edited, tmp_path, capsys):
    def swept(**changes):
        spec = bandit(diagnostics=["ess"])
        grid = {"method": [sim.methods.grpo(), sim.methods.reinforce()], "staleness": [0]}
        return sim.sweep(spec, grid, replicates=4, store=str(tmp_path), workers=1, **changes)

    first = swept()
    assert swept().made == 0 and capsys.readouterr().err == ""
    second = edited(LINE, swept)
    # REINFORCE does not reach the change.
    assert second.made == 1 and second.id != first.id
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "1 of 2 units were made by other code" in said and "--other-code" in said
    assert swept().made == 0 and swept().id == first.id
    third = edited((LINE[0], "", MORE + "AGAIN = 1\n"), lambda: swept(other_code=True))
    assert third.made == 0 and [row["mean"] for row in third.summary] == [row["mean"] for row in first.summary]
    assert "and count here" in capsys.readouterr().err


def test_a_checkpoint_of_other_code_is_refused_in_one_line(edited, tmp_path):
    path = tmp_path / "c.npz"
    whole = sim.run(grpo(), seed=3, checkpoint=path)
    with pytest.raises(InputError, match=r"of this code \(modules of asyncsim changed\).*--other-code") as caught:
        edited(LINE, lambda: sim.run(resume=path))
    assert "\n" not in str(caught.value)
    assert edited(LINE, lambda: sim.run(resume=path, other_code=True)) == whole
    assert edited(("asyncsim.advantages.traces", "", MORE), lambda: sim.run(resume=path)) == whole


LOSS = "import helper\nSCALE = 1.0\n\ndef loss(log_prob, advantage):\n    return -log_prob * advantage * SCALE * helper.one()\n"  # noqa: E501


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "helper.py").write_text("def one():\n    return 1.0\n", encoding="utf-8")
    (tmp_path / "my.py").write_text(LOSS, encoding="utf-8")
    yield tmp_path
    sys.modules.pop("helper", None)


@pytest.mark.parametrize(("file", "old", "new"), [("my.py", "SCALE = 1.0", "SCALE = 2.0"), ("helper.py", "1.0", "2.0")])
def test_a_checkpoint_knows_the_users_files(mine, file, old, new):
    spec = bandit().replace(method=sim.methods.from_loss("my.py:loss"))
    sim.run(spec, checkpoint="c.npz")
    text = (mine / file).read_text(encoding="utf-8")
    (mine / file).write_text("# a comment\n" + text, encoding="utf-8")
    assert sim.run(resume="c.npz", trust=["my.py:loss"]) is not None
    (mine / file).write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError, match=rf"of this code \({file.removesuffix('.py') if file != 'my.py' else 'my.py'}"):
        sim.run(resume="c.npz", trust=["my.py:loss"])


@pytest.mark.parametrize("place", ["delays.csv", "delays.csv:d", "@delays.csv", "@delays.csv:d*0.5", "model", "*.csv"])
def test_tables_logs_and_models_that_a_spec_names_count(mine, place):
    (mine / "delays.csv").write_text("d\n1\n", encoding="utf-8")
    (mine / "model").mkdir()
    (mine / "model" / "config.json").write_text("{}", encoding="utf-8")
    named = {"schedules.delays": {"source": place}}
    before = spec_code.code_of(named)["files"]
    (file,) = before
    assert Path(file).name == ("config.json" if place == "model" else "delays.csv")
    Path(file).write_text("d\n2\n", encoding="utf-8")
    after = spec_code.code_of(named)["files"]
    assert after.keys() == before.keys() and after != before
    assert spec_code.code_of({"tasks.softmax_bandit": {"rewards": "model.csv"}})["files"] == {}


SCRIPT = """
import asyncsim as sim
SCALE = {scale}
def loss(log_prob, advantage):
    return -log_prob * advantage * SCALE
spec = sim.Spec(sim.tasks.softmax_bandit(), sim.schedules.fixed(1), sim.methods.from_loss(loss),
                sim.chain(sim.updates.sgd(0.1)), updates=4, replicates=2)
sim.run(spec, {rest})
"""


def test_a_checkpoint_knows_functions_of_the_script(mine):
    """What the function uses counts; other lines of the script, such as the one that goes on, do not."""

    def script(scale, rest):
        Path("script.py").write_text(SCRIPT.format(scale=scale, rest=rest), encoding="utf-8")
        runpy.run_path("script.py", run_name="__main__")

    script(1.0, "checkpoint='c.npz'")
    script(1.0, "resume='c.npz'")
    refused(r"of this code \(script.py:loss changed\)", script, 2.0, "resume='c.npz'")
    script(2.0, "resume='c.npz', other_code=True")


def test_a_seed_of_zero_is_a_seed(tmp_path):
    sim.run(bandit(), seed=5, checkpoint=tmp_path / "c.npz")
    refused("seed = 0: must be 5", sim.run, resume=tmp_path / "c.npz", seed=0)
    assert (
        sim.run(resume=tmp_path / "c.npz") == sim.run(bandit(), seed=5) == sim.run(bandit(), resume=tmp_path / "c.npz")
    )


# Weights that are no parameters.


def test_other_frozen_weights_are_refused(tmp_path):
    import torch
    from torch import nn

    class Frozen(nn.Module):
        def __init__(self, value):
            super().__init__()
            self.own = nn.Linear(4, 2)
            self.register_buffer("kept", torch.full((2,), value))

        def forward(self, seen):
            return self.own(seen) * self.kept

    def spec(value):
        policy = sim.policies.module(lambda: Frozen(value), 4, 2)
        task = sim.tasks.gym("CartPole-v1", steps=4)
        return bandit(updates=2, replicates=1, samples_per_group=2).replace(task=task, policy=policy)

    trace = sim.run(spec(1.0), checkpoint=tmp_path / "c.npz")
    assert len(trace.header["manifest"]["weights"]) == 12
    assert sim.run(spec(1.0), resume=tmp_path / "c.npz") == trace
    refused(r"spec\.weights", lambda: sim.run(spec(2.0), resume=tmp_path / "c.npz"))
    assert "weights" not in sim.run(bandit()).header["manifest"]


# Refactorings.


def test_a_line_carries_stores_over_a_refactoring_and_over_no_other_change(edited, monkeypatch, request):
    request.addfinalizer(digests.reached.cache_clear)
    name, spec = LINE[0], grpo(diagnostics=["ess"])
    before, other = digests.modules(name)[name], code(bandit(diagnostics=["ess"]))
    after = edited(LINE, lambda: digests.modules(name)[name])
    line = {"before": {name: before}, "now": {name: after}, "rows": "0123456789abcdef"}

    def carried(*lines):
        monkeypatch.setattr(digests, "refactorings", lambda folder=None: list(lines))
        digests.reached.cache_clear()
        return code(spec), edited(LINE, lambda: code(spec))

    plain = carried()
    assert plain[0] != plain[1] and carried(line) == (plain[0], plain[0])
    assert carried({**line, "now": {name: "0" * 16}}) == plain
    assert code(bandit(diagnostics=["ess"])) == other
    # Two refactorings, one behind the other, and a module that was split off or merged.
    steps = [{"before": {"a": "1"}, "now": {"a": "2", "b": "1"}}, {"before": {"a": "2"}, "now": {"a": "3"}}]
    monkeypatch.setattr(digests, "refactorings", lambda folder=None: steps)
    assert (
        digests.carried({"a": "3", "b": "1", "c": "7"}) == {"a": "1", "c": "7"} == digests.carried({"a": "1", "c": "7"})
    )
    assert digests.carried({"a": "3", "b": "9"}) == {"a": "2", "b": "9"} and digests.carried({"b": "1"}) == {}


def test_lines_are_read_from_the_folder(tmp_path):
    assert digests.refactorings(tmp_path) == []
    (tmp_path / digests.LINES).write_text('{"before": {"a": "1"}, "now": {"a": "2"}}\n', encoding="utf-8")
    assert digests.carried({"a": "2"}, tmp_path) == {"a": "1"}


def test_what_claims_reach_through_other_modules_counts():
    """Claims import `lab` and `sim` from the module of their base class; what they use of them is theirs as well."""
    folder, seen = Path(sim.__file__).parent / "claims", 0
    for path in sorted(folder.glob("*/[a-z]*.py")):
        module = f"asyncsim.claims.{path.parent.name}.{path.stem}"
        used = set(re.findall(r"\blab\.(\w+)\.", path.read_text(encoding="utf-8")))
        used = {name for name in used if (folder / "lab" / f"{name}.py").exists()}
        reached = digests.modules(module)
        assert all(f"asyncsim.claims.lab.{name}" in reached for name in used), path
        seen += bool(used)
    assert seen > 30
    a3po = digests.modules("asyncsim.claims.estimator.a3po_interpolation")
    assert "asyncsim.methods.importance" in a3po or "asyncsim.methods.clipped" in a3po
    assert "asyncsim.app.cli" not in a3po and "asyncsim.tasks.gym" not in a3po
