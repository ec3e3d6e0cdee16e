"""Gradients of stale batches: the noise of batches is taken out of cosines, and a bias is not."""

import numpy as np
import pytest

from experiments import model_gradients
from tests.experiments._lab import rows_of

rows = rows_of("model_gradients", quick=True)
RANDOM = np.random.default_rng(4)


def batches(mean, noise, count=400):
    """Gradients `[K, P]` of one mean in equal noise."""
    return mean + noise * RANDOM.standard_normal((count, len(mean)))


def test_cosine_and_norm_of_noisier_batches_are_as_predicted_from_their_ess():
    mean = np.zeros(64)
    mean[0] = 4.0
    fresh, stale = batches(mean, 1.0), batches(mean, np.sqrt(1 / 0.4))
    signal, energy = model_gradients.products(fresh), (fresh**2).sum(1).mean()
    assert signal == pytest.approx(16.0, rel=0.1)
    told = model_gradients.predicted(signal, energy, 0.4, corrected=True)
    found = model_gradients.compared(stale, fresh)
    assert found["cosine"] == pytest.approx(told["told_cosine"], rel=0.1)
    assert found["norm"] == pytest.approx(told["told_norm"], rel=0.05)
    assert found["along"] == pytest.approx(1.0, abs=0.1)
    # A mean gradient that turns by a right angle has equal length, and is seen.
    turned = model_gradients.compared(batches(np.roll(mean, 1), 1.0), fresh)
    assert abs(turned["along"]) < 0.2 and turned["norm"] == pytest.approx(1.0, rel=0.05)


def test_batches_that_ask_the_same_prompts_are_not_compared():
    shared = RANDOM.standard_normal((50, 200))
    assert abs(model_gradients.products(shared, shared.copy())) < 3.0, "with equal numbers it would be 4"
    assert (shared * shared).sum() / 50**2 == pytest.approx(4.0, rel=0.1)


def test_on_fresh_data_all_losses_have_the_same_gradient_and_older_weights_are_other_ones(rows):
    own = rows[rows.quantity.isin(["cosine", "norm"]) & (rows.staleness == 0)]
    spread = own.groupby(["seed", "quantity"]).value.agg(np.ptp)
    assert (spread < 1e-4).all()
    ess = rows[rows.quantity == "ess"].groupby("staleness").value.mean()
    assert ess[0] == pytest.approx(1.0, abs=1e-12) and (ess[ess.index > 0] < 1.0 - 1e-7).all()
