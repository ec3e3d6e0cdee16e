"""Returns of tokens, standardized over the whole step (REINFORCE++), with or without the group's mean."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from asyncsim.advantages._advantage import GroupBaseline
from asyncsim.advantages._traces import mask_out, moments, tokens, traced
from asyncsim.base import checks
from asyncsim.base.knobs import MARK, knob
from asyncsim.learning.step import Step


@dataclass(frozen=True)
class ReinforcePlusPlus(GroupBaseline):
    """A_t = (G_t - b - mean) / std over the step; see `reinforce_plus_plus`."""

    baseline: str = "none"
    discount: Any = field(default=1.0, metadata=MARK)
    unbiased: bool = False

    once = True
    finishes = True

    def __call__(self, step: Step) -> Tensor:
        """Advantages `[R, G, N, T]`, 0 on masked tokens."""
        return self.finished(step, self.estimate(step))

    def estimate(self, step: Step) -> Tensor:
        """Returns less the baseline, in units of reward, `[R, G, N, T]`."""
        returns = self.targets(step)
        if self.baseline == "none":
            return returns
        # The mean of returns of whole samples, whose first token has all that is paid.
        whole = (step.batch.mass * returns[..., 0]).sum(-1, keepdim=True)
        return mask_out(returns - whole.unsqueeze(-1), step.mask)

    def finished(self, step: Step, advantages: Tensor) -> Tensor:
        """The same, standardized over the tokens of the step."""
        mean = (step.share * advantages).sum((1, 2, 3), keepdim=True)
        if self.unbiased:
            deviation = moments(step, advantages)[1]
        else:
            deviation = (step.share * (advantages - mean) ** 2).sum((1, 2, 3), keepdim=True).sqrt()
        # Rounding of equal returns is no spread.
        scale = torch.where(deviation > 1e-8, deviation, torch.ones_like(deviation))
        return mask_out((advantages - mean) / scale, step.mask)

    def targets(self, step: Step) -> Tensor:
        """Return from each token on, `[R, G, N, T]`."""
        return traced(tokens(step, None), self.discount, 1.0)

    def check(self, samples_per_group: float) -> None:
        """With the group's mean, a group of one has nothing to compare with."""
        if self.baseline == "group":
            super().check(samples_per_group)


def reinforce_plus_plus(baseline: str = "none", discount: Any = 1.0, unbiased: bool = False) -> ReinforcePlusPlus:
    """Returns of tokens, standardized over the whole step: A_t = (G_t - b - m) / s, G_t = sum_k discount^k r_(t+k).

    m and s are mean and standard deviation of G - b over all generated tokens of the step, whatever their group. So
    prompts keep their relative size. s <= 1e-8 counts as 1. With `unbiased` the squares are divided by the tokens less
    1, as released trainers do. b = 0 (REINFORCE++), or the mean return of the group's samples (its baseline form). The
    published returns have a penalty inside: r_t less beta (log pi - log reference) of the token, which tasks earn with
    `kl_coef`. What follows a cut counts as 0. Samples stand in their own mean and deviation: biased O(1/tokens), and a
    positive factor. Scope: step.

    Arguments: `baseline`, "none" or "group"; `discount` in [0, 1] per token, a pure number (or one per replicate);
    `unbiased`, whether variances are divided by the tokens less 1. Returns an advantage, `[R, G, N, T]`, a pure number.
    Raises `InputError` for an unknown baseline, a discount outside its range, `unbiased` that is no bool, and, with the
    baseline "group", in a run with groups of one. Source: 2501.03262, equations 8 to 10 of
    version 8; verl, `reinforce_plus_plus_baseline`, for the baseline form.

    >>> reinforce_plus_plus("group").describe()
    {'advantage': 'reinforce_plus_plus', 'baseline': 'group', 'discount': 1.0, 'unbiased': False}
    """
    checks.one_of("baseline", baseline, ("none", "group"), "say what the return is compared with")
    return ReinforcePlusPlus(
        baseline,
        knob("discount", discount, "use 1 for plain sums", 0.0, 1.0),
        checks.boolean("unbiased", unbiased, "say whether variances are divided by the tokens less 1"),
    )
