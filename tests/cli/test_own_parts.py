"""An exception in a user's own part ends in one message: the part, its file and line, the text, what parts return."""

import operator
import re
import shlex
import traceback

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.app.cli import main
from asyncsim.base import outside
from asyncsim.conformance import check_advantage
from asyncsim.schedules.imposed import Imposed
from tests.cli.test_cli import call, refusal
from tests.refusals import refused

HEAD = """
from dataclasses import dataclass
from asyncsim.advantages import advantage
from asyncsim.diagnostics import metric
from asyncsim.factors._factor import Factor, factor
from asyncsim.methods import estimator
from asyncsim.penalties.divergences import Sampled, _penalty as penalty
from asyncsim.tasks._tabular import TabularTask
from asyncsim.updates import Stateless, link
"""
"""What the guide imports."""
BODIES = {
    "link": "@link('me')\nclass mine(Stateless):\n    'x.'\n    def apply(self, record, state):\n        ",
    "penalty": "@penalty('me')\nclass mine(Sampled):\n    'x.'\n    def value(self, step, gap): return gap\n"
    "    def slope(self, step, gap):\n        ",
    "factor": "@factor('me')\nclass mine(Factor):\n    'x.'\n    def factor(self, step, advantage):\n        ",
    "loss": "def mine(log_prob, advantages):\n    ",
    "method": "@estimator('me')\ndef mine(step, a):\n    'x.'\n    ",
    "advantage": "@advantage('me')\ndef mine(step):\n    'x.'\n    ",
    "diagnostics": "@metric()\ndef mine(step):\n    'x.'\n    ",
    "task": "@dataclass(frozen=True)\nclass mine(TabularTask):\n    scores, best = (0.0, 1.0), 1.0\n"
    "    def score(self, state, action, mask):\n        ",
    "schedule": "def mine(request):\n    ",
}
GIVES = {"link": "apply(record, state) -> (record, state)", "penalty": "score_weight(step) -> [R, G, N, T] or None"}
GIVES |= {"factor": "[R, G, N, T or 1]", "loss": "tensors [B, T]", "method": "score weight", "advantage": "[R, G, N]"}
GIVES |= {"diagnostics": "(step) -> [R]", "task": "rewards [R, G, N]", "schedule": "versions [M, B, G, N]"}
COUNTED = (
    "mine.seen = [*vars(mine).get('seen', ()), 1]\n    assert len(mine.seen) < 9\n    return -log_prob * advantages"
)
RAISED = {
    "skip of the gradient": ("link", "record.direction.skip", "AttributeError: 'Tensor'", "write record.skip"),
    "staleness in a link": ("link", "record.staleness", "write record.step.staleness"),
    "a record that is divided": ("link", "record / 2", "write record.direction"),
    "the method of a record": ("link", "record.method.outputs", "write record.step.method"),
    "a name nobody has": ("link", "record.zzz", "Record has no 'zzz'; it has direction, skip, spare, statistics, step"),
    "a metric of the step": ("link", "record.step.ess", "'ess'); fix line", ": it has advantages, age, "),
    "a name of the method": ("link", "record.step.method.output", "Method has no 'output'; did you mean outputs?"),
    "a division by 0": ("link", "1 / 0", "(ZeroDivisionError: division by zero)"),
    "a penalty that misspells": ("penalty", "step.stalenes", "able to run slope", "did you mean staleness?"),
    "a penalty of a record": ("penalty", "step.direction", "'Step' object has no attribute 'direction'"),
    "a factor": ("factor", "step.mask.foo", "able to run factor"),
    "a loss": ("loss", "log_prob.foo", "able to run (AttributeError"),
    "a loss of shapes": ("loss", "return log_prob.mean(1) * advantages", "(RuntimeError"),
    "a loss in a run": ("loss", COUNTED, "able to run (AssertionError)"),
    "a method": ("method", "step.logratio", "did you mean log_ratio?"),
    "an advantage": ("advantage", "step.rewards", "write step.batch.rewards"),
    "a metric": ("diagnostics", "step.ages", "able to run (AttributeError"),
    "a task": ("task", "action.foo", "able to run score"),
    "a schedule": ("schedule", "request.versions", "did you mean train_version?"),
}  # fmt: skip
RETURNED = {
    "a direction alone": ("link", "return record.direction", "returns = 'a Tensor'", "(record, state)"),
    "a direction and a state": ("link", "return record.direction, state", "must be (record, state)"),
    "another shape": ("link", "record.direction = record.direction[:, :1]; return record, state", "of shape [2, 4]"),
    "a weight": ("method", "return a[..., 0, 0].unsqueeze(0).expand(7, -1, -1)", "shape of score weights = [7, 2, 1]"),
    "a penalty": ("penalty", "return step.reward", "shape of score weights", "its penalties"),
    "a metric": ("diagnostics", "return step.reward", "shape of a metric = [2, 1, 16]", "step.mean(values)"),
    "a pooled metric": ("diagnostics", "return step.reward.mean()", "shape of a metric = []", "step.mean(values)"),
    "a schedule": ("schedule", "return [0, 1, 2, 3, 4]", "shape of versions = [5]", "train_version[:, None, None]"),
}  # fmt: skip


def trained(kind, body, folder, monkeypatch):
    """A run with a part of a file in this folder."""
    monkeypatch.chdir(folder)
    (folder / "mine.py").write_text(HEAD + BODIES[kind] + body)
    mine = outside.loaded("mine.py:mine")
    method = sim.methods.reinforce()
    make = {
        "link": lambda: {"update": sim.chain(mine())},
        "penalty": lambda: {"method": sim.methods.added(method, penalties=[mine(to="behavior")])},
        "factor": lambda: {"method": sim.methods.added(method, factors=[mine()])},
        "loss": lambda: {"method": sim.methods.from_loss(mine)},
        "method": lambda: {"method": mine()},
        "advantage": lambda: {"method": sim.methods.reinforce(mine())},
        "diagnostics": lambda: {"diagnostics": [mine]},
        "task": lambda: {"task": mine(1, 4, 1, 1)},
        "schedule": lambda: {"system": Imposed("mine", {}, mine)},
    }
    usual = {"task": sim.tasks.softmax_bandit(arms=4), "system": sim.schedules.fixed(1), "update": sim.chain()}
    return sim.run(sim.Spec(**usual | {"method": method, "updates": 3, "replicates": 2} | make[kind]()))


@pytest.mark.parametrize("name", RAISED)
def test_an_exception_in_an_own_part_is_one_message(name, tmp_path, monkeypatch):
    """The traceback of its cause begins at the user's line."""
    kind, body, *said = RAISED[name]
    wrong = refused("", trained, kind, body, tmp_path, monkeypatch)
    frames = [f for f in traceback.extract_tb(wrong.__cause__.__traceback__) if f.filename == "mine.py"]
    assert wrong.__cause__.__traceback__.tb_frame.f_code.co_filename == "mine.py"
    assert str(wrong).startswith(f"{kind} = 'mine.py:mine': must be able to run")
    assert f"; fix line {frames[-1].lineno} of mine.py" in str(wrong) and all(each in str(wrong) for each in said)
    assert GIVES[kind] in wrong.__notes__[0] and ".md" in wrong.__notes__[0]


@pytest.mark.parametrize("name", RETURNED)
def test_what_an_own_part_returns_is_refused_by_its_shape(name, tmp_path, monkeypatch):
    kind, body, *said = RETURNED[name]
    wrong = refused("", trained, kind, body, tmp_path, monkeypatch)
    assert all(each in str(wrong) for each in said)


def test_an_exception_of_other_code_stays_as_it_is(tmp_path, monkeypatch):
    """That of a callback, and a refusal of the package inside a part."""
    spec = sim.Spec(sim.tasks.softmax_bandit(), sim.schedules.fixed(1), sim.methods.reinforce(), sim.chain(), updates=2)
    with pytest.raises(ZeroDivisionError):
        sim.run(spec, callback=lambda recorded: 1 / 0)
    body = "from asyncsim.base import checks\n        checks.integer('mine', -1, 0, 'count')"
    assert refused("mine = -1", trained, "link", body, tmp_path, monkeypatch).__cause__ is None


@pytest.mark.parametrize("option", ["task", "method", "link", "penalty", "schedule"])
def test_a_function_that_fails_to_make_a_part_is_one_message(option, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("def mine():\n    return {}['data']")
    said = refusal(f"run --{option} mine.py:mine")
    assert "part = 'mine.py:mine': must be able to run (KeyError: 'data'); fix line 2 of mine.py" in said


@pytest.mark.parametrize("workers", [None, 2])
def test_the_command_prints_the_message_alone(workers, tmp_path, monkeypatch):
    """Also from a worker process, with what the part returns."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(f"{HEAD}{BODIES['link']}record.direction.skip")
    more = f" --workers {workers}" if workers else ""
    said = refusal(f"run --link mine.py:mine --updates 2 --replicates 4{more}")
    assert "asyncsim: link = 'mine.py:mine': must be able to run apply (AttributeError" in said
    assert "fix line" in said and GIVES["link"] in said and "Traceback" not in said


RULES = {
    "the rule itself": "def mine(record, state): return record, state",
    "of a gradient": "def mine(gradient): return gradient",
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_in_place_of_a_part_is_refused(rule, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(RULES[rule])
    said = refusal("run --link mine.py:mine")
    assert "link = 'mine.py:mine': must be a function or class that makes a link" in said and GIVES["link"] in said


class Plain:
    """A link as the protocol asks for, without a decorator."""

    def init(self, parameters):
        return {}

    def apply(self, record, state):
        return record, state


def test_a_plain_link_is_named_in_the_header_and_its_class_is_refused():
    assert sim.chain(Plain()).describe() == [f"{__name__}.Plain"]
    for maker in (Plain, sim.updates.sgd):
        assert "call it" in refused("must be an update link", sim.chain, maker).remedy

    class Bare:
        score_weight = spread = describe = lambda *given: {}

    wrong = refused("with outputs, proximal", sim.methods.added, sim.methods.grpo(), penalties=[Bare()])
    assert "inherit Penalty" in wrong.remedy


NAMES = {
    "adapters.skyrl": "write sim.conformance.adapters.NAME(loss)",
    "conformance.adapters.skyrl": "it has areal, openrlhf, roll, torchrl, trl, verl",
    "conformance.skyrl": "it has AdvantageReport, ",
    "metrics": "did you mean sim.diagnostics?",
    "ess": "diagnostics=['ess']",
    "links": "write sim.updates.NAME(...)",
    "envs": "write sim.tasks.NAME(...)",
    "presets": "write sim.systems.NAME(...)",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_a_module_is_answered(name):
    with pytest.raises(AttributeError, match=re.escape(NAMES[name])):
        operator.attrgetter(name)(sim)


def test_numbers_of_batches_and_workers_are_named():
    system = sim.systems.areal(4, 8, length=3, load=1)
    for wrong in (lambda: system.staleness(updates=50), lambda: system.staleness(50)):
        assert refused("", wrong).remedy == "write system.staleness(batches=50, realizations=8, seed=0)"
    assert system.staleness(batches=50, realizations=8, seed=0).shape[:2] == (8, 50)
    assert "batches=50" in refused("", lambda: system.summary(updates=50)).remedy
    wrong = refused("", sim.systems.skyrl, 4, 2, 20, length=1.0, load=1.0)
    assert wrong.remedy.endswith("give 4 to 12, or max_staleness_steps=4")
    assert len(sim.systems.skyrl(4, 4, 20, length=1.0, load=1.0).rates) == 20


def test_a_loss_of_another_trainer_is_wrapped_as_the_remedy_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    body = "return -((now - old).exp() * advantages * loss_mask).sum() / loss_mask.sum(), 0.0"
    text = f"def loss(now, old, advantages, config, loss_mask=None):\n    {body}\n"
    text += "def checked(log_prob, old_log_prob, advantages, mask):\n    "
    (tmp_path / "mine.py").write_text(f"{text}return loss(log_prob, old_log_prob, advantages, None, mask)[0]\n")
    written = "def checked(log_prob, old_log_prob, advantages, mask): return loss(...)[0]"
    assert written in refusal("conformance mine.py:loss --adapter skyrl")
    assert call("conformance mine.py:checked").exit_code == 0


OWN = """
import numpy as np, torch
def grouped(rewards, group_ids):
    own = [rewards[group_ids == one] for one in group_ids]
    return np.array([(x - each.mean()) / (each.std() + 1e-6) for x, each in zip(rewards, own)])
def masked(token_level_rewards, response_mask, index, epsilon=1e-6):
    total = torch.from_numpy(grouped(token_level_rewards.sum(-1).numpy(), index))
    return total.unsqueeze(-1) * response_mask, total
def on_tensors(rewards): return rewards - rewards.mean(dim=1, keepdim=True)
def gae(rewards, values, dones, gamma=0.99): return rewards
"""


def test_a_function_of_rewards_that_conforms_trains_as_the_advantage_that_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    own, task = outside.loaded("own.py:grouped"), sim.tasks.token_bandit(actions=4, horizon=2)

    def curve(advantage):
        method = sim.methods.grpo(advantage=advantage)
        spec = sim.Spec(task, sim.schedules.fixed(1), method, sim.chain(sim.updates.sgd(1.0)), updates=8, replicates=3)
        kept = spec if callable(advantage) else sim.Spec.from_dict(spec.to_dict(), ["own.py:grouped", "own.py:masked"])
        return sim.run(kept)["trained_return"]

    # What runs on tensors alone conforms and trains on them, although it does not name torch.
    mean = outside.loaded("own.py:on_tensors")
    assert check_advantage(mean).conforms
    np.testing.assert_allclose(curve(mean), curve(sim.advantages.group_mean()), rtol=1e-10)
    known = curve(sim.advantages.group_std())
    for written in (own, "own.py:grouped", "own.py:masked", sim.advantages.from_function("own.py:grouped")):
        np.testing.assert_allclose(curve(written), known, rtol=1e-10)
    assert not np.allclose(curve(sim.advantages.group_mean()), known)
    ways = ("run --advantage {}", "run --set method.advantage={}", "sweep --store s --grid method.advantage={},none")
    every = [f"{way.format(f'own.py:{name}')} --updates 2" for way in ways for name in ("gae", "grouped")]
    every += [
        "compare advantage=own.py:grouped advantage=none --smallest 1 --max-replicates 64 --tune none --updates 2"
    ]
    for words in every:
        with pytest.raises(SystemExit, match="2" if "gae" in words else "0"):
            main(shlex.split(words))
    out, err = capsys.readouterr()
    assert err.count("'gae(rewards, values, dones, gamma)': must be a function of rewards, group_ids") == 3
    assert err.count("write --advantage gae") >= 2 and out.count("with reinforce, advantage grouped; sgd") == 2
