"""Projection around Adam: what is measured agrees with its claims, would not with a swapped arm, and is drawn.

Rows are those of the quick settings, made once. False alarms: 18 shares at 6 standard errors on 23 degrees of freedom
or more, 1e-4 together were seeds not fixed; everything else is deterministic or far from its limit.
"""

import math

import numpy as np
import pytest

from asyncsim import claims
from asyncsim.base.checks import InputError
from experiments import gac_projection as experiment
from paper_figures import _gac_projection as kept
from paper_figures import gac_adam, gac_tuned
from paper_figures import gac_projection as figure
from tests.experiments._lab import rows_of

FLUCTUATION = 1.2e-2
"""What the quick runs' short second moment, in which the first gradient stays, may add to a share, relative."""

rows = rows_of("gac_projection", quick=True)


def shares(rows):
    for _, part in kept.only(rows, "shrinkage").groupby(["reference", "dimension"]):
        levels = sorted(set(part.signal))
        predicted = kept.shrunk(part, levels)
        for arm, values in predicted.items():
            mine = part[part.arm == arm].sort_values("signal")
            yield arm, mine, values, predicted["before" if arm != "before" else kept.BEHIND + kept.PLAIN]


def test_every_row_has_its_columns_and_a_value_or_a_reason(rows):
    assert set(rows.quantity) == {"shrinkage", "boundary", "amplitude", "tuning", "regret", "skipped"}
    assert (rows.value.notna() | rows.reason.notna()).all() and (rows.samples > 0).all()
    settings = [*experiment.SETTINGS, *experiment.QUICK]
    assert all("seed" in setting for setting in settings)


def test_shares_of_the_step_agree_with_the_claim_and_swapped_arms_would_not(rows):
    caught = 0
    for _arm, mine, right, swapped in shares(rows):
        allowed = 6.0 * mine.error.to_numpy(dtype=float) + FLUCTUATION * right
        assert (np.abs(mine.value.to_numpy(dtype=float) - right) < allowed).all(), mine
        caught += int((np.abs(mine.value.to_numpy(dtype=float) - swapped) > allowed).sum())
    assert caught >= 12


def test_one_coordinate_gets_its_whole_step_back(rows):
    own = kept.only(rows, "shrinkage", reference="known", dimension=1, arm="before")
    assert (np.abs(own.value.astype(float) - 1.0) < 6.0 * own.error.astype(float) + FLUCTUATION).all()


def test_momentum_lets_projection_behind_adam_take_nearly_everything(rows):
    own = kept.only(rows, "shrinkage", reference="previous", arm="behind").sort_values("signal").value.astype(float)
    assert own.max() < 0.1 and own.iloc[-1] < 1e-3 and own.is_monotonic_decreasing


@pytest.mark.parametrize(("arm", "reference"), [("none", None), ("raw", "raw"), ("applied", "applied")])
def test_boundaries_lie_on_their_claims_and_another_staleness_would_not(rows, arm, reference):
    own = kept.only(rows, "boundary", arm=arm)
    assert len(own) == 2
    for row in own.itertuples():
        law = kept.boundary if reference is None else lambda tau: kept.restored(tau, reference)
        assert row.value == pytest.approx(law(int(row.staleness)), rel=0.015) and row.low < row.value < row.high
        if arm != "raw":
            assert row.value != pytest.approx(law(int(row.staleness) + 2), rel=0.1)


def test_half_of_the_projection_is_worth_about_a_factor_of_two(rows):
    for row in kept.only(rows, "boundary", arm="half").itertuples():
        assert 1.6 < row.value / kept.boundary(int(row.staleness)) < 2.2


def test_adam_swings_as_far_as_the_boundary_says_and_one_update_more_would_show(rows):
    own = kept.only(rows, "amplitude", arm="none without momentum")
    for row in own.itertuples():
        tau = int(row.staleness)
        assert row.value == pytest.approx(1.0 / kept.boundary(tau), rel=0.03)
        assert row.value != pytest.approx(1.0 / kept.boundary(tau + 1), rel=0.1)
    before = kept.only(rows, "amplitude", arm="before without momentum", staleness=4).value.iloc[0]
    assert before < 0.6 * kept.only(rows, "amplitude", arm="none without momentum", staleness=4).value.iloc[0]


def swing(staleness, momentum):
    """Expected root mean square of one mode under Adam without control, in its steps: a rule of thumb, no claim.

    A mode that grows enlarges Adam's second moment until step (1 - momentum) curvature / sqrt(v) is the largest that is
    stable with that momentum; v is then the mean square of the mode's own gradient, which has to drown the noise.
    """
    point = {"staleness": staleness, "momentum": momentum, "curvatures": (1.0,)}
    return (1.0 - momentum) / claims.claim("staleness/stability-boundary").predict(point)["step"]


def test_with_momentum_it_swings_as_far_as_heavy_ball_says_and_no_other_rule_would_do(rows):
    value = kept.only(rows, "amplitude", arm="none", staleness=4).value.iloc[0]
    assert value == pytest.approx(swing(4, kept.MOMENTUM), rel=0.03)
    factor = 1.0 - kept.MOMENTUM
    wrong = [swing(4, 0.0), swing(5, kept.MOMENTUM), swing(4, kept.MOMENTUM) / factor]
    assert all(value != pytest.approx(other, rel=0.1) for other in wrong)
    for tau in (0, 1, 7):
        assert swing(tau, 0.0) == pytest.approx(1.0 / kept.boundary(tau), rel=1e-12)


def test_staleness_at_a_tuned_step_costs_nothing_that_control_could_win_back(rows):
    tuned, none = kept.table(rows, ("none", "behind")), {}
    for tau in (0, 16):
        none[tau], behind = (tuned[(tuned.arm == arm) & (tuned.staleness == tau)].iloc[0] for arm in ("none", "behind"))
        assert behind.low > 1.5 * none[tau].high
    cost, reach = kept.less(none[16], none[0])
    assert cost < reach
    told = gac_tuned.numbers(rows)
    assert told["cost"] == told["cost_most"] == kept.signed(cost, reach)
    costly = rows.copy()
    costly.loc[(costly.arm == "none") & (costly.staleness == 16), ["value", "low", "high"]] *= 3.0
    width = np.hypot(3.0 * (none[16].high - none[16].low), none[0].high - none[0].low) / 2
    assert gac_tuned.numbers(costly)["cost"] == kept.signed(3.0 * none[16].value - none[0].value, width)


def test_the_step_is_chosen_by_other_replicates_than_those_reported(rows):
    altered = rows.copy()
    altered.loc[altered.quantity == "regret", "value"] = 1.0
    for arm in ("none", "before", "behind"):
        assert kept.best(rows, arm, 16) == kept.best(altered, arm, 16)
    setting = experiment.QUICK[-1]
    own = kept.only(rows, "regret", arm="none", staleness=0)
    assert (own.samples == setting["replicates"] - setting["choosing"]).all()


def test_projection_behind_adam_needs_steps_many_times_as_large(rows):
    assert kept.best(rows, "behind", 16) >= 8 * kept.best(rows, "none", 16)


def test_a_best_step_at_the_edge_of_the_grid_is_refused():
    scored = [
        {"arm": "none", "staleness": 2, "step": step, "edge": step != 0.2, "value": value}
        for step, value in ((0.1, 1.0), (0.2, 0.5), (0.4, 2.0))
    ]
    experiment.inside(scored)
    scored[-1]["value"] = 0.1
    with pytest.raises(InputError, match=r"learning_rates = 0\.4: must be not best at an end, for none at staleness 2"):
        experiment.inside(scored)


def test_replicates_that_overflow_give_a_reason_and_no_value():
    found = experiment.summary(np.array([1.0, math.inf, math.nan]))
    assert found == {"samples": 3, "reason": "2 of 3 replicates overflowed"}


def among(own, arms):
    return own[own.arm.isin(arms)]


def measured(ax):
    assert all(box.has_yerr for box in ax.containers) and ax.get_xlabel()
    return np.sort(np.concatenate([box[0].get_ydata() for box in ax.containers]).astype(float))


def test_boundaries_are_drawn_on_dashed_predictions(rows):
    (ax,) = figure.draw(rows).axes
    own = among(kept.only(rows, "boundary"), ("none", "raw", "applied"))
    np.testing.assert_allclose(measured(ax), np.sort(own.value.astype(float)), rtol=1e-12)
    # With projection the claim begins at one update of staleness, and so do its lines.
    assert sorted(min(line.get_xdata()) for line in ax.lines if line.is_dashed()) == [0, 1, 1]


def test_shares_are_drawn_on_dashed_predictions(rows):
    after, spread = kept.BEHIND + kept.PLAIN, kept.only(rows, "shrinkage").dimension.max()
    known = kept.only(rows, "shrinkage", reference="known")
    own = known[(known.dimension == spread) & known.arm.isin(["before", after])]
    (ax,) = gac_adam.draw(rows).axes
    np.testing.assert_allclose(measured(ax), np.sort(own.value.astype(float)), rtol=1e-12)
    dashed = [line for line in ax.lines if line.is_dashed()]
    assert len(dashed) == 2 and all(np.isfinite(line.get_ydata()).all() for line in dashed)


def test_regrets_are_drawn_without_predictions(rows):
    (tuned,) = gac_tuned.draw(rows).axes
    assert measured(tuned).tolist() == sorted(kept.table(rows, tuple(gac_tuned.NAMES)).value.astype(float))
    assert not any(line.is_dashed() for line in tuned.lines)
