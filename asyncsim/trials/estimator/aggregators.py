"""Updates under the full ratio with every aggregator, on all responses and on all groups of few, through the oracle."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch import Tensor

from asyncsim import advantages, methods
from asyncsim.base import checks
from asyncsim.learning import ratios
from asyncsim.learning.step import Step
from asyncsim.methods._method import Method
from asyncsim.trials._plants import with_method
from asyncsim.trials._ragged import SHORT, TABLES, of_groups, planted, read, stepped, together
from asyncsim.trials._sequences import token_level
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    method = methods.full_is(advantage=advantages.group_mean(), aggregator=point["aggregator"])
    spec = planted(point, method, plant)
    few = of_groups(spec, point).mean
    second = stepped(spec, {**point, "behavior_logits": point["proximal_logits"]}).batch
    step = stepped(spec, point, lambda first: together(first, second))
    largest = float(step.sequence_log_ratio.abs().max())
    bound = f"at most {ratios.LOG_LIMIT:g} nats, where the product limits it in gradients"
    checks.require(largest <= ratios.LOG_LIMIT, "largest log ratio", largest, bound, "move the policies closer")
    return read(step.gradient, point) | {f"few_{k}": v for k, v in read(few, point).items()}


class _ByGroup(Method):
    """A token mean with each sample's tokens counted with those of padding."""

    def share(self, step: Step) -> Tensor:
        """The share as if every response had the largest length."""
        full: Tensor = super().share(step) * (step.mass * step.lengths).sum() / step.mask.shape[-1]
        return full


def _padded(spec: Any) -> Any:
    fields = {field.name: getattr(spec.method, field.name) for field in dataclasses.fields(spec.method)}
    return spec.replace(method=_ByGroup(**fields))


_POINT = {**SHORT, "proximal_logits": TABLES["proximal_logits"][:2], "samples": 2}


def _at(aggregator: str, **changes: Any) -> dict[str, Any]:
    return {**_POINT, "aggregator": aggregator, **changes}


trial = Trial(
    points=(*map(_at, ("sequence_sum", "sequence_mean", "token_mean", "constant")),),
    more=(_at("token_mean", samples=3), _at("sequence_mean", samples=4)),
    measure=_measure,
    defects={
        "sequence mean in place of token mean": Defect(with_method(aggregator="sequence_mean"), _at("token_mean")),
        "token mean in place of sequence mean": Defect(with_method(aggregator="token_mean"), _at("sequence_mean")),
        "padding counted as length": Defect(with_method(aggregator="constant"), _at("sequence_mean")),
        "padding counted in the step": Defect(_padded, _at("token_mean")),
        "divided by the largest length": Defect(with_method(aggregator="constant"), _at("sequence_sum")),
        "own sample left out of the baseline": Defect(
            with_method(advantage=advantages.leave_one_out()), _at("token_mean")
        ),
        "ratio of the token": Defect(token_level(), _at("constant")),
    },
    effect=0.02,
    through="oracle",
)
