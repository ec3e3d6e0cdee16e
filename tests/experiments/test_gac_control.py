"""Alignment control against a smaller step: what is measured obeys its predictions, and the figure draws it."""

import math

import numpy as np
import pytest

from asyncsim import claims
from asyncsim.base.checks import InputError
from asyncsim.running import running
from asyncsim.sampling import oracle
from experiments import _gac_control as arms
from experiments import gac_control
from paper_figures import gac_control as figure
from tests.experiments._lab import rows_of

QUICK = {(setting["task"], setting["staleness"]): setting for setting in gac_control.QUICK[:-2]}
"""Without the longer runs."""

every = rows_of("gac_control", quick=True)


@pytest.fixture(scope="module")
def rows(every):
    return figure.parted(every)[0]


def restored(staleness):
    """Predicted largest step that full projection bounds on the quadratic, far from its minimum."""
    others = {"noise": arms.NOISE, "others": arms.DIRECTIONS - 1}
    point = {"staleness": staleness, "curvature": 1.0, **others, "step": 0.5, "reference": "raw"}
    return claims.claim("alignment/projection-restores-sync-boundary").predict(point)["step"]


def own(rows, quantity, task, staleness, rule):
    found = rows[(rows.quantity == quantity) & (rows.task == task) & (rows.staleness == staleness)]
    return found[found.rule == rule].sort_values("step")


def test_best_return_is_that_of_the_optimal_policy():
    """The optimum of a penalized bandit is softmax(r / kl), and nothing near it does better."""
    task, logits = arms.task("fixed"), arms.means() / arms.KL
    value, gradient = oracle.exact(task, logits.ravel())
    assert float(value) == pytest.approx(arms.best_return("fixed"), rel=1e-12) and np.abs(gradient).max() < 1e-12
    nearby = oracle.exact(task, logits.ravel() + 0.1 * np.cos(np.arange(logits.size)))[0]
    assert float(nearby) < arms.best_return("fixed")


@pytest.mark.parametrize(
    ("task", "staleness"), [("fixed", 4), ("fixed", 16), ("random", 16), ("stiff", 4), ("stiff", 16)]
)
def test_without_control_the_predicted_limit_divides_good_steps_from_bad(rows, task, staleness):
    """The best step is below the limit of this staleness; above it all are far worse, also below another's limit."""
    limit = figure.boundary(task, staleness)
    found = own(rows, "regret", task, staleness, "none")
    value = found.value.astype(float).to_numpy()
    best = np.nanargmin(value)
    assert found.step.iloc[best] < limit and value[best] < 0.25 * arms.initial_regret(task)
    lost = np.isnan(value) | (value > 5.0 * value[best])
    beyond = (found.step > 1.4 * limit).to_numpy()
    assert beyond.sum() >= 1 and lost[beyond].all()
    # Planted: the limit of a quarter of the staleness would call steps fine at which everything is lost.
    assert (beyond & (found.step < 0.8 * figure.boundary(task, staleness // 4)).to_numpy()).any()


def test_projection_bounds_the_stiff_quadratic_up_to_the_synchronous_limit(rows):
    """Between the stale and the synchronous limit it is bounded far above the synchronous loss; without it, lost."""
    for rule, lost in (("none", True), ("project", False)):
        found = own(rows, "regret", "stiff", 16, rule)
        between = found[(found.step > 2.5 * figure.boundary("stiff", 16)) & (found.step < 0.9 * restored(16))]
        assert len(between) >= 2 and between.reason.notna().all() == lost
    floor = between.value.min()
    assert floor > 5 * own(rows, "regret", "stiff", 0, "none").value.min()


def test_synchronous_training_does_not_depend_on_a_rule_that_never_acts():
    """A cosine threshold of 1 changes nothing: the run is that of the plain chain, bit for bit."""
    setting = {**QUICK["random", 0], "rules": ["none"], "replicates": 4, "updates": 40}
    built = arms.spec("random", 0, ["none"], arms.grid(setting), 4, 40)
    plain = built.replace(update=type(built.update)(built.update.links[1:]))
    first, second = (running.run(spec, seed=3, progress=False) for spec in (built, plain))
    assert np.array_equal(first["exact_return"], second["exact_return"])
    assert first["align_projected"].sum() == first["align_skipped"].sum() == 0.0


def test_shares_can_move_and_are_those_of_the_rule(rows):
    shares = rows[rows.quantity.isin(["projected", "skipped"])]
    assert (shares[shares.rule == "none"].value == 0.0).all()
    assert (shares[(shares.rule == "project") & (shares.quantity == "skipped")].value == 0.0).all()
    skipped = shares[(shares.rule == "skip") & (shares.quantity == "skipped")].value
    assert skipped.max() > 0.9 and skipped.min() < 0.3
    assert arms.knobs("threshold", 100)["low"] == pytest.approx(0.2)


def test_a_best_step_at_the_edge_of_the_grid_is_refused():
    setting = {**QUICK["stiff", 4], "octaves": (-6.0, -4.0), "rules": ["none"]}
    with pytest.raises(InputError, match="extend the grid"):
        gac_control.run(setting)


def test_no_best_step_of_the_settings_lies_at_an_edge(rows):
    for (task, staleness), setting in QUICK.items():
        for rule in setting["rules"]:
            assert not bool(figure.row(rows, task, staleness, rule, figure.best(rows, task, staleness, rule)).edge)


def test_what_diverged_has_a_reason_and_no_value():
    lost = gac_control.summary(np.array([1.0, math.nan]), 100.0)
    far = gac_control.summary(np.array([1e5, 1e7]), 100.0)
    fine = gac_control.summary(np.array([1.0, 2.0, 3.0]), 100.0)
    assert lost["value"] is None and "1 of 2" in lost["reason"] and far["value"] is None and far["reason"]
    assert fine["value"] == 2.0 and fine["low"] < 2.0 < fine["high"] and fine["reason"] is None


def test_choosing_and_reporting_replicates_differ(rows):
    setting = QUICK["fixed", 4]
    tuning, regret = (own(rows, name, "fixed", 4, "none") for name in ("tuning", "regret"))
    assert set(tuning.samples) == {setting["choosing"]}
    assert set(regret.samples) == {setting["replicates"] - setting["choosing"]}
    assert not np.array_equal(tuning.value.to_numpy(), regret.value.to_numpy())


def test_the_figure_draws_the_rows_on_dashed_limits(every, rows):
    (top,) = figure.draw(every).axes
    task = figure.DRAWN
    drawn = np.concatenate([box[0].get_ydata() for box in top.containers])
    for rule in ("none", "project", "skip"):
        for value in own(rows, "regret", task, 16, rule).value.dropna():
            assert np.isclose(drawn, value, rtol=1e-12).any()
    for value in own(rows, "regret", task, 0, "none").value.dropna():
        assert np.isclose(drawn, value, rtol=1e-12).any()
    assert figure.boundary(task, 16) in [line.get_xdata()[0] for line in top.lines if line.is_dashed()]
    assert top.containers and all(box.has_yerr for box in top.containers)


def test_predicted_limits_shrink_with_staleness_and_scale_with_prompts():
    for task in arms.TASKS:
        limits = [figure.boundary(task, age) for age in (0, 1, 4, 32)]
        assert limits == sorted(limits, reverse=True)
        assert limits[0] / limits[1] == pytest.approx(2.0, rel=1e-12)


def test_longer_runs_are_apart_and_quoted(every, rows):
    longer = figure.parted(every)[1]
    assert set(rows.updates) == {200} and set(longer.updates) == {600} and set(longer.task) == {"fixed", "stiff"}
    found = figure.numbers(every)
    pair = [
        figure.row(longer, "stiff", 16, rule, figure.best(longer, "stiff", 16, rule)) for rule in ("none", "project")
    ]
    assert found["stiff_gain_long"] == figure.fold(*pair)


def test_no_two_settings_of_a_task_share_a_seed():
    seeds = [(setting["task"], setting["seed"]) for setting in gac_control.SETTINGS]
    assert len(set(seeds)) == len(seeds)


def test_grids_are_fine_around_the_limits():
    for own in gac_control.SETTINGS:
        steps = np.log2(arms.grid(own))
        if own["task"] == "stiff":
            assert np.allclose(np.diff(steps), 1 / 8)
        if own["task"] == "fixed" and own["staleness"]:
            near = np.abs(steps - np.log2(figure.boundary("fixed", own["staleness"]))) < 0.4
            assert np.allclose(np.diff(steps[near]), 1 / 8) and near.sum() > 3
            # The step without staleness is found again at every other.
            common = arms.grid(next(one for one in gac_control.SETTINGS if one["staleness"] == 0))
            assert set(common) <= set(arms.grid(own))


def test_numbers_are_those_of_the_rows(every, rows):
    found = figure.numbers(every)
    step = figure.best(rows, "random", 0, "none")
    pair = [figure.row(rows, "random", age, rule, step) for age, rule in ((16, "project"), (0, "none"))]
    assert found["last"] == "16" and found["random_behind"] == figure.fold(*pair)
    ratios = [figure.behind(rows, "random", age, "project") for age in (4, 16)]
    assert found["random_project_matches"] == ("0" if ratios[0] > 1.1 else "4" if ratios[1] > 1.1 else "16")
