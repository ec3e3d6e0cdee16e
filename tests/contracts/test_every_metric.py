"""What no metric may see, and what every metric of ages must say, for all that are discovered."""

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.diagnostics._diagnostic import Metric
from tests.contracts.laboratory import case, make, names

METRICS = [n for n in names("diagnostics") if isinstance(make("diagnostics", n), Metric)]
MADE = {n: make("diagnostics", n) for n in METRICS}
PLAIN = [n for n in METRICS if not MADE[n].enumerates and set(MADE[n].outputs) <= {"log_prob"}]
"""Metrics of a batch and its log-probs; those that enumerate have tests of their own."""
BY_PLACE = {"ess_frames", "solved_groups", "unsolved_groups", "mixed_groups"}
"""What compares the samples of a group: another grouping is another question."""
METHOD = sim.methods.ppo_clip(advantage=sim.advantages.offset(0.4), aggregator="sequence_sum")


def told(name, trial, **changes):
    """The metric `[R]` on a batch."""
    step, gradient = trial.evaluate(METHOD, **changes)
    step.parameters, step.previous = trial.new, torch.ones_like(gradient)
    return make("diagnostics", name).measure(step).numpy()


def regrouped(batch, groups, samples):
    """The same sequences, packed into other rows."""
    columns = ("action", "state", "mask", "reward", "token_reward", "ended", "finished")
    changes = {
        name: x.reshape(x.shape[0], groups, samples, *x.shape[3:])
        for name in columns
        if (x := getattr(batch, name)) is not None
    }
    behavior = {name: x.reshape(x.shape[0], groups, samples, *x.shape[3:]) for name, x in batch.behavior.items()}
    version = np.broadcast_to(batch.version, (1, *batch.mass.shape[1:], 1))
    return {
        **changes,
        "behavior": behavior,
        "mass": torch.full((1, groups, samples), 1.0 / samples, dtype=torch.float64),
        "size": samples,
        "trajectory": np.arange(groups * samples).reshape(1, groups, samples),
        "version": version.reshape(1, groups, samples, 1),
    }


def moved(seed=0):
    """A batch of two groups of four, whose sequences have several versions."""
    trial = case(seed, G=2, N=4, T=3, drift=0.7)
    trial.batch.version = np.arange(8, dtype=np.int32).reshape(1, 2, 4, 1) % 4
    return trial


@pytest.mark.parametrize("name", [n for n in PLAIN if n not in BY_PLACE])
@pytest.mark.parametrize(("groups", "samples"), [(4, 2), (1, 8), (8, 1)])
def test_packing_is_no_business_of_a_metric(name, groups, samples):
    """Extremes, shares and moments are of sequences and tokens, however those lie in rows."""
    trial = moved()
    straight = told(name, trial)
    assert straight.shape == (2,)
    np.testing.assert_allclose(told(name, trial, **regrouped(trial.batch, groups, samples)), straight, rtol=1e-10)


@pytest.mark.parametrize("name", PLAIN)
def test_an_unknown_version_is_not_a_fresh_one(name):
    """Whatever depends on a version is NaN where that is unknown; what does not, stays as it is."""
    trial = moved()

    def aged(version):
        changed = trial.batch.version.copy()
        changed[0, 1, 2, 0] = version
        return told(name, trial, version=changed)

    fresh, old, unknown = aged(4), aged(0), aged(-1)
    # A span or a maximum may not notice one sequence among eight, and still need to know it.
    unmoved = np.array_equal(fresh, old, equal_nan=True) and np.array_equal(unknown, fresh, equal_nan=True)
    assert unmoved or np.isnan(unknown).all()


def test_some_metrics_do_depend_on_versions():
    trial, zero = moved(), np.zeros((1, 2, 4, 1), dtype=np.int32)
    reading = {n for n in PLAIN if not np.array_equal(told(n, trial), told(n, trial, version=zero), equal_nan=True)}
    assert {"staleness", "staleness_mean", "staleness_head", "staleness_newest"} <= reading


def padded(batch):
    """The same sequences with one more token, which nobody generated and which is as unlikely as can be."""

    def longer(x, value):
        return torch.cat([x, torch.full_like(x[..., :1], value)], dim=-1)

    behavior = {
        name: torch.cat([x, torch.full_like(x[:, :, :, :1], -9.0)], dim=3) for name, x in batch.behavior.items()
    }
    return {
        "action": longer(batch.action, 2),
        "state": longer(batch.state, 3),
        "mask": longer(batch.mask, 0.0),
        "behavior": behavior,
        "_full": None,
    }


def unmoved_by_padding(measure, trial):
    np.testing.assert_allclose(measure(trial, **padded(trial.batch)), measure(trial), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", PLAIN)
def test_padding_is_no_business_of_a_metric(name):
    """A masked token changes nothing; a metric that averages over it has forgotten the mask (use `step.share`)."""
    trial = moved()
    assert not trial.batch.full
    unmoved_by_padding(lambda given, **changes: told(name, given, **changes), trial)


def test_a_mean_over_padding_is_seen():
    def careless(given, **changes):
        step, _ = given.evaluate(METHOD, **changes)
        return step.log_ratio.abs().mean((1, 2, 3)).numpy()

    with pytest.raises(AssertionError):
        unmoved_by_padding(careless, moved())
