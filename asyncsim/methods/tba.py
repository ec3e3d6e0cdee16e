"""TBA, the VarGrad form of trajectory balance: variance of log pi - log pi_ref - r/beta within the group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base.knobs import MARK, knob, per_sample
from asyncsim.learning import ratios
from asyncsim.learning.step import Step
from asyncsim.methods import _regression
from asyncsim.methods._method import Method
from asyncsim.methods._weights import Weight


@dataclass(frozen=True)
class Tba(Weight):
    """c = (2 / beta) times the advantage of rewards less beta D, D the log ratio to the reference; see `tba`."""

    beta: Any = field(metadata=MARK)

    level: ClassVar[str] = "none"  # type: ignore[misc]
    outputs: ClassVar[tuple[str, ...]] = ("reference",)

    def applied(self, step: Step) -> Tensor:
        """What multiplies the advantage: 2 / beta."""
        return 2.0 / per_sample(self.beta) * torch.ones_like(step.mask[..., :1])

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """2 / beta times A less beta (D - mean of the group)."""
        beta = per_sample(self.beta)
        gap = ratios.log_ratio(step.current["log_prob"], step.current["reference"], step.mask).sum(-1, keepdim=True)
        mass = (step.mass if step.batch.kept is None else step.batch.mass).unsqueeze(-1)
        # An infinite gap has no mean: it closes its group, samples without mass do not.
        counted = torch.where(mass > 0, mass * gap, torch.zeros_like(gap))
        residual = advantage / beta - (gap - counted.sum(2, keepdim=True))
        return _regression.closed(step, 2.0 * residual)


def tba(beta: Any = 0.014, advantage: Advantage | None = None, aggregator: str = "sequence_sum") -> Method:
    """Trajectory balance with a group's normalizer: c_i = (2/beta)(q_i - mean_j q_j), q_i = r_i - beta D_i.

    D_i = sum_t (log pi - log pi_ref). It is the gradient of -(log Z + D_i - r_i/beta)^2 with log Z = mean_j(r_j/beta -
    D_j); whether log Z is detached does not matter, since residuals of a group sum to 0. At the default beta 2/beta is
    143: beside other methods divide the step by that. At pi = pi_ref exp(r/beta)/Z
    every weight is 0 whatever policy drew the samples: staleness does not move the optimum, and no ratio is step. A
    group with a D that is not finite has weights 0.

    Arguments: `beta` > 0, reward per nat (0.014, annealed to 0.004 in the paper), a number or one per replicate;
    `advantage` (default group mean, for which this is the method; groups of 20 in the paper); `aggregator`. Returns a
    `Method` whose weight is `[R, G, N, 1]`; it needs the output "reference" and reports residual_nonfinite, a count of
    samples. Raises `InputError` for a beta that is not positive, an unknown aggregator, or in a run with groups of
    one. Source: 2503.18929.

    >>> tba().outputs
    ('log_prob', 'reference')
    """
    checked = knob("beta", beta, "give a positive price of a nat in units of reward", 0.0, open_low=True)
    return Method(
        "tba",
        or_default(advantage, advantages.group_mean()),
        Tba(checked),
        aggregator,
        on_policy="2/beta times the policy gradient of the reward less beta KL to the reference",
    )
