"""Weights and cuts by the staleness of a token or of a sample."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks, plugins
from asyncsim.base.knobs import per_sample
from asyncsim.base.parts import choice, number
from asyncsim.factors._factor import Factor, Mask, ages, factor
from asyncsim.step.step import Step

_USED = {"constant": (), "threshold": ("cutoff", "after", "average"), "polynomial": ("exponent", "average")}


@factor("textbook; bounds on age are a knob of every asynchronous trainer")
class drop_stale(Mask):
    """Drop tokens or full sequences beyond a limit of staleness.

    Mask by age: c_t -> c_t [d <= limit], d the staleness in versions of the token or of the sequence's oldest one.
    Staleness is the version that is trained minus the one that drew the token; "head" is the largest over the sequence:
    that of its start where weights only move forward. Denominators still count what is dropped, unlike a queue that
    throws old samples away and fills the batch with others. A token of unknown age is dropped, with "head" its whole
    sequence, and the trace reports the share of such tokens as `unknown_staleness`. What is kept leans to short
    sequences wherever long ones are older. The usual limit is ours.
    """

    limit: Any = number(8.0, "largest staleness in versions that stays", 0.0)
    of: str = choice("head", "token", words="whose staleness decides")

    def keep(self, step: Step, advantage: Tensor) -> Tensor:
        """Tokens, or sequences all of whose tokens are, young enough, `[R, G, N, T or 1]`."""
        age, known = ages(step)
        young = known & (age <= per_sample(self.limit))
        if self.of == "token" or young.shape[-1] == 1:
            return young
        return (young | (step.mask == 0)).all(-1, keepdim=True)


@factor("2106.06639, section on staleness scaling (polynomial); FLSim for the rules and the division")
class staleness_weight(Factor):
    """Weigh tokens by their staleness.

    Weight by age: c_t -> c_t w(d_t) / w(average), d_t the staleness of the token in versions. "constant": w = 1;
    "threshold": w = 1 up to `cutoff`, `after` beyond; "polynomial": w = (1 + d)^-exponent. The division sets the weight
    at the average age to 1; with an average above 0 fresh data counts MORE than 1 (average 1, exponent 1/2: 1.41), in
    effect a larger learning rate. So the default is 0; the published default is 1. A token of unknown age has weight 0,
    and the trace reports the share of such tokens as `unknown_staleness`.
    """

    rule: str = choice(
        "constant", "threshold", "polynomial", words="how weights fall with staleness", usual="polynomial"
    )
    exponent: Any = number(0.5, "pure number", 0.0, 1.0, remedy="0 weighs all staleness alike, 1/2 is usual")
    cutoff: Any = number(1.0, "largest staleness in versions of full weight", 0.0)
    after: Any = number(0.5, "weight beyond the cutoff, a pure number", 0.0)
    average: Any = number(0.0, "staleness in versions whose weight is 1, such as 0", 0.0)

    @staticmethod
    def joint(rule: str, cutoff: Any, after: Any, average: Any, **_: Any) -> None:
        """The weight at the average age, by which all are divided, is above 0."""
        fits = rule != "threshold" or np.min(after) > 0 or np.max(average) <= np.min(cutoff)
        remedy = "keep it at most at the cutoff, or give after > 0"
        checks.require(bool(fits), "average", average, "of weight above 0", remedy)

    def factor(self, step: Step, advantage: Tensor) -> Tensor:
        """Weight of each token by its age, `[R, G, N, T or 1]`, 0 where that is unknown."""
        age, known = ages(step)
        age = torch.where(known, age, torch.zeros_like(age)).to(step.mask.dtype)
        usual = torch.ones_like(age[:, :1, :1, :1]) * per_sample(self.average)
        return torch.where(known, self._weight(age) / self._weight(usual), torch.zeros_like(age))

    def describe(self) -> dict[str, Any]:
        """Header of a run: only what the rule reads."""
        used = {name: getattr(self, name) for name in _USED[self.rule]}
        return {"factor": plugins.name_of(self), "rule": self.rule, **used}

    def _weight(self, age: Tensor) -> Tensor:
        if self.rule == "constant":
            return torch.ones_like(age)
        if self.rule == "threshold":
            return torch.where(age <= per_sample(self.cutoff), torch.ones_like(age), per_sample(self.after))
        return torch.exp(-per_sample(self.exponent) * torch.log1p(age))
