"""Mean ratio of sampled batches and its spread, on stale data through the loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim import tasks
from asyncsim.base.uncertainty import between
from asyncsim.learning.batch import Batch, Outputs
from asyncsim.learning.spec import Spec
from asyncsim.learning.versions import View
from asyncsim.trials._plants import Tempered, with_policy
from asyncsim.trials._runs import displaced, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, Wrapped, units_for

_BATCHES = 64
_SPREAD = 0.9
"""Standard deviation of one batch's squared deviation over twice its mean (measured: at most 0.85)."""
_MOST = 1 << 13
"""Tokens of a batch, at most."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    replicates = max(16, units_for(_SPREAD, effect, 2 * len(trial.points)) // _BATCHES)
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


class _Uncut(Wrapped):
    """A sampler cut by top-p that reports the whole policy's log-probs."""

    def record(self, view: View, batch: Batch) -> Outputs:
        """The trainer's log-probs at the behavior weights."""
        return {"log_prob": self._inner.score(view, batch)}


def _cut(spec: Spec) -> Spec:
    """The two likeliest of three actions are sampled, unseen by the ESS; an eighth of the replicates shows it."""
    task: Any = spec.task
    return spec.replace(policy=_Uncut(task.policy(top_p=0.75)), replicates=spec.replicates // 8)


def _reach(point: Point) -> str | None:
    tokens = point["samples"] * point["horizon"]
    return None if tokens <= _MOST else f"a batch of at most {_MOST} tokens, for time"


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
    elsewhere=({"samples": 256}, {"horizon": 4, "samples": 64}),
    refused=({"samples": 100_000},),
)
