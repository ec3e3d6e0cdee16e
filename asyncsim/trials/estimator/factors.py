"""Updates under masks and weights by age, on all responses of a stale policy, behind a first update on the batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim import advantages, factors, methods
from asyncsim.factors._factor import Mask
from asyncsim.learning.batch import Batch
from asyncsim.learning.step import Step
from asyncsim.trials._plants import with_method
from asyncsim.trials._ragged import TABLES, planted, read, renormalized, stepped
from asyncsim.trials._sequences import exactly
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_KNOBS = ("low", "high", "bound", "limit", "scale")
_MADE: dict[str, Callable[[Any], Any]] = {
    "token_mask": lambda p: factors.token_mask(p["low"], p["high"]),
    "token_mask_lag": lambda p: factors.token_mask(p["low"], p["high"], "h"),
    "sequence_mask": lambda p: factors.sequence_mask(p["low"], p["high"]),
    "sequence_mask_lag": lambda p: factors.sequence_mask(p["low"], p["high"], "h"),
    "geometric_mask": lambda p: factors.geometric_mask(p["low"], p["high"]),
    "geometric_mask_lag": lambda p: factors.geometric_mask(p["low"], p["high"], "h"),
    "k2_token": lambda p: factors.k2_mask(p["bound"], "token"),
    "k2_sum": lambda p: factors.k2_mask(p["bound"], "sum"),
    "k2_mean": lambda p: factors.k2_mask(p["bound"], "mean"),
    "k2_max": lambda p: factors.k2_mask(p["bound"]),
    "k2_max_lag": lambda p: factors.k2_mask(p["bound"], ratio="h"),
    "k3_token": lambda p: factors.k3_mask(p["bound"], "token"),
    "k3_sum": lambda p: factors.k3_mask(p["bound"], "sum"),
    "k3_mean": lambda p: factors.k3_mask(p["bound"]),
    "k3_max": lambda p: factors.k3_mask(p["bound"], "max"),
    "k3_mean_lag": lambda p: factors.k3_mask(p["bound"], ratio="h"),
    "token_veto": lambda p: factors.token_veto(p["low"]),
    "token_veto_lag": lambda p: factors.token_veto(p["low"], "h"),
    "opsm": lambda p: factors.opsm(p["bound"]),
    "opsm_drift": lambda p: factors.opsm(p["bound"], "proximal"),
    "log_clamp_token": lambda p: factors.log_clamp(p["bound"]),
    "log_clamp_sequence": lambda p: factors.log_clamp(p["bound"], "sequence"),
    "log_clamp_geometric": lambda p: factors.log_clamp(p["bound"], "geometric"),
    "log_clamp_drift": lambda p: factors.log_clamp(p["bound"], ratio="u"),
    "log_clamp_lag": lambda p: factors.log_clamp(p["bound"], ratio="h"),
    "tv_mask": lambda p: factors.tv_mask(p["bound"]),
    "tv_mask_lag": lambda p: factors.tv_mask(p["bound"], ratio="h"),
    "tv_signed": lambda p: factors.tv_mask(p["bound"], True),
    "drop_stale_token": lambda p: factors.drop_stale(p["limit"], "token"),
    "drop_stale_head": lambda p: factors.drop_stale(p["limit"]),
    "polynomial": lambda p: factors.staleness_weight("polynomial", p["scale"], average=p["limit"]),
    "token_mask_polynomial": lambda p: (_MADE["polynomial"](p), _MADE["token_mask"](p)),
    "threshold": lambda p: factors.staleness_weight("threshold", cutoff=p["limit"], after=p["scale"]),
}


def _aged(wait: int, batch: Batch) -> Batch:
    """The batch with a version more for every token that a response was still to draw."""
    lengths, place = batch.mask.sum(-1, keepdim=True), torch.arange(batch.mask.shape[-1])
    oldest = wait + batch.mask.shape[-1]
    version = oldest - wait - (lengths - 1.0 - place).clamp(min=0.0)
    return dataclasses.replace(batch, version=version[:1].numpy().astype(np.int32), train_version=oldest, age=None)


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    # Every factor has some of the knobs.
    knobs, wait = {name: point[name] for name in _KNOBS}, point["wait"]
    made = _MADE[point["factor"]](knobs)
    several = made if isinstance(made, tuple) else (made,)
    method = methods.reinforce(advantages.group_mean(), "token_mean").replace(factors=several)
    step = stepped(planted(point, method, plant), point, lambda batch: _aged(wait, batch))
    return read(step.gradient, point) | {"kept": exactly(step.statistics["kept_tokens"].item())}


@dataclass(frozen=True)
class _OtherSign(Mask):
    """A mask that reads the other sign of A."""

    inner: Any

    def keep(self, step: Step, advantage: Tensor) -> Tensor:
        """What stays for -A."""
        kept: Tensor = self.inner.keep(step, -advantage)
        return kept


def _turned(spec: Any) -> Any:
    return spec.replace(method=spec.method.replace(factors=(_OtherSign(spec.method.factors[0]),)))


def _other(factor: Any) -> Plant:
    return with_method(factors=(factor,))


_POINT = {**TABLES, "low": 0.735, "high": 1.35, "bound": 0.1, "wait": 1, "limit": 2.0, "scale": 0.5}
# Bounds that lie between those of other responses, so that every statistic drops others.
_NEAR = {
    "k2_token": 0.125, "k2_sum": 0.57, "k2_mean": 0.235, "k2_max": 0.28, "k2_max_lag": 0.05,
    "k3_token": 0.127, "k3_sum": 0.45, "k3_mean": 0.175, "k3_max": 0.28, "k3_mean_lag": 0.04,
    "opsm": 0.35, "opsm_drift": 0.15, "tv_mask": 0.4, "tv_signed": 0.3, "tv_mask_lag": 0.3,
    "log_clamp_token": 0.45, "log_clamp_sequence": 0.4, "log_clamp_geometric": 0.25, "log_clamp_drift": 0.35,
    "log_clamp_lag": 0.3,
}  # fmt: skip
_POINTS = {
    name: {**_POINT, "factor": name, "bound": _NEAR.get(name, 0.1)}
    | ({"low": 0.7} if name.startswith("token_mask") else {})
    for name in _MADE
}

trial = Trial(
    points=tuple(_POINTS.values()),
    more=({**_POINTS["drop_stale_token"], "wait": 0}, {**_POINTS["opsm"], "bound": 0.02}),
    measure=_measure,
    defects={
        "dropped tokens leave the denominator": Defect(renormalized, _POINTS["token_mask"]),
        "bounds on the inverse ratio": Defect(_other(factors.token_mask(1.0 / 1.35, 1.0 / 0.7)), _POINTS["token_mask"]),
        "ratio with the drift of the batch": Defect(_other(factors.token_mask(0.7, 1.35)), _POINTS["token_mask_lag"]),
        "tokens in place of responses": Defect(_other(factors.token_mask(0.735, 1.35)), _POINTS["sequence_mask"]),
        "sum in place of mean": Defect(_other(factors.k3_mask(0.175, "sum")), _POINTS["k3_mean"]),
        "mean in place of maximum": Defect(_other(factors.k2_mask(0.28, "mean")), _POINTS["k2_max"]),
        "other sign of A": Defect(_turned, _POINTS["opsm"]),
        "moves back stopped too": Defect(_other(factors.tv_mask(0.3)), _POINTS["tv_signed"]),
        "age of the token, not of its response": Defect(
            _other(factors.drop_stale(2.0, "token")), _POINTS["drop_stale_head"]
        ),
        "last factor alone": Defect(_other(factors.token_mask(0.7, 1.35)), _POINTS["token_mask_polynomial"]),
        "weight 1 at age 0": Defect(_other(factors.staleness_weight()), _POINTS["polynomial"]),
    },
    effect=0.02,
    through="oracle",
)
