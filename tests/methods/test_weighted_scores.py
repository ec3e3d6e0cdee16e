"""Weighted scores by hand: where weights peak and end, what decides between two branches."""

import math

import numpy as np
import pytest
import torch

import asyncsim as sim
from tests.contracts.laboratory import step_with
from tests.methods.by_hand import close, in_one, weights
from tests.refusals import refused

M = sim.methods


def test_cispo_keeps_every_token_and_leaves_the_lower_side_open():
    ratio = [0.01, 0.79, 1.0, 4.9, 60.0]
    close(weights(M.cispo(), ratio), [0.01, 0.79, 1.0, 4.9, 5.0])
    close(weights(M.cispo(0.2, 0.28), ratio), [0.8, 0.8, 1.0, 1.28, 1.28])
    close(weights(M.cispo(0.2, 0.28), ratio, -1.0), [-0.8, -0.8, -1.0, -1.28, -1.28])


def test_a_rollout_weight_is_not_applied_twice():
    refused("anchor='proximal'", M.cispo, cap=2.0)
    method = M.cispo(anchor="proximal", cap=2.0)
    assert in_one(method, [[math.log(3.6)]], drift=[[math.log(1.2)]]).item() == pytest.approx(2.4)
    refused("contains that weight already", lambda: in_one(method.replace(anchor="behavior"), [[0.3]], drift=[[0.1]]))


def test_topr_tapers_bad_sequences_only():
    pair = [[0.5 * math.log(0.25)] * 2, [0.5 * math.log(4.0)] * 2]
    close(in_one(M.topr(), pair, -1.0), [[-0.25] * 2, [-1.0] * 2])
    close(in_one(M.topr(), pair), [[1.0] * 2, [1.0] * 2])


@pytest.mark.parametrize(("sign", "k", "lam", "height"), [(1.0, 2.0, 3.0, 1.2081), (-1.0, 3.0, 2.0, 1.2416)])
def test_vespo_peaks_at_k_over_lam(sign, k, lam, height):
    ratio = np.linspace(0.01, 5.0, 4991)
    weight = sign * np.array(weights(M.vespo(), ratio, sign))
    assert ratio[weight.argmax()] == pytest.approx(k / lam, abs=1e-3)
    assert abs(weight.max() - height) < 5e-5 and abs((k / lam) ** k * math.exp(lam - k) - height) < 5e-5
    close(weights(M.vespo(), [1.0], sign), [sign])
    assert (np.abs(in_one(M.vespo(), [[-800.0], [800.0]], sign).numpy()) < 1e-15).all()


def test_sapo_rises_above_one_before_it_falls():
    """Its slope is 0 where rho tanh((rho - 1)/2) = 1, with rho - 1/rho there."""
    ratio = np.linspace(0.01, 8.0, 7991)
    weight = np.array(weights(M.sapo(), ratio))
    peak = ratio[weight.argmax()]
    assert peak * math.tanh((peak - 1.0) / 2.0) == pytest.approx(1.0, abs=1e-3) and abs(peak - 2.06) < 0.01
    assert abs(weight.max() - (peak - 1.0 / peak)) < 1e-3 and abs(weight.max() - 1.57) < 0.005
    close(weights(M.sapo(), ratio), ratio / np.cosh((ratio - 1.0) / 2.0) ** 2)
    close(weights(M.sapo(), ratio, -1.0), -ratio / np.cosh(1.05 * (ratio - 1.0) / 2.0) ** 2)
    assert in_one(M.sapo(), [[800.0]]).item() == 0.0


@pytest.mark.parametrize("sigma", [0.5, 1.0, 1.5])
def test_gipo_peaks_at_the_variance(sigma):
    log_ratio = np.linspace(-5.0, 4.9, 991)
    weight = in_one(M.gipo(sigma), log_ratio.reshape(-1, 1)).flatten().numpy()
    assert log_ratio[weight.argmax()] == pytest.approx(sigma**2, abs=0.006)
    assert weight.max() == pytest.approx(math.exp(sigma**2 / 2.0), rel=1e-4)
    # Beyond both clamps it stays; were the ratio not clamped, it would rise without bound.
    ends = in_one(M.gipo(sigma), [[-800.0], [-6.0], [6.0], [800.0]]).flatten().tolist()
    edge = math.exp(-12.5 / sigma**2)
    close(ends, [0.0067 * edge] * 2 + [148.0 * edge] * 2, 1e-9)
    free = in_one(M.gipo(sigma, highest=1e8), [[6.0], [12.0]]).flatten()
    assert free[1] / free[0] == pytest.approx(math.exp(6.0), rel=1e-6)


def test_a_mask_takes_what_the_clip_had_kept():
    """Only outward, by the sign of A, and at a bound of its own: the weight inside is that of the clip."""
    ratio = [0.5, 0.85, 1.0, 1.2, 1.9]
    method = M.cispo(0.2, 0.5, mask=(0.1, 0.3))
    close(weights(method, ratio), [0.8, 0.85, 1.0, 1.2, 0.0])
    close(weights(method, ratio, -1.0), [0.0, 0.0, -1.0, -1.2, -1.5])


@pytest.mark.parametrize("mask", [0.2, (0.2,), (0.1, 0.2, 0.3), (-0.1, 0.2), (0.1, float("nan")), "no"])
def test_a_mask_that_is_no_pair_is_refused(mask):
    refused("mask", M.cispo, mask=mask)


def test_a_masked_method_is_a_file_and_takes_one_number_per_replicate():
    task, system = sim.tasks.token_bandit(actions=3, horizon=3), sim.schedules.fixed(2)
    sizes = {"samples_per_group": 4, "updates": 4, "replicates": 2}
    spec = sim.Spec(task, system, M.cispo(mask=((0.0, 0.1), 0.2)), sim.chain(sim.updates.sgd(1.0)), **sizes)
    again = sim.run(sim.Spec.from_dict(spec.to_dict()), seed=1, progress=False)
    assert (sim.run(spec, seed=1, progress=False).parameters == again.parameters).all()


def test_delight_tells_rare_successes_from_rare_failures():
    """A = +-2 on tokens of chance 1, 1/2 and 1/1000, and on one that is impossible; the sign forgotten, they agree."""
    chance = torch.tensor([1.0, 0.5, 1e-3, 0.0], dtype=torch.float64).reshape(1, 1, 1, 4)
    seen = step_with(torch.zeros(1, 1, 1, 4).double())
    seen.known["log_prob"] = chance.log()
    gate = [1 / (1 + c**4) for c in (1.0, 0.5, 1e-3, 0.0)]
    for advantage, expected in ((2.0, gate), (-2.0, [1 - x for x in gate]), (0.0, [0.5] * 4)):
        one = torch.full((1, 1, 1, 1), advantage, dtype=torch.float64)
        found = M.delight(0.5).weight.score_weight(seen, one).flatten().tolist()
        assert found == pytest.approx([advantage * x for x in expected], abs=1e-12)
    assert gate[2] > 0.99


def test_topr_roll_asks_the_reward_and_multiplies_by_the_advantage():
    """A rewarded sample below its group's mean is pushed down at full weight; the other way round it is tapered."""
    method = M.topr_roll(2.0, 0.5)
    log_prob = torch.tensor([0.25, 0.25, 0.25, 4.0]).double().log().reshape(4, 1) - 9.0
    behavior = torch.full((4, 1), -9.0).double()
    rewards = torch.tensor([0.5, 0.0, -1.0, 0.0]).double()
    advantages = torch.tensor([-1.0, 1.0, -1.0, 1.0]).double()
    found = method.weigh(log_prob, behavior, rewards=rewards, advantages=advantages)
    close(found.score_weight.flatten(), [-2.0, 0.125, -0.125, 0.5])
    assert M.topr_roll().on_policy == "policy gradient" != method.on_policy
