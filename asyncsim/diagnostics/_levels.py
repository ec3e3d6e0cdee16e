"""What metrics are made of: log ratios, ages and flags of tokens or of sequences, with their masses."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from asyncsim.base.parts import choice
from asyncsim.diagnostics._diagnostic import RATIOS, samples
from asyncsim.step.step import Step

LEVEL = choice("sequence", "token", words="whose ratios w are meant")
OF = tuple(RATIOS)


def token_share(step: Step) -> Tensor:
    """Normalized mass of each generated token in the step, float64 `[R, G, N, T]`, total 1."""
    weight = (step.mass.unsqueeze(-1) * step.batch.mask).double()
    total = weight.sum((1, 2, 3), keepdim=True)
    return weight / torch.where(total > 0, total, torch.ones_like(total))


def sample_share(step: Step) -> Tensor:
    """Normalized mass of each sample with at least one token, float64 `[R, G, N]`, total 1."""
    weight = step.step_mass.double() * (step.batch.lengths > 0)
    total = weight.sum((1, 2), keepdim=True)
    return weight / torch.where(total > 0, total, torch.ones_like(total))


def token_count(step: Step) -> Tensor:
    """Number of tokens in the full step that the masses represent, `[R]`; infinite for a population."""
    return samples(step) * (step.step_mass * step.batch.lengths).double().sum((1, 2))


def weights_of(step: Step, of: str) -> tuple[Tensor, Tensor, Tensor | float]:
    """Log importance weights `[R, G, N]` or `[R, G, N, T]`, their masses, and the number of weights behind them."""
    if of == "applied":
        # log |c / A|, with factors included.
        advantage = advantages(step)
        silent = advantage == 0
        given = torch.where(silent, torch.ones_like(advantage), advantage)
        weight = score_weight(step, advantage) / given
        if bool(silent.any()):
            # Where there is no advantage, the weight that a positive one would have.
            weight = torch.where(silent, score_weight(step, given), weight)
        size = step.method.factored(step, advantage, weight).abs().double().log()
        if size.shape[-1] == 1:
            return size, step.step_mass.double().unsqueeze(-1), samples(step)
        return size, token_share(step), token_count(step)
    if of == "token":
        return step.log_ratio, token_share(step), token_count(step)
    parts = {"staleness": "staleness_log_ratio", "mismatch": "mismatch_log_ratio"}
    log_weight = getattr(step, parts[of]).sum(-1) if of in parts else step.sequence_log_ratio
    return log_weight, step.step_mass.double(), samples(step)


def advantages(step: Step) -> Tensor:
    """Advantages of the samples or tokens of a step, `[R, G, N, T or 1]`."""
    advantage = step.advantages
    return advantage if advantage.ndim == 4 else advantage.unsqueeze(-1)


def score_weight(step: Step, advantage: Tensor) -> Tensor:
    """Score weight c for given advantages, without factors and penalties, `[R, G, N, T or 1]`."""
    return step.method.weight.score_weight(step, advantage)


def over_tokens(step: Step, part: Tensor) -> Tensor:
    """Fraction by mass of a step's generated tokens that have a flag, or the flagged parts of tokens, `[R]`."""
    share = token_share(step)
    return torch.where(share > 0, share * part.expand(share.shape), torch.zeros_like(share)).sum((1, 2, 3))


def masked(step: Step) -> Tensor:
    """Part of each token, 0 to 1, without weight for either sign of the advantage, factors included, `[R, G, N, T]`."""
    one = torch.ones_like(step.batch.reward).unsqueeze(-1)
    closed = torch.minimum(_closed(step, one), _closed(step, -one))
    still = torch.where(closed == 1.0, torch.zeros_like(one), one)
    weight = step.method.factored(step, advantages(step), still)
    return torch.where(weight == 0, torch.ones_like(closed), closed).expand(step.batch.mask.shape)


def stopped(step: Step) -> Tensor:
    """Part of each token, 0 to 1, with an advantage but no weight, `[R, G, N, T]`, without factors and penalties."""
    advantage = advantages(step)
    part = _closed(step, advantage)
    return torch.where(advantage != 0, part, torch.zeros_like(part)).expand(step.batch.mask.shape)


def _closed(step: Step, advantage: Tensor) -> Tensor:
    """1 where c is 0, else 0, or a fraction where a weight stops tokens in part."""
    weight = score_weight(step, advantage)
    if not step.method.weight.partly:
        return (weight == 0).double()
    return 1.0 - weight / (step.method.weight.applied(step) * advantage)


class Ages(NamedTuple):
    """Staleness of every token `[R, G, N, T]` (0 where masked), and its maximum and minimum in each sample."""

    token: Tensor
    oldest: Tensor
    newest: Tensor


def ages(step: Step) -> Ages:
    """Staleness v_train - v_token of every token in versions; NaN for an unknown version, 0 without tokens."""
    mask = step.batch.mask > 0
    age = step.staleness.double().expand(mask.shape)
    oldest = torch.where(mask, age, torch.full((), -math.inf, dtype=age.dtype)).amax(-1)
    newest = torch.where(mask, age, torch.full((), math.inf, dtype=age.dtype)).amin(-1)
    some, nothing = mask.any(-1), torch.zeros((), dtype=age.dtype)
    return Ages(torch.where(mask, age, nothing), torch.where(some, oldest, nothing), torch.where(some, newest, nothing))


def over_samples(step: Step, values: Tensor) -> Tensor:
    """Mean of values `[R, G, N]` over the step's samples with tokens, by mass, `[R]`."""
    share = sample_share(step)
    return torch.where(share > 0, share * values, torch.zeros_like(share)).sum((1, 2))
