"""A-3PO: decoupled PPO whose proximal policy is interpolated, by staleness, instead of computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base.knobs import MARK, per_sample
from asyncsim.fusing.tape import none
from asyncsim.learning import ratios
from asyncsim.learning.step import Step
from asyncsim.methods._method import Method
from asyncsim.methods._surrogates import band
from asyncsim.methods._weights import Weight, clipped


@dataclass(frozen=True)
class InterpolatedClip(Weight):
    """c = r A where the clip of r^(1/d) is open; see `a3po`."""

    low: Any = field(metadata=MARK)
    high: Any = field(metadata=MARK)

    level: ClassVar[str] = "token"  # type: ignore[misc]

    def applied(self, step: Step) -> Tensor:
        """Token ratios to behavior, `[R, G, N, T]`."""
        return ratios.usable(step.log_ratio)

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Ratio times A, 0 where the clip is closed or the staleness is unknown."""
        age = step.staleness
        unknown = torch.isnan(age)
        step.statistics["unknown_staleness"] = (step.share * unknown.to(step.share)).sum((1, 2, 3))
        drift = ratios.usable(step.log_ratio / age.clamp(min=1.0).to(step.log_ratio))
        lowest, highest = 1.0 - per_sample(self.low), 1.0 + per_sample(self.high)
        weight = clipped(self.applied(step), drift, advantage, lowest, highest)
        return weight if none(unknown) else torch.where(unknown, torch.zeros_like(weight), weight)


def a3po(low: Any = 0.2, high: Any = 0.2, advantage: Advantage | None = None, aggregator: str = "token_mean") -> Method:
    """Approximated proximal policy: c_it = r_it A_i where the clip of r_it^(1/d) is open, 0 where it is closed.

    d is the staleness of the token in versions. The snapshot log pi_prox = alpha log pi + (1 - alpha) log mu with alpha
    = 1 - 1/d is detached, so that u = pi/pi_prox = r^(1/d) and h = pi_prox/mu = r^(1 - 1/d) in h min(u A, clip(u) A),
    whose gradient is h u A = r A grad log pi where the clip of u is open. With steady logits u is too large by one
    factor for all actions (`estimator/a3po-interpolation`). On r the band is [(1 - low)^d, (1 + high)^d]: it widens
    with staleness. For d <= 1 (alpha = 0) it is `ppo_clip` anchored at behavior. Tokens of unknown staleness are left
    out, their share in the step is `unknown_staleness` in the trace.

    Arguments: `low` in [0, 1] and `high` >= 0, pure numbers (or one per replicate); `advantage` (default group mean);
    `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or "constant". Returns a `Method` whose weight is
    `[R, G, N, T]`. Raises `InputError` for bounds outside their range, unknown names, and where no versions are known.
    Source: 2512.06547.

    >>> a3po().describe()["weight"]
    'a3po'
    """
    weight = InterpolatedClip(*band(low, high))
    return Method("a3po", or_default(advantage, advantages.group_mean()), weight, aggregator)
