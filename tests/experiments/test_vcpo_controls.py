"""VCPO taken apart: controls keep what they claim to keep, differences are paired, the figure shows the rows."""

import numpy as np
import pytest
import torch

import asyncsim as sim
from experiments import _vcpo, vcpo_controls
from paper_figures import vcpo_controls as figure
from paper_figures import vcpo_timing
from tests.experiments._lab import rows_of

SMALL = {**vcpo_controls.QUICK[0], "horizons": [40], "replicates": 6}

rows = rows_of("vcpo_controls", quick=True)


@pytest.mark.parametrize("baseline", _vcpo.METHODS)
def test_scales_given_back_to_the_run_that_made_them_repeat_it_and_shifted_ones_do_not(baseline):
    def curve(*tail):
        return _vcpo.train("graded", 8, baseline, _vcpo.update("adam", 0.2, *tail), 40, 6, 0)

    ruled = curve(_vcpo.ess_step("adam"))
    scales = ruled["ess_step_scale"]
    assert scales[1:].min() < 0.9
    again = curve(_vcpo.Given(scales))
    np.testing.assert_array_equal(again["policy_return"], ruled["policy_return"])
    shifted = curve(_vcpo.Given(np.roll(scales, 1, axis=0)))
    assert (shifted["policy_return"] != ruled["policy_return"]).any()


def test_given_scales_do_not_depend_on_blocks():
    # Each replicate's own column, wherever the block begins.
    scales = np.linspace(0.1, 1.0, 12).reshape(2, 6)
    whole = _vcpo.Given(scales)
    part = whole.numbered(np.array([4, 5]))
    state = part.init(np.zeros((2, 3)))

    class Mark:
        direction = torch.ones(2, 3, dtype=torch.float64)

    record, state = part.apply(Mark(), state)
    np.testing.assert_allclose(record.direction[:, 0].numpy(), scales[0, 4:])
    assert state["count"].tolist() == [[1], [1]]


def test_controls_keep_the_mean_and_only_the_order_changes():
    arms = vcpo_controls.arms({**SMALL, "baseline": "opob"})
    own, returns = vcpo_controls.measured(SMALL, "opob")
    (given,), _ = arms["other"]
    (mixed,), _ = arms["shuffled"]
    np.testing.assert_array_equal(given.scales, own)
    assert (mixed.scales != own).any()
    np.testing.assert_array_equal(np.sort(mixed.scales, axis=0), np.sort(own, axis=0))
    for arm in ("other", "shuffled", "constant"):
        assert arms[arm][1].mean() == pytest.approx(own.mean(), rel=1e-12)
    below = [own[u, r] for u, r in np.ndindex(own.shape) if returns[u, r] < 0.9]
    assert arms["learning"][1].mean() == pytest.approx(np.mean(below), rel=1e-12)
    plain = vcpo_controls.arms(SMALL)
    assert set(plain) == {"plain", "ess", "other", "vcpo mean"}
    assert plain["vcpo mean"][1][0] == pytest.approx(own.mean(), rel=1e-12)
    assert vcpo_controls.measured(SMALL, "group mean")[0].mean() != own.mean()


def test_scales_come_from_held_out_seeds():
    same = _vcpo.train(
        "graded", 8, "group mean", _vcpo.update("adam", 0.2, _vcpo.ess_step("adam")), 40, 6, SMALL["seed"]
    )
    assert (vcpo_controls.measured(SMALL, "group mean")[0] != same["ess_step_scale"]).any()


def test_scales_in_a_random_order_lose_their_tie_to_time():
    # Scales that fall with time: shuffled, their correlation with time is 0 within 6 standard errors of 1/sqrt(n).
    falling = np.tile(np.linspace(1.0, 0.0, 200)[:, None], (1, 50))
    mixed = _vcpo.shuffled(falling, 7)
    correlation = np.corrcoef(np.tile(np.arange(200)[:, None], (1, 50)).ravel(), mixed.ravel())[0, 1]
    assert abs(correlation) < 6 / np.sqrt(mixed.size) < 0.1
    assert np.corrcoef(mixed[:, 0], mixed[:, 1])[0, 1] < 0.5


def test_arms_are_what_they_are_called(rows):
    # Each arm once more from the product's own parts; arms of the same baseline or step rule must not be swapped.
    setting = vcpo_controls.QUICK[0]
    parts = {
        ("group mean", "plain"): (sim.methods.truncated_is("sequence", cap=8), ()),
        ("group mean", "ess"): (sim.methods.truncated_is("sequence", cap=8), (sim.updates.ess_step("sqrt"),)),
        ("opob", "plain"): (sim.methods.vcpo(), ()),
        ("opob", "ess"): (sim.methods.vcpo(), (sim.updates.ess_step("sqrt"),)),
    }
    found = {}
    for arm, (method, tail) in parts.items():
        spec = sim.Spec(
            sim.tasks.token_bandit(8, 32, "markov", rewards="gaussian", deviation=0.2),
            sim.schedules.fixed(setting["staleness"]),
            method,
            sim.chain(sim.updates.clip_norm(1.0), sim.updates.adam(0.2), *tail),
            samples_per_group=16,
            updates=setting["horizons"][0],
            replicates=setting["replicates"],
            diagnostics=[_vcpo.RETURN],
        )
        curve = sim.run(spec, seed=0, progress=False)["policy_return"]
        found[arm] = float(curve[-setting["horizons"][0] // 10 :].mean())
    own = rows[(rows.staleness == setting["staleness"]) & (rows.quantity == "final")].set_index(["baseline", "arm"])
    assert {arm: float(own.value[arm]) for arm in parts} == pytest.approx(found, abs=1e-12)
    assert len({round(value, 6) for value in found.values()}) == 4


def test_differences_are_those_of_the_finals(rows):
    finals = rows[rows.quantity == "final"].set_index(["staleness", "horizon", "baseline", "arm"]).value
    differences = rows[rows.quantity == "difference"]
    assert len(differences) == 3 * (3 + 5)
    for row in differences.itertuples():
        place = (row.staleness, row.horizon, row.baseline)
        assert row.value == pytest.approx(finals[(*place, "ess")] - finals[(*place, row.against)], abs=1e-12)
        assert row.low < row.value < row.high


def test_retuned_steps_are_the_best_of_their_grid(rows):
    for place, own in rows[rows.arm.isin(["tuned", "tuned ess"])].groupby(["staleness", "baseline", "arm"]):
        steps = own[own.quantity == "step"].set_index("step").value
        assert list(steps.index) == vcpo_controls.GRID, place
        assert own[own.quantity == "final"].step.iloc[0] == steps.idxmax()


def test_the_figure_draws_the_rows(rows):
    places = [(8, 60), (128, 60), (128, 90)]
    assert figure.ends(rows) == places
    for ax, arm in zip(figure.draw(rows).axes, (1, 2), strict=True):
        right = [
            figure.of(rows, each[arm], "final", *place).value.iloc[0]
            for each in figure.ARMS.values()
            for place in places[1:]
        ]
        points = [float(box[0].get_xdata()[0]) for box in ax.containers]
        assert len(points) == 2 * len(figure.ARMS)
        np.testing.assert_allclose(points, right, rtol=1e-12)
        assert all(box.has_xerr for box in ax.containers)


def test_the_figure_of_timing_draws_the_differences(rows):
    (ax,) = vcpo_timing.draw(rows).axes
    own = rows[(rows.baseline == "opob") & (rows.quantity == "difference")]
    last = own.sort_values("horizon").drop_duplicates(["staleness", "against"], keep="last").sort_values("staleness")
    right = last.pivot_table(index="staleness", columns="against", values="value", sort=False)[[*vcpo_timing.AGAINST]]
    points = [float(box[0].get_xdata()[0]) for box in ax.containers]
    assert len(points) >= len(vcpo_timing.AGAINST) > 1
    np.testing.assert_allclose(points, right.to_numpy().ravel(), rtol=1e-12)
    assert all(box.has_xerr for box in ax.containers)
