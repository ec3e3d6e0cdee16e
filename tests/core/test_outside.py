"""Parts that stand outside the package: in a user's file, or registered by another package."""

import json
import os
import sys

import pytest

import asyncsim as sim
from asyncsim.base import outside, plugins
from tests.cli.test_cli import call
from tests.refusals import refused

MINE = '''"""Parts of one's own."""

import asyncsim as sim


def rooted(cap=3.0):
    """Square root of the token ratio, truncated."""

    def loss(log_prob, behavior_log_prob, advantage):
        ratio = (0.5 * (log_prob - behavior_log_prob)).exp().detach()
        return -ratio.clamp(max=cap) * advantage * log_prob

    return sim.methods.from_loss(loss)


def easy():
    """Two arms."""
    return sim.tasks.softmax_bandit(arms=2)


def half(lr=1.0):
    """Half a step."""
    return sim.updates.sgd(0.5 * lr)


def steady():
    """A fixed schedule."""
    return sim.schedules.fixed(2)


broken = 3
'''


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def other(tmp_path, monkeypatch):
    """Another package, as pip leaves it: a module and its record of entry points."""
    (tmp_path / "other_package.py").write_text(MINE, encoding="utf-8")
    record = tmp_path / "other_package-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: other-package\nVersion: 1.0\n", encoding="utf-8")
    (record / "entry_points.txt").write_text("[asyncsim.methods]\nrooted = other_package:rooted\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)


def test_every_kind_of_part_may_stand_in_a_file(mine):
    words = ["--method", "mine.py:rooted", "--task", "mine.py:easy", "--link", "mine.py:half"]
    words += ["--schedule", "mine.py:steady", "--set", "method.cap=2", "--set", "half.lr=0.2"]
    result = call("run", *words, "--updates", "3", "--replicates", "2", "--json", "out.json")
    assert result.exit_code == 0, result.stderr
    spec = json.loads((mine / "out.json").read_text(encoding="utf-8"))["spec"]
    assert spec["loss"] == "loss"
    assert "0.1" in str(spec["update"])


def test_a_registered_method_stands_among_the_others(other):
    assert outside.registered("asyncsim.methods") == {"rooted": "other_package:rooted"}
    assert sim.methods.rooted(cap=2.0).name == "loss"
    assert "rooted" in call("list", "methods").output
    assert "rooted" not in plugins.summaries("asyncsim.methods")


def test_a_file_is_run_as_it_is_now(tmp_path, monkeypatch):
    """Python's cache of compiled files compares whole seconds and lengths, so that edits by a program are not seen."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "edited.py"
    for value in range(3):
        path.write_text(f"x = {value}\n", encoding="utf-8")
        os.utime(path, (1e9, 1e9))
        assert outside.loaded(f"{path}:x") == value


def test_a_file_finds_those_beside_it(mine, monkeypatch, tmp_path_factory):
    """As a script does, wherever one stands."""
    (mine / "beside_mine.py").write_text("x = 7\n")
    (mine / "user.py").write_text("def later():\n    import beside_mine\n    return beside_mine.x\n")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each not in ("", str(mine))])
    assert outside.loaded(f"{mine}/user.py:later")() == 7


def test_what_stands_beside_is_read_only_to_answer_a_wrong_form(mine, monkeypatch):
    """A folder with a file's ending is no file; a file that cannot be read stops nobody."""
    (mine / "folder.py").mkdir()
    (mine / "lost.py").symlink_to(mine / "nowhere.py")
    (mine / "latin.py").write_bytes(b"def \xe9(): pass\ndef far(): pass\n")
    assert outside.defined("far") == ["latin.py:far"]
    refused(r"write mine\.py:rooted", outside.loaded, "rooted")
    monkeypatch.setattr(outside, "defined", lambda word: pytest.fail("files beside were read"))
    outside.loaded("mine.py:easy")


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("mine.py:nothing", "a name in mine.py"),
        ("absent.py:rooted", "a file that exists"),
        ("absent_module:rooted", "can be imported"),
    ],
)
def test_what_is_not_there_is_refused_in_one_line(mine, method, message):
    result = call("run", "--method", method)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    refused("method", plugins.load, "asyncsim.methods", method, "method")
