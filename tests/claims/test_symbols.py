"""Every symbol in the formula of a claim has a meaning, and every formula is typeset as it is meant."""

import re

import pytest

from asyncsim import claims
from asyncsim.app import reporting
from asyncsim.base import checks
from asyncsim.claims import _registry

KNOWN = {*reporting.FUNCTIONS.split(), *"sqrt ceil floor prod grad tanh cosh sinh clip iff".split()}
"""Functions that formulas apply."""


def tokens(id):
    formulas = re.findall("`([^`]+)`", claims.claim(id).statement)
    return {part for each in formulas for word in _registry.TOKEN.findall(each) for part in [word]}


@pytest.mark.parametrize("id", claims.claims())
def test_every_symbol_of_a_formula_is_defined(id):
    table = checks.table(_registry.__file__, "symbols.toml")
    defined = {**table["*"], **table.get(id.partition("/")[0], {}), **table.get(id, {})}

    def open_parts(word):
        parts = [word] if word in defined else re.split(r"_|(?=\d)", word)
        return {p for p in parts if p not in defined and p not in KNOWN and not p.isdigit() and p}

    # What is left are words, which explain themselves.
    left = {part for word in tokens(id) for part in open_parts(word)}
    assert {part for part in left if len(part) < 4 or part in reporting.LETTERS.split()} <= {"of", "its", "all"}
