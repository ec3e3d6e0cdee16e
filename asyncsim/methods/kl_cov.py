"""KL-Cov: token ratio without a clip, and a pull to the anchor on the tokens of largest covariance."""

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
from asyncsim.methods._covariance import covariance
from asyncsim.methods._method import Method
from asyncsim.methods._weights import Weight

_ROUNDING = 1e-12
"""A log ratio, or a difference of covariances, that is 0 but for rounding."""


@dataclass(frozen=True)
class CovariancePull(Weight):
    """c = rho A - coefficient sign(l) on the tokens of largest covariance; see `kl_cov`."""

    share: Any = field(metadata=MARK)
    coefficient: Any = field(metadata=MARK)

    level: ClassVar[str] = "token"  # type: ignore[misc]
    anchored: ClassVar[bool] = True

    def applied(self, step: Step) -> Tensor:
        """Token ratios to the anchor, `[R, G, N, T]`."""
        return ratios.usable(step.anchored)

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Ratio times A, less the slope of coefficient |l| where a token is selected."""
        pull = self._selected(step, advantage)
        pull.mul_(step.anchored.sign()).mul_(per_sample(self.coefficient))
        return (self.applied(step) * advantage).sub_(pull)

    def _selected(self, step: Step, advantage: Tensor) -> Tensor:
        """Part of each token that is selected: of largest covariance, and away from the anchor; `[R, G, N, T]`."""
        together, away = covariance(step, advantage), step.anchored.abs() > _ROUNDING
        flat, share = together.flatten(1), step.share.flatten(1)
        held, least = self._held(step, flat, share)
        # Of equal ones it does not matter which are selected: each is in part.
        edge = _ROUNDING * (1.0 + least.abs())
        above, least = flat > least + edge, flat >= least - edge
        mass = [(share * which).sum(1, keepdim=True, dtype=torch.float64) for which in (above, least)]
        part = ((held - mass[0]) / (mass[1] - mass[0])).clamp(max=1.0).to(flat.dtype)
        selected = (part * least).masked_fill_(above, 1.0)
        return selected.reshape(away.shape).mul_(away)

    def _held(self, step: Step, flat: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """Mass that is selected, in whole tokens, and its least covariance, `[R, 1]`; NaN where one is not finite."""
        wanted = torch.as_tensor(self.share, dtype=torch.float64).reshape(-1, 1)
        rarest = torch.where(share > 0, share, torch.full((), torch.inf, dtype=share.dtype)).amin(1, keepdim=True)
        # So many tokens hold the share that is wanted, whichever they are: no need to sort the others.
        count = (wanted / rarest.double()).nan_to_num(0.0, posinf=0.0).ceil().max().item() + 1
        nowhere = torch.full((), -torch.inf, dtype=flat.dtype)
        largest, place = torch.where(share > 0, flat, nowhere).topk(min(int(count), flat.shape[1]))
        held = share.gather(1, place).double().cumsum(1)
        last = (held >= wanted - _ROUNDING).to(torch.int8).argmax(1, keepdim=True)
        least = largest.double().gather(1, last)
        broken = ((share > 0) & torch.isnan(flat)).any(1, keepdim=True)
        if step.unit is None:
            wanted = held.gather(1, last)
        else:
            # Of cells of several samples, by whole tokens where there are such.
            tokens = (wanted / step.unit - _ROUNDING).ceil() * step.unit
            wanted = torch.where(step.unit > 0, tokens, wanted.expand_as(tokens))
        return wanted, torch.where(broken, torch.full_like(least, torch.nan), least)


def kl_cov(
    share: Any = 2e-4,
    coefficient: Any = 1.0,
    anchor: str = "behavior",
    advantage: Advantage | None = None,
    aggregator: str = "token_mean",
) -> Method:
    """Ratio without a clip, and a pull to the anchor on few tokens: c_t = rho_t A_t - coefficient sign(l_t) [v_t >= q].

    v_t = (A_t - mean A)(log pi_t - mean log pi), means over the tokens of the step, and q the largest number that at
    least `share` of them reach: one token at least. Of tokens equal to it, as tables have many, each is pulled with the
    mean over all orders in which as many could be taken. The pull is the slope of the released penalty coefficient
    |l_t|, l = log rho, whose size does not fall as the token comes back. It is 0 at l = 0, and so in the first update
    on a batch with the anchor "proximal". Where a log-prob is not finite nothing is selected.

    Arguments: `share` in (0, 1] of the step's tokens, and `coefficient` >= 0 in units of reward per nat (each may be
    one per replicate); `anchor` of the ratio, "behavior" or "proximal"; `advantage` (default group standard deviation);
    `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or "constant". Returns a `Method` whose weight is
    `[R, G, N, T]`. Raises `InputError` for numbers outside their range, unknown names, and in a run with groups of one.
    Source: 2505.22617, KL-Cov; verl, `compute_policy_loss_kl_cov`, for the penalty, whose number of tokens is rounded
    down.

    >>> kl_cov(coefficient=0.5).describe()["coefficient"]
    0.5
    """
    weight = CovariancePull(
        knob("share", share, "give the part of all tokens that is pulled, 0.0002 in print", 0.0, 1.0, open_low=True),
        knob("coefficient", coefficient, "give the price of a nat in units of reward, 0 for none", 0.0),
    )
    return Method("kl_cov", or_default(advantage, advantages.group_std()), weight, aggregator, anchor=anchor)
