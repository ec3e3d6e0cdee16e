"""A student changes a setting of the first notebook: it says "no law" where none holds, and goes on."""

from __future__ import annotations

import re

import pytest

import asyncsim as sim
from asyncsim.plotting import _style
from notebooks import _book

SHORT = [
    (r"batches=600", "batches=60"),
    (r"summary\(600", "summary(60"),
    (r"staleness\(200, 32", "staleness(60, 4"),
    (r"batches=(200|300), (.*)realizations=\d+", r"batches=60, \2realizations=4"),
]
"""What makes the cells short."""

EDITS = {
    "a larger lag": ("max_head_offpolicyness=2", "max_head_offpolicyness=5"),
    "no lag": ("max_head_offpolicyness=2", "max_head_offpolicyness=0"),
    "few places": ("max_concurrent_rollouts=12", "max_concurrent_rollouts=3"),
    "one place": ("max_concurrent_rollouts=12", "max_concurrent_rollouts=1"),
    "many places": ("max_concurrent_rollouts=12", "max_concurrent_rollouts=64"),
    "a bound tail": ("heavy = sim.pareto(0.5, 1.5)", "heavy = sim.pareto(0.5, 2.5)"),
    "another law without a tail": ("sim.systems.areal(3, 32, 128,", "sim.systems.areal(3, 32, 64,"),
    "a small group": ("s.pipeline_rl(64, 256,", "s.pipeline_rl(64, None,"),
    "constant lengths": ("lengths = sim.lognormal(1.0, 0.8)", "lengths = sim.constant(1.0)"),
}


def cells(before: str, after: str) -> list[str]:
    """Code of the first notebook with an edit, its runs made short."""
    found = _book.code(_book.text_of("1_staleness"))
    assert any(before in cell for cell in found)
    found = [cell.replace(before, after) for cell in found]
    for pattern, short in SHORT:
        found = [re.sub(pattern, short, cell) for cell in found]
    return found


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims that cells end with have tests of their own, and pictures are drawn but not encoded."""
    verdict = sim.verify("estimator/full-is")
    monkeypatch.setattr(sim, "verify", lambda *given, **named: verdict, raising=False)
    monkeypatch.setattr(_style.Picture, "_repr_png_", lambda self: b"")


@pytest.mark.parametrize("name", EDITS)
def test_the_first_notebook_survives(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    space: dict[str, object] = {}
    for cell in cells(*EDITS[name]):
        exec(cell, space)
    said = capsys.readouterr().out
    assert "mean staleness" in said or "no law" in said or "no formula" in said or "no mean" in said


def test_a_lag_of_five_has_no_law_or_a_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Twelve places cannot hold the groups that a lag of five lets run."""
    space: dict[str, object] = {}
    for cell in cells(*EDITS["a larger lag"])[:7]:
        exec(cell, space)
    said = capsys.readouterr().out
    assert "outside: predicted —" in said or "violated" not in said
