"""Mean ratio of sampled batches and its spread, on stale data through the loop."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from asyncsim import tasks
from asyncsim.base.uncertainty import between
from asyncsim.learning.spec import Spec
from asyncsim.trials._chains import moment_of
from asyncsim.trials._plants import Tempered, Uncut, with_policy
from asyncsim.trials._runs import displaced, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, too_rare, units_for

_BATCHES = 64
_MOST = 1 << 13
"""Tokens of a batch, at most."""
_DRAWN = 50_000_000
"""Tokens of all batches, at most."""


def _spread(point: Point) -> float:
    """Standard deviation of one batch's squared deviation over twice its mean, half more than of normal means.

    The fourth moment of weights, which rare large ones decide, falls off with the number of samples.
    """
    logits = point["behavior_logits"], point["current_logits"]
    second, third, fourth = (moment_of(*logits, power, point["horizon"]) for power in (2.0, 3.0, 4.0))
    variance = max(second - 1.0, 1e-12)
    excess = (fourth - 4.0 * third + 6.0 * second - 3.0) / variance**2 - 3.0
    return max(0.9, 0.6 * math.sqrt(max(2.0 + excess / point["samples"], 0.0)))


def _batches(point: Point) -> int:
    """Batches that are affordable."""
    return int(_DRAWN // (point["samples"] * point["horizon"]))


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    batches = min(units_for(_spread(point), effect, 2 * len(trial.points)), _batches(point))
    replicates = max(16, batches // _BATCHES)
    places = np.array(point["behavior_logits"]), np.array(point["current_logits"])
    task = tasks.token_bandit(len(places[0]), point["horizon"])
    size = point["samples"], _BATCHES, replicates
    weight = run(displaced(task, places, ["mean_weight"], size), seed, plant)["mean_weight"][1:]
    variance = between(((weight - weight.mean()) ** 2).mean(axis=0))
    sd = float(np.sqrt(variance.value))
    return {
        "mean_weight": between(weight.mean(axis=0)),
        "sd": variance._replace(value=sd, error=variance.error / (2.0 * sd)),
    }


def _cut(spec: Spec) -> Spec:
    """The two likeliest of three actions are sampled, unseen by the ESS; an eighth of the replicates shows it."""
    task: Any = spec.task
    return spec.replace(policy=Uncut(task.policy(top_p=0.75)), replicates=spec.replicates // 8)


def _reach(point: Point) -> str | None:
    tokens = point["samples"] * point["horizon"]
    if tokens > _MOST:
        return f"a batch of at most {_MOST} tokens, not {tokens}; take fewer samples"
    return too_rare(_spread(point), _batches(point))


_SHORT = {"samples": 32, "horizon": 1, "behavior_logits": (0.3, -0.2, 0.5), "current_logits": (1.2, -0.7, 0.1)}
_LONG = {"samples": 48, "horizon": 3, "behavior_logits": (0.2, 0.0, -0.3), "current_logits": (0.6, -0.2, -0.4)}

trial = Trial(
    points=(_SHORT, _LONG),
    more=({**_LONG, "samples": 128},),
    measure=_measure,
    defects={
        "sampler cut by top-p, whole policy's log-probs recorded": Defect(_cut, _SHORT),
        "scored at another temperature": Defect(with_policy(Tempered), _LONG),
    },
    effect=0.02,
    reach=_reach,
    through="loop",
)
