"""Sentences of papers: each has its status, exact results that exist, and a number that they predict."""

import math
import re

import pytest

from asyncsim import claims
from asyncsim.claims import _papers
from docs import _prose
from paper_figures import _claims
from tests.refusals import refused

PAPERS = claims.papers()
ROWS = {"2603.01501", "2602.17616", "2607.01083", "2510.01161", "2609.20807", "2604.22407", "2206.08307", "2610.01896"}
"""Papers whose sentences are compared with exact results."""


def test_every_paper_has_a_sentence_and_every_status_occurs():
    assert {each.paper for each in PAPERS.values()} == ROWS
    assert {each.status for each in PAPERS.values()} >= {"asymptotic", "conditional", "open", "false as stated"}


@pytest.mark.parametrize("id", PAPERS)
def test_claims_exist_and_sentences_are_short(id):
    found = PAPERS[id]
    assert found.claims and set(found.claims) <= set(claims.claims())
    for text in (found.text, found.verdict, found.when):
        assert _prose.faults(text + "." * (not text.endswith("."))) == []
    assert all(command in found.doc for command in map("asyncsim verify {}".format, found.claims))


@pytest.mark.parametrize("id", PAPERS)
def test_numbers_are_predicted_and_fit_a_line_of_the_map(id):
    number = PAPERS[id].number()
    assert len(number) <= 46 and "nan" not in number and "inf" not in number
    digits = re.findall(r"\d+\.\d+", number)
    assert all(math.isfinite(float(each)) for each in digits)


def test_a_condition_belongs_to_a_conditional_sentence():
    def stated(status: str, when: str = "") -> _papers.Statement:
        return _papers.Statement("a/b", "A sentence.", status, ("ess/limit",), "A verdict.", str, when)

    refused("when", stated, "conditional")
    refused("status", stated, "true")
    refused("when", stated, "exact", "sometimes")
    assert stated("conditional", "sometimes").paper == "a"


def test_predictions_say_what_verdicts_say():
    """The numbers behind the words: limits of each, away from which the verdict would be another."""
    assert _papers._inflation(100.0) > 1.9 > 1.2 > _papers._inflation(0.03)
    assert _papers._slope(0.01) > 0.99 and _papers._slope(100.0) < 0.51
    assert _papers._scaled_step(64) == pytest.approx(math.pi / 2, rel=1e-3)
    assert _papers._steady() == pytest.approx(0.5)


def test_the_claim_map_has_every_sentence_once():
    by_figure = [each.stated for each in _claims.CLAIMS if each.stated]
    alone = [each.stated for each in _claims.exact()]
    assert sorted(by_figure + alone) == sorted(PAPERS)
    assert all(each.claims for each in _claims.exact())
    assert set(_claims.SHORT) == set(alone)
    assert set(_claims.OF_STATUS) == set(_papers.STATUSES)
