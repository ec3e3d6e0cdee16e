"""Formulas are marked in every claim's statement, and what is marked is set as mathematics."""

import dataclasses
import re

import pytest

from asyncsim import claims
from asyncsim.app.reporting import GREEK, rendered
from asyncsim.claims.staleness_rules import _predicted
from asyncsim.plotting import plot
from tests.test_reporting import verdict

BARE = re.compile(rf"[*/=<>^_+\[\]()]|\b[B-HJ-Zb-z]\b|\b({'|'.join(GREEK)}|sqrt)\b")
"""What only a formula has: a sign, a lone letter, a Greek letter's name."""
REMARK = re.compile(r"\(release at \w+\)|(?<=')s\b|top-[pk]\b")

TORN = re.compile(r"([a-z]{4,})_[a-z]{3,}")

NAMES = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau phi chi psi omega"
LETTERS = set(NAMES.split())


def bare(statement: str) -> list[str]:
    """Signs of a formula outside of marks."""
    outside = re.sub(r"`[^`]+`", "", statement)
    return [found[0] for found in BARE.finditer(REMARK.sub("", outside))]


@pytest.mark.parametrize("id", sorted(claims.claims()))
def test_every_statement_has_its_formulas_marked(id):
    statement = claims.claim(id).statement
    assert statement.count("`") % 2 == 0 and bare(statement) == []
    # What the renderer does not know would stand as it is.
    formulas = " ".join(re.findall(r"`([^`]+)`", statement))
    assert not set(re.findall(r"[{}]", formulas)) and set(re.findall(r"[A-Za-z]+", formulas)) & LETTERS <= {*GREEK}
    # An underscore sets an index, so that a name of two words would be torn.
    assert set(TORN.findall(statement)) <= {*GREEK}
    # A mark that is forgotten is seen.
    for formula in re.findall(r"`([^`]+)`", statement):
        if formula not in ("a", "hold"):
            assert bare(statement.replace(f"`{formula}`", formula)), formula


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no `x` no letter x", "no <x> no letter x"),
        ("`sum_i p_i^2 (1-p_i)^k`", "∑_{<i>} <p>_{<i>}^{2} (1−<p>_{<i>})^{<k>}"),
        ("`(W-C)_+ R`", "(<W>−<C>)_{+} <R>"),
        ("`1/sqrt(d)`, `3 sqrt 3`", "1/√[<d>], 3 √[3]"),
        ("`ceil(K/M)-1 <= floor(a)`", "⌈<K>/<M>⌉−1 ≤ ⌊<a>⌋"),
        ("`F(pi*)`", "<F>(<π>^{*})"),
        ("`step * x`", "step · <x>"),
        ("`sum/k` and `1/p0 = sum K!`", "sum/<k> and 1/<p>_{0} = ∑ <K>!"),
        ("`(1 + chi^2)^-T`", "(1 + <χ>^{2})^{−<T>}"),
        ("`((x` and `x))^`", "((<x>)) and <x>))^{}"),
        ("one ` alone * stays", "one ` alone * stays"),
    ],
)
def test_what_is_marked_is_set(text, shown):
    made = str(rendered(text))
    made = made.replace('<span class="f">', "").replace('<span class="root">', "[").replace("</span>", "]")
    for old, new in (("<var>", "<"), ("</var>", ">"), ("<sub>", "_{"), ("<sup>", "^{")):
        made = made.replace(old, new)
    made = re.sub(r"</su[bp]>", "}", made)
    # The end of a formula and that of a root are the same tag.
    depth, kept = 0, ""
    for sign in made:
        depth += (sign == "[") - (sign == "]")
        kept += sign * (sign != "]" or depth >= 0)
        depth = max(depth, 0)
    assert kept == shown


def test_everything_is_escaped():
    made = str(rendered("<b> `<script> & x`"))
    assert "<b>" not in made and "<script" not in made and "&amp;" in made


def test_no_mark_is_seen_where_none_is_rendered():
    made = verdict(statement="stable iff `a < 2`")
    picture = dataclasses.replace(made, verdict="held")
    assert "stable iff a < 2" in plot(picture).get_suptitle()
    assert "stable iff a &lt; 2" in made._repr_html_() and "`" not in made._repr_html_()


def test_the_reason_for_a_law_has_no_marks():
    point = {"workers": 8, "law": "exponential:1.0", "rates": None}
    found = _predicted._of_claim("systems/update-on-arrival", point, "mean")
    assert found.mean == 7 and "N-1" in found.reason and "`" not in found.reason
