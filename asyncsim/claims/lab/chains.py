"""Sample sizes of trials on ratios of sequences, from the moments of the ratios."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from asyncsim.claims._trial import too_rare, units_for
from asyncsim.diagnostics._diagnostic import Metric

SAMPLES, BATCHES = 2048, 3
"""Samples of a batch, and batches of a replicate behind the displacement."""
MOST = 6_000_000
"""Samples that a trial takes at most."""
WORST = 0.05
"""Relative bias of a batch's ESS, and inverse of the samples that decide it, beyond which a bias cannot be bounded."""
AFFINITY = Metric("affinity", lambda step: step.mean(torch.exp(0.5 * step.sequence_log_ratio)), outputs=("log_prob",))
"""E W^(1/2)."""


def replicates_for(spread: float, effect: float, comparisons: int) -> int:
    """Number of replicates that detect a relative effect, from one sample's relative standard deviation, capped.

    Fewer than the effect needs leave a verdict undecided; too few for a normal mean are refused beforehand.
    """
    error = spread / math.sqrt(SAMPLES * BATCHES)
    return max(32, min(units_for(error, effect, comparisons), MOST // (SAMPLES * BATCHES)))


def moment_of(behavior: Any, current: Any, power: float, tokens: int = 1) -> float:
    """E W^power of the ratio W of `tokens` tokens of one softmax, from the logits of both policies."""
    mu, pi = (np.exp(np.asarray(logits) - np.max(logits)) for logits in (behavior, current))
    return float(((pi / pi.sum()) ** power * (mu / mu.sum()) ** (1.0 - power)).sum() ** tokens)


def _parts(moment: Callable[[float], float]) -> tuple[float, float, float]:
    """Moments E W^2, E W^3 and E W^4 of weights normalized to mean 1."""
    mean = moment(1.0)
    second, third, fourth = (moment(power) / mean**power for power in (2.0, 3.0, 4.0))
    return second, third, fourth


def bias_of_ess(moment: Callable[[float], float], samples: int) -> float:
    """Relative bias of the ESS of a finite batch, to leading order."""
    second, third, fourth = _parts(moment)
    return abs(second + fourth / second**2 - 2.0 * third / second) / samples


def spread_of_ess(moment: Callable[[float], float]) -> float:
    """Relative standard deviation of one sample's contribution to the ESS."""
    second, third, fourth = _parts(moment)
    return math.sqrt(max(4.0 * second + fourth / second**2 - 4.0 * third / second - 1.0, 1e-6))


def spread_of_square(moment: Callable[[float], float]) -> float:
    """Relative standard deviation of one squared importance weight."""
    second, _, fourth = _parts(moment)
    return math.sqrt(max(fourth / second**2 - 1.0, 1e-6))


def moments_beyond(moment: Callable[[float], float], samples: int = SAMPLES, most: float = MOST) -> str | None:
    """Return why moments cannot be measured on batches of `samples` samples, with at most `most` in total."""
    spread = spread_of_square(moment)
    if not max(bias_of_ess(moment, samples), spread**2 / samples) <= WORST:
        return f"E W^2 = {moment(2.0):.3g} rests on too few of a batch's {samples} samples; move the policies closer"
    return too_rare(spread, most)
