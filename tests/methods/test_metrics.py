"""Metrics: what they must not see, what they must, and numbers by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import asyncsim as sim
from asyncsim.diagnostics._diagnostic import Metric
from tests.contracts.ends import CAPPED, FULL, MASK, PPO, flat, one
from tests.contracts.laboratory import make, names
from tests.contracts.measuring import on

NAN = math.nan
D = sim.diagnostics
UNCLAMPED = ["ess", "ess_token", "ess_within", "ess_frames"]
RATIOS = [
    *UNCLAMPED,
    *("ess_token_clamped", "token_ratio_mean", "chi_square_token", "kl_k1", "kl_k2", "kl_reverse", "m2_all"),
    *("m2_harmful", "clip_active", "clip_outside", "masked_tokens", "masked_sequences", "zero_loss_sequences"),
    *("ratio_above", "ratio_below", "ratio_sd", "log_ratio_min", "log_ratio_max", "log_ratio_quantile"),
    *("ess_applied", "applied_mean", "max_applied_share", "mean_weight", "kl", "max_weight_share"),
]
drawn = hnp.arrays(np.float64, (2, 2, 3, 4), elements=st.integers(-24, 24).map(lambda n: n / 8))
"""Log ratios of which 0 is exactly 0: a sign is no matter of rounding."""
few = settings(max_examples=10)
ragged = hnp.arrays(np.int64, (1, 2, 3), elements=st.integers(1, 4))


def lengths_of(lengths):
    """A mask with so many leading ones."""
    return (np.arange(4) < lengths[..., None]).astype(np.float64)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


# The effective sample sizes.


@pytest.mark.parametrize("name", UNCLAMPED)
@given(log=drawn, lengths=ragged, power=st.integers(-8, 8))
def test_no_ess_sees_a_common_factor(name, log, lengths, power):
    """An absolute epsilon would: 16 equal weights of 1e-5 read .138. For sequences the factor is that of a token."""
    mask = np.ones((1, 2, 3, 4)) if name == "ess" else lengths_of(lengths)
    close(on(name, log + power * math.log(10.0), mask=mask), on(name, log, mask=mask))


@pytest.mark.parametrize("name", [*UNCLAMPED, "ess_token_clamped", "ess_applied"])
@given(log=drawn, lengths=ragged, size=st.sampled_from([1.0, 20.0]))
def test_every_ess_stays_in_its_range(name, log, lengths, size):
    found = on(name, size * log, mask=lengths_of(lengths), method=CAPPED)
    assert ((found >= 1 / 24 * (1 - 1e-12)) & (found <= 1 + 1e-12)).all()


@pytest.mark.parametrize(
    ("name", "varying"),
    [("ess", "samples"), ("ess_token", "both"), ("ess_within", "tokens"), ("ess_frames", "samples")],
)
def test_an_ess_is_one_only_for_what_it_compares(name, varying):
    """1 where the weights that it compares are equal, below 1 otherwise; what it does not compare does not matter."""
    tokens, groups = np.zeros((1, 1, 3, 4)), np.zeros((1, 1, 3, 4))
    tokens[..., 1], groups[:, :, 1] = 0.5, 0.5
    found = {"tokens": on(name, tokens).item(), "samples": on(name, groups).item()}
    for kind, value in found.items():
        assert (value < 0.99) == (varying in (kind, "both")), kind


def test_five_definitions_are_five_numbers():
    """One batch; each against its formula, written out with loops."""
    log = np.random.default_rng(0).normal(size=(1, 2, 3, 4))
    lengths = np.array([[[1, 4, 2], [3, 3, 4]]])
    mask = lengths_of(lengths).astype(bool)
    rows = [np.exp(log[0, g, i, : lengths[0, g, i]]) for g in range(2) for i in range(3)]

    def share(w):
        return np.sum(w) ** 2 / (len(w) * np.sum(w**2))

    tokens = np.concatenate(rows)
    frames = [share(np.array([r[t] for r in rows if len(r) > t])) for t in range(4)]
    held = np.clip(tokens, 0.5, 2.0)
    expected = {
        "ess": share(np.array([r.prod() for r in rows])),
        "ess_token": share(tokens),
        "ess_within": np.mean([share(r) for r in rows]),
        "ess_frames": np.mean(frames),
        "ess_token_clamped": 1 / np.mean((held / held.mean()) ** 2),
    }
    assert len({round(value, 6) for value in expected.values()}) == 5
    for name, value in expected.items():
        close(on(name, log, mask=mask), value)
    # A sequence's clamped ratio counts once for each of its tokens, not as the ratios of its tokens do.
    whole = share(np.concatenate([np.full(len(r), np.clip(r.prod(), 0.5, 2.0)) for r in rows]))
    close(on(D.ess_token_clamped(2.0, level="sequence"), log, mask=mask), whole)
    assert abs(whole - expected["ess_token_clamped"]) > 0.005


def test_clamped_ess_cannot_report_a_collapse():
    """One weight of e^30 among 512: the truth is 1/512; clamped to [1/C, C] no value is below its floor."""
    log = one(30.0, N=512)
    close(on("ess", log), 1 / 512)
    for cap in (2.0, 3.0, 5.0, 8.0):
        assert on(D.ess_token_clamped(cap), log).item() > 4 / (cap + 1 / cap) ** 2
    worst = np.full((1, 1, 101, 1), -60.0)
    worst[:, :, :1] = 60.0
    close(on(D.ess_token_clamped(10.0), worst), 4 / (10.0 + 0.1) ** 2)
    # With the lower side open it can.
    close(on(D.ess_token_clamped(10.0, low=0.0), worst), 1 / 101)


def test_sequence_ratios_on_tokens_count_lengths():
    """Lengths 1, 1, 1, 97 and ratios 5, 1, 1, 1: 0.571 over samples, 0.872 over tokens."""
    log = np.zeros((1, 1, 4, 97))
    log[0, 0, 0, 0] = math.log(5.0)
    mask = np.zeros_like(log)
    mask[0, 0, :3, 0], mask[0, 0, 3] = 1.0, 1.0
    close(on("ess", log, mask=mask), 64 / 112)
    close(on(D.ess_token_clamped(8.0, level="sequence"), log, mask=mask), 1.04**2 / 1.24)


# What no metric may see.


@pytest.mark.parametrize("name", [n for n in RATIOS if n != "ess_frames"])
@few
@given(log=drawn)
def test_groups_of_a_step_are_pooled(name, log):
    """Two groups of three are six samples: no number is an average of groups or micro-batches."""
    both = log.reshape(2, 1, 6, 4)
    method = sim.methods.ppo_clip(advantage=sim.advantages.offset(0.5))
    close(on(name, log, method=method), on(name, both, method=method))


@pytest.mark.parametrize("name", [n for n in RATIOS if n not in ("max_weight_share", "max_applied_share")])
@few
@given(log=drawn, seed=st.integers(0, 99))
def test_mass_is_multiplicity(name, log, seed):
    """Cells with counts and the samples one by one; a cell without mass is unheard."""
    count = np.random.default_rng(seed).multinomial(6, [0.5, 0.5, 0.0])
    each = np.repeat(np.arange(3), count)
    mass = np.broadcast_to(count / 6, (1, 2, 3))
    hole = log.copy()
    hole[:, :, 2] = 700.0
    close(on(name, hole, mass=mass, size=6, method=PPO), on(name, log[:, :, each], method=PPO))


# Ratios.


def test_extremes_and_spread_tell_one_story():
    """One ratio of e^30 among four: largest, deviation, mean and share are all of the unclamped weights."""
    log = one(30.0, N=4)
    close(on("log_ratio_max", log), 30.0)
    w = math.exp(30.0)
    close(on("ratio_sd", log) / w, (math.sqrt(3) / 4) * (1 - 1 / w))
    close(on("mean_weight", log) / w, 0.25 + 0.75 / w)
    close(on("chi_square", log) / w**2, 0.25)
    close(on(D.ratio_above(math.exp(29.0)), log), 0.25)
    # The same at the level of tokens.
    close(on(D.ratio_sd("token"), log), on("ratio_sd", log))
    close(on(D.log_ratio_max("token"), one(30.0, N=2, T=2)), 30.0)


@given(
    log=hnp.arrays(np.float64, (1, 1, 9, 1), elements=st.floats(-50, 50)),
    q=st.sampled_from([0.01, 0.3, 0.5, 0.95, 1.0]),
)
def test_quantiles_are_numpys(log, q):
    expected = np.quantile(log, q, method="inverted_cdf")
    assert on(D.log_ratio_quantile(q), log).item() == pytest.approx(expected, abs=1e-12)


@given(log=drawn, lengths=ragged)
def test_quantiles_rise(log, lengths):
    levels = [D.log_ratio_quantile(q, level) for level in ("sequence", "token") for q in (0.0, 0.05, 0.5, 0.95, 1.0)]
    found = np.array([on(metric, log, mask=lengths_of(lengths)) for metric in levels])
    assert (np.diff(found[:5], axis=0) >= 0).all() and (np.diff(found[5:], axis=0) >= 0).all()
    for position, metric in ((0, "log_ratio_min"), (4, "log_ratio_max")):
        np.testing.assert_array_equal(found[position], on(metric, log, mask=lengths_of(lengths)))


def test_fractions_are_measured_before_truncation():
    """Behind a cap of 2 no weight is above 2; the ratios still are. Token and sequence level differ."""
    log = np.log(np.array([3.0, 1.5, 0.4, 0.9])).reshape(1, 1, 2, 2)
    for method in (CAPPED, FULL):
        close(on("ratio_above", log, method=method), 0.5)
        close(on(D.ratio_above(level="token"), log, method=method), 0.25)
        close(on(D.ratio_below(0.5, "token"), log, method=method), 0.25)
        close(on(D.ratio_below(0.5), log, method=method), 0.5)
    close(on("applied_mean", log, method=CAPPED), (2.0 + 1.5 + 0.4 + 0.9) / 4)


def test_raw_and_applied_weights_differ_by_the_truncation():
    log = np.log(np.array([8.0, 1.0, 1.0, 2.0])).reshape(1, 1, 4, 1)
    close(on("ess", log, method=CAPPED), 144 / (4 * 70))
    close(on("ess_applied", log, method=CAPPED), 36 / (4 * 10))
    close(on("max_weight_share", log, method=CAPPED), 8 / 12)
    close(on("max_applied_share", log, method=CAPPED), 2 / 6)
    # An advantage of 0 hides no weight: that of a positive one is counted.
    close(on("ess_applied", log, method=CAPPED, reward=[[[1.0, 0.0, -1.0, 0.0]]]), 36 / (4 * 10))


def test_applied_weights_know_masks_and_clips():
    log = np.log(np.array([8.0, 1.0, 1.0, 2.0])).reshape(1, 1, 4, 1)
    for method in (MASK, FULL.replace(factors=(sim.factors.token_mask(0.5, 5.0),)), PPO):
        weights = {"icepop": [0, 1, 1, 2], "full_is": [0, 1, 1, 2], "ppo_clip": [0, 1, 1, 0]}[method.name]
        w = np.array(weights, dtype=float)
        if method is MASK and on("masked_tokens", log, method=method).item() == 0.5:
            w[3] = 0.0
        close(on("ess_applied", log, method=method), w.sum() ** 2 / (4 * (w**2).sum()))
        close(on("applied_mean", log, method=method), w.mean())


def test_nothing_applied_is_no_number():
    """All weights 0: shares of nothing are NaN, the mean is 0."""
    assert np.isnan(on("ess_applied", flat(5.0), method=MASK)).all()
    assert np.isnan(on("max_applied_share", flat(5.0), method=MASK)).all()


# Divergences.


def test_divergences_of_a_population_are_exact():
    """Behavior mu = (1/2, 1/2), current pi = (p, 1 - p): both directions, and what the estimates of one expect."""
    p = 0.8
    log = np.log(np.array([2 * p, 2 * (1 - p)])).reshape(1, 1, 2, 1)
    forward = -0.5 * math.log(2 * p) - 0.5 * math.log(2 * (1 - p))
    backward = p * math.log(2 * p) + (1 - p) * math.log(2 * (1 - p))
    assert abs(forward - backward) > 0.01
    for name, expected in (("kl", forward), ("kl_k1", forward), ("kl_reverse", backward)):
        close(on(name, log, size=math.inf), expected)
    close(on("kl_k2", log), 0.25 * (math.log(2 * p) ** 2 + math.log(2 * (1 - p)) ** 2))
    close(on("chi_square_token", log), 2 * (p**2 + (1 - p) ** 2) - 1)


def test_a_product_of_sums_is_not_a_sum_of_products():
    """Two tokens with log ratios 1 and -1: W = 1 and the sequences do not diverge; their tokens do."""
    log = np.array([1.0, -1.0]).reshape(1, 1, 1, 2)
    for name in ("kl", "kl_k1", "kl_k2", "kl_reverse", "chi_square"):
        close(on(name, log), 0.0)
    close(on("m2_all", log), 1.0)
    close(on("chi_square_token", log), math.cosh(2.0) - 1.0)


def test_a_weight_of_zero_does_not_diverge_backwards():
    close(on("kl_reverse", one(-math.inf, N=2)), 0.0)
    assert np.isnan(on("kl_reverse", one(NAN, N=2))).all() and np.isinf(on("kl_k1", one(-math.inf, N=2))).all()


def test_harmful_tokens_moved_with_their_advantage():
    log = np.array([1.0, -2.0, 3.0, -4.0]).reshape(1, 1, 4, 1)
    reward = [[[1.0, 1.0, -1.0, -1.0]]]
    close(on("m2_harmful", log, reward=reward), (1.0 + 16.0) / 2)
    close(on("m2_all", log, reward=reward), 7.5)
    close(on("m2_harmful", log, reward=0.0), 0.0)


def test_every_metric_here_is_one():
    assert set(RATIOS) <= set(names("diagnostics"))
    assert all(isinstance(make("diagnostics", name), Metric) for name in RATIOS)
