"""Metrics of ratios, clips and gradients on every sequence that a token may end, through the loop."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from asyncsim import advantages, diagnostics, methods, tasks
from asyncsim.trials._plants import ShortProduct, Tempered, with_method, with_policy
from asyncsim.trials._runs import displaced, run
from asyncsim.trials._sequences import components, places, sequence_point
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_PLAIN = {
    "log_ratio[mean]": "log_ratio_mean",
    "log_ratio[variance]": "log_ratio_variance",
    "log_ratio[least]": diagnostics.log_ratio_min(),
    "log_ratio[largest]": diagnostics.log_ratio_max(),
    "moment[sequence]": "mean_weight",
    "moment[chi_square]": "chi_square",
    "moment[sd]": diagnostics.ratio_sd(),
    "moment[token]": "token_ratio_mean",
    "moment[token_chi_square]": "chi_square_token",
    "moment[token_sd]": diagnostics.ratio_sd("token"),
    "moment[m2]": "m2_all",
    "moment[harmful]": "m2_harmful",
    "share[outside]": diagnostics.clip_outside(),
    "share[stopped]": "clip_active",
    "share[dual]": "clip_dual",
    "share[masked]": "masked_tokens",
    "share[silent]": "zero_loss_sequences",
    "applied[mean]": "applied_mean",
    "applied[ess]": "ess_applied",
    "batch[return]": "batch_return",
    "batch[entropy]": "entropy",
    "batch[gradient]": "gradient_norm",
}


def _metrics(point: Point) -> dict[str, Any]:
    bound = point["bound"]
    return _PLAIN | {
        "log_ratio[quantile]": diagnostics.log_ratio_quantile(point["level"]),
        "share[above]": diagnostics.ratio_above(bound),
        "share[below]": diagnostics.ratio_below(1.0 / bound),
        "share[token_above]": diagnostics.ratio_above(bound, "token"),
    }


def _method(point: Point) -> Any:
    return methods.ppo_clip(point["low"], point["high"], advantage=advantages.group_mean(), dual=point["dual"])


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    task = tasks.token_bandit(point["actions"], point["horizon"], point["dependence"], ends=True)
    metrics = _metrics(point)
    current, behavior = places(point)
    spec = displaced(task, (behavior, current), list(metrics.values()), (2, 1, 1), _method(point))
    trace = run(spec.replace(sampling="enumerate"), seed, plant)
    found = {name: trace[getattr(metric, "name", metric)][1, 0] for name, metric in metrics.items()}
    estimates: dict[str, Estimate] = {}
    for family in ("log_ratio", "moment", "share", "applied", "batch"):
        names = [name for name in found if name.startswith(f"{family}[")]
        values = components(family, np.array([found[name] for name in names]))
        estimates |= dict(zip(names, values.values(), strict=True))
    return estimates


def _read(instead: str, by: Any) -> Plant:
    """A plant: one metric in place of another."""

    def plant(spec: Any) -> Any:
        names = [getattr(metric, "name", metric) for metric in spec.diagnostics]
        place = names.index(instead)
        metric = dataclasses.replace(by, name=instead)
        return spec.replace(diagnostics=[*spec.diagnostics[:place], metric, *spec.diagnostics[place + 1 :]])

    return plant


_SETTINGS = {"level": 0.3, "bound": 1.3, "low": 0.15, "high": 0.2, "dual": 1.25}
_POSITION = sequence_point("position", 3, 3, **_SETTINGS)
_IID = {**sequence_point("iid", 4, 1, **_SETTINGS), "current_logits": ((-0.4, 0.6, 0.2),)}

trial = Trial(
    points=(_POSITION, _IID),
    more=(sequence_point("position", 4, 4, **{**_SETTINGS, "level": 0.8, "bound": 2.0}),),
    measure=_measure,
    defects={
        "scored at another temperature": Defect(with_policy(Tempered), _POSITION),
        "last token left out": Defect(with_policy(ShortProduct), _POSITION),
        "mean over sequences, then tokens": Defect(with_method(aggregator="sequence_mean"), _POSITION),
        "all tokens taken for harmful": Defect(_read("m2_harmful", diagnostics.m2_all), _POSITION),
        "a plain clip": Defect(
            lambda spec: spec.replace(method=methods.ppo_clip(0.15, 0.2, advantage=spec.method.advantage)), _POSITION
        ),
        "rewards not centered": Defect(with_method(advantage=advantages.none()), _POSITION),
        "no token ends the sequence": Defect(
            lambda spec: spec.replace(task=tasks.token_bandit(3, 3, "position")), _POSITION
        ),
    },
    effect=0.02,
    through="loop",
)
