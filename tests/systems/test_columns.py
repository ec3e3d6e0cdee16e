"""Columns of the kernel's tables are copies of their fields."""

import numpy as np
import pytest

from asyncsim.systems import _state as k
from asyncsim.systems._record import columns_of

TABLES = [name for name, (kind, axes) in k.LAYOUT.items() if axes == 1 and kind.names]


def filled(kind, count):
    """A table of random numbers."""
    table = np.zeros(count, dtype=kind).view(np.recarray)
    random = np.random.default_rng(count)
    for name in kind.names:
        table[name] = random.integers(-1000, 1000, count)
    return table


def assert_columns(found, table, names):
    assert list(found) == list(names)
    for name in names:
        assert found[name].dtype == table.dtype[name] and found[name].flags.c_contiguous
        assert not np.shares_memory(found[name], table)
        np.testing.assert_array_equal(found[name], table[name])


@pytest.mark.parametrize("count", [0, 1, 2, 77])
@pytest.mark.parametrize("name", TABLES)
def test_columns_are_copies_of_fields(name, count):
    table = filled(k.LAYOUT[name][0], 2 * count)[:count]
    for names in (table.dtype.names, table.dtype.names[::-1], table.dtype.names[:1]):
        assert_columns(columns_of(table, names), table, names)


@pytest.mark.parametrize("name", TABLES)
def test_a_column_of_another_field_is_seen(name):
    kind = k.LAYOUT[name][0]
    table, names = filled(kind, 50), kind.names
    found = columns_of(table, names)
    # The planted defect: every column is that of the field behind.
    shifted = dict(zip(names, list(found.values())[1:] + list(found.values())[:1], strict=True))
    with pytest.raises(AssertionError):
        assert_columns(shifted, table, names)
