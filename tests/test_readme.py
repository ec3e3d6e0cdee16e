"""The documents' examples are run and their output compared."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
import types
from pathlib import Path

import pytest

import asyncsim as sim

pytestmark = pytest.mark.committed

ROOT = Path(__file__).parents[1]


def blocks(path: Path) -> list[tuple[str, str]]:
    """(language, text) of every fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def output_of(code: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    return printed.getvalue()


def example(page: str, word: str) -> tuple[str, str]:
    """Code that has a word in it, and the output that is shown behind it."""
    found = blocks(ROOT / page)
    at = next(i for i, (_, text) in enumerate(found) if word in text)
    return found[at][1], found[at + 1][1]


PAGES = ["README.md", "docs/tutorial.md"]
COMMANDS = [(page, text) for page in PAGES for language, text in blocks(ROOT / page) if language == "console"]
EXAMPLES = {
    "comparison": ("README.md", "def rooted", "", ""),
    "system": ("README.md", "sim.systems.areal", "max_head_offpolicyness=4", "max_head_offpolicyness=3"),
    "controller": (
        "docs/check-your-trainer.md",
        "class Gate",
        "self.__init__(); self.version = version",
        "self.__init__(); self.version = version; self.taken = 4 * version",
    ),
    "telemetry": ("docs/diagnose.md", "ess_ratio", "[1.25, 1.19]", "[0.95, 0.99]"),
    "loss": ("docs/check-your-trainer.md", "def my_loss", "(ratio *", "(ratio.detach() * log_prob *"),
    "metric": ("docs/check-your-trainer.md", "def my_ess", "1 / (weight", "weight.mean() ** 2 / (weight"),
}
"""Where an example stands, a word in it, and a change that has to change its output; comparisons take long."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_prints_what_is_shown_and_another_does_not(name: str) -> None:
    page, word, old, new = EXAMPLES[name]
    code, shown = example(page, word)
    assert name not in ("comparison", "system") or len(code.splitlines()) <= 10
    assert output_of(code) == shown
    assert old in code and (not old or output_of(code.replace(old, new)) != shown)


@pytest.mark.parametrize(("page", "text"), COMMANDS, ids=[text.split()[2] + text[-20:-1] for _, text in COMMANDS])
def test_a_command_prints_the_lines_that_are_shown(page: str, text: str, tmp_path, monkeypatch) -> None:
    from typer.testing import CliRunner

    from asyncsim.app.cli import app

    monkeypatch.chdir(tmp_path)
    command, *lines = text.rstrip().splitlines()
    done = CliRunner().invoke(app, shlex.split(command.removeprefix("$ asyncsim ")))
    assert done.exit_code == 0
    printed = done.output.splitlines()
    # A verdict is followed by the seconds that it took.
    assert lines and [line for line in lines if not any(found.startswith(line) for found in printed)] == []


def test_the_commands_of_the_pages_exist() -> None:
    from asyncsim.app.cli import app

    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    known |= {group.name for group in app.registered_groups}
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    named = {word for page in pages for word in re.findall(r"`asyncsim (\w+)", page.read_text(encoding="utf-8"))}
    assert named and named <= known


PROSE = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in PROSE:
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            path, _, anchor = link.partition("#")
            if "://" in link:
                continue
            target = (page.parent / path) if path else page
            heads = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.M) if target.suffix == ".md" else []
            known = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}
            if not target.exists() or (anchor and anchor not in known):
                broken.append(f"{page.name}: {link}")
    assert broken == []


def guide(name: str, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The example of the extension guide that defines a name, as a module."""
    found = blocks(ROOT / "asyncsim" / "EXTENDING.md")
    code = next(text for language, text in found if language == "python" and re.search(rf"(def|class) {name}\(", text))
    made = types.ModuleType("guide")
    monkeypatch.setitem(sys.modules, "guide", made)
    exec(compile(code, "EXTENDING.md", "exec"), vars(made))
    return made


def test_the_metric_of_the_extension_guide_works(monkeypatch: pytest.MonkeyPatch) -> None:
    from asyncsim.diagnostics import _diagnostic, _ranges
    from asyncsim.step.step import Step
    from tests.contracts.laboratory import case

    found = blocks(ROOT / "asyncsim" / "EXTENDING.md")
    code = next(text for language, text in found if language == "python" and "def mean_abs_log_ratio(" in text)
    names = {"metric": _diagnostic.metric, "POSITIVE": _ranges.POSITIVE, "Step": Step, "Tensor": object}
    exec(compile(code, "EXTENDING.md", "exec"), names)
    step, _ = case().evaluate(sim.methods.reinforce())
    known = step.token_mean(step.log_ratio.abs())
    assert abs(names["mean_abs_log_ratio"]().measure(step) - known).max() < 1e-15


def test_the_method_of_the_extension_guide_works(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    method = guide("smooth", monkeypatch).smooth(cap=4.0)
    log_ratio = torch.tensor([[0.0], [1.0], [-2.0]], dtype=torch.float64)
    behavior = torch.full_like(log_ratio, -3.0)
    found = method.weigh(behavior + log_ratio, behavior, advantages=torch.tensor([1.0, -2.0, 1.0]).double())
    ratio = log_ratio.exp()
    expected = 5.0 * ratio / (4.0 + ratio) * torch.tensor([[1.0], [-2.0], [1.0]]).double()
    torch.testing.assert_close(found.score_weight, expected)
    spec = sim.Spec(sim.tasks.token_bandit(), sim.schedules.fixed(2), method, sim.chain(), updates=3, replicates=2)
    assert (sim.run(spec).parameters != 0).any()


def test_the_method_of_the_extension_guide_meets_the_contracts(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.contracts.families._paper import compared
    from tests.contracts.test_docstrings import faults_of_function, undescribed

    made = guide("smooth", monkeypatch).smooth
    assert faults_of_function(made) == [] and undescribed(made) == []
    monkeypatch.setattr(sim.methods, "smooth", made, raising=False)
    found = blocks(ROOT / "asyncsim" / "EXTENDING.md")
    code = next(text for language, text in found if language == "python" and "PAPERS = " in text)
    family: dict = {}
    exec(compile(code, "EXTENDING.md", "exec"), family)
    build, objective = family["PAPERS"]["smooth"]
    settings = {"seed": 1, "samples": 4, "tokens": 3, "groups": 2, "drift": 0.5}
    assert compared(build(), objective, **settings) < 1e-12
    assert compared(made(cap=2.0), objective, **settings) > 1e-3


def test_the_link_of_the_extension_guide_works(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = sim.Spec(
        sim.tasks.softmax_bandit(arms=3),
        sim.schedules.fixed(1),
        sim.methods.reinforce(),
        sim.chain(sim.updates.sgd(0.1)),
        updates=3,
        replicates=2,
        diagnostics="none",
    )
    stretched = spec.replace(update=sim.chain(guide("stretch", monkeypatch).stretch(1.0), sim.updates.sgd(0.1)))
    doubled = spec.replace(update=sim.chain(sim.updates.sgd(0.2)))
    assert (sim.run(stretched).parameters == sim.run(doubled).parameters).all()
