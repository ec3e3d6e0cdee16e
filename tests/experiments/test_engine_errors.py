"""The measured errors of engines: the estimator on errors of known law, and the named settings beside the rows."""

import math

import numpy as np
import pytest
import torch

import asyncsim as sim
from experiments import _store, engine_errors

STATES, ACTIONS = 4000, 6


def listed(**settings):
    """Log-probs of a sharp table, of its engine and of the policy, `[S, A]`."""
    logits = 2.0 * np.random.default_rng(0).normal(size=(STATES, ACTIONS))
    policy = sim.policies.tabular(STATES, ACTIONS, logits=logits, **settings)
    published = policy.prepare(policy.initial(1))
    sampled = policy.install(published, sim.policies._policy.Keys(3, np.arange(1), 0))["sampled"]
    return sampled[0], published["log_prob"][0]


@pytest.mark.parametrize(("law", "kurtosis"), [("normal", 0.0), ("uniform", -1.2), ("student:9", 1.2)])
def test_noise_and_tails_of_a_table_are_found_again(law, kurtosis):
    """Of 4000 states: 5 standard errors are 0.06 of the scale, and 0.4 of the kurtosis (1.2 for nine degrees)."""
    gap = engine_errors.gaps(*listed(noise=0.05, noise_law=law, noise_per="version")).numpy()
    noise, tails = engine_errors.moments(gap)
    assert abs(noise / 0.05 - 1.0) < 0.06
    assert abs(tails - kurtosis) < (1.2 if "student" in law else 0.4)


def test_the_constant_of_a_state_plays_no_part():
    """Planted: log ratios in place of gaps, which are smaller where the policy is sharp."""
    sampled, trained = listed(noise=0.05, noise_per="version")
    shifted = sampled + torch.arange(STATES).unsqueeze(-1)
    torch.testing.assert_close(engine_errors.gaps(shifted, trained), engine_errors.gaps(sampled, trained))
    likeliest = trained.argmax(-1, keepdim=True)
    ratios = (sampled - trained).gather(-1, likeliest)
    assert abs(float(ratios.std()) / 0.05 - 1.0) > 0.3


@pytest.mark.committed
def test_named_engines_are_the_rows():
    rows = _store.read("engine_errors").set_index("sampler")
    assert set(rows.index) == {"bfloat16", "int8"} and (rows.tokens > 10_000).all()
    for name, row in rows.iterrows():
        told = getattr(sim.policies.engines, name)()
        assert told["noise"] == round(row.noise, 3) and row.low < row.noise < row.high
        assert told["noise_law"] == f"student:{row.degrees:.1f}"
        # The same text has the same error within a version, its neighbors have others; part of it outlasts an update.
        assert (told["noise_per"], told["noise_in"]) == ("version", "logits")
        assert abs(row.neighbors) < 0.05 and 0.3 < row.versions < 0.7 and not math.isinf(row.degrees)
        task = sim.tasks.softmax_bandit(arms=4)
        assert task.policy(**told).mismatched


def test_quick_rows_are_made():
    (row,) = engine_errors.run(engine_errors.QUICK[1])
    assert row.keys() == set(engine_errors.COLUMNS) and row["noise"] > 0 and np.isfinite(row["sd"])
