"""Masks of language models: what normal log ratios predict is what clip and mask do to normal log ratios."""

import numpy as np
import pytest
import torch

from asyncsim.diagnostics import _levels
from asyncsim.step.step import given
from experiments import model_losses


def measured(deviation):
    """Shares that clip and mask stop of tokens with these deviations `[n]`, whose advantages have either sign alike."""
    made = torch.Generator().manual_seed(3)
    n = len(deviation)
    log_ratio = (deviation * torch.randn(n, generator=made, dtype=torch.float64)).reshape(1, 1, n, 1)
    reward = (torch.arange(n) % 2).double().reshape(1, 1, n)
    nothing, mask = torch.zeros_like(log_ratio), torch.ones_like(log_ratio)
    for name in ("PPO clip", "M2PO"):
        step = given(model_losses.METHODS[name], {"log_prob": log_ratio}, {"log_prob": nothing}, mask, reward=reward)
        yield float(_levels.stopped(step).mean())


@pytest.mark.parametrize("scale", [0.25, 0.5, 1.5])
def test_shares_of_unequal_normal_tokens_are_as_predicted(scale):
    deviation = scale * torch.linspace(0.1, 2.0, 40_000, dtype=torch.float64)
    told = model_losses.stopped(deviation)
    np.testing.assert_allclose(tuple(measured(deviation)), told, atol=0.01)
    equal = model_losses.stopped((deviation**2).mean().sqrt().expand(40_000))
    assert max(abs(np.subtract(equal, told))) > 0.01, "tokens that are taken to be equal are noticed"


def test_a_run_behind_is_set_against_the_fresh_one_so_many_updates_ago():
    updates = np.array([0.0, 10.0, 20.0, 30.0])
    np.testing.assert_allclose(model_losses.shifted(updates, updates**2, 5), [0, 50, 250, 650])
    np.testing.assert_allclose(model_losses.shifted(updates, updates**2, 20), [0, 0, 0, 100])
