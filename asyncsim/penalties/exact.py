"""KL penalty summed over all actions of each token's state, without sampling noise in the action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from asyncsim import checks, ratios
from asyncsim.knobs import per_sample
from asyncsim.penalties._divergence import Penalty, settings
from asyncsim.step import Step


@dataclass(frozen=True)
class Exact(Penalty):
    """e_v = -beta pi_v (d_v - KL), or beta other_v; see `exact`."""

    reverse: bool = False

    @property
    def outputs(self) -> tuple[str, ...]:
        """Log-probs of all actions, and those of the reference."""
        return ("log_probs", *(("reference_log_probs",) if self.to == "reference" else ()))

    def score_weight(self, step: Step) -> None:
        """Nothing: the action that was drawn plays no part."""

    def spread(self, step: Step) -> Tensor:
        """What it adds to e, `[R, G, N, T, A]`."""
        rows, other = step.current["log_probs"], self._other(step)
        above, below = (other, rows) if self.reverse else (rows, other)
        prob = above.exp()
        # An action that both find impossible is not far from itself; 0 times an infinite gap counts 0.
        gap = torch.where((above == below) | (prob == 0), torch.zeros_like(above), above - below)
        self.report(step, (prob * gap).sum(-1))
        if self.reverse:
            found = prob
        else:
            gap = gap.clamp(-ratios.LOG_LIMIT, ratios.LOG_LIMIT)
            found = prob * ((prob * gap).sum(-1, keepdim=True) - gap)
        weight, beta = self.carried(step), self.coefficient
        found = found if weight is None else found * weight.unsqueeze(-1)
        return found * (beta if isinstance(beta, float) else per_sample(beta).unsqueeze(-1))

    def _other(self, step: Step) -> Tensor:
        if self.to == "reference":
            return step.current["reference_log_probs"]
        return step.recorded("log_probs") if self.to == "behavior" else step.proximal["log_probs"]


def exact(coefficient: Any = 0.04, to: str = "reference", ratio: str = "none", reverse: bool = False) -> Exact:
    """-beta KL(pi || other) of each token's state: e_v = -beta pi_v (d_v - KL), d = log pi - log other, on log pi_v.

    In the logits of the state that is -beta pi_v (d_v - KL), since sum_v e_v = 0. With `reverse`, -beta KL(other ||
    pi): e_v = beta other_v, in the logits beta (other_v - pi_v). States count as often as the data visits them: with
    ratio "sequence", as pi would. The token's own ratio would only add noise, so that there is no "token" here.

    Arguments: `coefficient` beta >= 0, reward per nat (or one per replicate); `to`, the other policy, "reference",
    "behavior" (rows computed at kept weights: late drawing) or "proximal"; `ratio`, "none" or "sequence"; `reverse`,
    whether the other policy draws. d is limited to +-20 where it is used. Returns a penalty with `spread`
    `[R, G, N, T, A]`. Raises `InputError` for a negative coefficient, unknown names, or in a run whose policy has no
    `log_probs`. Source: textbook.

    >>> exact(0.1).outputs
    ('log_probs', 'reference_log_probs')
    """
    flag = checks.boolean("reverse", reverse, "say whether the other policy draws")
    return Exact(*settings(coefficient, to, ratio, ("none", "sequence")), flag)
