"""The documents' examples are run and their output compared."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import types
from pathlib import Path

import pytest

import asyncsim as sim

ROOT = Path(__file__).parents[1]


def blocks(path: Path) -> list[tuple[str, str]]:
    """(language, text) of every fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def output_of(code: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    return printed.getvalue()


def test_the_example_prints_what_the_readme_shows() -> None:
    (_, code), (_, shown) = blocks(ROOT / "README.md")[:2]
    assert len(code.splitlines()) <= 10
    assert output_of(code) == shown


def test_the_admission_example_prints_what_the_readme_shows() -> None:
    found = blocks(ROOT / "README.md")
    at = next(i for i, (_, text) in enumerate(found) if "check_admission" in text and "class Gate" in text)
    assert output_of(found[at][1]) == found[at + 1][1]
    mended = found[at][1].replace(
        "self.__init__(); self.version = version", "self.__init__(); self.version = version; self.taken = 4 * version"
    )
    assert output_of(mended) != found[at + 1][1]


def test_the_loss_example_prints_what_the_readme_shows() -> None:
    found = blocks(ROOT / "README.md")
    at = next(i for i, (_, text) in enumerate(found) if "check_loss" in text and "def my_loss" in text)
    assert output_of(found[at][1]) == found[at + 1][1]
    mended = found[at][1].replace(".clamp(max=2.0)", ".clamp(max=2.0).detach()")
    mended = mended.replace("(ratio *", "(ratio * log_prob *")
    assert output_of(mended).startswith("conforms")


def test_the_system_example_prints_what_the_readme_shows() -> None:
    code, shown = system_example()
    assert len(code.splitlines()) <= 10
    assert output_of(code) == shown


def system_example() -> tuple[str, str]:
    found = blocks(ROOT / "README.md")
    at = next(i for i, (_, text) in enumerate(found) if "sim.systems.areal" in text)
    return found[at][1], found[at + 1][1]


def test_the_comparison_can_fail() -> None:
    (_, code), (_, shown) = blocks(ROOT / "README.md")[:2]
    assert output_of(code.replace("0.5 * (", "0.0 * (")) != shown


def test_the_system_example_can_fail() -> None:
    code, shown = system_example()
    assert output_of(code.replace("max_head_offpolicyness=4", "max_head_offpolicyness=3")) != shown


def test_the_commands_of_the_readme_exist() -> None:
    from asyncsim.app.cli import app

    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    named = set(re.findall(r"`asyncsim (\w+)", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert named and named <= known


def guide(name: str, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The example of the extension guide that defines a name, as a module."""
    found = blocks(ROOT / "asyncsim" / "EXTENDING.md")
    code = next(text for language, text in found if language == "python" and f"def {name}(" in text)
    made = types.ModuleType("guide")
    monkeypatch.setitem(sys.modules, "guide", made)
    exec(compile(code, "EXTENDING.md", "exec"), vars(made))
    return made


def test_the_metric_of_the_extension_guide_works(monkeypatch: pytest.MonkeyPatch) -> None:
    from asyncsim.diagnostics import _diagnostic, _ranges
    from asyncsim.learning.step import Step
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
