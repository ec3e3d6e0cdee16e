"""Chains of bits for trials: the task and both policies of a point, sample sizes, and runs away from behavior."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from asyncsim import tasks
from asyncsim.base.records import Point
from asyncsim.base.trace import Trace
from asyncsim.claims._trial import Plant, too_rare, units_for
from asyncsim.claims.lab.runs import displaced, run
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.methods._method import Method

SAMPLES, BATCHES = 2048, 3
"""Samples of a batch, and batches of a replicate behind the displacement."""
MOST = 6_000_000
"""Samples that a trial takes at most."""
WORST = 0.05
"""Relative bias of a batch's ESS, and inverse of the samples that decide it, beyond which a bias cannot be bounded."""
AFFINITY = Metric("affinity", lambda step: step.mean(torch.exp(0.5 * step.sequence_log_ratio)), outputs=("log_prob",))
"""E W^(1/2)."""


class Chain:
    """A point's task, with flat parameters of the behavior and of the current policy."""

    def __init__(self, point: Point, fraction: float = 1.0) -> None:
        self.task: Any = tasks.bit_chain(point["horizon"], fraction)
        bits = point["horizon"]
        # Right minus wrong goes evenly from the first to the last bit, flat `[2 H]`.
        self.behavior, self.current = (
            np.stack([np.linspace(first, last, bits), np.zeros(bits)], 1).ravel()
            for first, last in (point["behavior_margins"], point["current_margins"])
        )

    def moment(self, power: float) -> float:
        """E_mu W^power by the product's own recursion, for sample sizes and tolerances."""
        current, behavior = (torch.from_numpy(place[None]) for place in (self.current, self.behavior))
        return float(self.task.ratio_moment(self.task.policy(), current, behavior, power))

    def exact(self, place: np.ndarray) -> tuple[float, np.ndarray]:
        """J and its gradient by the product's own recursion, for sample sizes."""
        value, gradient = self.task.exact(self.task.policy(), torch.from_numpy(place[None]))
        return value.item(), gradient[0].numpy()

    def run(
        self, diagnostics: list[Any], replicates: int, seed: int, plant: Plant, method: Method | None = None
    ) -> Trace:
        """Run on fresh batches that are generated at behavior and scored under the current policy."""
        places = self.behavior, self.current
        return run(displaced(self.task, places, diagnostics, (SAMPLES, BATCHES, replicates), method), seed, plant)


def replicates_for(spread: float, effect: float, comparisons: int) -> int:
    """Number of replicates for a relative effect, from one sample's relative standard deviation, up to a limit.

    Fewer than the effect needs leave a verdict undecided; too few for a normal mean are refused beforehand.
    """
    error = spread / math.sqrt(SAMPLES * BATCHES)
    return max(32, min(units_for(error, effect, comparisons), MOST // (SAMPLES * BATCHES)))


def moment_of(behavior: Any, current: Any, power: float, tokens: int = 1) -> float:
    """E W^power for `tokens` tokens of one softmax, from the logits of both policies."""
    mu, pi = (np.exp(np.asarray(logits) - np.max(logits)) for logits in (behavior, current))
    return float(((pi / pi.sum()) ** power * (mu / mu.sum()) ** (1.0 - power)).sum() ** tokens)


def _parts(moment: Callable[[float], float]) -> tuple[float, float, float]:
    """Moments E W^2, E W^3 and E W^4 of weights normalized to mean 1."""
    mean = moment(1.0)
    second, third, fourth = (moment(power) / mean**power for power in (2.0, 3.0, 4.0))
    return second, third, fourth


def bias_of_ess(moment: Callable[[float], float], samples: int) -> float:
    """Relative bias of a batch's ESS to leading order."""
    second, third, fourth = _parts(moment)
    return abs(second + fourth / second**2 - 2.0 * third / second) / samples


def spread_of_ess(moment: Callable[[float], float]) -> float:
    """Relative standard deviation of one sample's contribution to the ESS."""
    second, third, fourth = _parts(moment)
    return math.sqrt(max(4.0 * second + fourth / second**2 - 4.0 * third / second - 1.0, 1e-6))


def spread_of_square(moment: Callable[[float], float]) -> float:
    """Relative standard deviation of one squared weight."""
    second, _, fourth = _parts(moment)
    return math.sqrt(max(fourth / second**2 - 1.0, 1e-6))


def moments_beyond(moment: Callable[[float], float], samples: int = SAMPLES, most: float = MOST) -> str | None:
    """Return why moments cannot be measured on batches of `samples` samples, with at most `most` in total."""
    spread = spread_of_square(moment)
    if not max(bias_of_ess(moment, samples), spread**2 / samples) <= WORST:
        return f"E W^2 = {moment(2.0):.3g} rests on too few of a batch's {samples} samples; move the policies closer"
    return too_rare(spread, most)
