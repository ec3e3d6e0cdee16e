"""One page in three forms: JSON, Markdown and HTML say the same, with Holm's correction, cost, coverage and advice."""

import json
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from asyncsim.app import judgments, reporting, verdicts
from asyncsim.app.evidence import Evidence, Run
from asyncsim.app.judgments import Page, rate
from asyncsim.base.notation import number
from tests.cli.test_cli import call
from tests.test_reporting import MANIFEST, verdict
from tests.test_reporting import Page as Read

RUN = {"running": 2, "raised": ["c/three"]}
COVERAGE = {
    "rows": [
        {"file": "asyncsim/a.py", "line": 1, "text": "w = a | b", "change": "| -> &", "claims": ["a/one"], **RUN},
        {"file": "asyncsim/a.py", "line": 2, "text": "m = x < y", "change": "< -> >=", "claims": [], **RUN},
        {"file": "asyncsim/c.py", "line": 3, "text": "n = 1", "change": "1 -> 2", "claims": ["b/two"], **RUN},
    ],
    "manifest": {},
}
BETS = {"a/one": Evidence("0.1.0", "x", (Run(1, 0.5, 0.9), Run(2**30, 1e-9, 2e5)), 114)}


def made(**changes: Any) -> Page:
    """A page with a claim that is held, one violated beyond doubt and one by its own rate only."""
    ids = ["a/one", "b/two", "c/three", *(f"d/{k}" for k in range(40))]
    verdicts = [verdict(id, f"statement of `{id}`", seconds=float(k)) for k, id in enumerate(ids)]
    verdicts[1] = verdict("b/two", value=2.5, seconds=9.0, defects=({"name": "off by one", "verdict": "violated"},))
    # Two comparisons, each 3.5 errors off: p is 9e-4.
    verdicts[2] = verdict("c/three", value=2.0351, seconds=0.5)
    return Page(verdicts, MANIFEST, **changes)


def table_of(text: str) -> dict[str, dict[str, str]]:
    """Rows of the first table of a Markdown page by their first cell."""
    lines = text.split("## Claims")[1].strip().split("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return {row[0]: dict(zip(cells[0], row, strict=True)) for row in cells[2:]}


def rows_of(text: str) -> dict[str, dict[str, str]]:
    """The same of all tables of claims of an HTML page."""
    found = {}
    for table in re.findall(r'<table class="claims".*?</table>', text, re.S):
        heads = re.findall(r"<th[^>]*>(.*?)</th>", table)
        for row in re.findall(r"<tr><td>.*?</tr>", table, re.S):
            cells = [
                re.sub(r"<br>.*|<[^>]+>", "", cell, flags=re.S) for cell in re.findall(r"<td>(.*?)</td>", row, re.S)
            ]
            found[cells[0]] = dict(zip(heads, cells, strict=True))
    return found


@pytest.mark.parametrize("bets", [{}, BETS])
def test_all_forms_have_the_same_fields_of_every_claim(tmp_path: Path, bets: dict[str, Evidence]) -> None:
    whole = made(evidence=bets)
    html, text = (reporting.write_page(whole, tmp_path / name).read_text("utf-8") for name in ("r.html", "r.md"))
    marked, shown = table_of(text), rows_of(html)
    rows = {row["id"]: row for row in whole.json()["claims"]}
    assert list(rows) == list(marked) and set(rows) == set(shown) and len(rows) == 43
    for id, row in rows.items():
        numbers = {"corrected p": rate(row["holm"]), "seconds to measure": f"{row['seconds']:.1f}"}
        both = numbers | {"predicted": number(row["predicted"]), "quantity": row["quantity"]}
        both["measured"] = reporting.measured(next(v for v in whole.verdicts if v.id == id))
        if bets:
            money = f"{row['evidence']['e']:.3g}" if "evidence" in row else ""
            assert (marked[id]["e"].replace("—", ""), shown[id]["e"]) == (money, money)
        assert {name: marked[id][name] for name in both} == both
        assert all(shown[id][name] == both[name] for name in {*both} - {*numbers})
        assert marked[id]["verdict"] == row["verdict"] == shown[id]["verdict"].split()[1]
        rates = {"false fail": row["false_fail"], "false pass": row["false_pass"], "p": row["p"]}
        assert {name: marked[id][name] for name in rates} == {name: rate(value) for name, value in rates.items()}
    # A form that leaves one out is seen.
    assert table_of(text.replace("| 9.0 |", "| 9.1 |")) != marked != shown


def test_a_violated_claim_stands_after_holm_or_by_its_own_rate_only(tmp_path: Path) -> None:
    whole = made()
    stands, own = whole.verdicts[1], whole.verdicts[2]
    assert (stands.verdict, own.verdict) == ("violated", "violated") and 1e-4 < own.p < 1e-3
    assert whole.stands(stands) and not whole.stands(own) and not whole.stands(whole.verdicts[0])
    assert whole.beside(stands) == "violated, and also after Holm" and whole.beside(whole.verdicts[0]) == ""
    assert whole.beside(own) == ("violated by its own rate only: expected once in 23 such pages; ask again with --seed")
    rows = whole.json()
    assert rows["summary"]["stand"] == 1 and [row["stands"] for row in rows["claims"]].count(True) == 1
    line = judgments.together(whole)
    assert line == (
        "P(any false fail among 43 claims) <= 0.043, after Holm's correction <= 0.01: 1 of 2 violated stay so"
    )
    for name in ("r.html", "r.md"):
        text = " ".join(reporting.write_page(whole, tmp_path / name).read_text("utf-8").split())
        assert text.count(whole.beside(own)) == text.count(whole.beside(stands)) == 1
        assert "Holm's correction" in text.replace("&#39;", "'").replace("</b>", "")
    # Alone on its page, the same claim stands: nothing else could have raised the alarm.
    assert Page([own], MANIFEST).stands(own)


def test_what_to_do_is_the_same_text_everywhere(tmp_path: Path) -> None:
    broken = verdict("ess/limit", value=3.0)
    whole = Page([broken], {"spec": {"size": "quick"}, "seed": 4})
    steps = judgments.steps(broken, whole)
    assert [step.split("?")[0].split(":")[0].lower() for step in steps] == [
        *("chance", "theory", "code", "suspects", "where", "more")
    ]
    plain = "\n".join(steps)
    for words in ("It runs: loop", "clamped weights", "--seed 5 --size full", judgments.PAGE):
        assert words in plain
    assert (Path(__file__).parents[1] / judgments.PAGE).exists()
    assert all(len(part.split()) <= 25 for step in steps for part in re.sub("`[^`]*`", "code", step).split(". "))
    html = Read(reporting.write_page(whole, tmp_path / "r.html").read_text("utf-8"))
    text = reporting.write_page(whole, tmp_path / "r.md").read_text("utf-8")
    for step in steps:
        assert " ".join(step.replace("`", " ").split()) in " ".join(html.text.split())
        assert f"- {reporting.escaped(step)}\n" in text
    printed = {" ".join(line.split()) for line in judgments.advice(whole)}
    assert {step.replace("`", "") for step in steps} <= printed
    held = reporting.write_page(Page([verdict()], {}), tmp_path / "h.md").read_text()
    assert judgments.steps(broken, whole)[0] not in held


def test_the_point_that_is_named_is_the_worst_one_and_can_be_asked(tmp_path: Path) -> None:
    from asyncsim import claims, validation
    from asyncsim.base.records import Estimate

    claim, trial = claims.claim("ess/limit"), claims.trial("ess/limit")
    predicted = [claim.predict(point) for point in trial.points]
    measured = [
        {"ess": Estimate(row["ess"] * factor, 1e-4)} for row, factor in zip(predicted, (1.0, 1.1, 1.0), strict=True)
    ]
    broken = validation.join(claim, trial.points, measured, predicted, 0.02)
    (step,) = (step for step in judgments.steps(broken, Page([broken], {})) if step.startswith("Where?"))
    assert step.count("--at") == 2 and "'behavior_logits=(0.3, -0.2, 0.5)'" in step
    import shlex

    words = shlex.split(step.split("`")[1])[1:]
    result = call(*words, "--report", tmp_path / "r.md", "--json", tmp_path / "v.json")
    assert result.exit_code == 0
    (row,) = json.loads((tmp_path / "v.json").read_text())["claims"][0]["points"]
    assert row["point"] == json.loads(json.dumps(trial.points[1]))


def test_coverage_is_in_every_form_where_there_is_a_map(tmp_path: Path) -> None:
    whole = made(coverage=COVERAGE)
    assert whole.json()["coverage"] == COVERAGE["rows"] and made().json()["coverage"] is None
    # Wilson's interval of 2 in 3.
    said = "Claims caught 3 of them: 2 made a claim fail, 1 crashed its measurement. Expect 21 to 94 % of new bugs"
    html = reporting.write_page(whole, tmp_path / "r.html").read_text("utf-8")
    assert said in Read(html).text
    folded = html.split('<h2 id="coverage">')[1].split("<details>")[1].split("</details>")[0]
    assert "<td>asyncsim/a.py:2</td><td>&lt; -&gt; &gt;=</td><td><code>m = x &lt; y</code></td><td>none</td>" in folded
    assert '<a href="#b-two">b/two</a></td>' in folded
    text = reporting.write_page(whole, tmp_path / "r.md").read_text("utf-8")
    assert said in text and "| asyncsim/c.py:3 | 1 -> 2 | n = 1 | b/two |" in text and "w = a \\| b" in text
    for name in ("n.html", "n.md"):
        assert "random bugs" not in reporting.write_page(made(), tmp_path / name).read_text("utf-8").lower()


def test_the_installed_map_is_read_and_shown_on_a_page_with_all_its_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judgments, "__file__", str(tmp_path / "page.py"))
    assert judgments.coverage() is None and verdicts._coverage(made().verdicts) is None
    (tmp_path / "coverage.json").write_text(json.dumps(COVERAGE))
    assert judgments.coverage() == COVERAGE == verdicts._coverage(made().verdicts)
    assert verdicts._coverage(made().verdicts[1:]) is None
    root = Path(__file__).parents[1]
    data = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["asyncsim"]
    assert any(fnmatch(f"app/{judgments.COVERAGE}", pattern) for pattern in data)


def test_seconds_are_printed_by_claim_with_their_sum_and_the_slowest(tmp_path: Path) -> None:
    whole = made()
    total = sum(v.seconds for v in whole.verdicts)
    line = f"{total:.1f} s over all claims; slowest: d/39 42.0, d/38 41.0, d/37 40.0, d/36 39.0, d/35 38.0"
    assert judgments.cost(whole.summary) == line and f"measured in {line}" in judgments.lines(whole, True)
    assert list(whole.json()["summary"]["slowest"]) == ["d/39", "d/38", "d/37", "d/36", "d/35"]
    assert judgments.cost(Page([verdict()], {}).summary) == "1.5 s"
    for name in ("r.html", "r.md"):
        assert f"Measured in {line}." in reporting.write_page(whole, tmp_path / name).read_text("utf-8")


@pytest.mark.parametrize(("name", "head"), [("r.md", "# a"), ("r.MD", "# a"), ("r.htm", "<!DOCTYPE"), ("md", "<!DOC")])
def test_the_ending_of_the_path_chooses_the_form(tmp_path: Path, name: str, head: str) -> None:
    assert reporting.write_page(Page([verdict()], {}), tmp_path / name, "a title").read_text("utf-8").startswith(head)


def test_markdown_shows_what_is_given_as_it_is(tmp_path: Path) -> None:
    evil = "<b>*x*</b> | [y](z) _w_ `a|b_c`\n# head"
    odd = verdict("a/one", evil, value=3.0, reason=evil, quantity="grad[2]")
    text = reporting.write_page(Page([odd], {}), tmp_path / "r.md").read_text("utf-8")
    assert r"\<b>\*x\*\</b> \| \[y](z) \_w\_ `a\|b_c` # head" in text and "\n# head" not in text
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 11 for line in text.split("## Claims")[1].splitlines()[2:5])
