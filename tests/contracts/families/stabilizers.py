"""Baselines, links and VCPO: the squared score norms of its baseline are those of the table's own parameters."""

import torch
from torch.nn import functional

import asyncsim as sim


def _opob(p, cap):
    """r - b, b the rewards' mean weighted by |min(W, cap) sum_t grad log pi / T|^2 in the rows of the table."""
    states = functional.one_hot(p.batch.state.long()).double()
    scores = (functional.one_hot(p.batch.action, p.rows.shape[-1]) - p.rows.exp()).detach()
    vectors = torch.einsum("rgnt,rgnts,rgnta->rgnsa", p.mask, states, scores) / p.lengths[..., None, None]
    weight = p.sequence[..., 0].detach().clamp(max=cap) ** 2 * (vectors**2).sum((-2, -1))
    baseline = (weight * p.reward).sum(-1, keepdim=True) / weight.sum(-1, keepdim=True)
    return (p.reward - baseline).unsqueeze(-1)


def _capped_mass(p, cap):
    """W min(1, cap / mean of W over the group), detached."""
    weight = p.sequence.detach()
    return weight * (cap / weight.mean(2, keepdim=True)).clamp(max=1.0)


PAPERS = {
    "gmc_grpo": (
        lambda: sim.methods.gmc_grpo(cap=1.05),
        lambda p: p.sequence_mean(_capped_mass(p, 1.05) * p.standardized() * p.live),
    ),
    "vcpo": (
        lambda: sim.methods.vcpo(cap=1.2),
        lambda p: p.sequence_mean(p.sequence.detach().clamp(max=1.2) * _opob(p, 1.2) * p.live),
    ),
}


def _truncated(advantage):
    return lambda: sim.methods.truncated_is(advantage=advantage)


CASES = {
    "opob step": _truncated(sim.advantages.opob("step")),
    "opob median": _truncated(sim.advantages.opob(robust="median")),
    "opob winsorized": _truncated(sim.advantages.opob(robust="winsorized", standardize=True)),
    "opob left out": _truncated(sim.advantages.opob(leave_one_out=True)),
    "self_normalized left out": _truncated(sim.advantages.self_normalized(leave_one_out=True)),
    "opo left out": _truncated(sim.advantages.opo(leave_one_out=True)),
    "group_std unbiased": _truncated(sim.advantages.group_std(unbiased=True)),
}

MAKE = {("updates", "lr_schedule"): {"warmup": 2, "decay": "linear", "updates": 4}}
