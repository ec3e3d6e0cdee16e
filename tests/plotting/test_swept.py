"""Pictures of sweeps: a map over two numbers, lines over one, costs of a system; a prediction is dashed."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.base.answers import Sweep
from asyncsim.base.checks import InputError
from asyncsim.plotting import _answers
from tests.sweeping.laboratory import bandit


def swept(grid, **options):
    return sim.sweep(bandit(), grid, replicates=6, workers=1, **options)


def test_two_numbers_make_a_map_for_each_other_setting():
    methods = [sim.methods.grpo(), sim.methods.reinforce()]
    found = swept({"method": methods, "staleness": [0, 1, 4], "lr": [0.1, 1.0, 10.0]})
    figure = sim.plot(found)
    left, right, bar = figure.axes
    assert [left.get_title(loc="left"), right.get_title(loc="left")] == ["grpo", "reinforce"]
    assert left.get_yscale() == "log" and left.get_xlabel() == "staleness (versions)" and left.get_ylabel() == "lr"
    shades = left.collections[0].get_array()
    assert shades.shape == (3, 3)
    row = next(r for r in found.summary if (r["method"], r["staleness"], r["lr"]) == ("grpo", 4, 0.1))
    assert shades[0, 2] == row["mean"]
    assert len(left.texts) == 9 and f"{row['mean']:.3f}"[:4] in left.texts[6].get_text().partition("\n±")[0]
    assert bar.get_ylabel() == "return of the trained policy"


def test_a_claim_is_a_dashed_line_over_its_map():
    spec = sim.Spec(
        sim.tasks.quadratic((1.0,), start=1.0), sim.schedules.fixed(0), sim.methods.gradient(),
        sim.chain(sim.updates.sgd(0.1)), samples_per_group=1, updates=20,
    )  # fmt: skip
    found = sim.sweep(
        spec, {"staleness": [0, 4], "lr": [0.1, 1.0]}, metric="exact_return", replicates=2, workers=1,
        claim="staleness/stability-boundary", at={"curvatures": (1.0,)},
    )  # fmt: skip
    (line,) = sim.plot(found).axes[0].lines
    assert line.get_linestyle() == "--" and np.round(line.get_ydata(), 3).tolist() == [2.0, 0.347]


def test_one_number_makes_a_line_for_each_other_setting():
    figure = sim.plot(swept({"method": [sim.methods.grpo(), sim.methods.reinforce()], "staleness": [0, 1, 4]}))
    (ax,) = figure.axes
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["grpo", "reinforce"]
    assert ax.get_xlabel() == "staleness (versions)" and ax.get_ylabel() == "return of the trained policy"


def test_a_system_shows_four_costs_and_its_knee_in_the_title():
    system = sim.systems.areal(
        max_head_offpolicyness=1, consumer_batch_size=4, max_concurrent_rollouts=64, length="exponential:1", load=1.5
    )
    found = sim.sweep(system, {"max_head_offpolicyness": [1, 2, 8]}, updates=60, replicates=3, workers=1)
    figure = sim.plot(found)
    assert [ax.get_ylabel() for ax in figure.axes] == [label for _, label in _answers.COSTS]
    assert f"max_head_offpolicyness = {found.knee()[1]}" in figure.get_suptitle()


def test_a_boundary_has_brackets_and_its_prediction():
    rows = tuple({"staleness": s, "low": 0.9 / (s + 1), "high": 1.1 / (s + 1), "predicted": 1.0 / (s + 1),
                  "narrow": True, "replicates": 1} for s in (0, 1, 4))  # fmt: skip
    from asyncsim.base.answers import Boundary

    (ax,) = sim.plot(Boundary("lr", ("staleness",), rows, "event", 0.5, 0.05, "x")).axes
    assert ax.get_ylabel() == "lr at the boundary" and [line.get_linestyle() for line in ax.lines][-1] == "--"


def test_categories_are_points_without_a_line():
    (ax,) = sim.plot(swept({"method": [sim.methods.grpo(), sim.methods.reinforce()]})).axes
    ax.figure.canvas.draw()
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["grpo", "reinforce"]
    assert {line.get_linestyle() for line in ax.lines} == {"None"}


def test_shades_span_all_means_unless_a_few_lie_far_off():
    def rows(*means):
        return [{"mean": mean, "diverged": 0.0} for mean in means]

    assert _answers._range(rows(0.0, 0.1, 0.2, 0.3)) == (0.0, 0.3)
    low, high = _answers._range(rows(-1e200, -1.0, -0.5, -0.4, -0.3, -0.2))
    assert -3.0 < low < -0.5 and high == -0.2
    # No scale of a share leaves [0, 1], however few values it has.
    for means, scale in {
        (): (0, 1),
        (0.7,): (0, 0.7),
        (0.0, 0.0): (0, 1),
        (1.0, 1.0): (0, 1),
        (-2.0,): (-2, 0),
    }.items():
        assert _answers._range(rows(*means)) == scale


def test_every_metric_has_its_panel():
    metrics = ["trained_return", "ess"]
    one = sim.plot(swept({"staleness": [0, 2]}, metric=metrics))
    assert [ax.get_ylabel() for ax in one.axes] == ["return of the trained policy", "effective sample size"]
    two = sim.plot(swept({"staleness": [0, 2], "lr": [0.1, 0.2]}, metric=metrics))
    bars = [ax.get_ylabel() for ax in two.axes if ax.get_label() == "<colorbar>"]
    assert len(two.axes) == 4 and [bar.partition("\n")[0] for bar in bars] == [ax.get_ylabel() for ax in one.axes]


def made(values):
    """A sweep with made up numbers, one for each setting."""
    settings = [dict(zip(values, each, strict=True)) for each in itertools.product(*values.values())]
    own = {"metric": "batch_return", "diverged": 0.0}
    numbers = [{"mean": k, "low": k - 1, "high": k + 1} for k in range(len(settings))]
    rows = tuple({**each, **own, **number} for each, number in zip(settings, numbers, strict=True))
    return Sweep("made", "s", tuple(values), values, ("batch_return",), rows, 1, 1, (), 4, "", 0.0)


def test_a_sweep_without_numbers_has_no_picture():
    empty = replace(made({"staleness": (0, 4), "lr": (0.1, 0.2)}), summary=())
    with pytest.raises(InputError, match="one with numbers"):
        sim.plot(empty)


def test_lines_go_from_left_to_right_and_none_looks_like_another():
    names = tuple("abcdefgh")
    ax = sim.plot(made({"method": names, "lr": (0.4, 0.1, 0.2)})).axes[0]
    lines = [bars[0] for bars in ax.containers]
    assert all(list(line.get_xdata()) == [0.1, 0.2, 0.4] for line in lines)
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == len(names)


def test_maps_say_what_they_leave_out():
    whole = made({"method": tuple("abcdef"), "staleness": tuple(range(40)), "lr": (0.1, 0.2)})
    figure = sim.plot(replace(whole, summary=whole.summary[1:]))
    assert figure.get_suptitle() == "the first 4 of 6 settings of method"
    assert figure.axes[-1].get_ylabel() == "return of the rollouts (grey: no numbers)"
    assert len(figure.axes[0].get_xticks()) <= 16
