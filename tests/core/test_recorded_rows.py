"""Recorded rows: each held once, in its place, however many blocks there are."""

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.diagnostics._diagnostic import PILE, Column
from tests.core import runs


@pytest.mark.parametrize("count", [1, PILE - 1, PILE, PILE + 1, 3 * PILE + 5])
def test_rows_stand_in_their_order(count: int) -> None:
    rows = [torch.full((3,), float(number)) for number in range(count)]
    column = Column(count)
    for row in rows:
        column.add(row)
        assert torch.equal(column.last(), row)
    assert torch.equal(column.all(), torch.stack(rows))


def test_all_rows_are_held_by_one_table() -> None:
    """Fails where rows stay the tensors they were made as, each of which holds the memory around it."""
    column = Column(10 * PILE)
    for number in range(10 * PILE - 1):
        column.add(torch.full((5,), float(number)))
    assert len(column.pile) < PILE
    assert column.all().untyped_storage().nbytes() == 10 * PILE * 5 * column.all().element_size()


def test_rows_of_an_earlier_run_come_first() -> None:
    column, table = Column(PILE + 40), torch.arange(2.0 * (PILE + 10)).reshape(-1, 2)
    column.add(*table.unbind(0))
    column.add(torch.tensor([-1.0, -2.0]))
    assert torch.equal(column.all()[:-1], table) and column.all()[-1].tolist() == [-1.0, -2.0]


def test_blocks_and_intervals_change_no_row() -> None:
    spec = runs.spec(system=sim.schedules.fixed(2), updates=2 * PILE + 9, replicates=6)
    whole, cut, thinned = (sim.run(each) for each in (spec, spec.replace(block=4), spec.replace(every=7)))
    for name, values in whole.metrics.items():
        np.testing.assert_array_equal(values, cut[name])
        # A thinned cosine compares with another step.
        assert values[::7].shape == thinned[name].shape
