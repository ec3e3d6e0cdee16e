"""Scale the learning rate by the effective sample size of the batch (VCPO)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.base.knobs import MARK, knob
from asyncsim.learning import ratios
from asyncsim.updates._link import Record, State, Stateless

_POWERS = {"sqrt": 0.5, "linear": 1.0}


@dataclass(frozen=True)
class EssStep(Stateless):
    """direction * min(1, ESS / reference)^power; see `ess_step`."""

    rule: str
    reference: Any = field(metadata=MARK)
    floor: Any = field(metadata=MARK)
    deadband: Any = field(default=1.0, metadata=MARK)
    on_broken: str = "floor"

    outputs = ("log_prob",)

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        """Scale the direction and report the scale, the ESS and what the ESS is blind to."""
        log_weight, mass = record.step.sequence_log_ratio, record.step.step_mass
        ess = ratios.ess(log_weight, mass)
        scale, broken = self._scale(ess.unsqueeze(-1))
        if self.on_broken == "skip":
            record.skip = record.skip | broken[:, 0]
        record.statistics["ess_step_scale"] = scale[:, 0]
        record.statistics["ess_step_broken"] = broken[:, 0].double()
        record.statistics["ess_step_ess"] = ess
        record.statistics["ess_step_log_mean"] = ratios.log_mean_weight(log_weight, mass)
        record.direction = record.direction * scale.to(record.direction.dtype)
        return record, state

    def _scale(self, ess: Tensor) -> tuple[Tensor, Tensor]:
        """Scale `[R, 1]`, and whether the ESS was not finite."""
        scale = torch.clamp(ess / self.reference, max=1.0)
        # At the edge of the band rounding must not decide, and without a band there is none.
        scale = torch.where(ess * self.deadband >= self.reference, torch.ones_like(scale), scale)
        scale = scale ** _POWERS[self.rule]
        # Fail closed: a statistic that is not finite brakes as hard as allowed, and is counted.
        broken = ~torch.isfinite(scale) | ~torch.isfinite(ess)
        lowest = torch.as_tensor(self.floor, dtype=scale.dtype).expand_as(scale)
        return torch.where(broken, lowest, scale), broken


def ess_step(
    rule: str = "sqrt", reference: Any = 1.0, floor: Any = 0.1, deadband: Any = 1.0, on_broken: str = "floor"
) -> EssStep:
    """VCPO's step rule: step <- step * min(1, rho / reference)^power, rho = ESS/N of the unclipped sequence ratios.

    rho pools all groups of the optimizer step; power is 1/2 for "sqrt" (behind `adam`) and 1 for "linear" (behind
    `sgd`). Never raises the step; no lower limit. With a deadband D the scale is 1 while rho >= reference / D and jumps
    to the rule below (a continuous band would be the rule with a smaller reference). Where rho is not finite the scale
    is `floor`, or the update is skipped. rho is blind to a common factor of the ratios, so log E W is reported beside.

    Arguments: `rule`, "sqrt" or "linear"; `reference` in (0, 1], the on-policy ESS/N, to be measured where engine
    mismatch makes it differ from 1; `floor` in [0, 1]; `deadband` >= 1, 3 in a fork of the release; pure numbers (or
    one per replicate); `on_broken`, "floor" or "skip". Returns a link on directions `[R, P]` that reports
    ess_step_scale, ess_step_broken, ess_step_ess and ess_step_log_mean (nats), `[R]`. Raises `InputError` for values
    outside these ranges. Assumes a policy with log-probs. Source: 2602.17616.

    >>> ess_step("linear").rule
    'linear'
    """
    checks.one_of("rule", rule, _POWERS, "sqrt goes with adam, linear with sgd")
    checks.one_of("on_broken", on_broken, ("floor", "skip"), "say what an ESS that is not finite does")
    return EssStep(
        rule,
        knob("reference", reference, "give the on-policy ESS/N", 0.0, 1.0, open_low=True),
        knob("floor", floor, "give the scale for an ESS that is not finite", 0.0, 1.0),
        knob("deadband", deadband, "1 is no band", 1.0),
        on_broken,
    )
