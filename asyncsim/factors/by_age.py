"""Weights and cuts by the staleness of a token or of a sample."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks, plugins
from asyncsim.base.knobs import MARK, knob, per_sample
from asyncsim.factors._factor import Factor, Mask, ages
from asyncsim.learning.step import Step


@dataclass(frozen=True)
class DropStale(Mask):
    """[staleness <= limit]; see `drop_stale`."""

    limit: Any = field(default=8.0, metadata=MARK)
    of: str = "head"

    def keep(self, step: Step, advantage: Tensor) -> Tensor:
        """Tokens, or sequences all of whose tokens are, young enough, `[R, G, N, T or 1]`."""
        age, known = ages(step)
        young = known & (age <= per_sample(self.limit))
        if self.of == "token" or young.shape[-1] == 1:
            return young
        return (young | (step.mask == 0)).all(-1, keepdim=True)


def drop_stale(limit: Any = 8.0, of: str = "head") -> DropStale:
    """Drop tokens or whole sequences beyond a limit of staleness.

    Mask by age: c_t -> c_t [d <= limit], d the staleness in versions of the token or of the sequence's oldest one.

    Staleness is the version that is trained minus the one that drew the token; "head" is the largest over the sequence:
    that of its start where weights only move forward. Denominators still count what is dropped, unlike a queue that
    throws old samples away and fills the batch with others. A token of unknown age is dropped, with "head" its whole
    sequence, and the trace reports the share of such tokens as `unknown_staleness`. What is kept leans to short
    sequences wherever long ones are older.

    Arguments: `limit` >= 0 in versions (or one per replicate; the default is ours); `of`, "head" or "token". Returns a
    factor `[R, G, N, T or 1]`. Raises `InputError` for a negative limit or another `of`, and in `Method.weigh` without
    staleness. Source: textbook; bounds on age are a knob of every asynchronous trainer.

    >>> drop_stale(2).describe()
    {'factor': 'drop_stale', 'limit': 2.0, 'of': 'head'}
    """
    return DropStale(
        knob("limit", limit, "give the largest staleness in versions that stays", 0.0),
        checks.one_of("of", of, ("head", "token"), "say whose staleness decides"),
    )


_USED = {"constant": (), "threshold": ("cutoff", "after", "average"), "polynomial": ("exponent", "average")}


@dataclass(frozen=True)
class StalenessWeight(Factor):
    """w(d) / w(average); see `staleness_weight`."""

    rule: str = "polynomial"
    exponent: Any = field(default=0.5, metadata=MARK)
    cutoff: Any = field(default=1.0, metadata=MARK)
    after: Any = field(default=0.5, metadata=MARK)
    average: Any = field(default=0.0, metadata=MARK)

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


def staleness_weight(
    rule: str = "polynomial", exponent: Any = 0.5, cutoff: Any = 1.0, after: Any = 0.5, average: Any = 0.0
) -> StalenessWeight:
    """Weigh tokens by their staleness.

    Weight by age: c_t -> c_t w(d_t) / w(average), d_t the staleness of the token in versions.

    "constant": w = 1; "threshold": w = 1 up to `cutoff`, `after` beyond; "polynomial": w = (1 + d)^-exponent. The
    division sets the weight at the average age to 1; with an average above 0 fresh data counts MORE than 1 (average 1,
    exponent 1/2: 1.41), in effect a larger learning rate. So the default is 0; the published default is 1. A token of
    unknown age has weight 0, and the trace reports the share of such tokens as `unknown_staleness`.

    Arguments: `rule`; `exponent` in [0, 1]; `cutoff` >= 0 and `average` >= 0 in versions; `after` >= 0, a pure number;
    each of the four may be one per replicate. Returns a factor `[R, G, N, T or 1]`. Raises `InputError` for an unknown
    rule, numbers outside their range, or a weight of 0 at the average age. Source: 2106.06639, section on staleness
    scaling (polynomial); FLSim for the rules and the division.

    >>> staleness_weight("threshold", cutoff=2).describe()
    {'factor': 'staleness_weight', 'rule': 'threshold', 'cutoff': 2.0, 'after': 0.5, 'average': 0.0}
    """
    factor = StalenessWeight(
        checks.one_of("rule", rule, _USED, "say how weights fall with staleness"),
        knob("exponent", exponent, "0 weighs all staleness alike, 1/2 is usual", 0.0, 1.0),
        knob("cutoff", cutoff, "give the largest staleness in versions of full weight", 0.0),
        knob("after", after, "give the weight beyond the cutoff, a pure number", 0.0),
        knob("average", average, "give the staleness in versions whose weight is 1, such as 0", 0.0),
    )
    checks.require(
        rule != "threshold" or np.min(factor.after) > 0 or np.max(factor.average) <= np.min(factor.cutoff),
        "average",
        average,
        "of weight above 0",
        "keep it at most at the cutoff, or give after > 0",
    )
    return factor
