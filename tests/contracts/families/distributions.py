"""KL penalties, terms on whole distributions, and corrections of actor-critics."""

import numpy as np
import torch

import asyncsim as sim
from tests.contracts.families._paper import _fresh, _view
from tests.core import formulas


def penalized(name, **settings):
    """REINFORCE with a KL penalty of 0.3 per nat."""
    return lambda: sim.methods.reinforce().replace(penalties=(getattr(sim.penalties, name)(0.3, **settings),))


def less(divergence, beta=0.3):
    """The objective of REINFORCE minus a sum over tokens."""
    return lambda p: p.sequence_sum(p.left_out() * p.live - beta * divergence(p))


def k3(gap):
    return (-gap).exp() - 1 + gap


def reference_rows(p):
    view = _view(p.trial.policy, p.trial.new)
    return p.trial.policy.forward(view, _fresh(p.batch), ("reference_log_probs",)).outputs["reference_log_probs"]


def whole(p, other):
    """KL(pi || other) over all actions."""
    return (p.rows.exp() * (p.rows - other)).sum(-1)


def to_go(p, gap):
    """Sum of detached gaps from each token to the end, times the token's own log-prob."""
    return p.kept(gap.detach()).flip(-1).cumsum(-1).flip(-1) * p.live


def ratio_rows(p):
    """pi/mu of all actions, detached."""
    return (p.rows.detach() - p.behavior_rows).exp()


def mean_score(p, weight):
    """Live log-probs under the sampler's distribution, weighted: its gradient is the mean score."""
    return (p.behavior_rows.exp() * weight * p.rows).sum(-1)


def head_score(p, top, cap):
    """The same from the sampler's likeliest actions, all others taken as proportional to pi."""
    behavior, now = p.behavior_rows.exp(), p.rows.detach().exp()
    order = np.argsort(-behavior.numpy(), axis=-1)[..., :top]
    mu, pi = (np.take_along_axis(x.numpy(), order, -1) for x in (behavior, now))
    rho = (1 - mu.sum(-1, keepdims=True)) / np.maximum(1 - pi.sum(-1, keepdims=True), 1e-6)
    alpha = rho * np.minimum(1 / rho, cap)
    weight = mu * np.minimum(pi / mu, cap) - alpha * pi
    return (torch.from_numpy(weight) * p.rows.gather(-1, torch.from_numpy(order))).sum(-1)


PAPERS = {
    "reinforce k1": (penalized("k1"), less(lambda p: p.live - p.reference)),
    "reinforce k2": (penalized("k2"), less(lambda p: 0.5 * (p.live - p.reference) ** 2)),
    "reinforce k2 behavior": (penalized("k2", to="behavior"), less(lambda p: 0.5 * (p.live - p.behavior) ** 2)),
    "reinforce k2 sequence": (
        penalized("k2", level="sequence"),
        lambda p: (
            p.sequence_sum(p.left_out() * p.live) - 0.3 * (0.5 * p.kept(p.live - p.reference).sum(-1) ** 2).mean((1, 2))
        ),
    ),
    "reinforce k3": (penalized("k3"), less(lambda p: k3(p.live - p.reference))),
    "reinforce k3 proximal": (penalized("k3", to="proximal"), less(lambda p: k3(p.live - p.proximal))),
    # A live ratio times k3 is the ratio times k2, differentiated; times k1 it would be r (D + 1).
    "reinforce k2 token": (penalized("k2", ratio="token"), less(lambda p: p.ratio * k3(p.live - p.reference))),
    "reinforce k2 with k1": (
        lambda: sim.methods.reinforce().replace(
            penalties=(sim.penalties.k1(0.3, ratio="token"), sim.penalties.k2(0.3, ratio="token"))
        ),
        less(lambda p: p.ratio * (p.live - p.reference)),
    ),
    "reinforce k3 weighted": (
        penalized("k3", ratio="sequence"),
        less(lambda p: p.sequence.detach() * k3(p.live - p.reference)),
    ),
    "reinforce straight through": (penalized("straight_through"), less(lambda p: 0.5 * (p.live - p.reference) ** 2)),
    "reinforce exact": (penalized("exact"), less(lambda p: whole(p, reference_rows(p)))),
    "reinforce exact behavior": (penalized("exact", to="behavior"), less(lambda p: whole(p, p.behavior_rows))),
    "reinforce exact weighted": (
        penalized("exact", ratio="sequence"),
        less(lambda p: p.sequence.detach() * whole(p, reference_rows(p))),
    ),
    "reinforce exact reverse": (
        penalized("exact", to="behavior", reverse=True),
        less(lambda p: (p.behavior_rows.exp() * (p.behavior_rows - p.rows)).sum(-1)),
    ),
    "reinforce reward": (penalized("reward"), less(lambda p: to_go(p, p.live - p.reference))),
    "reinforce reward weighted": (
        penalized("reward", ratio="sequence", to="behavior"),
        less(lambda p: p.sequence.detach() * to_go(p, p.live - p.behavior)),
    ),
    "score_centering": (
        lambda: sim.methods.score_centering(),
        lambda p: p.token_mean(p.centered() * (p.live - mean_score(p, 1.0))),
    ),
    "score_centering truncated": (
        lambda: sim.methods.score_centering("truncated", 1.2, advantage=sim.advantages.none()),
        lambda p: p.token_mean(
            p.reward.unsqueeze(-1)
            * (p.ratio.detach().clamp(max=1.2) * p.live - mean_score(p, ratio_rows(p).clamp(max=1.2)))
        ),
    ),
    "score_centering top": (
        lambda: sim.methods.score_centering("truncated", 1.2, top=2),
        lambda p: p.token_mean(p.centered() * (p.ratio.detach().clamp(max=1.2) * p.live - head_score(p, 2, 1.2))),
    ),
}

CRITIC = {"vtrace", "retrace", "acer", "a3c"}

TOKENWISE = {"vtrace", "retrace", "n_step", "otb"}
"""Advantages of single tokens."""


def otb(rewards, weights, norms, step_mean):
    heavy = weights**2 * norms
    return rewards - heavy @ rewards / heavy.sum()


ADVANTAGES = {
    "vtrace": formulas.offset(0.7),
    "retrace": formulas.offset(0.7),
    "n_step": formulas.offset(0.7),
    "otb": otb,
}
"""Of one token, where the critic says 0.7 of the state: (rewards, weights, norms, mean of the step) -> `[N]`."""

MAKE = {("methods", "score_centering"): {"weight": "truncated"}}


def both(name, **settings):
    """A clipped method with a penalty."""
    return lambda: sim.methods.ppo_clip().replace(penalties=(getattr(sim.penalties, name)(0.1, **settings),))


CASES = {
    "k1 behavior": both("k1", to="behavior", ratio="token"),
    "k2 behavior": both("k2", to="behavior"),
    "k2 sequence": both("k2", level="sequence", ratio="sequence"),
    "k3 behavior": both("k3", to="behavior", ratio="sequence"),
    "k3 proximal": both("k3", to="proximal"),
    "exact behavior": both("exact", to="behavior"),
    "exact reverse": both("exact", ratio="sequence", reverse=True),
    "exact proximal": both("exact", to="proximal"),
    "reward behavior": both("reward", to="behavior", ratio="sequence"),
    "score_centering plain": lambda: sim.methods.score_centering(),
    "score_centering top": lambda: sim.methods.score_centering("truncated", top=2),
    "acer sum": lambda: sim.methods.acer(cap=0.5, critic=0.4, entropy=0.1),
    "retrace token": lambda: sim.methods.retrace(cap=1.0, critic=0.0),
    "vtrace wide": lambda: sim.methods.vtrace(
        4.0, sim.advantages.vtrace(0.9, 0.9, rho_cap=3.0, trace_cap=2.0), entropy=0.1
    ),
    "reinforce otb": lambda: sim.methods.truncated_is("token", advantage=sim.advantages.otb("outside", "own")),
    "two penalties": lambda: sim.methods.reinforce().replace(
        penalties=(sim.penalties.k3(0.1), sim.penalties.exact(0.1, to="behavior"))
    ),
}
