"""Variances of the parts of a log ratio under an engine with a temperature and noisy reports, through the loop.

Without noise a batch is the whole population; with noise it is sampled.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from asyncsim import diagnostics, tasks
from asyncsim.base.trace import Trace
from asyncsim.learning.batch import Batch
from asyncsim.trials._chains import BATCHES, SAMPLES, replicates_for
from asyncsim.trials._plants import NoiseTwice, PolicyDefect, Unscored, engine_replaced, with_policy
from asyncsim.trials._runs import displaced, mean_of, run, variance_of
from asyncsim.trials._sequences import BEHAVIOR, CURRENT, ROUNDING, places, sequence_point
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced

_METRICS = {"staleness": "staleness_variance", "mismatch": "mismatch_variance", "variance": "log_ratio_variance"}
_SPREAD = 1.6
"""Relative standard deviation of one squared deviation: 1.42 for normal log ratios, less for those of few actions."""


def _run(point: Point, replicates: int, seed: int, plant: Plant) -> Trace:
    task = tasks.token_bandit(point["actions"], point["horizon"], point["dependence"])
    now, then = places(point)
    spec = displaced(task, (then, now), list(_METRICS.values()), (SAMPLES, BATCHES, replicates))
    policy = task.policy(
        temperature=point["temperature"], noise=point["noise"], noise_per=point["noise_per"], noise_in="reports"
    )
    listed = {} if point["noise"] else {"sampling": "enumerate"}
    return run(spec.replace(policy=policy, **listed), seed, plant)


def _exactly(trace: Trace, name: str) -> Estimate:
    found = mean_of(trace, name)
    return found._replace(error=0.0, tolerance=ROUNDING * found.value)


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    if not point["noise"]:
        trace = _run(point, 2, seed, plant)
        return {part: _exactly(trace, name) for part, name in _METRICS.items()}
    trace = _run(point, replicates_for(_SPREAD, effect, 9), seed, plant)
    return {part: variance_of(trace, SAMPLES, name) for part, name in _METRICS.items()}


class _NoisyTrainer(PolicyDefect):
    """A trainer that draws the engine's noise anew when it scores."""

    def altered(self, log_prob: Tensor, batch: Batch) -> Tensor:
        """Fresh normal noise on every token."""
        noise = np.random.default_rng(0).normal(scale=self._inner.engine.noise, size=log_prob.shape)
        return log_prob + log_prob.new_tensor(noise)


_SHARPER = sequence_point("iid", 3, 1, temperature=0.8, noise=0.0, noise_per="token") | {
    "current_logits": tuple(tuple(1.4 * x for x in row) for row in BEHAVIOR[:1])
}
_APART = sequence_point("position", 2, 2, temperature=0.8, noise=0.0, noise_per="token") | {
    "behavior_logits": ((0.0, 0.0, 0.0), BEHAVIOR[1]),
    "current_logits": (CURRENT[0], BEHAVIOR[1]),
}
_NOISY = sequence_point("position", 3, 3, temperature=1.3, noise=0.3, noise_per="token")
_SWAPPED = [
    diagnostics.log_ratio_variance("mismatch", name="staleness_variance"),
    diagnostics.log_ratio_variance("staleness", name="mismatch_variance"),
    "log_ratio_variance",
]

trial = Trial(
    points=(_SHARPER, _APART, _NOISY),
    more=({**_NOISY, "noise": 0.2, "noise_per": "sequence"},),
    measure=_measure,
    defects={
        "trainer's log-probs recorded as the sampler's": Defect(with_policy(Unscored), _SHARPER),
        "temperature applied twice": Defect(engine_replaced(temperature=0.8**2), _APART),
        "split swapped": Defect(replaced(diagnostics=_SWAPPED), _SHARPER),
        "noise counted twice": Defect(with_policy(NoiseTwice), _NOISY),
        "noise drawn anew at scoring": Defect(with_policy(_NoisyTrainer), _NOISY),
    },
    effect=0.02,
    through="loop",
)
