"""Masks and weights of samples: bounds, denominators, what fails closed, what is reported."""

import math

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base.checks import InputError
from tests.contracts.families._paper import _fresh, evaluate, opened
from tests.contracts.families.importance import FACTORED
from tests.contracts.laboratory import NOTHING, case, names, step_with

F = sim.factors
ONE = torch.ones(1, 1, 1, 1).double()


def seen_of(*rows, behavior_ratio=None, **changes):
    """Likelihoods of one group of sequences whose token ratios are given; a shorter row is masked behind its end."""
    T = max(map(len, rows))
    padded = torch.tensor([[*row, *[1.0] * (T - len(row))] for row in rows], dtype=torch.float64).log()
    mask = torch.tensor([[1.0] * len(row) + [0.0] * (T - len(row)) for row in rows])
    shape = (1, 1, len(rows), T)
    drift = (
        None
        if behavior_ratio is None
        else (padded.reshape(shape) - torch.tensor(behavior_ratio, dtype=torch.float64).log().reshape(shape))
    )
    return step_with(padded.reshape(shape), drift, mask.reshape(shape), **changes)


def kept(factor, seen, advantage=ONE):
    return factor.factor(seen, advantage)[0, 0].expand(seen.mask.shape[2:]).tolist()


def flags(factor, *rows, **settings):
    """Which sequences a mask of sequences keeps."""
    return factor.factor(seen_of(*rows, **settings), ONE).flatten().tolist()


# By hand.


def test_bounds_act_on_the_ratio_and_not_on_its_inverse():
    """[0.6, 1.6]; the same numbers on 1/r would keep [0.625, 1.667]. Bounds are inside."""
    ratios = [0.59, 0.6, 0.62, 0.625, 1.0, 1.6, 1.61, 1.66]
    assert kept(F.token_mask(0.6, 1.6), seen_of(ratios)) == [[0, 1, 1, 1, 1, 1, 0, 0]]
    assert flags(F.sequence_mask(0.6, 1.6), *([r] for r in ratios)) == [0, 1, 1, 1, 1, 1, 0, 0]
    assert flags(F.geometric_mask(0.6, 1.6), *([r, r] for r in ratios)) == [0, 1, 1, 1, 1, 1, 0, 0]


def test_factors_multiply():
    """Each of two bands drops another token; a factor that is no mask keeps its size beside one."""
    seen = seen_of([0.5, 1.0, 2.0], age=torch.full((1, 1, 1, 3), 3.0).double())
    bands = (F.token_mask(0.6, 4.0), F.token_mask(0.1, 1.6))
    for factors, expected in ((bands, [0.0, 1.0, 0.0]), ((F.staleness_weight(), bands[0]), [0.0, 0.5, 0.5])):
        product = sim.methods.full_is().replace(factors=factors).factor(seen, ONE)
        assert product.flatten().tolist() == pytest.approx(expected)


def test_levels_differ():
    """Tokens 2 and 1/2 cancel in the product; two tokens of 1.5 leave the band as a product only."""
    rows = ([2.0, 0.5], [1.5, 1.5], [1.2])
    assert kept(F.token_mask(0.6, 1.6), seen_of(*rows)) == [[0, 0], [1, 1], [1, 1]]
    assert flags(F.sequence_mask(0.6, 1.6), *rows) == [1, 0, 1]
    assert flags(F.geometric_mask(0.6, 1.6), *rows) == [1, 1, 1]
    assert flags(F.geometric_mask(0.6, 1.3), *rows) == [1, 0, 1]
    assert flags(F.token_veto(0.6), *rows) == [0, 1, 1]


def test_a_band_on_the_lag_does_not_see_what_the_batch_itself_changed():
    """r = 3 with h = 1, and r = 1 with h = 3."""
    seen = seen_of([3.0], [1.0], behavior_ratio=[[1.0], [3.0]])
    assert kept(F.token_mask(ratio="h"), seen) == [[1], [0]] and kept(F.token_mask(), seen) == [[0], [1]]
    assert F.token_mask(ratio="h").proximal and not F.token_mask().proximal


def test_divergences_are_reduced_as_named():
    """l = 0.2 and 0.4: l^2/2 = 0.02 and 0.08; the second sequence has one token."""
    rows = ([math.exp(0.2), math.exp(-0.4)], [math.exp(0.2)])
    for reduce, first in (("sum", 0.1), ("mean", 0.05), ("max", 0.08)):
        assert flags(F.k2_mask(first + 1e-9, reduce), *rows) == [1, 1]
        assert flags(F.k2_mask(first - 1e-9, reduce), *rows) == [0, 1]
        assert flags(F.k2_mask(0.02 - 1e-9, reduce), *rows) == [0, 0]
    assert kept(F.k2_mask(0.03, "token"), seen_of(*rows)) == [[1, 0], [1, 1]]
    assert flags(F.k2_mask(0.0), [1.0], [1.0, 1.0]) == [1, 1], "the bound is inside"


def test_third_order_divergence_is_not_symmetric():
    """r = 4: 4 - 1 - log 4 = 1.614; r = 1/4: 0.636."""
    assert flags(F.k3_mask(1.6), [4.0], [0.25]) == [0, 1]
    assert flags(F.k3_mask(0.65), [4.0], [0.25]) == [0, 1]
    assert flags(F.k3_mask(1.62), [4.0], [0.25]) == [1, 1] and flags(F.k3_mask(0.63), [4.0], [0.25]) == [0, 0]
    # Without loss of digits near 1, where e^l - 1 - l = l^2 / 2.
    tiny = step_with(torch.full((1, 1, 1, 1), 1e-7).double())
    assert F.k3_mask(5.01e-15, "token").factor(tiny, ONE).item() == 1
    assert F.k3_mask(4.99e-15, "token").factor(tiny, ONE).item() == 0


def test_a_veto_is_one_sided():
    rows = ([1.0, 0.9e-4], [1.0, 1.1e-4], [1.0, 1e6], [1e5, 1e-5])
    assert flags(F.token_veto(), *rows) == [0, 1, 1, 0]
    assert flags(F.k2_mask(0.5 * math.log(1e-4) ** 2, "max"), *rows) == [0, 1, 0, 0]


def test_negative_samples_that_became_unlikely_are_dropped():
    """Mean log ratios -0.05, -0.05, +0.05; the sign of the advantage decides over the first two."""
    rows = [[math.exp(-0.2), math.exp(0.1)], [math.exp(-0.05)], [math.exp(0.05)]]
    advantage = torch.tensor([-1.0, 1.0, -1.0]).double().reshape(1, 1, 3, 1)
    seen = seen_of(*rows)
    assert F.opsm(0.04).factor(seen, advantage).flatten().tolist() == [0, 1, 1]
    assert F.opsm(0.06).factor(seen, advantage).flatten().tolist() == [1, 1, 1]
    assert F.opsm().factor(seen, torch.zeros_like(advantage)).flatten().tolist() == [1, 1, 1]
    by_token = torch.tensor([[-1.0, 1.0]] * 3).double().reshape(1, 1, 3, 2)
    assert kept(F.opsm(0.04), seen, by_token) == [[0, 1], [0, 1], [1, 1]]


def test_a_snapshot_of_the_batch_hides_all_lag_from_its_first_update():
    trial = case(drift=0.5)
    plain = sim.methods.full_is("token")
    straight, proximal, behavior = (
        trial.gradient(plain.replace(factors=made)) for made in ((), (F.opsm(0.0, "proximal"),), (F.opsm(0.0),))
    )
    assert torch.equal(straight, proximal) and (straight - behavior).abs().max() > 1e-3


def aged(*rows):
    """One group of sequences with the given staleness of each token."""
    age = torch.tensor(rows).double().reshape(1, 1, len(rows), -1)
    return step_with(torch.zeros_like(age), age=age)


def test_old_tokens_are_dropped_alone_or_with_their_sequence():
    seen = aged([3.0, 1.0, 0.0], [2.0, 2.0, 2.0])
    assert kept(F.drop_stale(2, "token"), seen) == [[0, 1, 1], [1, 1, 1]]
    assert kept(F.drop_stale(2), seen) == [[0, 0, 0], [1, 1, 1]]
    assert seen.statistics["unknown_staleness"].tolist() == [0.0]


@pytest.mark.parametrize("unknown", [math.nan, math.inf, -1.0])
def test_an_unknown_age_is_not_young(unknown):
    seen = aged([unknown, 0.0], [0.0, 0.0])
    assert kept(F.drop_stale(10, "token"), seen) == [[0, 1], [1, 1]]
    assert kept(F.drop_stale(10), seen) == [[0, 0], [1, 1]]
    for rule in ("constant", "threshold", "polynomial"):
        assert kept(F.staleness_weight(rule), seen) == [[0, 1], [1, 1]]
    assert seen.statistics["unknown_staleness"].tolist() == [0.25]


def test_the_age_of_a_masked_token_does_not_matter():
    age = torch.tensor([[0.0, math.nan], [5.0, math.nan]]).double().reshape(1, 1, 2, 2)
    seen = step_with(torch.zeros(1, 1, 2, 2).double(), mask=torch.tensor([[[[1.0, 0.0]] * 2]]), age=age)
    assert F.drop_stale(2).factor(seen, ONE).flatten().tolist() == [1, 0]
    assert seen.statistics["unknown_staleness"].tolist() == [0.0]


def test_no_staleness_is_an_error():
    log_prob = torch.full((2, 1), -1.0)
    for factor in (F.drop_stale(), F.staleness_weight()):
        method = sim.methods.full_is().replace(factors=(factor,))
        with pytest.raises(InputError, match="staleness"):
            method.weigh(log_prob, log_prob, rewards=torch.tensor([1.0, 0.0]))
        found = method.weigh(log_prob, log_prob, rewards=torch.tensor([1.0, 0.0]), staleness=torch.zeros(2, 1))
        assert found.score_weight.flatten().tolist() == [1.0, -1.0]


def test_weights_by_age():
    seen = aged([0.0, 1.0, 3.0])
    np.testing.assert_allclose(kept(F.staleness_weight(), seen)[0], [1, 0.5**0.5, 0.5], rtol=1e-15)
    assert kept(F.staleness_weight("threshold", cutoff=1, after=0.25), seen) == [[1, 1, 0.25]]
    assert kept(F.staleness_weight("constant"), seen) == [[1, 1, 1]]


def test_weights_fall_with_age_without_end():
    """(1 + d)^-a at every age up to 256 versions and at 1,000, without a floor and for two exponents."""
    age = [*range(257), 1000]
    for exponent in (0.5, 1.0):
        weights = np.array(kept(F.staleness_weight(exponent=exponent), aged([float(d) for d in age]))[0])
        np.testing.assert_allclose(weights, (1.0 + np.array(age)) ** -exponent, rtol=1e-13)
        assert (np.diff(weights) < 0.0).all()


def test_fresh_data_counts_more_than_one_if_the_average_is_not_fresh():
    seen = aged([0.0, 1.0, 3.0])
    found = kept(F.staleness_weight(average=1), seen)[0]
    np.testing.assert_allclose(found, [2**0.5, 1, 0.5**0.5], rtol=1e-15)
    assert kept(F.staleness_weight("threshold", cutoff=0, after=0.5, average=2), seen) == [[2, 1, 1]]


# What fails closed.

MASKS = {
    "token_mask": F.token_mask(0.0, 1e30),
    "sequence_mask": F.sequence_mask(0.0, 1e30),
    "geometric_mask": F.geometric_mask(0.0, 1e30),
    "k2_mask": F.k2_mask(1e30),
    "k2_mask token": F.k2_mask(1e30, "token"),
    "k3_mask": F.k3_mask(1e30),
    "k3_mask sum": F.k3_mask(1e30, "sum"),
    "token_veto": F.token_veto(0.0),
    "opsm": F.opsm(1e30),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("broken", [math.inf, -math.inf, math.nan])
def test_what_is_no_number_is_dropped_by_the_widest_mask(name, broken):
    log_ratio = torch.zeros(1, 1, 2, 2).double()
    log_ratio[0, 0, 0, 0] = broken
    seen = step_with(log_ratio)
    for advantage in (ONE, -ONE):
        found = MASKS[name].factor(seen, advantage).expand(seen.mask.shape)
        assert found[0, 0, 0, 0] == 0 and (found[0, 0, 1] == 1).all()


@pytest.mark.parametrize("name", [name for name in MASKS if not name.startswith("k3")])
def test_huge_ratios_are_numbers(name):
    """A band that is wide enough keeps log ratios of 60, beyond what a weight may use."""
    seen = step_with(torch.tensor([60.0, -60.0]).double().reshape(1, 1, 2, 1))
    assert MASKS[name].factor(seen, ONE).flatten().tolist() == [1, 1]


def test_masks_compare_unlimited_ratios():
    """Log ratios of 25 and 30 are the same to a weight; not to a mask."""
    seen = step_with(torch.tensor([25.0, 30.0]).double().reshape(1, 1, 2, 1))
    for factor in (F.token_mask(high=math.exp(27)), F.sequence_mask(high=math.exp(27)), F.k2_mask(0.5 * 27**2)):
        assert factor.factor(seen, ONE).flatten().tolist() == [1, 0]


# Denominators, and what is reported.


def test_every_factor_is_tried_here():
    assert {label.partition(" ")[0] for label in FACTORED} | {"token_mask"} == set(names("factors"))


@pytest.mark.parametrize("label", [label for label in FACTORED if label != "staleness_weight"])
@pytest.mark.parametrize("aggregator", ["sequence_sum", "sequence_mean", "token_mean", "constant"])
def test_masks_leave_denominators_alone(label, aggregator):
    """What stays keeps its gradient to the bit; something goes and something stays, at a batch's second update."""
    trial = case(1, N=5, T=4, G=3, drift=0.5)
    if label == "drop_stale":
        # Unknown in the first replicate, young in the second.
        trial.batch.version = np.array([-1, 0], dtype=np.int32).reshape(2, 1, 1, 1)
        trial.batch.realization = np.array([0, 1])
    plain = sim.methods.full_is("token", advantage=sim.advantages.offset(0.5), aggregator=aggregator)
    masked = plain.replace(factors=(FACTORED[label][0](),))
    free, held = (signal_of(trial, method).cotangents["log_prob"] for method in (plain, masked))
    gone, here = (held == 0) & (free != 0), held != 0
    assert 0.02 < gone.sum() / (free != 0).sum() < 0.98
    assert torch.equal(held[here], free[here])


def signal_of(trial, method):
    """The signal of a second update on the batch."""
    policy, batch = trial.policy, _fresh(trial.batch)
    return evaluate(method, NOTHING, policy, policy.prepare(trial.new), batch, opened(trial, method).carried())


def test_a_step_that_is_masked_whole_is_reported():
    """The published band of geometric means under ordinary lag: no gradient, and the trace says why."""
    trial = case(drift=0.5)
    method = sim.methods.geometric_rs(advantage=sim.advantages.offset(0.5), low=1.0, high=1.0)
    signal, gradient = trial.evaluate(method)
    assert (gradient == 0).all()
    assert signal.statistics["kept_tokens"].tolist() == [0.0, 0.0]


def test_a_run_goes_on_when_everything_is_dropped():
    task, system, method = (
        sim.tasks.token_bandit(),
        sim.schedules.fixed(2),
        sim.methods.geometric_rs(low=1.0, high=1.0, advantage=sim.advantages.offset(0.3)),
    )
    spec = sim.Spec(task, system, method, sim.chain(sim.updates.sgd(1.0)), samples_per_group=4, updates=5, replicates=2)
    trace = sim.run(spec, seed=1)
    # A move closes the band until the batches of before are used up; then nothing has changed, and it is open again.
    np.testing.assert_array_equal(trace["kept_tokens"], [[1.0] * 2, [0.0] * 2, [0.0] * 2, [1.0] * 2, [0.0] * 2])


def test_half_of_the_tokens_is_one_half():
    then = torch.full((2, 2), -3.0).double()
    now = then + torch.tensor([[1.0, 5.0], [5.0, 1.0]]).double().log()
    found = sim.methods.icepop().weigh(now, then, advantages=torch.tensor([1.0, 1.0]))
    assert found.statistics["kept_tokens"].item() == 0.5
    assert found.score_weight.tolist() == [[pytest.approx(1.0), 0.0], [0.0, pytest.approx(1.0)]]
    # Four tokens are counted, not two.
    np.testing.assert_allclose(found.cotangent, [[0.25, 0.0], [0.0, 0.25]], rtol=1e-14)


def test_nothing_is_dropped_where_policies_agree():
    trial = case(drift=0.0)
    plain = sim.methods.full_is()
    strict = {"k2_mask": F.k2_mask(0.0), "k3_mask": F.k3_mask(0.0), "opsm": F.opsm(0.0)}
    strict["staleness_weight"] = F.staleness_weight(average=4)
    for name in names("factors"):
        factor = strict.get(name) or getattr(F, name)()
        assert torch.equal(trial.gradient(plain), trial.gradient(plain.replace(factors=(factor,)))), name


def test_single_precision_stays_single():
    then = torch.full((2, 3), -3.0)
    found = [
        sim.methods.full_is()
        .replace(factors=(factor,))
        .weigh(then + 0.1, then, then, advantages=torch.tensor([1.0, -1.0]), staleness=torch.zeros(2, 3))
        for factor in (*MASKS.values(), F.drop_stale(), F.staleness_weight())
    ]
    assert {each.cotangent.dtype for each in found} == {torch.float32}
    assert all((each.cotangent != 0).all() for each in found)


# Refusals.


# Regions and gates.


def test_a_clamp_that_is_differentiated_has_no_gradient_beyond_it():
    """exp(clamp(l, -2, 2)) A by autograd, clipped by PPO as well; without the factor the way back stays open."""
    log_ratio = torch.tensor([-2.5, -2.0, -0.1, 0.1, 1.9, 2.5], dtype=torch.float64).reshape(1, 1, 1, 6)
    seen = step_with(log_ratio)
    method = sim.methods.ppo_clip(0.2, 0.2)
    for sign in (1.0, -1.0):
        live = log_ratio.clone().requires_grad_()
        ratio = live.clamp(-2.0, 2.0).exp()
        (expected,) = torch.autograd.grad(torch.min(ratio * sign, ratio.clamp(0.8, 1.2) * sign).sum(), live)
        plain = method.weight.score_weight(seen, sign * ONE)
        torch.testing.assert_close(plain * F.log_clamp(2.0).factor(seen, sign * ONE), expected)
        assert not torch.allclose(plain, expected)


def test_a_clamp_is_of_the_level_and_ratio_that_are_named():
    rows = ([2.0, 2.0], [2.0, 0.5], [3.0])
    assert kept(F.log_clamp(1.0), seen_of(*rows)) == [[1, 1], [1, 1], [0, 1]]
    assert flags(F.log_clamp(1.0, "sequence"), *rows) == [0, 1, 0]
    assert flags(F.log_clamp(1.0, "geometric"), *rows) == [1, 1, 0]
    # r = 3 with h = 1, and r = 1 with h = 3, so that u = 1/3.
    seen = seen_of([3.0], [1.0], behavior_ratio=[[1.0], [3.0]])
    for ratio, expected in (("r", [[0], [1]]), ("h", [[1], [0]]), ("u", [[0], [0]])):
        assert kept(F.log_clamp(1.0, ratio=ratio), seen) == expected
        assert F.log_clamp(ratio=ratio).proximal == (ratio != "r")


def test_ratios_above_and_below_one_do_not_cancel_in_total_variation():
    """2 and 1/2: mean |r - 1| = 0.75, while their geometric mean is 1. Half of it would be the total variation."""
    assert flags(F.tv_mask(0.76), [2.0, 0.5]) == [1] and flags(F.tv_mask(0.74), [2.0, 0.5]) == [0]
    assert flags(F.geometric_mask(), [2.0, 0.5]) == [1]
    assert flags(F.tv_mask(1.0), [0.0, 0.0], [1e9], [math.inf], [math.nan]) == [1, 0, 0, 0]


def test_a_signed_mask_lets_tokens_come_back():
    rows = ([3.0, 0.5, 1.0], [1.1, 1.0, 1.0])
    assert kept(F.tv_mask(0.2, signed=True), seen_of(*rows)) == [[0, 1, 1], [1, 1, 1]]
    assert kept(F.tv_mask(0.2, signed=True), seen_of(*rows), -ONE) == [[1, 0, 1], [1, 1, 1]]
    assert kept(F.tv_mask(0.2, signed=True), seen_of([math.inf, 0.5]), -ONE) == [[0, 0]]
