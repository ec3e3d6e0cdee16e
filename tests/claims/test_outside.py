"""A user's claim is put on trial from a file, a class or a package, and is believed no more than it was tested."""

import re
import shlex
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typer.testing import CliRunner

import asyncsim as sim
from asyncsim.app.cli import app
from asyncsim.base.records import UNTESTED
from tests.refusals import refused

PAGE = Path(__file__).parents[2] / "docs" / "conjecture.md"
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)


class Right(sim.claims.Claim):
    """The mean of `size` equal numbers is that number."""

    size = sim.claims.Integer(1, 9, doc="count of numbers")
    points = ({"size": 2}, {"size": 3})

    def predict(self) -> dict[str, float]:
        return {"mean": float(self.size)}

    def measure(self, point: Any, effect: float, seed: int, plant: Any) -> dict[str, Any]:
        return {"mean": sim.Estimate(plant(1.0 * point["size"]), 1e-4)}


class Caught(Right):
    """As `Right`."""

    defects: ClassVar[Any] = {"doubled": lambda: lambda value: 2.0 * value}


def variant(**fields: Any) -> type[sim.claims.Claim]:
    """A class with other parts."""
    return type("Variant", (Right,), {"__doc__": "Another.", **fields})


def broken(*arguments: Any) -> Any:
    raise TypeError("a mistake of the user's")


@pytest.mark.committed
def test_the_page_takes_a_newcomer_from_a_conjecture_to_its_verdict(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.py").write_text("\n\n".join(text for language, text in BLOCKS if language == "python"))
    for text in (text for language, text in BLOCKS if language == "console"):
        command, *lines = text.rstrip().splitlines()
        done = CliRunner().invoke(app, shlex.split(command.removeprefix("$ asyncsim ")))
        printed = done.output.splitlines()
        assert lines and [line for line in lines if not any(found.startswith(line) for found in printed)] == []
        assert done.exit_code == int("HalfTheCap" in command)


def test_where_a_trial_does_not_reach_the_formula_still_answers_and_one_claim_has_all_quantities() -> None:
    far = CliRunner().invoke(app, ["verify", "ratio/logit-radius", "--at", "horizon=8"], env={"COLUMNS": "999"}).output
    assert "horizon at most 6; shorten it" in far and ". Predicted, not tested: second_moment = " in far
    near = CliRunner().invoke(app, ["verify", "estimator/plug-in-baseline", "--at", "samples=2"]).output
    assert all(f"held     {quantity}" in near for quantity in ("mean[0]", "mean[1]", "mean[2]", "variance"))


def test_without_a_defect_that_was_caught_a_claim_is_not_held() -> None:
    assert sim.verify(Caught).verdict == "held"
    blind, wild = {"nothing": lambda: lambda value: value}, {"raises": lambda: broken}
    for each in (Right, variant(defects=blind)):
        verdict = sim.verify(each)
        assert verdict.verdict == UNTESTED and "would notice a mistake" in str(verdict), each
    # A defect that breaks off has shown nothing: its own line is to be fixed.
    refused(r"defects = .*a mistake of the user's.*; fix line \d+ of .*outside.py", sim.verify, variant(defects=wild))
    missed = sim.verify(variant(defects=Caught.defects | blind))
    assert missed.verdict == UNTESTED and "not caught: nothing" in missed.reason


def test_what_a_claim_calls_wrong_must_be_contradicted() -> None:
    wrong = {"doubled": lambda s: {"mean": 2.0 * s.size}}
    assert sim.verify(variant(defects=Caught.defects, wrong=wrong)).verdict == "held"
    alike = wrong | {"alike": lambda s: {"mean": 1.0 * s.size}}
    verdict = sim.verify(variant(defects=Caught.defects, wrong=alike))
    assert verdict.verdict == UNTESTED and verdict.reason.endswith("what the claim calls wrong: alike")


def test_a_wrong_formula_is_violated_and_a_mistake_in_the_measurement_is_not() -> None:
    assert sim.verify(variant(predict=lambda self: {"mean": 2.0 * self.size})).verdict == "violated"
    refused(r"TypeError: a mistake of the user's.*; fix line \d+ of .*outside.py", sim.verify, variant(measure=broken))


def test_an_instance_is_measured_at_its_own_point() -> None:
    assert [row.point for row in sim.verify(Right({"size": 7})).points] == [{"size": 7}]
    assert [row.point for row in sim.verify(Right, at={"size": 8}).points] == [{"size": 8}]
    listed = sim.verify(variant(points=[{"size": 7}], more=[{"size": 8}]), size="full")
    assert [row.point for row in listed.points] == [{"size": 7}, {"size": 8}]


def test_a_file_is_read_anew(tmp_path: Path) -> None:
    file, text = tmp_path / "mine.py", f"from {__name__} import Right\nclass Mine(Right):\n    'One.'\n"
    file.write_text(text)
    assert sim.verify(f"{file}:Mine").verdict == UNTESTED
    file.write_text(text + "    def predict(self):\n        return {'mean': 0.5}\n")
    assert sim.verify(f"{file}:Mine").verdict == "violated"


def test_a_package_registers_claims(tmp_path: Path, monkeypatch: Any) -> None:
    about = tmp_path / "laws-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: laws\nVersion: 1\n")
    (about / "entry_points.txt").write_text(f"[asyncsim.claims]\nequal-law = {__name__}:Caught\n")
    monkeypatch.syspath_prepend(tmp_path)
    done = CliRunner().invoke(app, ["verify", "equal-law", "--report", str(tmp_path / "r.md")])
    assert done.exit_code == 0 and "held" in done.output
    assert f"of another package, {__name__}:Caught" in CliRunner().invoke(app, ["list", "claims"]).output


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        (3.5, "claim = 3.5"),
        (dict, "a class of sim.claims.Claim; inherit sim.claims.Claim"),
        (sim.claims.Claim, "predict"),
        (variant(kind="guess"), "kind = 'guess': must be one of identity"),
        (variant(points=()), "points = (): must be a tuple of points; write points"),
        (variant(points=({"size": 0},)), "size = 0"),
        (variant(points={"size": 3}), "points = {'size': 3}: must be a tuple of points; write points"),
        (variant(points=["size"]), "points = ['size']: must be a tuple of points; write points"),
        (variant(more=3), "more = 3: must be a tuple of points; write more"),
        (variant(effect="big"), "effect = 'big': must be a finite number in (0, inf); write effect = 0.02"),
        (variant(terms=[broken]), "must be functions by name; write terms = {'twice': lambda s, factor: ...}"),
        (variant(loose="mean"), "loose = 'mean': must be a set; write loose = {'NAME'}"),
        (variant(reach=3), "reach = '3 is not a callable object': must be a function with the arguments (self, point)"),
        (variant(predict=lambda self: {3: 1.0}), "predict = {3: 1.0}: must be a dict of numbers by name"),
        (variant(predict=lambda self: 3.0), "predict = 3.0: must be a dict of numbers by name"),
        (variant(measure=lambda *given: {"mean": 2.0}), "measure = {'mean': 2.0}: must be a dict of sim.Estimate"),
        (
            variant(measure=lambda *given: {"mean": [2.0, 3.0]}),
            "sim.uncertainty.between(values, range(2), random=True)",
        ),
        ("nobody.py:Right", "nobody.py"),
        ("ess/limits", "did you mean ess/limit?"),
    ],
)
def test_what_is_no_claim_is_refused(subject: Any, message: str) -> None:
    refused(re.escape(message), sim.verify, subject)


def test_bets_over_many_nights_are_for_the_catalogue() -> None:
    done = CliRunner().invoke(app, ["verify", f"{__name__}:Right", "--size", "long"])
    assert done.exit_code == 2 and "take --size full" in done.output + str(done.exception or "") + done.stderr
