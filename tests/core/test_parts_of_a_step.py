"""What counts in a step: groups that were dropped, sequences without tokens, ages that are unknown."""

import dataclasses
import math

import pytest
import torch

import asyncsim as sim
from asyncsim.methods._method import evaluate
from asyncsim.methods._weights import Weight
from tests.contracts.laboratory import NOTHING, acting, case, make, names, trial_of


def given(*rows):
    return torch.tensor(rows, dtype=torch.float64)


def test_masses_of_a_step_add_up_to_one():
    """Those of dropped groups as well as all."""
    trial = case(seed=3, G=3, N=4)
    trial.batch.reward = given([1.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0]).repeat(2, 1, 1)
    for drop, shares in ((False, [1 / 3, 1 / 3, 1 / 3]), (True, [0.5, 0.0, 0.5])):
        seen = trial.evaluate(sim.methods.reinforce().replace(drop_equal=drop))[0]
        found = seen.step_mass.expand(2, 3, 4).sum(-1)
        torch.testing.assert_close(found, given(shares, shares), rtol=1e-14, atol=0)


def test_moments_of_a_step_leave_dropped_groups_out():
    """Mean 0 and unbiased variance 1 over the tokens that are left."""
    trial = acting(G=2, N=5, T=3)
    trial.batch.reward[:, 1] = 0.5
    method = sim.methods.a2c(advantage=sim.advantages.gae(normalize=True)).replace(drop_equal=True)
    found = trial.evaluate(method)[0].advantages[:, 0]
    kept = trial.batch.mask[:, 0] > 0
    for r in range(2):
        values = found[r][kept[r]]
        assert abs(values.mean()) < 1e-12 and abs(values.std() - 1.0) < 1e-6


def test_tokens_of_unknown_age_are_stopped():
    one = torch.full((2, 2), -1.0, dtype=torch.float64)
    staleness = given([1.0, math.nan], [2.0, 2.0])
    found = sim.methods.a3po().weigh(one, one, advantages=given(1.0, -1.0), staleness=staleness)
    assert found.score_weight.tolist() == [[1.0, 0.0], [-1.0, -1.0]]
    assert found.statistics["unknown_staleness"].item() == 0.25


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_sequences_without_tokens_are_not_averaged(level):
    """The mean weight over sequences is that of the ones that have tokens."""
    method = sim.methods.truncated_is(level, normalize="sequences")
    trial = case(R=1, G=1, N=4, T=3, drift=0.6, ragged=False)
    now = trial.evaluate(sim.methods.reinforce())[0].current["log_prob"][0, 0]
    then, mask = trial.batch.behavior["log_prob"][0, 0], torch.ones(4, 3, dtype=torch.float64)
    mask[1], mask[2, 1:] = 0.0, 0.0
    kept, advantages = [0, 2, 3], given(1.0, 2.0, -1.0, 0.5)
    found = method.weigh(now, then, advantages=advantages, mask=mask).score_weight
    fewer = method.weigh(now[kept], then[kept], advantages=advantages[kept], mask=mask[kept]).score_weight
    live = mask[kept] > 0
    torch.testing.assert_close(found[kept][live], fewer[live], rtol=1e-13, atol=0)
    assert (fewer[live] != method.replace(weight=sim.methods.truncated_is(level).weight).weigh(
        now[kept], then[kept], advantages=advantages[kept], mask=mask[kept]).score_weight[live]).all()  # fmt: skip


def test_equal_rewards_are_zero_whatever_an_absent_sample_was_paid():
    """It has no mass: rewards are not compared with its own."""
    trial = case(R=1, G=1, N=4, T=2)
    mass = given([[1 / 3, 1 / 3, 1 / 3, 0.0]])
    batch = dataclasses.replace(trial.batch, reward=given([[0.1, 0.1, 0.1, 7.3]]), mass=mass, index=None, size=3)
    signal, _ = dataclasses.replace(trial, batch=batch).evaluate(sim.methods.grpo())
    assert signal.advantages[0, 0, :3].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("groups", "samples"), [(2, 3), (3, 2), (1, 2), (2, 2)])
def test_two_passes_are_one_step(groups, samples):
    """Also where each pass has one group, or one sample."""
    trial = case(G=groups, N=samples, T=3, drift=0.5)
    method, weights = sim.methods.truncated_is("token", cap=1.2), trial.policy.prepare(trial.new)
    batches = [dataclasses.replace(trial.batch, index=None) for _ in range(2)]
    one, two = (
        evaluate(method, NOTHING, trial.policy, weights, batch, micro_batches=passes).gradient
        for passes, batch in enumerate(batches, 1)
    )
    assert one.abs().max() > 1e-3
    torch.testing.assert_close(two, one, rtol=1e-12, atol=1e-15)


def test_terms_on_the_distribution_add_up():
    """That of a method and that of a penalty: the direction of both is the sum of their directions."""
    trial, penalty = case(drift=0.5), sim.penalties.exact(0.3)
    method = sim.methods.score_centering()
    alone = sim.methods.reinforce(sim.advantages.offset(0.0), aggregator=method.aggregator)
    pull = [trial.gradient(alone.replace(penalties=parts)) for parts in ((), (penalty,))]
    both = [trial.gradient(method.replace(penalties=parts)) for parts in ((), (penalty,))]
    assert (pull[1] - pull[0]).abs().max() > 1e-3
    torch.testing.assert_close(both[1] - both[0], pull[1] - pull[0], rtol=0, atol=1e-14)


def test_published_caps():
    assert sim.methods.truncated_is().weight.cap == 8.0 and sim.methods.truncated_is("token").weight.cap == 2.0


@dataclasses.dataclass(frozen=True)
class Unbounded(Weight):
    """Infinite, and no number, wherever a token was not generated."""

    level = "token"

    def score_weight(self, seen, advantage):
        return torch.where(seen.mask > 0, advantage, math.inf)

    def spread(self, seen, advantage):
        return torch.where(seen.mask > 0, 0.5 * advantage, math.nan).unsqueeze(-1).repeat(1, 1, 1, 1, 3)


def test_what_a_weight_says_of_masked_tokens_does_not_matter():
    """An infinite weight times a share of 0 is no number; nothing of it reaches the sum."""
    trial = case(T=4)
    method = sim.methods.reinforce(sim.advantages.offset(0.3)).replace(weight=Unbounded())
    found = trial.evaluate(method)[0].cotangents
    empty = trial.batch.mask == 0
    assert empty.any() and (found["log_prob"][empty] == 0.0).all() and (found["log_probs"][empty] == 0.0).all()
    assert torch.isfinite(trial.gradient(method)).all()


@pytest.mark.parametrize("name", [name for name in names("methods") if make("methods", name).scored])
def test_who_reads_the_anchor_says_so(name):
    """Another anchor gives other weights where it is declared to matter, and the same ones where it is not."""
    method = make("methods", name)
    trial = trial_of(method, drift=1.0)
    middle = trial.policy.prepare(0.6 * trial.new + 0.4 * trial.old)
    batch = dataclasses.replace(trial.batch, index=None)
    first = evaluate(method, NOTHING, trial.policy, middle, batch)
    seen = trial.evaluate(method)[0]
    found = []
    for anchor in ("behavior", "proximal"):
        anchored = method.replace(anchor=anchor)
        here = dataclasses.replace(seen, method=anchored, start=first.carried(), statistics={})
        both = [method.weight.score_weight(here, torch.full_like(seen.mask, sign)) for sign in (1.0, -1.0)]
        found.append(torch.stack([weight.expand(seen.mask.shape)[seen.mask > 0] for weight in both]))
    assert torch.equal(*found) != method.weight.anchored


def test_a_step_whose_groups_were_all_dropped_is_none():
    trial = case(G=2, N=4, T=3)
    now, batch = trial.evaluate(sim.methods.reinforce())[0].current["log_prob"], trial.batch
    for advantage in (sim.advantages.mean(), sim.advantages.group_mean(), sim.advantages.group_std()):
        method = sim.methods.truncated_is("token", advantage=advantage).replace(drop_equal=True)
        ones = torch.ones_like(batch.reward)
        found = method.weigh(now, batch.behavior["log_prob"], rewards=ones, mask=batch.mask)
        assert (found.cotangent == 0.0).all() and torch.isfinite(found.advantage).all()
