"""Steps of a few tokens, for methods that set thresholds from all of them."""

import numpy as np
import torch

import asyncsim as sim
from tests.contracts.laboratory import step_with

M = sim.methods
EVERY = {
    "m2po_mask": M.m2po_mask,
    "m2po_waterfill": M.m2po_waterfill,
    "m2po_areal": M.m2po_areal,
    "bapo_paper": M.bapo_paper,
    "bapo_code": M.bapo_code,
    "p3o": M.p3o,
    "sat": M.sat,
}


def tensors(seed, N=7, T=3, R=1, drift=0.5):
    """Log-probs `[R, 1, N, T]`, advantages of both signs and lengths."""
    random = np.random.default_rng(seed)
    behavior = torch.from_numpy(np.log(random.uniform(0.02, 0.2, (R, 1, N, T))))
    step = [torch.from_numpy(drift * random.standard_normal((R, 1, N, T))) for _ in range(2)]
    lengths = random.integers(1, T + 1, (R, 1, N, 1))
    return {
        "log_prob": (behavior + step[0]).clamp(max=-0.01),
        "behavior_log_prob": behavior,
        "proximal_log_prob": (behavior + step[1]).clamp(max=-0.01),
        "mask": torch.from_numpy((np.arange(T) < lengths).astype(np.float64)),
        "advantages": torch.from_numpy(random.choice([-1.0, -0.5, 0.0, 0.3, 1.2], (R, 1, N))),
    }


def cut(given, samples):
    return {key: value[:, :, samples] for key, value in given.items()}


def single(method, log_ratio, advantage, **settings):
    """One token per sample: weights and statistics."""
    log_ratio = torch.as_tensor(log_ratio, dtype=torch.float64).reshape(1, 1, -1, 1)
    advantage = torch.as_tensor(advantage, dtype=torch.float64).reshape(1, 1, -1, 1)
    seen = step_with(log_ratio.clone(), **settings)
    weight = method.weight.score_weight(seen, advantage.expand(log_ratio.shape)).flatten()
    return weight, {key: value.item() for key, value in seen.statistics.items()}
