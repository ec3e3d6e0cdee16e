"""Tokens selected by covariance of advantage and log-prob, and by the entropy of their state."""

import torch

import asyncsim as sim

ROUNDING = 1e-12


def together(p, r):
    """(A - mean A)(log pi - mean log pi) of the generated tokens of a replicate, in order."""
    here = p.mask[r] > 0
    advantage = p.standardized().expand(p.mask.shape)[r][here]
    log_prob = p.live.detach()[r][here]
    return here, (advantage - advantage.mean()) * (log_prob - log_prob.mean())


def stopped(p, share, lower, upper, low, high):
    """Which part of a token's gradient is left, one replicate at a time."""
    kept = torch.ones_like(p.mask)
    advantage = p.standardized().expand(p.mask.shape)
    ratio = p.ratio.detach()
    closed = ((advantage > 0) & (ratio > 1 + high)) | ((advantage < 0) & (ratio < 1 - low))
    for r in range(p.mask.shape[0]):
        here, values = together(p, r)
        inside = (values > lower) & (values < upper) & ~closed[r][here]
        if inside.any():
            part = inside.double().mean().item()
            kept[r][here] = 1.0 - inside.double() * min(share / part, 1.0)
    return kept


def clipped_by_covariance(p, share=0.3, lower=0.05, upper=0.6, low=0.2, high=0.1):
    return p.token_mean(stopped(p, share, lower, upper, low, high) * p.clipped(p.standardized(), low, high))


def pulled(p, share=0.3, coefficient=0.4):
    selected = torch.zeros_like(p.mask)
    for r in range(p.mask.shape[0]):
        here, values = together(p, r)
        ordered = values.sort(descending=True).values
        # As few as have at least the share.
        count = next(k for k in range(1, len(ordered) + 1) if k / len(ordered) >= share - ROUNDING)
        # Of equal ones each is selected in part.
        equal, above = (values - ordered[count - 1]).abs() < 1e-9, values >= ordered[count - 1] + 1e-9
        selected[r][here] = above.double() + equal.double() * (count - above.sum().item()) / equal.sum().item()
    gap = p.kept(p.live - p.behavior)
    gap = torch.where(gap.abs() > ROUNDING, gap, 0.0)
    return p.token_mean(p.ratio * p.standardized() - coefficient * selected * gap.abs())


def scaled_by_entropy(p, limit=0.3, floor=0.9):
    entropy = -(p.rows.exp() * p.rows).sum(-1).detach()
    near = p.kept(p.live - p.behavior).detach().abs() <= limit * entropy.clamp(min=floor)
    return p.token_mean(near * p.ratio * p.centered())


PAPERS = {
    "clip_cov": (lambda: sim.methods.clip_cov(0.3, 0.05, 0.6, 0.2, 0.1), clipped_by_covariance),
    "kl_cov": (lambda: sim.methods.kl_cov(0.3, 0.4), pulled),
    "estr": (lambda: sim.methods.estr(0.3, 0.9), scaled_by_entropy),
}

CASES = {
    "clip_cov wide": lambda: sim.methods.clip_cov(0.5, -1.0, 1.0, anchor="proximal"),
    "kl_cov all": lambda: sim.methods.kl_cov(1.0, 0.1),
    "estr narrow": lambda: sim.methods.estr(0.1, 0.0),
}

NOT_RISING = {"estr"}

KNOBS = {
    ("methods", "clip_cov"): {
        "share": [0.1, 0.5, 1.0],
        "lower": [-0.5, 0.0, 0.1],
        "upper": [1.0, 2.0, 4.0],
        "low": [0.2, 0.5, 1.0],
        "high": [0.2, 0.5, 4.0],
    }
}
