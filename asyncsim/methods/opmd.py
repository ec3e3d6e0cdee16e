"""OPMD: REINFORCE without ratios, divided by 1 + tau."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base import checks
from asyncsim.base.knobs import MARK, knob, per_sample
from asyncsim.learning.step import Step
from asyncsim.methods._method import Method
from asyncsim.methods._weights import Weight


@dataclass(frozen=True)
class Opmd(Weight):
    """c = A / (1 + tau); see `opmd`."""

    tau: Any = field(metadata=MARK)

    level: ClassVar[str] = "none"  # type: ignore[misc]

    def applied(self, step: Step) -> Tensor:
        """1 / (1 + tau)."""
        return torch.ones_like(step.mask[..., :1]) / (1.0 + per_sample(self.tau))

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """A / (1 + tau)."""
        return advantage / (1.0 + per_sample(self.tau))


def opmd(
    tau: Any = 1.0, baseline: str = "mean", advantage: Advantage | None = None, aggregator: str = "token_mean"
) -> Method:
    """Online policy mirror descent as released: c_i = (r_i - b)/(1 + tau), no ratio.

    `baseline` "mean": b the group's mean reward; "soft": b = tau log mean_j exp(r_j / tau). Regularization towards the
    current policy amounts to this factor. It acts like a smaller learning rate and does not depend on staleness.
    Reconstruction: the form of the code, the derivation's paper unseen.

    Arguments: `tau`, units of reward, > -1 and, for "soft", > 0 (1), a number or one per replicate; `baseline`, used
    unless `advantage` is given; `aggregator`. Returns a `Method` whose weight is `[R, G, N, 1]`. Raises `InputError`
    for a tau outside its range or unknown names. Source: 2505.17826 (Trinity-RFT), its code.

    >>> opmd(baseline="soft").describe()["advantage"]
    'soft_value'
    """
    soft = checks.one_of("baseline", baseline, ("mean", "soft"), "say what rewards are compared with") == "soft"
    remedy = "give a positive temperature" if soft else "give a temperature above -1"
    checked = knob("tau", tau, remedy, 0.0 if soft else -1.0, open_low=True)
    default = advantages.soft_value(checked) if soft else advantages.group_mean()
    return Method(
        "opmd",
        or_default(advantage, default),
        Opmd(checked),
        aggregator,
        on_policy="policy gradient / (1 + tau)",
        status="reconstruction",
    )
