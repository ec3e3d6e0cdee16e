"""Every planted field bug is killed by the test that names it, and that test passes on the product."""

from __future__ import annotations

import json

import pytest

from tests.defects import catalog
from tests.defects.__main__ import ROWS, TABLE, table
from tests.defects.plants import PLANTS

ALL = sorted(PLANTS)


def failures(error):
    """The single errors inside a group of them."""
    if isinstance(error, BaseExceptionGroup):
        return [single for part in error.exceptions for single in failures(part)]
    return [error]


def test_every_bug_of_the_list_is_planted():
    assert list(range(1, 43)) == ALL and catalog.COUNT == 42


def test_the_table_is_that_of_its_rows():
    """And most bugs are killed by tests that were not written for them."""
    rows = json.loads(ROWS.read_text(encoding="utf-8"))
    assert TABLE.read_text(encoding="utf-8") == table(rows)
    assert {int(number) for number in rows} == set(ALL) and sum(map(bool, rows.values())) >= 30


@pytest.mark.parametrize("number", ALL)
def test_killed(number):
    """It fails as an assertion, not because the patched product falls over."""
    found = PLANTS[number]
    with found.planted(), pytest.raises(BaseException) as caught:
        found.test()()
    for error in failures(caught.value):
        assert isinstance(error, (AssertionError, pytest.fail.Exception)), repr(error)


@pytest.mark.parametrize("number", ALL)
def test_the_killer_passes_on_the_product(number):
    PLANTS[number].test()()
