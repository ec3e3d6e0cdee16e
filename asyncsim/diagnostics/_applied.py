"""What the loss makes of the ratios: the weights it applies, and the tokens that it stops or leaves out."""

from __future__ import annotations

import torch
from torch import Tensor

from asyncsim.diagnostics._diagnostic import samples
from asyncsim.diagnostics._levels import token_count, token_share
from asyncsim.step import Step


def advantages(step: Step) -> Tensor:
    """Advantages, `[R, G, N, T or 1]`."""
    found = step.advantages
    return found if found.ndim == 4 else found.unsqueeze(-1)


def score_weight(step: Step, advantage: Tensor) -> Tensor:
    """c for advantages, without factors and penalties, `[R, G, N, T or 1]`."""
    return step.method.weight.score_weight(step, advantage)


def log_applied(step: Step) -> tuple[Tensor, Tensor, Tensor | float]:
    """Log of |c / A|, factors included, its masses, and how many there are.

    One for each sample `[R, G, N, 1]` where the method has one weight for all its tokens, else one for each token.
    """
    given = advantages(step)
    silent = given == 0
    weight = score_weight(step, given) / torch.where(silent, torch.ones_like(given), given)
    if bool(silent.any()):
        # Where there is no advantage, the weight that a positive one would have.
        weight = torch.where(silent, score_weight(step, torch.where(silent, torch.ones_like(given), given)), weight)
    size = step.method.factored(step, given, weight).abs().double().log()
    if size.shape[-1] == 1:
        return size, step.step_mass.double().unsqueeze(-1), samples(step)
    return size, token_share(step), token_count(step)


def over_tokens(step: Step, flag: Tensor) -> Tensor:
    """Share of the step's generated tokens with the flag, by mass, `[R]`."""
    share = token_share(step)
    return torch.where(flag.expand(share.shape), share, torch.zeros_like(share)).sum((1, 2, 3))


def masked(step: Step) -> Tensor:
    """Whether the token has no weight whatever the sign of its advantage, factors included, bool `[R, G, N, T]`."""
    one = torch.ones_like(step.batch.reward).unsqueeze(-1)
    closed = (score_weight(step, one) == 0) & (score_weight(step, -one) == 0)
    still = torch.where(closed, torch.zeros_like(one), one)
    weight = step.method.factored(step, advantages(step), still)
    return (weight == 0).expand(step.batch.mask.shape)


def stopped(step: Step) -> Tensor:
    """Whether the token has an advantage but no weight, bool `[R, G, N, T]`; factors and penalties are left out."""
    given = advantages(step)
    return ((score_weight(step, given) == 0) & (given != 0)).expand(step.batch.mask.shape)
