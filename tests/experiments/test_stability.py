"""The experiment on stability: its measurement can fail, its rows are complete, its figure and gallery quote them."""

import math

import numpy as np
import pytest

from experiments import _store, stability
from paper_figures import stability as figure
from tests.experiments._lab import rows_of

rows = rows_of("stability")


def of(rows, quantity):
    return rows[rows.quantity == quantity]


def constant(tau):
    return 2.0 * math.sin(math.pi / (2 * (2 * tau + 1)))


# `python -m experiments --all --quick`, a step of its own, runs them all.
@pytest.mark.long
@pytest.mark.parametrize("name", sorted(_store.names()))
def test_the_first_quick_setting_gives_the_declared_columns(name):
    module = _store.experiment(name)
    found = module.run(dict(module.QUICK[0]))
    assert found and all(set(row) == set(module.COLUMNS) for row in found)


@pytest.mark.rows
@pytest.mark.committed(digits=False)
@pytest.mark.parametrize("name", sorted(_store.names()))
def test_committed_rows_are_those_of_the_settings(name):
    assert len(_store.read(name)) >= len(_store.experiment(name).SETTINGS)


@pytest.mark.parametrize("setting", [s for s in stability.QUICK if s["quantity"] == "boundary"], ids=str)
def test_a_boundary_is_bracketed_and_growth_changes_sign_across_it(setting):
    boundary, below, above = stability.boundary(setting)
    tau = setting["staleness"]
    right = constant(tau) if setting["schedule"] == "fixed" else 2.0 / (tau + 1)
    wrong = constant(tau + 1) if setting["schedule"] == "fixed" else constant(tau)
    low, high = boundary["low"] * boundary["curvature"], boundary["high"] * boundary["curvature"]
    assert low <= right <= high and not low <= wrong <= high
    assert below["value"] < 1.0 < above["value"] and below["step"] < boundary["value"] < above["step"]


def test_growth_at_no_staleness_is_that_of_the_stiffest_mode():
    _, below, above = stability.boundary(stability.QUICK[0])
    for row in (below, above):
        assert row["value"] == pytest.approx(abs(1.0 - row["step"] * max(stability.CURVATURES)), rel=1e-6)


@pytest.mark.committed
def test_the_quick_autocorrelogram_agrees_and_another_staleness_would_not():
    # Nine two-sided comparisons at 6 standard errors on 255 degrees of freedom: 6e-8 in all, were the seed not fixed.
    setting = stability.QUICK[-1]
    found = stability.autocorrelogram(setting)
    value, error = (np.array([row[name] for row in found]) for name in ("value", "error"))
    lags = np.arange(setting["lags"] + 1)
    right = figure.correlations(setting["staleness"], setting["curvature"], setting["step"], lags)
    wrong = figure.correlations(setting["staleness"] - 1, setting["curvature"], setting["step"], lags)
    assert found[0]["value"] == 1.0 and (error[1:] > 0).all()
    assert (np.abs(value - right)[1:] < 6 * error[1:]).all()
    assert (np.abs(value - wrong)[1:] > 6 * error[1:]).any()


def test_predicted_correlations_agree_between_closed_form_and_equation():
    tau, step = 3, 0.3
    lags = np.arange(1, tau + 2)
    closed = figure.correlations(tau, 1.0, step, lags)
    power, products = figure.autocovariance(1.0, step, 1.0, tau, lags)
    np.testing.assert_allclose(closed, np.array(products) / power, rtol=1e-10)


@pytest.mark.committed
def test_the_figure_draws_the_rows_on_dashed_predictions(rows):
    (ax,) = figure.draw(rows).axes
    boundary = of(rows, "boundary")
    drawn = np.concatenate([box[0].get_ydata() for box in ax.containers])
    np.testing.assert_allclose(sorted(drawn), sorted(boundary.value * boundary.curvature), rtol=1e-12)
    assert all(box.has_yerr for box in ax.containers) and ax.get_ylabel() and ax.get_xlabel().endswith("(versions)")
    curve = ax.lines[0]
    assert curve.is_dashed()
    np.testing.assert_allclose(curve.get_ydata(), [constant(tau) for tau in curve.get_xdata()], rtol=1e-12)


@pytest.mark.committed
def test_numbers_of_the_gallery_are_those_of_the_rows(rows):
    told = {key: text.replace("−", "-") for key, text in figure.numbers(rows).items()}
    boundary, lags, growth = (of(rows, name) for name in ("boundary", "autocorrelation", "growth"))
    pairs = zip(boundary.schedule, boundary.staleness, strict=True)
    predicted = np.array([constant(tau) if schedule == "fixed" else 2.0 / (tau + 1) for schedule, tau in pairs])
    off = 100 * np.abs(boundary.value * boundary.curvature / predicted - 1).max()
    assert told["off"] == f"{off:.2f}" and told["bracket"] == "0.5"
    np.testing.assert_allclose((boundary.high - boundary.low) / boundary.value, 0.01, rtol=1e-9)
    assert (told["boundaries"], told["least"], told["largest"]) == ("10", "0", "16") and len(boundary) == 10
    assert ((growth.value < 1).to_numpy() == ([True, False] * 10)).all()
    for name, lag in (("before", 4), ("after", 5)):
        row = lags[lags.lag == lag].iloc[0]
        assert told[name] == f"{row.value:+.4f} ± {(row.high - row.low) / 2:.4f}" and told[f"{name}_lag"] == f"{lag}"
    assert (told["before_predicted"], told["after_predicted"], told["replicates"]) == ("+0.14", "-0.14", "4096")
