"""`asyncsim verify`: what each status means, what it says to do, and the error rate of all claims together."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from asyncsim.app import judgments, reporting, verdicts, verifying
from asyncsim.base import records
from tests.cli.test_cli import call, told
from tests.test_reporting import Page, verdict

LOOSE = "holds, not tight"


def of(*words: str) -> list[records.Verdict]:
    """Verdicts with the given words."""
    return [dataclasses.replace(verdict(f"family/{k}"), verdict=word) for k, word in enumerate(words)]


def whole(verdicts: list[records.Verdict], seed: int = 0, size: str = "quick", at: Any = None) -> judgments.Page:
    """A page of verdicts."""
    return judgments.Page(verdicts, {"spec": {"size": size}, "seed": seed}, at)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["held"], 0),
        (["held", LOOSE], 0),
        (["held", "inconclusive"], 3),
        (["outside"], 3),
        (["held", "inconclusive", "violated"], 1),
        (["violated", LOOSE], 1),
    ],
)
def test_the_status_is_that_of_the_worst_verdict(words: list[str], status: int) -> None:
    assert judgments.status(of(*words)) == status
    advice = judgments.advice(whole(of(*words)))
    assert bool(advice) == (status != 0)


@pytest.mark.parametrize(("outcome", "status"), [("violated", 0), ("held", 1), ("inconclusive", 1)])
def test_a_defect_that_turns_nothing_is_status_one(outcome: str, status: int) -> None:
    made = dataclasses.replace(verdict(), defects=({"name": "off by one", "verdict": outcome},))
    assert judgments.status([made]) == status
    assert ("not caught: family/claim: off by one" in " ".join(judgments.advice(whole([made])))) == (status == 1)
    # What could not be measured has caught nothing, and contradicts nothing.
    assert judgments.status([dataclasses.replace(made, verdict="inconclusive")]) == 3


def test_the_line_of_counts_holds_loose_bounds_apart() -> None:
    *_, held = judgments.lines(whole(of("held", "held", LOOSE)))
    assert held.startswith("2 of 3 claims held, 1 holds without being tight (false fail <= 0.001 each")
    assert "without being tight" not in judgments.lines(whole(of("held")))[-1]


@pytest.mark.parametrize("word", ["ess", "ess/*"])
def test_a_family_stands_for_its_claims(word: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []

    def stop(ids: list[str], *more: Any) -> Any:
        asked.extend(ids)
        raise KeyboardInterrupt

    monkeypatch.setattr(verdicts, "_measured", stop)
    with pytest.raises(KeyboardInterrupt):
        verdicts.verify(verdicts.Request([word, "ess/limit"]), tmp_path / "r.md")
    assert asked == [id for id in verifying.every_claim() if id.startswith("ess/")] and len(asked) > 3


def test_many_claims_are_one_row_per_family_with_the_exceptions_first(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"family/{k}" for k in range(20)] + ["zeta/a", "zeta/b"]
    many = [dataclasses.replace(verdict(), id=name) for name in names]
    many[-1] = dataclasses.replace(of("violated")[0], id="zeta/b")
    Console().print(judgments.overview(many))
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert rows == [["zeta", "2", "1", "b", "violated"], ["family", "20", "20"]]
    brief, full = (judgments.lines(whole(many), verbose) for verbose in (False, True))
    assert not any("slowest" in line for line in brief) and any("slowest" in line for line in full)


def test_the_chance_of_any_false_alarm_is_said_in_the_terminal_and_in_json(tmp_path: Path) -> None:
    text, found = told(tmp_path, "verify ess/clamp-floor ess/limit --report", tmp_path / "r.html")
    chance = found["summary"]["false_fail_of_all"]
    assert 0 < chance == pytest.approx(sum(row["false_fail"] for row in found["claims"]))
    line = f"false fail <= 0.001 each, {reporting.rate(chance)} in sum, false pass"
    assert line in text and found["summary"]["counts"]["held"] == 2


def test_advice_names_the_point_and_tells_chance_theory_and_product_apart() -> None:
    made = verdict(value=3.0)
    assert made.verdict == "violated"
    text = "\n".join(judgments.advice(whole([made], 4)))
    assert "violated: family/claim at staleness = 4, step = 0.25\n" in text
    assert "Chance? One in 1000 measurements of a true claim gives 'violated'" in text
    assert "asyncsim verify family/claim --seed 5 --size full" in text
    assert "Theory? " in text and "cross_check" in text and "Code? " in text and "--defects" in text
    assert "--size full" not in "\n".join(judgments.advice(whole([made], 4, "full")))
    there = judgments.advice(whole([made], 4, "full", {"staleness": 8, "curvatures": (1.0, 2.0)}))
    assert "asyncsim verify family/claim --at staleness=8 --at 'curvatures=(1.0, 2.0)' --seed 5" in "\n".join(there)
    assert all(len(sentence.split()) <= 25 for line in text.splitlines()[1:] for sentence in line.split(". "))


def test_every_point_of_a_violated_claim_is_printed() -> None:
    made = verdict(value=3.0)
    points = [(k, {"staleness": k, "step": 1}) for k in (1, 2, 4)]
    rows = [dataclasses.replace(made.points[0], point=p, predicted=1.0, measured=float(k)) for k, p in points]
    lines = judgments.others(dataclasses.replace(made, points=tuple(rows)))
    assert [line.partition(",")[0] for line in lines[:3]] == [
        f"  at staleness = {k}: violated: x predicted 1" for k, _ in points
    ]
    assert lines[3] == "  measured / predicted at these points: 1, 2, 4"
    assert judgments.others(dataclasses.replace(made, points=tuple(rows[:1]))) == []


def test_a_trial_s_own_warnings_are_not_the_user_s(recwarn: pytest.WarningsRecorder) -> None:
    verifying.verify_one("alignment/partial-and-skip-control")
    assert not [each for each in recwarn if "were skipped" in str(each.message)]


def test_an_undecided_claim_is_no_contradiction() -> None:
    made = verdict(error=0.2)
    assert made.verdict == "inconclusive"
    text = "\n".join(judgments.advice(whole([made])))
    assert text.startswith("inconclusive: family/claim at ") and "does not contradict" in text and "Chance?" not in text


def test_of_many_violated_claims_some_are_named() -> None:
    lines = judgments.advice(whole(of(*["violated"] * 9)))
    assert sum(line.startswith("violated: family/") for line in lines) == 5 and "violated: 4 claims more" in lines


@pytest.mark.parametrize(("factor", "size", "status"), [(1.1, 1.0, 1), (1.0, 1e-3, 3)])
def test_the_command_ends_in_status_and_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factor: float, size: float, status: int
) -> None:
    """A wrong formula is violated; an effect a thousand times smaller than the measurement can see is undecided."""
    from asyncsim import claims

    claim, trial, changed = claims.claim("ess/limit"), claims.trial("ess/limit"), claims.trial("ess/limit")

    def wrong(point: Any) -> dict[str, float]:
        return {name: factor * value for name, value in claim.predict(point).items()}

    def coarse(point: Any, effect: float, *given: Any) -> Any:
        found = trial.measure(point, trial.effect, *given)
        return {name: each._replace(error=max(each.error, 1e-3)) for name, each in found.items()}

    monkeypatch.setattr(changed, "effect", trial.effect * size)
    monkeypatch.setattr(changed, "measure", coarse if size < 1 else trial.measure)
    monkeypatch.setattr(verifying.claims, "claim", lambda name: dataclasses.replace(claim, predict=wrong))
    monkeypatch.setattr(verifying.claims, "trial", lambda name: changed)
    result, found = verdicts.verify(verdicts.Request(["ess/limit"]), tmp_path / "r.html")
    assert found == status, result["claims"]


@pytest.mark.parametrize("form", ["html", "md"])
def test_a_point_outside_is_said_in_every_form(tmp_path: Path, form: str) -> None:
    """Word, reason and remedy in terminal, JSON and report; status 3, no traceback, and no advice to measure again."""
    report, rows = tmp_path / f"r.{form}", tmp_path / "v.json"
    shown = call("verify", "ess/finite-sample", "--at", "samples=4096", "--report", report, "--json", rows)
    reason = "the trial needs a batch of at most"
    (row,) = json.loads(rows.read_text())["claims"]
    assert (row["verdict"], row["p"], row["predicted"], row["measured"]) == ("outside", None, None, None)
    assert reason in row["reason"] and row["points"][0]["point"]["samples"] == 4096
    assert json.loads(rows.read_text())["summary"]["counts"]["outside"] == 1
    assert shown.exit_code == 3 and "0 of 1 claims held, 1 outside" in shown.output
    assert "outside: ess/finite-sample at samples = 4096" in shown.output and reason in shown.output
    assert "outside says nothing about the claim" in shown.output
    assert not {"Traceback", "nan", "inconclusive", "--seed"} & set(re.findall(r"[\w-]+", shown.output))
    text = report.read_text(encoding="utf-8")
    assert reason in text and "nan" not in re.findall(r"\w+", text)


def test_a_component_that_raises_is_a_line_and_not_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from asyncsim.step import ratios

    def fallen(*arguments: Any, **options: Any) -> Any:
        raise ZeroDivisionError("planted in the product")

    monkeypatch.setattr(ratios, "ess", fallen)
    shown = call("verify", "ess/limit", "ess/clamp-floor", "--report", tmp_path / "r.html")
    assert shown.exit_code == 1 and "Traceback" not in shown.output
    assert "ZeroDivisionError: planted in the product" in shown.output and "violated: ess/limit" in shown.output
    assert "a component raised, and nothing was measured" in shown.output and "Chance?" not in shown.output


def test_the_new_word_is_drawn_reported_and_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from asyncsim.plotting import plot

    made = verdict()
    (loose,) = of(LOOSE)
    loose = dataclasses.replace(loose, points=tuple(dataclasses.replace(row, verdict=LOOSE) for row in made.points))
    apart = [{"staleness": k, "step": 0.25} for k in (1, 2, 4)]
    curve = dataclasses.replace(loose, points=tuple(dataclasses.replace(loose.points[0], point=p) for p in apart))
    for each in (loose, curve):
        assert LOOSE in plot(each).get_suptitle()
    assert LOOSE in [text.get_text() for text in plot(curve).axes[0].get_legend().get_texts()]
    path = reporting.write_page(judgments.Page([made, loose], {"seed": 0}), tmp_path / "r.html")
    page = Page(path.read_text(encoding="utf-8"))
    assert f"1 {LOOSE}" in page.text and "1 held" in page.text and "one of its terms could be lower" in page.text
    wide, narrow = (judgments.table([made, loose], width) for width in (150, 40))
    assert LOOSE in wide[2] and [line.replace("\n  ", "") for line in narrow] == wide
    plain = Page(
        reporting.write_page(judgments.Page([made], {"seed": 0}), tmp_path / "p.html").read_text(encoding="utf-8")
    )
    assert "1 held 0 violated 0 inconclusive" in plain.text and f"0 {LOOSE}" not in plain.text


def test_a_line_for_each_claim_as_it_is_reached(tmp_path: Path) -> None:
    result = call("verify", "ess/clamp-floor", "ess/limit", "--report", tmp_path / "r.html")
    lines = result.stderr.splitlines()
    assert [line.rsplit(" (", 1)[0] for line in lines] == [
        "asyncsim: 1 of 2: ess/clamp-floor held",
        "asyncsim: 2 of 2: ess/limit held",
    ]


def test_defects_of_a_claim_that_is_violated_without_them_are_not_counted() -> None:
    held = verifying.verify_one("ess/clamp-floor", defects=True)
    assert held.defects
    for made, counted in ((held, True), (dataclasses.replace(held, verdict="violated"), False)):
        lines = judgments.lines(judgments.Page([made], {"seed": 0}))
        assert any("injected bugs changed" in line for line in lines) == counted
