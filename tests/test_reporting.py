"""The report holds every claim, needs nothing but itself, escapes what it shows and is written whole or not at all."""

import dataclasses
import math
import re
from html.parser import HTMLParser

import pytest

from asyncsim import validation
from asyncsim.app import reporting
from asyncsim.base.checks import InputError
from asyncsim.base.records import Claim, Estimate

MANIFEST = {"asyncsim": "0.1.0", "seed": 7, "cpu": None, "libraries": {"numpy": "2.0"}}
VOID = {"meta", "img", "br", "input", "wbr"}


def verdict(id="family/claim", statement="two is two", value=2.0, error=0.01, **changes):
    claim = Claim(id, statement, "expectation", "exact", lambda p: None, lambda p: {}, lambda p: {}, "derived")
    points = [{"staleness": 4, "step": 0.25}, {"staleness": 8, "step": 0.25}]
    made = validation.join(
        claim, points, [{"x": Estimate(value, error)}] * 2, [{"x": 2.0}] * 2, effect=0.05, seconds=1.5
    )
    return dataclasses.replace(made, **changes)


class Page(HTMLParser):
    """Checks that tags nest, and gathers text, addresses and ids."""

    def __init__(self, text):
        super().__init__()
        self.open, self.addresses, self.ids, self.words, self.charts = [], [], [], [], 0
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.addresses += [values[name] for name in ("src", "href", "srcset", "action", "data") if name in values]
        self.ids += [values["id"]] if "id" in values else []
        self.charts += values.get("role") == "img" and bool(values.get("aria-label"))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass  # marks of a drawing

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.fixture
def page(tmp_path):
    def write(verdicts, **options):
        listed = verdicts if isinstance(verdicts, list) else [verdicts]
        path = reporting.write_page(reporting.Page(listed, MANIFEST), tmp_path / "report.html", **options)
        return Page(path.read_text(encoding="utf-8"))

    return write


def test_every_claim_is_there_with_its_numbers_and_can_be_reached(page):
    ids = ["family/one", "family/two-words", "other/three"]
    made = page([verdict(id, f"statement of {id}") for id in ids], references={"other/three": "Somebody 1976"})
    for id in ids:
        assert id in made.text and f"Statement of {id}." in made.text
        assert f"#{reporting.anchor(id)}" in made.addresses and reporting.anchor(id) in made.ids
    assert len(made.ids) == len(set(made.ids))
    assert "2.000 ± 0.03" in made.text
    assert "All points: step = 0.25." in made.text and "staleness predicted measured" in made.text
    assert "4 2.000 2.000 ± 0.035 0.00 ✓ held 8 2.000 2.000 ± 0.035 0.00 ✓ held" in made.text
    assert "Source: Somebody 1976" in made.text and made.text.count("Source:") == 1
    assert made.charts == len(ids)


def test_nothing_outside_the_file_is_asked_for(page):
    made = page([verdict(), verdict("b/c")])
    assert made.addresses and all(address.startswith("#") for address in made.addresses)
    assert {address[1:] for address in made.addresses} <= set(made.ids)


def test_the_file_holds_no_script_of_elsewhere_and_no_import(tmp_path):
    text = reporting.write_page(reporting.Page([verdict()], MANIFEST), tmp_path / "r.html").read_text(encoding="utf-8")
    assert not re.search(r"<script[^>]|@import|url\(|https?://|<link|fetch\(|XMLHttp", text)
    assert text.count("<script>") == 1 and "asyncsim: 1 claim predicted and measured" in text


def test_everything_given_is_escaped(page):
    evil = '<script>alert("x")</script>&'
    odd = verdict(statement=evil, reason=evil, defects=({"name": evil, "verdict": "violated"},))
    made = page([odd], title=evil, references={"family/claim": evil})
    assert made.text.count(evil) == 7  # title, heading, table, section, source, reason, defect


def test_counts_and_error_rates_are_stated(page):
    made = page([verdict(), verdict("b/c", value=3.0), verdict("d/e", error=0.2)])
    assert "1 held 1 violated 1 inconclusive" in made.text
    assert "has the verdict violated with probability at most 0.001, and any of the 3" in made.text
    assert "any of the 3 with probability at most 0.003" in made.text
    rate = verdict().false_pass
    assert 0 < rate < 1e-6 and "held with probability at most one in a million." in made.text


def test_the_promised_rate_stands_beside_the_attained_one(tmp_path):
    path = reporting.write_page(reporting.Page([verdict()], {"spec": {"false_pass": 0.05}}), tmp_path / "r.html")
    attained = "at most 0.05 by design; the measurements below attain one in a million."
    assert attained in Page(path.read_text()).text


def test_planted_defects_and_wrong_formulas_are_listed_apart(page):
    defects = ({"name": "off by one", "verdict": "violated"}, {"name": "dropped ratio", "verdict": "inconclusive"})
    made = page(verdict(defects=defects, formula_defects=({"name": "factor forgotten", "verdict": "held"},)))
    assert "1 of 2 bugs injected into the code and 0 of 1 wrong formulas were caught" in made.text
    product, formulas = made.text.split("Wrong formulas")
    assert "off by one violated ✓ yes" in product and "dropped ratio inconclusive ✗ no" in product
    assert "factor forgotten held ✗ no" in formulas and "factor forgotten" not in product
    assert "No bugs were injected" in page(verdict()).text


def test_a_claim_outside_its_domain_and_a_diverged_one_are_shown(page):
    missing = {"verdict": "outside", "measured": math.nan, "predicted": math.nan}
    outside = dataclasses.replace(verdict().points[0], **missing, reason="no law")
    gone = validation.judge(Estimate(math.nan), 1.0, "expectation", 1.0, 0.1)
    beyond = verdict("a/outside", **missing, points=(outside,), false_fail=math.nan)
    made = page([beyond, verdict("a/gone", verdict="violated", points=(gone,), measured=math.nan)])
    assert "no law" in made.text and "diverged" in made.text and "1 outside" in made.text
    assert "nan" not in made.text.lower() and "called held with probability" not in made.text


def test_the_manifest_stands_at_the_end_without_what_is_missing(page):
    ending = page(verdict()).text.split("What this was measured on")[1]
    assert "seed 7" in ending and "numpy" in ending and "cpu" not in ending


def test_a_path_below_a_file_is_refused_by_name(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="path"):
        reporting.write_page(reporting.Page([verdict()], MANIFEST), tmp_path / "file" / "report.html")


def test_a_report_that_fails_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")
    monkeypatch.setattr(reporting, "figure", lambda verdict, predict: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        reporting.write_page(reporting.Page([verdict()], MANIFEST), path)
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (0.349878, 0.001209, "0.3499 ± 0.0012"),
        (-5.7, 0.25, "−5.70 ± 0.25"),
        (0.0, 1e-6, "0 ± 1e−06"),
        (15.0, 0.0, "15"),
        (1234.5, 160.0, "1230 ± 160"),
        (1 / 3, 1e-12, "0.333333"),
        (2.0, 0.0996, "2.00 ± 0.10"),
        (0.0, 0.0, "0"),
        (2e-233, 1e-6, "0 ± 1e−06"),
        (0.2312701, 1e-6, "0.2312701 ± 1e−06"),
    ],
)
def test_measurements_are_rounded_by_their_interval(value, half, text):
    row = dataclasses.replace(verdict().points[0], measured=value, low=value - half, high=value + half)
    assert reporting.measured(row) == text


def test_a_coarse_measurement_shows_the_places_of_its_prediction():
    row = dataclasses.replace(
        verdict().points[0], predicted=0.4286, measured=0.41234567, low=0.39234567, high=0.43234567
    )
    assert reporting.measured(row) == "0.4123 ± 0.020"


def test_of_many_comparisons_those_of_least_margin_are_shown(page):
    """69 rows: 12 at once, 50 behind a click, 7 in the JSON alone; 62 or fewer are all there."""
    row = verdict().points[0]
    rows = tuple(dataclasses.replace(row, quantity=f"x{k:03d}", margin=-1.0 - k, measured=9.0) for k in range(69))
    made = verdict(points=rows)
    shown = reporting.comparisons(made)
    assert [each.quantity for each in shown["first"]] == [f"x{k:03d}" for k in range(68, 56, -1)]
    assert [each.quantity for each in shown["more"]] == [f"x{k:03d}" for k in range(56, 6, -1)] and shown["left"] == 7
    text = page(made).text
    assert "7 of still more margin are in the JSON" in text and "x007" in text and "x006" not in text
    assert len(made.row()["points"]) == 69
    few = reporting.comparisons(verdict(points=rows[:62]))
    assert len(few["first"]) + len(few["more"]) == 62 and few["left"] == 0
    exact = page(verdict(points=tuple(dataclasses.replace(each, measured=row.measured, margin=1.0) for each in rows)))
    assert "69 comparisons, largest deviation below 0.01 smallest effects" in exact.text


def test_parameters_that_vary_are_columns_and_rare_ones_share_one():
    row = verdict().points[0]
    points = [{"a": k, "b": k // 2, "c": k // 2, "d": k // 2, "e": k // 3, "f": 1} for k in range(4)]
    shown = reporting.comparisons(verdict(points=tuple(dataclasses.replace(row, point=point) for point in points)))
    assert (shown["varying"], shown["others"], shown["shared"]) == (["a", "b", "c", "d"], ["e"], {"f": 1})


def test_the_page_opens_with_one_sentence_and_the_exceptions(page):
    made = page([verdict("a/b"), verdict("a/c", value=3.0), verdict("a/d", status="open")])
    opening = made.text.split("How to read this page")[0]
    assert "Simulation agrees with 2 of 3 formulas and contradicts 1. If all 3 formulas are true" in opening
    assert "the probability of any verdict violated is at most 0.3 %." in opening and "a/b" not in opening
    assert "Apart from the violated claims, simulation deviates by less than 0.01" in opening
    assert "a/c : Violated. Measured at 2 points: x. The largest deviation is 10 times" in opening
    assert "a/d : Held, a conjecture." in opening
    assert "Exceptions" not in page([verdict()]).text.split("How to read")[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "Measured at 2 points: x. The largest deviation is below 1 % of the smallest effect."),
        ({"value": 2.05}, "The largest deviation is 50 % of the smallest effect."),
        ({"value": 2.05}, "The smallest effect is 0.1 there, 5 % of the prediction."),
    ],
)
def test_a_claim_says_what_was_measured_and_how_near(changes, words):
    assert words in reporting.finding(verdict(**changes))


def test_claims_at_one_deviation_are_stacked_and_those_beyond_are_at_the_edge():
    claims = [verdict(f"a/{k}", value=value) for k, value in enumerate((2.05, 2.0499, 1.951, 9.0))]
    assert [(round(x, 2), y) for _, x, y in reporting.swarm(claims, 1.4)] == [(-0.49, 0), (0.5, 0), (0.5, 1), (1.4, 0)]


def test_numbers_of_arxiv_are_links_and_years_are_not(page):
    made = page(verdict(), references={"family/claim": "arXiv 1707.06347; dual clip 1912.09729; Kong 1992"})
    found = [address for address in made.addresses if not address.startswith("#")]
    assert found == ["https://arxiv.org/abs/1707.06347", "https://arxiv.org/abs/1912.09729"]
