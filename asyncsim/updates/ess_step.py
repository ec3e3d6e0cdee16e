"""Scale the step by the effective sample size of the batch (VCPO)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from asyncsim import checks, ratios
from asyncsim.knobs import MARK, knob
from asyncsim.updates._link import Record, State, Stateless

_POWERS = {"sqrt": 0.5, "linear": 1.0}


@dataclass(frozen=True)
class EssStep(Stateless):
    """direction * min(1, ESS / reference)^power; see `ess_step`."""

    rule: str
    reference: Any = field(metadata=MARK)
    floor: Any = field(metadata=MARK)

    outputs = ("log_prob",)

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        """Scale the direction and report the scale and the ESS."""
        signal = record.signal
        found = ratios.ess(signal.sequence_log_ratio, signal.step_mass).unsqueeze(-1)
        scale = torch.clamp(found / self.reference, max=1.0) ** _POWERS[self.rule]
        # Fail closed: a statistic that is not finite brakes as hard as allowed, and is counted.
        broken = ~torch.isfinite(scale)
        lowest = torch.as_tensor(self.floor, dtype=scale.dtype).expand_as(scale)
        scale = torch.where(broken, lowest, scale)
        record.statistics["ess_step_scale"] = scale[:, 0]
        record.statistics["ess_step_broken"] = broken[:, 0].double()
        record.direction = record.direction * scale.to(record.direction.dtype)
        return record, state


def ess_step(rule: str = "sqrt", reference: Any = 1.0, floor: Any = 0.1) -> EssStep:
    """VCPO's step rule: step <- step * min(1, rho / reference)^power, rho = ESS/N of the unclipped sequence ratios.

    rho pools all groups of the optimizer step; power is 1/2 for "sqrt" (behind `adam`) and 1 for "linear" (behind
    `sgd`). Never raises the step; no lower limit but for a rho that is not finite, where the scale is `floor`.

    Arguments: `rule`, "sqrt" or "linear"; `reference` in (0, 1], the on-policy ESS/N, to be measured where engine
    mismatch makes it differ from 1; `floor` in [0, 1]; pure numbers (or one per replicate). Returns a link on
    directions `[R, P]` that reports ess_step_scale and ess_step_broken, `[R]`. Raises `InputError` for values outside
    these ranges. Assumes a policy with log-probs. Source: 2602.17616.

    >>> ess_step("linear").rule
    'linear'
    """
    checks.one_of("rule", rule, _POWERS, "sqrt goes with adam, linear with sgd")
    return EssStep(
        rule,
        knob("reference", reference, "give the on-policy ESS/N", 0.0, 1.0, open_low=True),
        knob("floor", floor, "give the scale for an ESS that is not finite", 0.0, 1.0),
    )
