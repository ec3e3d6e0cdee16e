"""Baselines on stale batches: sampled against exact moments, known means, planted mistakes, and the figure."""

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.claims.lab.plants import FourthPower
from asyncsim.sampling import oracle
from experiments import _vcpo_estimators, vcpo_baselines
from paper_figures import vcpo_baselines as figure
from tests.experiments._lab import rows_of

ERRORS = 6.0 / 1.96

quick = rows_of("vcpo_baselines", quick=True)


def short(**changes):
    return _vcpo_estimators.Cell({**vcpo_baselines._SHORT, "staleness": 64, "replicates": 64, **changes})


def moments(cell, advantage):
    now, then = cell.now.reshape(-1), cell.then.reshape(-1)
    return oracle.moments(cell.task, cell.method(advantage), now, then, cell.samples, cell.policy)


def test_sampled_measures_are_the_exact_ones_and_another_arms_are_not(quick):
    """Some 100 comparisons at 6 standard errors on 1024 batches: 1e-6 in all, were the seed not fixed."""
    own = quick[quick.case == "short"]
    count, swapped = 0, 0
    for arm in own.arm.unique():
        for quantity in vcpo_baselines.MEASURES:
            sampled = figure.select(own, arm, quantity)
            exact, other = (
                figure.select(own, name, quantity, "exact").value.to_numpy() for name in (arm, "self-normalized")
            )
            reach = ERRORS * (sampled.high - sampled.low).to_numpy() / 2 + 1e-9
            # Ratios of few batches' moments are biased by about one part in a thousand.
            assert (np.abs(sampled.value - exact) <= reach + 2e-3 * np.abs(exact)).all(), (arm, quantity)
            count += len(sampled)
            swapped += int((np.abs(sampled.value - other) > reach + 2e-3 * np.abs(exact)).sum())
    assert count == 120 and swapped > 60


def test_full_ratios_are_unbiased_without_the_own_sample_and_short_by_one_nth_with_the_mean(quick):
    exact = quick[quick.source == "exact"]
    for arm in ("none", "leave one out", "OPOB, leave one out", "best constant"):
        np.testing.assert_allclose(figure.select(exact, arm, "length", "exact").value, 1.0, rtol=1e-9)
        np.testing.assert_allclose(figure.select(exact, arm, "cosine", "exact").value, 1.0, rtol=1e-9)
    np.testing.assert_allclose(figure.select(exact, "group mean", "length", "exact").value, 0.75, rtol=1e-9)
    assert (figure.select(exact, "OPOB", "length", "exact").value < 0.8).all()
    assert (figure.select(exact, "OPOB", "variance", "exact").value < 0.9).all()


def test_the_plug_in_is_leave_one_out_with_the_dominant_sample_shrunk():
    """r - b = (1 - q)(r - b without the sample), q its share of the squared applied scores: exact, sample by sample."""
    cell = short()
    batch = cell.batch(0, 50, 4)
    found = {
        name: cell.step(cell.method(_vcpo_estimators.ARMS[name]), batch) for name in ("OPOB", "OPOB, leave one out")
    }
    norm = found["OPOB"].score_norm
    share = norm / norm.sum(-1, keepdim=True)
    own, others = (found[name].advantages for name in ("OPOB", "OPOB, leave one out"))
    np.testing.assert_allclose(own, (1 - share) * others, atol=1e-12)
    assert (own - others).abs().max() > 0.1


def test_the_constant_is_the_one_of_least_variance_and_a_weight_squared_twice_is_not():
    cell = short(samples=1)
    best = cell.constant()
    least = moments(cell, sim.advantages.offset(best)).variance
    assert all(moments(cell, sim.advantages.offset(best + by)).variance > least for by in (-0.01, 0.01))
    signal = oracle.population_step(
        cell.task,
        cell.method(FourthPower(sim.advantages.opob())),
        cell.now.reshape(-1),
        cell.then.reshape(-1),
        cell.policy,
    )
    wrong = float((signal.batch.reward - signal.advantages)[0, 0, 0])
    assert moments(cell, sim.advantages.offset(wrong)).variance > 1.01 * least


def test_a_held_out_constant_is_near_the_exact_one():
    exact, held = short().constant(), short(exact=False).constant()
    assert held != exact and held == pytest.approx(exact, abs=0.02)


def test_cut_ratios_turn_the_mean_of_the_usual_baseline_and_not_that_of_opob(quick):
    own = figure.of(quick[quick.seed == 1], "long", 64, 8.0)
    usual, opob = (figure.select(own, arm, "cosine").set_index("staleness") for arm in ("group mean", "OPOB"))
    assert usual.high[32] < 0.0 < 0.8 < opob.low[32] and usual.low[0] > 0.9
    full = figure.of(quick, "long", 64, None)
    assert figure.select(full, "group mean", "length").value.iloc[0] > 0.0


def test_jackknife_intervals_cover_and_arms_are_paired():
    """200 repetitions at 95 percent: fewer than 172 covered has probability 3e-7 for honest intervals."""
    rng, truth = np.random.default_rng(5), np.array([1.0, 0.5, -0.2])
    mean, spread = np.array([0.9, 0.8, 0.1]), np.sqrt([1.0, 2.0, 0.5])
    power = float(mean @ mean + (spread**2).sum())
    exact = _vcpo_estimators.of(np.r_[mean, power], 1 << 53, truth)
    covered = dict.fromkeys(("length", "cosine", "worth", "variance"), 0)
    for _ in range(200):
        usual = mean + rng.normal(size=(300, 3)) * spread
        other = mean + 0.5 * (usual - mean) + 0.1 * rng.normal(size=(300, 3))
        found = _vcpo_estimators.measured({"group mean": usual, "other": other}, truth)
        known = {**exact, "variance": 0.25 + 0.03 / 3.5}
        covered["variance"] += found["other"]["variance"][1] <= known["variance"] <= found["other"]["variance"][2]
        for name in ("length", "cosine", "worth"):
            covered[name] += found["group mean"][name][1] <= known[name] <= found["group mean"][name][2]
        assert found["other"]["variance"][2] - found["other"]["variance"][1] < 0.1
    assert min(covered.values()) >= 172, covered


def test_a_mean_that_is_not_told_from_nothing_has_a_reason_instead_of_a_direction():
    row = vcpo_baselines._row("cosine", float("nan"), float("nan"), float("nan"))
    assert set(row) == {"quantity", "reason"}
    # An even number of opposite gradients has no mean at all.
    nothing = np.array([[1.0, 2.0], [-1.0, -2.0]] * 8)
    found = _vcpo_estimators.measured({"group mean": nothing}, np.array([1.0, 0.0]))
    assert np.isnan(found["group mean"]["cosine"][0]) and found["group mean"]["length"][0] == 0.0


def test_rows_say_what_is_missing(quick):
    missing = quick[quick.value.isna()]
    assert missing.reason.notna().all() and quick[quick.value.notna()].reason.isna().all()
    sampled = quick[(quick.source == "sampled") & quick.value.notna()]
    assert (sampled.low <= sampled.value).all() and (sampled.value <= sampled.high).all()


def test_the_figure_draws_the_rows_with_intervals(quick):
    panels, own = figure.draw(quick).axes, figure.cases(quick)[-1]
    assert own.cap.notna().all()
    for ax, quantity in zip(panels, ("variance", "worth"), strict=True):
        for arm, box in zip(figure.ARMS, ax.containers, strict=True):
            drawn = box[0].get_ydata().astype(float)
            np.testing.assert_allclose(drawn, figure.select(own, arm, quantity).value, rtol=1e-12)
            assert box.has_yerr
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in panels)
