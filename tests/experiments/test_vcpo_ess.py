"""ESS under staleness: rows against the exact law and against one update's, what would not pass, and the figure.

Comparisons are at 6 standard errors (t with 15 degrees of freedom or more: 3e-5 each, were seeds not fixed).
"""

import numpy as np
import pandas as pd
import pytest

from experiments import vcpo_ess
from paper_figures import _vcpo_ess, vcpo_drift
from paper_figures import vcpo_ess as figure
from tests.experiments._lab import rows_of

ERRORS = 6.0


def table(settings):
    return pd.DataFrame([row for setting in settings for row in vcpo_ess.run(dict(setting))], columns=vcpo_ess.COLUMNS)


quick = rows_of("vcpo_ess", quick=True)


@pytest.fixture(scope="module")
def pairs():
    """One cell amid training with enough replicates to tell wrong laws apart."""
    return table([{**vcpo_ess._runs(16, (32, 64), True), "replicates": 192}])


def paired(rows, quantity, name, change=lambda mu, pi, length: (mu, pi, length)):
    """Difference of measured and predicted over its standard error, with the arguments of the law changed."""
    single = rows[rows.replicate.notna()]
    value = single[single.quantity == quantity].sort_values("replicate").value.to_numpy()
    mu, pi = (
        single[single.quantity == each].pivot_table(index="replicate", columns="token", values="value").to_numpy()
        for each in ("log_mu", "log_pi")
    )
    mu, pi, length = change(mu, pi, int(rows.length.iloc[0]))
    batch = int(rows.batch.iloc[0])
    found = [_vcpo_ess.expected(batch, length, tuple(a), tuple(b)) for a, b in zip(mu, pi, strict=True)]
    gap = value - np.array([getattr(each, name) for each in found])
    return gap.mean() / (gap.std(ddof=1) / np.sqrt(len(gap)))


def test_batches_amid_training_follow_the_exact_law_of_their_two_policies(quick):
    for quantity, name in (("ess", "ess"), ("largest_share", "share")):
        cells = quick[(quick.part == "training") & quick.length.isin(_vcpo_ess.LENGTHS)].groupby(
            ["length", "staleness"]
        )
        found = [paired(part, quantity, name) for _, part in cells]
        assert len(found) == 7 and max(map(abs, found)) < ERRORS


def test_other_policies_other_lengths_and_a_large_batch_would_not_pass(pairs):
    old, young = (pairs[pairs.staleness == staleness] for staleness in (64, 32))
    assert abs(paired(old, "ess", "ess")) < ERRORS and abs(paired(old, "largest_share", "share")) < ERRORS
    single = young[young.replicate.notna()]
    other = [
        single[single.quantity == each].pivot_table(index="replicate", columns="token", values="value").to_numpy()
        for each in ("log_mu", "log_pi")
    ]
    assert abs(paired(old, "ess", "limit")) > ERRORS
    assert abs(paired(old, "ess", "ess", lambda mu, pi, length: (*other, length))) > ERRORS
    assert abs(paired(old, "ess", "ess", lambda mu, pi, length: (mu, pi, 3 * length // 4))) > ERRORS
    assert abs(paired(old, "largest_share", "share", lambda mu, pi, length: (mu, pi, 3 * length // 4))) > ERRORS


def test_one_update_predicts_the_drift_of_the_first_stale_batches_and_its_halves_alone_do_not(quick):
    missed = {"drift": 0, "noise": 0}
    for reward in ("tokens", "chance"):
        own = _vcpo_ess.means(quick, "start", "log_variance", reward)
        for row in own.itertuples():
            error = (row.high - row.low) / 2 / 2.13 / row.length
            predicted = float(_vcpo_ess.law(quick, reward, row.staleness))
            # The drift itself is known to 2 percent; the batch replaces moments of 64 sequences.
            assert abs(row.value / row.length - predicted) < ERRORS * error + 0.05 * predicted
            first = quick[(quick.part == "update") & (quick.reward == reward)].set_index("quantity").value
            wrong = {"drift": first.noise * row.staleness, "noise": first.drift * row.staleness**2}
            for name, value in wrong.items():
                missed[name] += abs(row.value / row.length - value) > ERRORS * error + 0.05 * predicted
    assert missed["drift"] >= 7 and missed["noise"] >= 1


def test_the_mean_step_of_the_first_update_is_the_exact_gradient(quick):
    """Uniform tokens: gradient p_0 (1[k = 0] - p_k), variance over tokens (2/27 - 4/81) step^2 = 2/81 step^2."""
    row = quick[(quick.part == "update") & (quick.quantity == "drift") & (quick.reward == "tokens")].iloc[0]
    exact = 2.0 / 81.0 * vcpo_ess.STEP**2
    error = (row.high - row.low) / 2 / 1.96
    assert abs(row.value - exact) < ERRORS * error and abs(row.value - 2 * exact) > ERRORS * error
    chance = quick[(quick.part == "update") & (quick.quantity == "drift") & (quick.reward == "chance")].iloc[0]
    assert abs(chance.value) < ERRORS * (chance.high - chance.low) / 2 / 1.96


def test_exp_of_the_variance_holds_where_it_is_trusted_and_not_beyond(quick):
    own = _vcpo_ess.means(quick, "start", "ess")
    variance = own.length * _vcpo_ess.law(quick, "tokens", own.staleness.to_numpy(dtype=float))
    error = (own.high - own.low) / 2 / 2.13
    off = (own.value - np.exp(-variance)).abs()
    sure = variance <= _vcpo_ess.trusted(quick)
    assert sure.sum() >= 4 and (off < ERRORS * error + 0.05)[sure].all()
    assert (own.value > 1.2 * np.exp(-variance))[variance > 2 * _vcpo_ess.trusted(quick)].all()


def test_the_ess_of_a_batch_is_forecast_at_every_variance_and_that_of_an_infinite_one_is_not(quick):
    own = _vcpo_ess.drawn(_vcpo_ess.means(quick, "start", "ess"))
    missed = 0
    for row in own:
        error = (row.high - row.low) / 2 / 2.13
        told = _vcpo_ess.forecast(quick, int(row.length), [row.length * _vcpo_ess.law(quick, "tokens", row.staleness)])
        # The drift is known to 2 percent.
        assert abs(row.value - told[0].ess) < ERRORS * error + 0.02
        missed += abs(row.value - told[0].limit) > ERRORS * error + 0.02
    assert len(own) >= 6 and missed >= 1


def test_the_forecast_policies_have_the_variance_that_they_are_asked_for(quick):
    """Log ratio over equal chances, exact: variance of a two-valued variable."""
    for asked in (0.01, 0.3, 2.0):
        step = 3.0 * np.sqrt(asked / 2.0)
        ratio = np.array([step, 0.0, 0.0])
        assert ratio.var() == pytest.approx(asked)
        told = _vcpo_ess.forecast(quick, 1, [asked])[0].limit
        weight = np.exp(ratio)
        assert told == pytest.approx(weight.mean() ** 2 / (weight**2).mean())


def test_rows_have_intervals_or_a_replicate(quick):
    assert list(quick.columns) == vcpo_ess.COLUMNS and np.isfinite(quick.value).all()
    single = quick.replicate.notna()
    assert quick[single].low.isna().all() and (quick[~single].low <= quick[~single].value).all()
    assert (quick[quick.quantity == "ess"].value <= 1.0 + 1e-12).all()


def test_the_figure_draws_the_rows_with_intervals_on_dashed_predictions(quick):
    for ax, (quantity, (field, *_)) in zip(figure.draw(quick).axes, figure.PANELS.items(), strict=True):
        drawn = np.concatenate([box[0].get_ydata() for box in ax.containers]).astype(float)
        rows = _vcpo_ess.means(quick, "training", quantity)
        assert len(rows) > 1
        np.testing.assert_allclose(sorted(drawn), sorted(rows.value), rtol=1e-12)
        dashed = np.concatenate([line.get_ydata() for line in ax.lines if line.get_linestyle() == "--"])
        told = [
            np.mean([getattr(each, field) for each in _vcpo_ess.realized(part)])
            for length in figure.MARKERS
            for part in _vcpo_ess.readings(quick, rows[rows.length == length].sort_values("staleness"))
        ]
        np.testing.assert_allclose(dashed, told, rtol=1e-12)
        assert all(box.has_yerr for box in ax.containers)


def test_the_figure_of_drift_draws_the_rows_on_the_forecast(quick):
    start = quick[(quick.part == "start") & quick.replicate.isna() & (quick.length == vcpo_drift.LENGTH)]
    for ax, quantity in zip(vcpo_drift.draw(quick).axes, ("log_variance", "ess"), strict=True):
        drawn = np.concatenate([box[0].get_ydata() for box in ax.containers]).astype(float)
        rows = start[start.quantity == quantity]
        np.testing.assert_allclose(sorted(drawn), sorted(rows.value), rtol=1e-12)
        assert len(drawn) >= 4 and all(box.has_yerr for box in ax.containers)
    dashed, random = [line for line in ax.lines if line.get_linestyle() == "--"]
    variance = vcpo_drift.LENGTH * _vcpo_ess.law(quick, "tokens", dashed.get_xdata())
    told = [each.ess for each in _vcpo_ess.forecast(quick, vcpo_drift.LENGTH, variance)]
    np.testing.assert_allclose(dashed.get_ydata(), told, rtol=1e-12)
    variance = vcpo_drift.LENGTH * _vcpo_ess.law(quick, "chance", random.get_xdata())
    np.testing.assert_allclose(random.get_ydata(), np.exp(-variance), rtol=1e-12)
