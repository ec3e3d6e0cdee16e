"""The delightful gate rebuilt: what is enumerated, where its cosine goes, and committed rows."""

import numpy as np
import pytest

from experiments import _store, delight
from paper_figures import delight as figure


def sigmoid(values):
    return 1.0 / (1.0 + np.exp(-values))


def shares(arm, policy, drawn):
    """Weights per arm, read off the terms: the arm's own entry is c (1 - pi)."""
    return np.diag(delight.terms(arm, policy, drawn)) / (1.0 - policy)


def test_enumerated_weights_are_the_formulas():
    """Planted: the gate without the sign, which is off at successes only."""
    policy, drawn = delight.learner(0.2), delight.behavior("older", 0.2)
    gain, surprisal = delight.ADVANTAGE, -np.log(policy)
    for temperature, arm in ((1.0, "DG"), (0.25, "DG, 1/4")):
        expected = gain * sigmoid(gain * surprisal / temperature)
        np.testing.assert_allclose(shares(arm, policy, drawn), expected, rtol=1e-12)
    np.testing.assert_allclose(shares("exact IS", policy, drawn), gain * policy / drawn, rtol=1e-12)
    blind = shares("sign-blind", policy, drawn) / shares("DG", policy, drawn)
    np.testing.assert_allclose(blind[1:], 1.0, rtol=1e-12)
    assert blind[0] < 0.95


@pytest.mark.parametrize("actor", delight.ACTORS)
def test_batches_average_to_the_mean_and_only_exact_weights_have_no_bias(actor):
    """Planted: no correction, which is off by more than a hundredth where failures are of one kind."""
    failure, (counts, orders) = 0.05, delight.batches(3)
    policy, drawn = delight.learner(failure), delight.behavior(actor, failure)
    chance = np.exp(orders + counts @ np.log(drawn))
    assert np.isclose(chance.sum(), 1.0) and (counts.sum(1) == 3).all() and len(np.unique(counts, axis=0)) == 35
    true = policy @ delight.terms(delight.BASE, policy, policy)
    for arm in delight.ESTIMATORS:
        each = delight.terms(arm, policy, drawn)
        np.testing.assert_allclose(chance @ counts @ each / 3, drawn @ each, atol=1e-15)
    exact, plain = (drawn @ delight.terms(arm, policy, drawn) for arm in ("exact IS", delight.BASE))
    np.testing.assert_allclose(exact, true, atol=1e-15)
    assert (delight.cosine(plain, true) < 0.99) == (actor != "uniform")


def test_no_batch_of_one_prompt_points_further_than_sixty_degrees_away():
    """Whatever the wrong arms' chances: every failure's own cosine is at least 1/2, and so is that of any sum."""
    draw = np.random.default_rng(0)
    failure = 1e-4
    for _ in range(200):
        wrong = draw.dirichlet(np.full(delight.ARMS - 1, 0.3))
        policy = np.r_[1.0 - failure, failure * wrong]
        true = policy * delight.ADVANTAGE @ (np.eye(delight.ARMS) - policy)
        assert (delight.cosine(policy - np.eye(delight.ARMS)[1:], true) > 0.5 - failure).all()


@pytest.mark.parametrize(("temperature", "limit"), [(0.4, 1.0), (0.6, figure.ONE)])
def test_the_gate_points_right_in_the_end_only_below_the_advantage(monkeypatch, temperature, limit):
    """The gate of a failure falls as pi^(1/2 / temperature), the signal as pi. Planted: the other limit."""
    monkeypatch.setitem(delight.METHODS, "gate", delight.m.delight(temperature, delight.gain))
    policy, drawn = delight.learner(1e-12), delight.behavior("bug", 1e-12)
    true = policy @ delight.terms(delight.BASE, policy, policy)
    found = delight.cosine(drawn @ delight.terms("gate", policy, drawn), true)
    assert abs(found - limit) < 0.02 and abs(found - (1.0 + figure.ONE - limit)) > 0.15


@pytest.mark.committed
def test_every_place_has_every_arm():
    rows = _store.read("delight")
    rows = rows[rows.part == "compare"]
    assert rows.groupby(["task", "law"]).arm.nunique().tolist() == [len(delight.METHODS)] * len(delight.PLACES)
