"""Gradient, weights and lengths of responses into which a tool writes, every one of them listed, through the loop."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim import advantages, methods
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.learning.spec import Spec
from asyncsim.methods._weights import Ratio
from asyncsim.tasks._task import Outcomes
from asyncsim.tasks.tool_bandit import ToolBandit, tool_bandit
from asyncsim.trials._plants import Tempered, with_method, with_policy
from asyncsim.trials._runs import displaced, run
from asyncsim.trials._sequences import components, exactly
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_WEIGHTS = {"mean": "mean_weight", "ess": "ess", "token": "token_ratio_mean"}


def _slope(place: int) -> Metric:
    return Metric(f"slope{place}", lambda step: step.gradient[:, place], ("log_prob",), subject="policy")


def _table(logits: Any, rows: int, beyond: float) -> np.ndarray:
    """The policy's own rows, and behind them those of replies, where nothing may depend on what stands there."""
    own = np.array(logits, dtype=np.float64)
    idle = beyond * np.cos(np.arange((rows - len(own)) * own.shape[1])).reshape(-1, own.shape[1])
    return np.concatenate([own, idle]).ravel()


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    settings = {name: point[name] for name in ("words", "horizon", "reply_tokens", "accuracy", "price", "opens")}
    task, size = tool_bandit(**settings), (point["words"] + 1) ** 2
    method = methods.full_is(advantage=advantages.group_mean())
    if point["weighting"] == "token":
        method = method.replace(weight=Ratio("token"), aggregator="token_mean")
    places = tuple(_table(point[f"{name}_logits"], task.rows, x) for name, x in (("behavior", 0.5), ("current", -1.0)))
    metrics = [*map(_slope, range(size)), *_WEIGHTS.values(), "batch_return", "turns"]
    spec = displaced(task, (places[0], places[1]), metrics, (2, 1, 1), method)
    trace = run(spec.replace(sampling="enumerate"), seed, plant)
    found = {"return": exactly(trace["batch_return"][1, 0]), "tokens": exactly(trace["turns"][1, 0])}
    found |= {f"weight[{name}]": exactly(trace[metric][1, 0]) for name, metric in _WEIGHTS.items()}
    return found | components("gradient", np.array([trace[f"slope{k}"][1, 0] for k in range(size)]))


class _Unmasked(ToolBandit):
    """A task whose replies count as the policy's own tokens."""

    def outcomes(self, prompt: Tensor) -> Outcomes:
        """With mask 1 on replies."""
        listed = super().outcomes(prompt)
        return dataclasses.replace(listed, mask=torch.maximum(listed.mask, (listed.state >= self.actions).double()))


def _unmasked(spec: Spec) -> Spec:
    """The task that trains on what its tool says."""
    settings = {field.name: getattr(spec.task, field.name) for field in dataclasses.fields(ToolBandit)}
    return spec.replace(task=_Unmasked(**settings))


def _priced(**settings: Any) -> Plant:
    """A plant: the spec's task with other settings."""
    return lambda spec: spec.replace(task=dataclasses.replace(spec.task, **settings))


_POINT = {
    "words": 2,
    "horizon": 6,
    "reply_tokens": 1,
    "accuracy": 0.9,
    "price": 0.1,
    "opens": False,
    "weighting": "token",
    "behavior_logits": ((0.1, -0.2, 0.9), (0.6, 0.1, 0.2), (-0.3, 0.5, 0.3)),
    "current_logits": ((-0.4, 0.1, 1.4), (1.2, -0.3, -0.2), (-0.6, 1.1, 0.4)),
}
_EXACT = {**_POINT, "weighting": "sequence", "reply_tokens": 2, "horizon": 7}
_OPENS = {**_POINT, "opens": True, "horizon": 5}

trial = Trial(
    points=(_POINT, _EXACT, _OPENS),
    more=({**_POINT, "horizon": 9, "reply_tokens": 2}, {**_EXACT, "horizon": 4, "price": 0.0}),
    measure=_measure,
    defects={
        "scored at another temperature": Defect(with_policy(Tempered), _EXACT),
        "sequences averaged, then tokens": Defect(with_method(aggregator="sequence_mean"), _POINT),
        "ratios of tokens": Defect(with_method(weight=Ratio("token")), _EXACT),
        "calls that cost nothing": Defect(_priced(price=0.0), _POINT),
        "replies trained on": Defect(_unmasked, _POINT),
        "replies in the ratio": Defect(_unmasked, _EXACT),
        "less room": Defect(_priced(horizon=4), _EXACT),
        "no reply in front": Defect(_priced(opens=False), _OPENS),
    },
    effect=0.02,
    through="loop",
)
