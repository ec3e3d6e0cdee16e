"""Losses that trainers really run, written anew from their formulas: what they are is known."""

import torch

from tests.conformance.trainers import log_ratio, mean_of, surrogate


def closed_cispo(low, high, cap=None):
    """CISPO with both sides closed (verl .2 and .28, ROLL .1 and .1); with `cap`, as TRL writes it: the cap itself."""

    def loss(log_prob, behavior, proximal, advantages, mask):
        ratio = log_ratio(log_prob, proximal, mask).exp()
        weight = ratio.clamp(1 - low, 1 + high) if cap is None else ratio.clamp(max=cap)
        return -mean_of(weight.detach() * advantages * log_prob, mask, "token_mean")

    return loss


def vespo_at_the_snapshot(log_prob, behavior, proximal, advantages, mask):
    """As TRL has it by default: the row's ratio to the log-probs that were recomputed."""
    row = log_ratio(log_prob, proximal, mask).sum(-1, keepdim=True).clamp(-20, 20).detach()
    power, fall = torch.where(advantages >= 0, 2.0, 3.0), torch.where(advantages >= 0, 3.0, 2.0)
    return -mean_of((power * row + fall * (1 - row.exp())).exp() * advantages * log_prob, mask, "token_mean")


def three_policies(cap=None, least=0.0, band=None, rows=None, high=0.2):
    """PPO around the snapshot times pi_prox / mu: truncated, limited from below, masked by token or by row."""

    def loss(log_prob, behavior, proximal, advantages, mask):
        lag = log_ratio(proximal, behavior, mask)
        weight = lag.exp().clamp(min=least, max=cap)
        if band is not None:
            weight = weight * ((lag.exp() >= band[0]) & (lag.exp() <= band[1]))
        if rows is not None:
            mean = (lag.sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)).exp()
            weight = weight * ((mean >= rows[0]) & (mean <= rows[1]))
        values = surrogate(log_ratio(log_prob, proximal, mask).exp(), advantages, 0.2, high)
        return -mean_of(weight.detach() * values, mask, "token_mean")

    return loss


def masked_ppo(log_prob, behavior, proximal, advantages, mask):
    """PPO around mu on the tokens whose ratio is inside [.5, 5]."""
    ratio = log_ratio(log_prob, behavior, mask).exp()
    keep = ((ratio >= 0.5) & (ratio <= 5.0)).detach()
    return -mean_of(torch.where(keep, surrogate(ratio, advantages, 0.2, 0.2), 0.0), mask, "token_mean")


def limited_gspo(log_prob, old_log_prob, advantages, mask):
    """GSPO with the live log ratio of the row stopped at 10, as verl has it."""
    mean = log_ratio(log_prob, old_log_prob, mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)
    ratio = (log_prob - log_prob.detach() + mean.detach()).clamp(max=10.0).exp()
    return -mean_of(surrogate(ratio, advantages, 3e-4, 4e-4), mask, "sequence_mean")


def covariances(log_prob, advantages, mask):
    """Products of the deviations of advantages and log-probs from their means, 0 where masked."""
    count = mask.sum()
    apart = [(x - (x * mask).sum() / count) * mask for x in (advantages, log_prob.detach())]
    return apart[0] * apart[1]


def kl_cov(log_prob, old_log_prob, advantages, mask, share=0.2, coefficient=1.0):
    """The tokens of largest covariance pay |log ratio| (2505.22617)."""
    gap = log_ratio(log_prob, old_log_prob, mask)
    plain, paid = -advantages * gap.exp(), -advantages * gap.exp() + coefficient * gap.abs()
    found = torch.where(mask > 0, covariances(log_prob, advantages, mask), -torch.inf).flatten()
    chosen = torch.zeros_like(found)
    chosen[found.topk(max(1, int(share * float(mask.sum())))).indices] = 1.0
    return mean_of(torch.where(chosen.reshape(mask.shape) > 0, paid, plain), mask, "token_mean")


def clip_cov(log_prob, old_log_prob, advantages, mask, low=0.1, high=5.0):
    """Tokens whose covariance is inside a band have no gradient; all of them here, so that nothing is drawn."""
    ratio = log_ratio(log_prob, old_log_prob, mask).exp()
    found = covariances(log_prob, advantages, mask)
    keep = ~((found > low) & (found < high) & (ratio > 0.8) & (ratio < 1.2))
    return -mean_of(keep.detach() * surrogate(ratio, advantages, 0.2, 0.2), mask, "token_mean")


def decoupled_by_keyword(log_prob, behavior_log_prob, advantages, mask, proximal_log_prob=None):
    """Decoupled PPO whose snapshot comes last."""
    weight = log_ratio(proximal_log_prob, behavior_log_prob, mask).exp().clamp(max=5.0).detach()
    ratio = log_ratio(log_prob, proximal_log_prob, mask).exp()
    return -mean_of(weight * surrogate(ratio, advantages, 0.2, 0.2), mask, "token_mean")


def ppo_of_four(logp, old_logp, advantages, mask, eps=0.2):
    """PPO that knows one old policy."""
    return -mean_of(surrogate(log_ratio(logp, old_logp, mask).exp(), advantages, eps, eps), mask, "token_mean")
