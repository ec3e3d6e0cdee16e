"""Keyed randomness: known answers, twins that agree, and draws that are what they claim to be."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from asyncsim.base import rng, rng_compiled
from asyncsim.step.batch import Draws
from tests.refusals import refused

TOP = 2**32 - 1
KNOWN = [
    ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((TOP, TOP), (TOP, TOP, TOP, TOP), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0xA4093822, 0x299F31D0),
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
"""Key, counter and words of Philox4x32-10, from the known-answer file of the Random123 library."""

words = st.one_of(st.integers(0, TOP), st.sampled_from([0, 1, 0xFFFF, 0x10000, 2**31 - 1, 2**31, TOP]))
counters = st.tuples(words, words, words, words)


@pytest.mark.parametrize(("key", "counter", "expected"), KNOWN)
def test_known_answers(key, counter, expected):
    assert tuple(int(w) for w in rng.philox(key, *counter)) == expected
    assert tuple(int(w) for w in rng_compiled.block(*key, *counter)) == expected


@given(key=st.tuples(words, words), counter=counters)
def test_twins_agree_on_every_word(key, counter):
    expected = tuple(int(w) for w in rng.philox(key, *counter))
    assert (
        tuple(int(w) for w in rng_compiled.block(*(np.uint64(k) for k in key), *(np.uint64(c) for c in counter)))
        == expected
    )


def axes(seed):
    """Broadcasting coordinates at and between the ends of their range."""
    random = np.random.default_rng(seed)
    ends = [0, 1, 2**31, TOP]
    return (
        np.array([*ends, *random.integers(0, TOP, 3)])[:, None, None],
        np.array([0, 5, TOP])[:, None],
        int(random.integers(0, TOP)),
        np.arange(6),
    )


def ulps(first, second):
    """Distance in units in the last place."""
    return np.abs(first - second) / np.spacing(np.maximum(np.abs(first), np.abs(second)))


@pytest.mark.parametrize("seed", range(5))
def test_uniforms_agree_to_the_bit(seed):
    stream, at = rng.Stream(seed, "action"), axes(seed)
    expected = stream.uniform(*at)
    assert expected.shape == (7, 3, 6) and ((expected >= 0) & (expected < 1)).all()
    np.testing.assert_array_equal(rng_compiled.uniform(stream, *at), expected)


@pytest.mark.parametrize("seed", range(5))
def test_normals_agree_to_four_units(seed):
    stream, at = rng.Stream(seed, "action"), axes(seed)
    expected = stream.normal(*at)
    assert np.isfinite(expected).all() and expected.shape == (7, 3, 6)
    assert ulps(rng_compiled.normal(stream, *at), expected).max() <= 4


def test_normals_of_a_run_are_those_of_single_calls():
    stream, ids = rng.Stream(3, "work"), np.arange(5, 500)
    run = rng_compiled.normal(stream, 2, ids, 4)
    single = np.array([rng_compiled.normal_at(*stream.key, 2, i, 4, 0) for i in ids])
    np.testing.assert_array_equal(run, single)
    # The planted defect: the other half of the same block.
    assert (run != np.array([rng_compiled.normal_at(*stream.key, 2, i, 4, 1) for i in ids])).all()


@pytest.mark.parametrize("M", [1, 3])
def test_blocks_of_a_batch_are_the_keyed_draws(M):
    """Both draws of a block, for replicates that read rows of the schedule in any order."""
    random = np.random.default_rng(M)
    ids = random.integers(0, TOP, (M, 2, 5))
    replicates, realization = np.array([0, 7, 3, TOP]), np.array([0, M - 1, M // 2, 0])
    stream = rng.Stream(11, "rollout")
    draws = Draws(stream, replicates, realization, ids)
    np.testing.assert_array_equal(draws.ids, ids[realization])
    for token in (0, 2, TOP):
        for draw in range(5):
            expected = stream.uniform(replicates[:, None, None], ids[realization], token, draw)
            np.testing.assert_array_equal(draws.uniform(token, draw).numpy(), expected)
    for count, begin in ((1, 0), (2, 0), (5, 0), (1, 2), (3, 4)):
        expected = stream.normal(
            replicates[:, None, None, None], ids[realization][..., None], 1, begin + np.arange(count)
        )
        found = draws.normals(1, count, begin).numpy()
        assert found.shape == expected.shape and ulps(found, expected).max() <= 4


def test_fractions_hold_53_bits():
    """The ends of [0, 1): all bits clear is 0, all bits set is 1 - 2^-53."""
    high = np.array([0, TOP], dtype=np.uint64)
    np.testing.assert_array_equal(rng._double(high, high), [0.0, 1.0 - 2.0**-53])
    assert rng_compiled.fraction(np.uint64(TOP), np.uint64(TOP)) == 1.0 - 2.0**-53


@pytest.mark.parametrize("seed", range(3))
def test_draws_have_their_laws(seed):
    """Kolmogorov-Smirnov on 50,000 draws, rejected below p = 1e-6; a law shifted by 0.02 has p below 1e-10."""
    stream = rng.Stream(seed, "law")
    uniform = stream.uniform(0, np.arange(25_000)[:, None], 0, np.arange(2)).ravel()
    normal = stream.normal(0, np.arange(25_000)[:, None], 0, np.arange(2)).ravel()
    assert stats.kstest(uniform, "uniform").pvalue > 1e-6
    assert stats.kstest(normal, "norm").pvalue > 1e-6
    assert stats.kstest((uniform + 0.02) % 1.02, "uniform").pvalue < 1e-6
    assert stats.kstest(normal + 0.05, "norm").pvalue < 1e-6


NEIGHBORS = {
    "stream name": lambda s, n: rng.Stream(s, "reward").uniform(0, n),
    "seed": lambda s, n: rng.Stream(s + 1, "action").uniform(0, n),
    "replicate": lambda s, n: rng.Stream(s, "action").uniform(1, n),
    "trajectory": lambda s, n: rng.Stream(s, "action").uniform(0, n + 1),
    "token": lambda s, n: rng.Stream(s, "action").uniform(0, n, 1),
    "draw of one block": lambda s, n: rng.Stream(s, "action").uniform(0, n, 0, 1),
    "next block": lambda s, n: rng.Stream(s, "action").uniform(0, n, 0, 2),
}


@pytest.mark.parametrize("neighbor", NEIGHBORS)
def test_neighbors_are_independent(neighbor):
    """Correlation of 50,000 pairs within 5/sqrt(n): one right program in 10^6 fails; equal draws have 1."""
    n = np.arange(50_000)
    one, two = rng.Stream(7, "action").uniform(0, n), NEIGHBORS[neighbor](7, n)
    bound = 5 / math.sqrt(n.size)
    assert abs(np.corrcoef(one, two)[0, 1]) < bound
    assert abs(np.corrcoef(one**2, two**2)[0, 1]) < bound
    assert (one != two).mean() > 0.999


def test_both_halves_of_a_normal_block_are_independent():
    """Same rates."""
    pair = rng.Stream(7, "action").normal(0, np.arange(50_000)[:, None], 0, [0, 1])
    bound = 5 / math.sqrt(50_000)
    assert abs(np.corrcoef(pair.T)[0, 1]) < bound and abs(np.corrcoef((pair**2).T)[0, 1]) < bound


def test_a_draw_does_not_depend_on_its_company():
    stream = rng.Stream(3, "action")
    together = stream.uniform(np.arange(4)[:, None], np.arange(9), 2, 1)
    np.testing.assert_array_equal(stream.uniform(2, 7, 2, 1), together[2, 7])
    np.testing.assert_array_equal(
        stream.uniform(np.arange(4)[::-1, None], np.arange(9)[::-1], 2, 1), together[::-1, ::-1]
    )


@pytest.mark.parametrize(
    "twin", [lambda s, *c: s.uniform(*c), lambda s, *c: s.normal(*c), rng_compiled.uniform, rng_compiled.normal]
)
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("value", [-1, 2**32])
def test_coordinates_out_of_range_are_refused(twin, place, value):
    coordinates = [0, 0, 0, 0]
    coordinates[place] = value
    refused(rf"random coordinate = {value}: must be in \[0, 2\^32\)", twin, rng.Stream(0, "action"), *coordinates)


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, True])
def test_seeds_out_of_range_are_refused(seed):
    refused("seed", rng.Stream, seed, "action")
