"""PPO and its relatives by hand: where bands end, where weights peak, which policy a ratio refers to."""

import math

import numpy as np
import pytest
import torch

import asyncsim as sim
from tests.contracts.families import surrogates
from tests.contracts.families._paper import Paper, opened, ours, outputs
from tests.contracts.laboratory import case, make, names, step_with
from tests.methods.by_hand import close, in_one, weights
from tests.refusals import refused

M = sim.methods


@pytest.mark.parametrize("label", surrogates.PAPERS)
def test_every_bound_of_the_printed_losses_binds(label):
    """Otherwise the comparison with autograd would not see the bound."""
    trial = case(3, N=5, T=4, G=3, drift=0.5)
    if label == "a3po":
        trial.batch.train_version = 3
    bound, loose = surrogates.PAPERS[label][0](), surrogates.LOOSE[label]()
    opening = opened(trial, bound)
    assert (ours(trial, bound, opening) - ours(trial, loose, opening)).abs().max() > 1e-3


def test_every_paper_has_its_loose_form():
    assert surrogates.PAPERS.keys() == surrogates.LOOSE.keys()


# PPO's clip and its relatives.


@pytest.mark.parametrize(("age", "lowest", "highest"), [(8, 0.16777216, 4.29981696), (1, 0.8, 1.2), (0, 0.8, 1.2)])
def test_the_band_of_a3po_widens_with_staleness(age, lowest, highest):
    method = M.a3po()
    ratio = [0.999 * lowest, 1.001 * lowest, 1.0, 0.999 * highest, 1.001 * highest]
    staleness = torch.full((5, 1), float(age)).double()
    close(weights(method, ratio, staleness=staleness), [*ratio[:4], 0.0])
    close(weights(method, ratio, -1.0, staleness=staleness), [0.0, *(-r for r in ratio[1:])])


def ages(trial, versions):
    """The trial with data of several versions, one for each token."""
    trial.batch.version = np.random.default_rng(0).choice(versions, (1, *trial.batch.mask.shape[1:])).astype(np.int32)
    trial.batch.train_version = 8
    paper = Paper(trial, *outputs(trial))
    paper.age = 8.0 - torch.from_numpy(trial.batch.version).double().expand(trial.batch.mask.shape)
    return paper


def test_a3po_is_autograds_with_tokens_of_several_ages():
    trial = case(5, N=5, T=4, G=3, drift=0.8)
    paper = ages(trial, [0, 5, 7, 8])
    method = surrogates.PAPERS["a3po"][0]()
    found = ours(trial, method)
    close(found, paper.gradient(surrogates.interpolated(paper)), 1e-13)
    assert (found - ours(trial, M.ppo_clip(0.1, 0.2))).abs().max() > 1e-3


def test_a_live_snapshot_would_shrink_the_gradient():
    """The comparison above sees it: r^(1/d) with a gradient through both ends has 1/d of the slope."""
    trial = case(5, N=5, T=4, G=3, drift=0.8)
    paper = ages(trial, [0])
    live = paper.exp((paper.live - paper.behavior) / 8.0)
    weight = paper.exp(0.875 * (paper.live - paper.behavior).detach())
    wrong = paper.gradient(paper.token_mean(weight * paper.clipped(paper.centered(), 0.1, 0.2, live)))
    close(8.0 * wrong, ours(trial, surrogates.PAPERS["a3po"][0]()), 1e-12)


def test_gspo_looks_at_the_geometric_mean():
    """Tokens far outside the band cancel; one slightly outside in the mean closes the whole sequence."""
    close(in_one(M.gspo(), [[1.0, -1.0], [1e-3, 0.0], [7e-4, 0.0]]), [[1.0] * 2, [0.0] * 2, [math.exp(3.5e-4)] * 2])
    close(in_one(M.gspo(), [[-7e-4, 0.0], [-5e-4, 0.0]], -1.0), [[0.0] * 2, [-math.exp(-2.5e-4)] * 2])
    # Lengths, not widths: the same 7e-4 alone in its sequence is outside.
    mask = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    found = in_one(M.gspo(), [[7e-4, 0.0], [7e-4, 0.0]], mask=mask)
    assert found[0].tolist() == [0.0, 0.0] and (found[1] > 1.0).all()


def test_gmpo_has_its_band_in_log_space():
    """0.4 is [0.67, 1.49] in ratios, not [0.6, 1.4]; each token is clipped for itself, the mean is that of the rest."""
    above, below = math.exp(0.4), math.exp(-0.4)
    close(weights(M.gmpo(), [1.45, 1.5, 0.3]), [1.45, 0.0, 0.3])
    close(weights(M.gmpo(), [0.65, 0.68, 3.0], -1.0), [0.0, -0.68, -3.0])
    close(in_one(M.gmpo(), [[1.0, 0.2]], 2.0), [[0.0, 2.0 * math.sqrt(above * math.exp(0.2))]])
    close(in_one(M.gmpo(), [[1.0, 0.2]], -2.0), [[-2.0 * math.exp(0.6)] * 2])
    close(in_one(M.gmpo(), [[-1.0, 0.2]], -2.0), [[0.0, -2.0 * math.sqrt(below * math.exp(0.2))]])


# Anchors.

ANCHORED = ["ppo_clip", "grpo", "dapo", "gspo", "gmpo", "sapo", "cispo"]


def stale(drift, **changes):
    """Log ratios to behavior of about 0.5, of which `drift` is the batch's own."""
    log_ratio = 0.5 * torch.randn(1, 2, 4, 3, generator=torch.Generator().manual_seed(0)).double()
    return step_with(log_ratio, drift * log_ratio, age=torch.ones_like(log_ratio), **changes)


@pytest.mark.parametrize("name", ANCHORED)
def test_a_recomputed_anchor_is_blind_to_staleness(name):
    """First update of a batch: the anchored ratio is 1, what is left is the plain gradient on stale data."""
    weight, advantage = getattr(M, name)(anchor="proximal").weight, torch.tensor([1.0, -1.0] * 2).reshape(1, 1, 4, 1)
    blind = weight.score_weight(stale(0.0, anchor="proximal"), advantage.double())
    close(blind, advantage.double().expand(blind.shape))
    seeing = weight.score_weight(stale(0.0, anchor="behavior"), advantage.double())
    assert (seeing - advantage).abs().max() > 0.05
    assert getattr(M, name)(anchor="proximal").proximal and not getattr(M, name)().proximal


def test_the_weight_of_a_sample_knows_no_sign():
    """What advantages weight samples with: the ratio as truncated, as if no clip that asks for A were closed."""
    log_ratio = torch.tensor([[1.0, 0.5], [-1.0, 0.0]]).double().reshape(1, 1, 2, 2)
    seen = step_with(log_ratio, 0.25 * log_ratio, age=torch.ones_like(log_ratio))
    ratio, mean = log_ratio.exp(), log_ratio.mean(-1, keepdim=True).exp()
    behavior_ratio, drift = (0.75 * log_ratio).exp(), (0.25 * log_ratio).exp()
    capped = sim.methods.cispo(anchor="proximal", cap=1.5)
    for method, expected in (
        (M.ppo_clip(dual=2.0), ratio),
        (M.a3po(), ratio),
        (M.gspo(), mean),
        (M.gmpo(), mean),
        (M.cispo(0.2, 0.5), ratio.clamp(0.8, 1.5)),
        (M.decoupled_ppo(cap=1.5), behavior_ratio.clamp(max=1.5) * drift),
        (M.decoupled_ppo(cap=1.5, beyond="drop"), torch.where(behavior_ratio > 1.5, 0.0, behavior_ratio) * drift),
        (M.topr(), torch.ones_like(mean)),
    ):
        close(method.weight.applied(seen), expected, 1e-14)
    seen = step_with(log_ratio, 0.25 * log_ratio, anchor="proximal")
    close(capped.weight.applied(seen), drift * behavior_ratio.clamp(max=1.5), 1e-14)


def test_what_is_partly_ours_says_so():
    made = {name for name in names("methods") if make("methods", name).status == "reconstruction"}
    assert " ".join(sorted(made)) == (
        "a3c acer bapo_paper clip_cov delight estr gipo gmc_grpo kpop oapl opmd p3o retrace sat score_centering topr"
    )
    assert M.m2po_mask(over="all").status == "reconstruction"
    assert all("econstruction" in getattr(M, name).__doc__ for name in made)


def test_unknown_staleness_closes():
    """A missing version is no version 0: the token is left out, and counted."""
    staleness = torch.tensor([[math.nan], [3.0], [math.nan], [0.0]]).double()
    log_prob = torch.full((4, 1), -1.0).double()
    method, settings = M.a3po(), {"advantages": torch.ones(4).double(), "staleness": staleness}
    found = method.weigh(log_prob, log_prob, **settings)
    assert found.score_weight.flatten().tolist() == [0.0, 1.0, 0.0, 1.0]
    assert found.statistics["unknown_staleness"].tolist() == [0.5]
    refused("staleness", lambda: method.weigh(log_prob, log_prob, advantages=torch.ones(4).double()))
