"""Formulas are marked in every claim's statement, and what is marked is set as mathematics."""

import dataclasses
import re
from xml.etree import ElementTree

import pytest

from asyncsim import claims
from asyncsim.app.reporting import FUNCTIONS, formula, latex, rendered
from asyncsim.app.reporting import LETTERS as GREEK
from asyncsim.base import checks
from asyncsim.claims import _registry
from asyncsim.claims.staleness_rules import _predicted
from asyncsim.plotting import plot
from tests.test_reporting import verdict

BARE = re.compile(rf"[*/=<>^_+\[\]()]|\b[B-HJ-Zb-z]\b|\b({'|'.join(GREEK.split())}|sqrt)\b")
"""What only a formula has: a sign, a lone letter, a Greek letter's name."""
REMARK = re.compile(r"\(release at \w+\)|(?<=')s\b|top-[pk]\b")
TORN = re.compile(r"([a-z]{4,})_[a-z]{3,}")


def bare(statement: str) -> list[str]:
    """Signs of a formula outside of marks."""
    outside = re.sub(r"`[^`]+`", "", statement)
    return [found[0] for found in BARE.finditer(REMARK.sub("", outside))]


@pytest.mark.parametrize("id", sorted(claims.claims()))
def test_every_statement_has_its_formulas_marked(id):
    statement = claims.claim(id).statement
    assert statement.count("`") % 2 == 0 and bare(statement) == []
    # What the renderer does not know would stand as it is.
    assert not re.search(r"[{}]|\biota\b", statement)
    # An underscore sets an index, so that a name of two words would be torn.
    assert set(TORN.findall(statement)) <= {*GREEK.split()}
    # A mark that is forgotten is seen.
    for marked in re.findall(r"`([^`]+)`", statement):
        if marked not in ("a", "hold"):
            assert bare(statement.replace(f"`{marked}`", marked)), marked


SYMBOLS = checks.table(_registry.__file__, "symbols.toml")
KNOWN = {*FUNCTIONS.split(), *re.findall(r"\w+", "sqrt ceil floor prod grad tanh cosh sinh clip of all its")}


@pytest.mark.parametrize("id", sorted(claims.claims()))
def test_every_symbol_of_a_formula_has_a_meaning(id):
    def undefined(statement):
        known = {*KNOWN, *SYMBOLS["*"], *SYMBOLS.get(id.partition("/")[0], {}), *SYMBOLS.get(id, {})}
        found = _registry.TOKEN.findall(" ".join(re.findall("`([^`]+)`", statement)))
        parts = {part for word in found for part in ([word] if word in known else re.split(r"_|(?=\d)|\d", word))}
        return {part for part in parts - known if 0 < len(part) < 4 or part in GREEK.split()}  # words need none

    statement = claims.claim(id).statement
    assert undefined(statement) == set() and undefined(f"{statement} `Z_psi + kap`") == {"Z", "psi", "kap"}
    own = {name for name, said in SYMBOLS.get(id, {}).items() if said}
    assert {*_registry.symbols(id, statement)[1]} == own  # nothing is declared in vain


@pytest.mark.parametrize(
    ("text", "set_as"),
    [
        ("sum_i p_i^2 (1-p_i)^k", r"\sum _{i}\,p_{i}^{2}\,(1-p_{i})^{k}"),
        ("(W-C)_+ R", "(W-C)_{+} R"),
        ("1/sqrt(d)", r"1/\sqrt{d}"),
        ("3 sqrt 3", r"3\,\sqrt{3}"),
        ("ceil(K/M)-1 <= floor(a)", r"\lceil K/M\rceil -1 \le  \lfloor a\rfloor "),
        ("F(pi*)", r"F(\pi ^{*})"),
        ("r* - (beta2/b1)^t", r"r^{*} - (\beta _{2}/b_{1})^{t}"),
        ("step * x_(t - tau)", r"\text{step} \cdot  x_{t - \tau }"),
        ("sum/k", r"\sum /k"),
        ("1/p0 = sum K!", r"1/p_{0} = \sum \,K!"),
        ("(1 + chi^2)^-T", r"(1 + \chi ^{2})^{-T}"),
        ("((x", "((x"),
        ("x))^", "x))"),
        (r"\input{x} 5 %", r"\backslash \text{input}\{x\} 5 \% "),
    ],
)
def test_what_is_marked_is_set(text, set_as):
    assert latex(text) == set_as


def test_only_what_is_marked_is_set_and_a_long_formula_may_be_broken():
    assert str(rendered("no letter x, one ` alone * stays")) == "no letter x, one ` alone * stays"
    made = str(rendered("no `x` no x"))
    assert made == "no <math><mi>x</mi></math> no x"
    # After a sign outside of brackets.
    assert formula("a + b + c + d + (e + f + g + h) = i").count("<wbr>") == 2
    assert "<wbr>" not in formula("(a + b + c + d + e + f)")


@pytest.mark.parametrize("id", sorted(claims.claims()))
def test_every_formula_of_a_statement_is_mathml_without_a_trace_of_latex(id):
    for text in re.findall(r"`([^`]+)`", claims.claim(id).statement):
        for part in formula(text).split("<wbr>"):
            words = "".join(ElementTree.fromstring(part).itertext())
            assert words and not re.search(r"[\\^_`⟮⟯⍽★]", words), text


def test_everything_is_escaped():
    assert rendered("`x_i_j < 1`") == "<code>x_i_j &lt; 1</code>"
    made = str(rendered("<b> `<script> & x`"))
    assert made.startswith("&lt;b&gt; <math><mo>&#x0003C;</mo>") and "<script" not in made and "&#x00026;" in made


def test_no_mark_is_seen_where_none_is_rendered():
    made = verdict(statement="stable iff `a < 2`")
    picture = dataclasses.replace(made, verdict="held")
    assert "stable iff a < 2" in plot(picture).get_suptitle()
    assert "stable iff a &lt; 2" in made._repr_html_() and "`" not in made._repr_html_()


def test_the_reason_for_a_law_has_no_marks():
    point = {"workers": 8, "groups_per_batch": 1, "law": "exponential:1.0", "rates": None, "cells": 0}
    found = _predicted._of_claim("systems/arrivals-per-update", point, "mean")
    assert found.mean == 7 and "N - 1" in found.reason and "`" not in found.reason
