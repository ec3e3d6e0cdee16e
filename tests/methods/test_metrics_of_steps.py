"""Metrics of clips, masks, gradients and staleness, by hand and in runs; metrics with settings."""

import dataclasses
import math

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base.checks import InputError
from tests.contracts.ends import FULL, MASK, PPO, flat
from tests.contracts.laboratory import make
from tests.contracts.measuring import measure, on, step_with

NAN = math.nan
D = sim.diagnostics


def lengths_of(lengths):
    """A mask with so many leading ones."""
    return (np.arange(4) < lengths[..., None]).astype(np.float64)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


# Clips and masks.


def test_clip_active_knows_signs_and_outside_does_not():
    """Ratios 0.5, 1, 2 with A = +-1: outside two of three; stopped the one that moved on."""
    log = np.log(np.array([0.5, 1.0, 2.0])).reshape(1, 1, 3, 1)
    for reward in (1.0, -1.0):
        close(on("clip_active", log, reward=reward, method=PPO), 1 / 3)
        close(on("clip_outside", log, reward=reward, method=PPO), 2 / 3)
        close(on("masked_tokens", log, reward=reward, method=PPO), 0.0)
        close(on("zero_loss_sequences", log, reward=reward, method=PPO), 1 / 3)
    close(on("clip_active", log, reward=0.0, method=PPO), 0.0)
    close(on("zero_loss_sequences", log, reward=0.0, method=PPO), 1.0)
    # The band of the question instead of the method's own.
    close(on(D.clip_outside(0.6, 0.9), log, method=PPO), 1 / 3)


def test_clip_outside_of_gspo_reads_the_geometric_mean():
    """Tokens of ratios 0.5 and 2 have the mean 1, inside of GSPO's band; tokens of 2 and 2 lie outside."""
    log = np.log(np.array([[0.5, 2.0], [2.0, 2.0]])).reshape(1, 1, 2, 2)
    close(on("clip_outside", log, method=sim.methods.gspo(0.2, 0.2)), 0.5)
    close(on("clip_outside", log, method=PPO), 1.0)
    # GMPO's band is one of log ratios: no distance from 1.
    assert np.isnan(on("clip_outside", log, method=sim.methods.gmpo())).all()


def test_what_a_method_does_not_have_is_missing():
    """NaN, never 0: a method without a band is not a method that never clips."""
    for name in ("clip_outside", "clip_dual"):
        assert np.isnan(on(name, flat(3.0))).all()
    assert np.isnan(on("clip_dual", flat(3.0), method=PPO)).all()


def test_an_anchor_that_is_not_behavior_is_seen():
    """Recomputed snapshots read exactly 0 outside at the first update of every batch, whatever the staleness."""
    for anchor, expected in (("behavior", True), ("proximal", False)):
        method = sim.methods.ppo_clip(anchor=anchor, advantage=sim.advantages.offset(0.5))
        found = measure(
            "clip_outside", system=sim.schedules.fixed(3), method=method, links=[sim.updates.sgd(2.0)], updates=8
        )
        assert (found[4:] > 0).any() == expected


def test_masked_shares_refer_to_the_tokens_generated():
    """Lengths 4, 1, 2: five of seven tokens outside, one sample loses all; the empty one has nothing to lose."""
    log, mask = np.zeros((1, 1, 4, 4)), lengths_of(np.array([[[4, 1, 2, 0]]]))
    log[0, 0, 0], log[0, 0, 2, 0] = 5.0, 5.0
    factor = FULL.replace(weight=sim.methods.full_is("token").weight, factors=(sim.factors.token_mask(),))
    for method in (MASK, factor):
        close(on("masked_tokens", log, mask=mask, method=method), 5 / 7)
        close(on("masked_sequences", log, mask=mask, method=method), 1 / 3)
        # A sample without tokens contributes nothing either.
        close(on("zero_loss_sequences", log, mask=mask, method=method), 2 / 4)


def test_penalties_count_as_loss():
    """A sample without advantage still feels a penalty: it is not silent."""
    method = PPO.replace(constants={}, penalties=(sim.penalties.k1(0.1),))
    close(on("zero_loss_sequences", flat(0.3), reward=0.0, method=method), 0.0)
    close(on("zero_loss_sequences", flat(0.3), reward=0.0, method=PPO), 1.0)


# Gradients.


def test_validity_of_the_cosine():
    """Invalid at the first update, at a lost gradient and behind it; a valid cosine of 0 is valid."""
    assert (measure("gradient_cosine_valid", means=(0.0, 0.0), updates=4) == 0.0).all()
    step = step_with(flat(0.0))
    valid, cosine = make("diagnostics", "gradient_cosine_valid").measure, make("diagnostics", "gradient_cosine").measure
    x, y = torch.tensor([[1.0, 0.0]]).double(), torch.tensor([[0.0, 2.0]]).double()
    for now, before, expected in ((x, y, 1.0), (x, y * NAN, 0.0), (x * math.inf, y, 0.0), (0 * x, y, 0.0)):
        given_ = dataclasses.replace(step, gradient=now, previous=before)
        assert valid(given_).item() == expected
        assert (cosine(given_).item() == 0.0) if expected else math.isnan(cosine(given_).item())


# Staleness.

VERSION = np.array([[[[1, 3, 6], [5, 5, 5], [2, 2, 7]]]])
AGES = ("staleness_head", "staleness_newest", "staleness_mean", "staleness_span", "staleness_max", "mixed_versions")


def test_staleness_of_mixed_trajectories():
    """Trained at 7. Oldest 6, 2, 5; newest 1, 2, 5 (the last token of the third is not its own)."""
    mask = np.array([[[[1, 1, 1], [1, 1, 1], [1, 1, 0]]]])
    log = np.zeros((1, 1, 3, 3))
    expected = (13 / 3, 8 / 3, (6 + 4 + 1 + 3 * 2 + 2 * 5) / 8, 5 / 3, 6.0, 1 / 3)
    for name, value in zip(AGES, expected, strict=True):
        close(on(name, log, mask=mask, version=VERSION), value)
    # The mean is no maximum, and the head is no newest.
    assert len({round(v, 6) for v in expected}) == 6
    # One version for all tokens of a trajectory.
    one_each = VERSION[..., :1]
    for name, value in zip(AGES, (13 / 3, 13 / 3, (6 * 3 + 2 * 3 + 5 * 2) / 8, 0.0, 6.0, 0.0), strict=True):
        close(on(name, log, mask=mask, version=one_each), value)


@pytest.mark.parametrize("name", [*AGES, "staleness"])
def test_an_unknown_version_is_missing(name):
    """NaN, never 0, and only where the token was generated."""
    version = VERSION.copy()
    version[0, 0, 0, 0] = -1
    log = np.zeros((1, 1, 3, 3))
    assert np.isnan(on(name, log, version=version)).all()
    mask = np.ones((1, 1, 3, 3))
    mask[0, 0, 2, 2], version[0, 0, 0, 0], version[0, 0, 2, 2] = 0.0, 1, -1
    assert np.isfinite(on(name, log, version=version, mask=mask)).all()


def test_update_staleness_is_missing_where_a_version_is():
    step = step_with(np.zeros((2, 1, 3, 3)), version=np.repeat(VERSION, 2, 0))
    step.elapsed = 2
    step.batch.realization = np.arange(2)
    metric = make("diagnostics", "update_staleness")
    oldest = step.batch.train_version - VERSION.min() + 2.0
    assert metric.measure(step).tolist() == [oldest, oldest]
    step.batch.version[1, 0, 1, 1], step.batch.age = -1, None
    np.testing.assert_array_equal(metric.measure(step).numpy(), [oldest, NAN])


def test_update_staleness_counts_updates_on_a_drained_batch():
    """Two updates on every batch: the second is one update older, while versions stand still."""
    names_ = ["update_staleness", "staleness_head"]
    task = sim.tasks.softmax_bandit()
    options = {"samples_per_group": 2, "epochs": 2, "updates": 8, "replicates": 2, "diagnostics": names_}
    spec = sim.Spec(task, sim.schedules.fixed(1), sim.methods.reinforce(), sim.chain(sim.updates.sgd(0.1)), **options)
    trace = sim.run(spec)
    assert trace["update_staleness"][:, 0].tolist() == [0.0, 1.0, 2.0, 3.0, 2.0, 3.0, 2.0, 3.0]
    assert trace["staleness_head"][:, 0].tolist() == [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]


def test_staleness_of_a_system_with_weight_updates_inside_trajectories():
    """Against the realized schedule, token by token."""
    task = sim.tasks.token_bandit(actions=2, horizon=4)
    system = sim.systems.areal(2, 2, 3, length=sim.lognormal(1.0, 0.8), load=1.5)
    spec = sim.Spec(task, system, sim.methods.reinforce(), sim.chain(), updates=12, replicates=3, samples_per_group=2)
    trace = sim.run(spec.replace(diagnostics=["staleness", *AGES]))
    ages = trace.schedule.staleness().astype(float)
    np.testing.assert_allclose(trace["staleness"].T, ages[..., 0].mean(axis=(2, 3)), rtol=1e-12)
    span = ages.max(-1) - ages.min(-1)
    expected = (ages.max(-1), ages.min(-1), ages, span, None, span > 0)
    for name, values in zip(AGES, expected, strict=True):
        found = ages.max(axis=(2, 3, 4)) if values is None else values.reshape(*ages.shape[:2], -1).mean(-1)
        np.testing.assert_allclose(trace[name].T, found, rtol=1e-12, err_msg=name)
    assert (trace["mixed_versions"] > 0).any() and (trace["staleness_head"] > trace["staleness_newest"]).any()


# Metrics with settings.


def test_settings_are_in_the_name_and_several_can_be_recorded():
    wanted = [D.log_ratio_quantile(q) for q in (0.05, 0.5, 0.95)] + [D.ratio_sd("token"), "ratio_sd", D.ratio_above(8)]
    task = sim.tasks.softmax_bandit()
    options = {"samples_per_group": 4, "updates": 5, "replicates": 2, "diagnostics": wanted}
    spec = sim.Spec(task, sim.schedules.fixed(2), sim.methods.reinforce(), sim.chain(sim.updates.sgd(1.0)), **options)
    found = set(sim.run(spec).metrics)
    quantiles = {"log_ratio_quantile_0.05", "log_ratio_quantile", "log_ratio_quantile_0.95"}
    assert found == quantiles | {"ratio_sd_token", "ratio_sd", "ratio_above_8.0"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: D.log_ratio_quantile(1.1), "q = 1.1: must be a finite number in"),
        (lambda: D.log_ratio_quantile(level="word"), "level = 'word': must be one of sequence, token"),
        (lambda: D.ratio_above(0.0), "bound = 0.0: must be a finite number in"),
        (lambda: D.ratio_below(NAN), "bound = nan: must be a finite number in"),
        (lambda: D.ess_token_clamped(0.9), "high = 0.9: must be a finite number in"),
        (lambda: D.ess_token_clamped(low=1.1), "low = 1.1: must be a finite number in"),
        (lambda: D.clip_outside(0.2), r"low, high = \(0.2, None\): must be given together"),
    ],
)
def test_bad_settings_are_named(wrong, message):
    with pytest.raises(InputError, match=message):
        wrong()
