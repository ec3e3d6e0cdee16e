"""What a trace says of its metrics: errors between realizations, frozen replicates left out, staleness shares."""

import math

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.base import uncertainty

RANDOM = np.random.default_rng(0)


def trace(values, realization, random=True, version=None):
    """A trace with one metric [U, R] on a schedule of two batches and as many realizations as are named."""
    M = int(np.max(realization)) + 1
    version = np.zeros((M, 2, 1, 1, 1), dtype=np.int32) if version is None else version
    schedule = sim.Schedule(version, np.zeros(version.shape[:4], dtype=np.int64), random=random)
    R = len(realization)
    return sim.Trace(
        {"metric": np.asarray(values)},
        np.arange(len(values)),
        {},
        np.zeros((R, 1)),
        np.full(R, -1),
        np.asarray(realization),
        schedule,
    )


def test_final_is_the_mean_of_the_last_rows_between_realizations():
    values, realization = RANDOM.normal(size=(20, 6)), np.arange(6) % 3
    found = trace(values, realization).final("metric", last=0.25)
    expected = uncertainty.between(values[-5:].mean(0), realization, random=True)
    assert found == pytest.approx(expected) and found.freedom == 2
    assert trace(values, realization, random=False).final("metric", last=0.25).freedom == 5


def test_frozen_replicates_are_left_out_with_their_realization():
    values, realization = RANDOM.normal(size=(20, 6)), np.array([0, 1, 2, 0, 1, 2])
    values[3:, [0, 3]] = math.nan
    found = trace(values, realization).final("metric")
    assert found == pytest.approx(uncertainty.between(values[-2:, [1, 2, 4, 5]].mean(0), [1, 2, 1, 2], random=True))
    table = trace(values, realization).table()
    assert table["replicates"].tolist() == [6] * 3 + [4] * 17
    np.testing.assert_allclose(table["mean"], np.nanmean(values, axis=1))
    last = table.iloc[-1]
    row = uncertainty.between(values[-1, [1, 2, 4, 5]], [1, 2, 1, 2], random=True)
    half = uncertainty.critical(0.05, row.freedom) * row.error
    assert last["low"] == pytest.approx(row.value - half) and last["high"] == pytest.approx(row.value + half)


def test_one_replicate_has_no_error_bar():
    found = trace(np.ones((4, 1)), [0]).final("metric")
    assert found.value == 1.0 and math.isinf(found.error)
    assert len(trace(np.ones((4, 1)), [0]).table()) == 4


def test_one_shared_realization_is_marked():
    assert not trace(RANDOM.normal(size=(4, 6)), np.zeros(6, dtype=int)).final("metric").independent
    assert trace(RANDOM.normal(size=(4, 6)), np.zeros(6, dtype=int), random=False).final("metric").independent


def test_staleness_shares():
    version = np.array([0, 0, 0, 1], dtype=np.int32).reshape(2, 2, 1, 1, 1)
    np.testing.assert_allclose(trace(np.ones((2, 2)), [0, 1], version=version).staleness(), [0.75, 0.25])
