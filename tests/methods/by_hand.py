"""Score weights of a few tokens that a test writes down, and their comparison with numbers worked out by hand."""

import numpy as np
import torch


def weights(method, ratio, advantage=1.0, **settings):
    """c of single tokens with these ratios pi/mu."""
    log_prob = torch.tensor(ratio, dtype=torch.float64).log().reshape(-1, 1)
    return in_one(method, log_prob, advantage, **settings).flatten().tolist()


def in_one(method, log_ratio, advantage=1.0, drift=None, **settings):
    """c `[N, T]` of sequences with these log ratios to behavior (and, with `drift`, to the proximal policy)."""
    log_ratio = torch.as_tensor(log_ratio, dtype=torch.float64)
    behavior = torch.full_like(log_ratio, -900.0)
    if drift is not None:
        settings["proximal_log_prob"] = behavior + log_ratio - torch.as_tensor(drift, dtype=torch.float64)
    advantages = torch.full(log_ratio.shape[:1], advantage, dtype=torch.float64)
    return method.weigh(behavior + log_ratio, behavior, advantages=advantages, **settings).score_weight


def moved(method, pi, mu, advantage):
    """c of one token whose probability has gone from mu to pi."""
    now, then = (torch.tensor([[p]], dtype=torch.float64).log() for p in (pi, mu))
    return method.weigh(now, then, advantages=torch.tensor([advantage]).double()).score_weight.item()


def close(found, expected, tolerance=1e-10):
    # Log-probs of -900 carry an error of 1e-13, which ratios repeat.
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
