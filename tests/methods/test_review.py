"""What a review found: input that was believed, groups that count, knobs in tuples, gradients taken elsewhere."""

import dataclasses

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base.checks import InputError
from tests.contracts.laboratory import case, make, policy_of
from tests.refusals import refused

M, A, F = sim.methods, sim.advantages, sim.factors
NOW = torch.tensor([[-0.5, -0.7], [-1.5, -0.2], [-0.3, -0.4]], dtype=torch.float64)
THEN = NOW + torch.tensor([[-0.1, 0.2], [-0.3, -0.2], [0.2, -0.1]], dtype=torch.float64)
REWARDS = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
FIXED = sim.tasks.softmax_bandit(arms=2, means=[0.0, 1.0], rewards="fixed")


# A method on tensors of the caller.


def test_a_weight_by_rewards_asks_for_them():
    """Without them every sample would pass for an unrewarded one."""
    advantages = REWARDS - REWARDS.mean()
    refused("rewards = None", lambda: M.topr_roll().weigh(NOW, THEN, advantages=advantages))
    found = M.topr_roll().weigh(NOW, THEN, rewards=REWARDS, advantages=advantages)
    assert torch.equal(found.cotangent, M.topr_roll().weigh(NOW, THEN, rewards=REWARDS).cotangent)
    assert found.score_weight[0].tolist() == pytest.approx([2 / 3, 2 / 3])


def test_knobs_of_replicates_are_bound_to_the_first_axis():
    def given(x, count):
        return torch.stack([x] * count).unsqueeze(1)

    def weighed(low, mask, count):
        method = M.ppo_clip(low=low).replace(factors=(F.token_mask(high=mask),))
        return method.weigh(given(NOW, count), given(THEN, count), rewards=given(REWARDS, count)).cotangent

    both = weighed([0.01, 0.5], [1.05, 2.0], 2)
    for r, (low, mask) in enumerate(((0.01, 1.05), (0.5, 2.0))):
        assert torch.equal(both[r], weighed(low, mask, 1)[0])
    assert not torch.equal(both[0], both[1])
    refused("log_prob replicates = 1: must be 2", lambda: M.ppo_clip(low=[0.1, 0.2]).weigh(NOW, THEN, rewards=REWARDS))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_counts_its_tokens(dtype):
    """2 x 40000 tokens are more than float16 can count, and 1/80000 has three digits in bfloat16."""
    given = torch.full((2, 40_000), -1.0, dtype=dtype, requires_grad=True)
    method = M.truncated_is("token", advantage=A.none())
    found = method.weigh(given, given.detach(), rewards=torch.ones(2))
    assert found.share.double().sum().item() == pytest.approx(1.0, abs=1e-5)
    method.loss(given, given.detach(), rewards=torch.ones(2)).backward()
    assert given.grad.dtype == dtype and given.grad.double().sum().item() == pytest.approx(-1.0, rel=1e-2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"log_prob": torch.tensor([[-1, -2]] * 3)}, "log_prob = 'torch.int64'.* floating"),
        ({"behavior_log_prob": torch.tensor([[-1, -2]] * 3)}, "behavior_log_prob = 'torch.int64'"),
        ({"proximal_log_prob": -NOW}, "proximal_log_prob = 1.5: must be at most 0"),
        ({"staleness": torch.full((3, 2), -1.0)}, "staleness = 'negative or infinite'"),
        ({"staleness": torch.full((3, 2), torch.inf)}, "staleness = 'negative or infinite'"),
    ],
)
def test_what_cannot_be_is_refused(changes, message):
    given = {"log_prob": NOW, "behavior_log_prob": THEN, "rewards": REWARDS, **changes}
    refused(message, lambda: M.a3po().weigh(**{"staleness": torch.ones(3, 2), **given}))


def test_unknown_and_masked_staleness_passes():
    mask = torch.tensor([[1, 1], [1, 0], [1, 1]])
    age = torch.tensor([[1.0, torch.nan], [2.0, -1.0], [0.0, 3.0]])
    found = M.a3po().weigh(NOW, THEN, rewards=REWARDS, mask=mask, staleness=age)
    assert found.cotangent[0, 1] == 0.0 and found.statistics["unknown_staleness"].item() == pytest.approx(0.2)


def test_no_loss_belongs_to_other_parameters():
    method = M.reinforce(at="behavior")
    with pytest.raises(InputError, match="at = 'behavior': must be current for a loss"):
        method.loss(NOW.clone().requires_grad_(), THEN, rewards=REWARDS)
    here = M.reinforce().weigh(NOW, THEN, rewards=REWARDS)
    assert torch.equal(method.weigh(NOW, THEN, rewards=REWARDS).cotangent, here.cotangent)


@pytest.mark.parametrize("method", [M.reinforce(), M.truncated_is("token"), M.kimi(anchor="behavior")])
def test_a_token_that_became_impossible_leaves_the_loss_finite(method):
    now = NOW.clone()
    now[0, 1] = -torch.inf
    now.requires_grad_()
    loss = method.loss(now, THEN, rewards=REWARDS)
    loss.backward()
    cotangent = method.weigh(now, THEN, rewards=REWARDS).cotangent
    assert loss.item() == pytest.approx(-cotangent.sum().item())
    assert now.grad[0, 1] == 0.0 and (now.grad + cotangent)[now.isfinite()].abs().max() < 1e-15


# Groups that a method drops.

MIXED = torch.tensor([[[1.0, 0.0, 0.0, 1.0, 0.0], [1.0] * 5, [0.0, 0.0, 0.0, 0.0, 1.0]]], dtype=torch.float64)


@pytest.mark.parametrize("drop", [True, False])
@pytest.mark.parametrize("baseline", ["mean", "group_mean", "leave_one_out", "opo", "soft_value", "returns_to_go"])
def test_dropped_groups_are_no_part_of_the_step(baseline, drop):
    """Advantages are those of the step without the group: 0.4 and 0.2 have the mean 0.3, a group of ones counts not."""
    advantage = A.returns_to_go(baseline="batch") if baseline == "returns_to_go" else getattr(A, baseline)()
    method = M.dapo(advantage=advantage).replace(drop_equal=drop)
    trial = case(3, R=1, G=3, N=5, T=2, ragged=False)
    signal, _ = trial.evaluate(method, reward=MIXED)
    kept = [0, 2] if drop else [0, 1, 2]
    batch = trial.batch
    rest, _ = trial.evaluate(
        method.replace(drop_equal=False),
        **{name: getattr(batch, name)[:, kept] for name in ("action", "state", "mask", "mass")},
        behavior={name: value[:, kept] for name, value in batch.behavior.items()},
        trajectory=batch.trajectory[:, kept],
        reward=MIXED[:, kept],
    )
    assert (signal.advantages[:, kept] - rest.advantages).abs().max() < 1e-14
    assert (signal.cotangents["log_prob"][:, kept] - rest.cotangents["log_prob"]).abs().max() < 1e-15
    if baseline == "mean":
        assert (signal.advantages[0, 0, 0] - (0.7 if drop else 1.0 - 8 / 15)).abs() < 1e-14
    if baseline != "returns_to_go":
        found = method.weigh(signal.current["log_prob"], batch.behavior["log_prob"], rewards=MIXED)
        assert (found.advantage - signal.advantages.unsqueeze(-1)).abs().max() < 1e-14
        assert (found.cotangent - signal.cotangents["log_prob"]).abs().max() < 1e-15


@pytest.mark.parametrize("settings", [{}, {"standardize": True}, {"leave_one_out": True}, {"robust": "median"}])
def test_one_baseline_of_the_step_leaves_out_dropped_groups(settings):
    method = M.dapo(advantage=A.opob("step", **settings))
    trial = case(3, R=1, G=3, N=5, T=2, ragged=False)
    other = MIXED.clone()
    other[:, 1] = 7.0
    one, two = (trial.evaluate(method, reward=reward)[0].advantages for reward in (MIXED, other))
    assert (one[:, [0, 2]] - two[:, [0, 2]]).abs().max() < 1e-14
    assert (one[:, 0] - trial.evaluate(method.replace(drop_equal=False), reward=MIXED)[0].advantages[:, 0]).any()


# Knobs and outputs.


def test_knobs_in_factors_have_no_exact_variance():
    """With as many replicates as batches the knobs of the one would stand beside the batches of the other."""
    method = M.full_is().replace(factors=(F.token_mask(high=[1.1, 1.5, 1.01, 1.02]),))
    given = {"samples_per_group": 2, "updates": 2, "replicates": 4}
    spec = sim.Spec(
        FIXED, sim.schedules.fixed(1), method, sim.chain(sim.updates.sgd(1.0)), diagnostics=["variance"], **given
    )
    refused("single numbers as the method's knobs", sim.run, spec)


@pytest.mark.parametrize("ask", [sim.oracle.limit, sim.oracle.moments])
@pytest.mark.parametrize("method", [M.gradient(), M.reinforce(A.gae()), M.a3c()])
def test_an_oracle_refuses_outputs_that_are_not_there(ask, method):
    """The cotangent of a loss was pulled back through the policy's divergence from its reference."""
    refused(r"it reads .*(loss|value)", ask, FIXED, method, [0.0, 1.0], [1.0, 0.0])


def test_a_header_keeps_settings_of_one_name_apart():
    found = M.m2po_mask(advantage=A.opob("step"), scope="micro_batch", micro_batches=2).describe()
    assert found["scope"] == "micro_batch" and found["advantage_scope"] == "step"
    assert "advantage_scope" not in M.vcpo(advantage=A.opob("step")).describe()


@pytest.mark.parametrize("value", [np.array(["token"]), np.ones((2, 2)), torch.ones(2)])
def test_an_array_is_no_name(value):
    for wrong in (lambda: M.full_is(value), lambda: M.full_is(aggregator=value), lambda: F.drop_stale(of=value)):
        refused("must be one of", wrong)


def test_names_may_be_those_of_numpy():
    assert M.full_is(np.str_("token")).weight.level == "token"


# Language models at the parameters of the draw.


@pytest.mark.parametrize("entropy", [0.0, 0.1])
def test_a_language_model_is_pulled_back_where_it_drew(entropy):
    """Without staleness the two places are one; networks compute in float32."""
    task = make("tasks", "arithmetic")
    runs = [
        sim.run(
            sim.Spec(
                task,
                sim.schedules.fixed(0, groups_per_batch=2),
                M.reinforce(A.offset(0.5), at=at, entropy=entropy),
                sim.chain(sim.updates.sgd(1.0)),
                policy=dataclasses.replace(policy_of(task), micro_batch=micro_batch),
                samples_per_group=3,
                updates=2,
                replicates=1,
                dtype="float64",
                drawing="late",
            )
        )
        for at, micro_batch in (("current", None), ("behavior", None), ("behavior", 2))
    ]
    for run in runs[1:]:
        assert np.abs(run.parameters - runs[0].parameters).max() < 1e-6
    assert np.abs(runs[0].parameters - policy_of(task).initial(1).numpy()).max() > 1e-3


# Exact moments of methods that read the age of data, or the start of a batch.


@pytest.mark.parametrize("ask", [sim.oracle.limit, lambda *a, **k: sim.oracle.moments(*a, **k).mean])
def test_an_oracle_knows_the_age_of_its_data(ask):
    now, then = [0.0, 0.2], [0.2, 0.0]
    plain = ask(FIXED, M.full_is(), now, then)
    weighed = M.full_is().replace(factors=(F.staleness_weight(exponent=1.0),))
    assert ask(FIXED, weighed, now, then, staleness=3) == pytest.approx(plain / 4, abs=1e-15)
    assert ask(FIXED, weighed, now, then) == pytest.approx(plain, abs=1e-15)
    clip = M.a3po(0.05, 0.05, advantage=A.offset(0.3))
    assert not np.allclose(ask(FIXED, clip, now, then, staleness=8), ask(FIXED, clip, now, then))
    refused("staleness = -1", ask, FIXED, clip, now, then, staleness=-1)


def _varied(method, epochs=1):
    options = {"samples_per_group": 2, "updates": 6, "epochs": epochs, "replicates": 1, "diagnostics": ["variance"]}
    spec = sim.Spec(FIXED, sim.schedules.fixed(2), method, sim.chain(sim.updates.sgd(0.0)), **options)
    return sim.run(spec)["variance"][:, 0]


def test_a_variance_is_that_of_the_data_at_its_age():
    """Policies stand still: versions alone grow older, up to 2."""
    plain = _varied(M.full_is())
    thirds = _varied(M.full_is().replace(factors=(F.staleness_weight(exponent=1.0),)))
    assert thirds == pytest.approx(plain / np.array([1.0, 4.0, 9.0, 9.0, 9.0, 9.0]))
    assert _varied(M.full_is().replace(factors=(F.drop_stale(1),)))[2:].tolist() == [0.0] * 4


def test_a_variance_needs_the_start_of_the_batch():
    """It is not kept: where ratios refer to it, later updates have none."""
    found = _varied(M.ppo_clip(anchor="proximal"), epochs=2)
    assert np.isnan(found).tolist() == [False, True] * 3
    assert np.isfinite(_varied(M.ppo_clip(), epochs=2)).all()
