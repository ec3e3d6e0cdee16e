"""What notebooks call: sliders redraw, a prediction is compared, a batch's weight is where it should be."""

import builtins
import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncsim as sim
import lessons
from tests.refusals import refused

PICTURE = functools.partial(lessons.descent, 1, length=10)


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("mine", "words"), [(2.2, "theory is nearer"), (2.002, "you are nearer"), (2.0, "as near as theory")]
)
def test_who_is_nearer(mine: float, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    lessons.side_by_side(sim.Estimate(2.003, 0.002), 2.0, guess=mine)
    _, measured, theory, you = said(capsys)
    assert measured.startswith("measured 2.0030 ±") and theory == "theory 2 0.003 held"
    assert you.startswith(f"your guess {mine:g} ") and you.endswith(words)


def test_a_verdict_and_a_formula_that_fails_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    lessons.side_by_side(sim.judge(sim.Estimate(1.0, 1e-4), 1.2), guess=1)
    few_slots = sim.systems.areal(5, 4, 1, length="lognormal:1.0:0.8", train_time=1.0)
    lessons.side_by_side(2.0, sim.claims.predicted_staleness(few_slots.describe_at(1), 1), guess=1)
    lessons.side_by_side(2.0, guess=1)
    lines = said(capsys)
    assert lines[2].endswith("violated") and lines[3].endswith("you are nearer")
    assert "permits in use, and 1 slot is too few" in lines[6] and lines[7] == lines[10] == "your guess 1 1"


def test_one_run_is_compared_and_not_judged(capsys: pytest.CaptureFixture[str]) -> None:
    lessons.side_by_side(lessons.mean([[1.0, 3.0]]), np.float64(2.5))
    assert said(capsys)[1:] == ["measured 2", "theory 2.5 0.5 not judged: one run has no error bar"]


def test_rounding_is_no_distance(capsys: pytest.CaptureFixture[str]) -> None:
    lessons.side_by_side(0.1 + 0.2, 0.3, guess=0.3)
    assert said(capsys)[2:] == ["theory 0.3 0 held", "your guess 0.3 0 as near as theory"]


@pytest.mark.parametrize("mine", ["3", float("nan"), True, [1.0]])
def test_a_guess_that_is_no_number_is_named(mine: Any) -> None:
    refused("guess", lambda: lessons.side_by_side(1.0, guess=mine))
    refused("guess", lessons.mark, PICTURE(0.1), mine)


@pytest.mark.parametrize(
    "call",
    [
        lambda: lessons.policies(-1, 0.1),
        lambda: lessons.policies(1, 0.0),
        lambda: lessons.descent(1.5, 0.1),  # type: ignore[arg-type]
        lambda: lessons.stale_batch(1, 0.1, 0, 4, 0),
        lambda: lessons.stale_batch(1, 0.1, 4, 0, 0),
        lambda: lessons.stale_batch(1, 0.1, 4, 4, -1),
        lambda: lessons.weights([]),
        lambda: lessons.weights([0.0, np.inf]),
        lambda: lessons.weights([0.0], predicted=1.5),
    ],
)
def test_bad_input_is_named(call: Any) -> None:
    refused("", call)


def test_policies_are_those_of_delayed_training() -> None:
    """The program's own REINFORCE on enumerated outcomes, late by so many updates, ends at `pi`."""
    spec = sim.Spec(
        sim.tasks.softmax_bandit(arms=3, means=lessons.REWARDS, rewards="fixed"),
        sim.schedules.fixed(3),
        sim.methods.reinforce(sim.advantages.leave_one_out()),
        sim.chain(sim.updates.sgd(0.7)),
        updates=lessons.HEAD_START + 3,
        replicates=1,
        sampling="enumerate",
        diagnostics="none",
    )
    logits = sim.run(spec, seed=0).parameters[0]
    pi = lessons.policies(3, 0.7)[1]
    assert np.abs(np.exp(logits) / np.exp(logits).sum() - pi).max() < 1e-12
    # A defect it must catch: staleness one off.
    assert np.abs(lessons.policies(2, 0.7)[1] - pi).max() > 1e-3


def test_a_batch_has_the_ratio_and_the_effective_sample_size_of_its_law() -> None:
    """Mean of W and N / ESS of 400,000 responses: 6 standard errors, and never so near at another chi-square."""
    mu, pi = lessons.policies(4, 0.5)
    log = lessons.batch(mu, pi, 5, (1, 400_000), seed=1)
    second = float((pi**2 / mu).sum()) ** 5
    weights = np.exp(log[0])
    assert abs(weights.mean() - 1.0) < 6 * weights.std() / 400_000**0.5
    assert abs(lessons.ess(log)[0] * second - 1.0) < 0.02
    assert abs(lessons.ess(log)[0] * second**0.8 - 1.0) > 0.02


def test_the_picture_has_shares_that_sum_to_one_and_the_marks() -> None:
    figure = lessons.weights([0.0, np.log(2.0), np.log(3.0), 800.0 - 800.0], predicted=0.5)
    ax = figure.axes[0]
    shares = np.concatenate([patch.get_data().values for patch in ax.patches])
    assert np.allclose(shares, np.array([3, 2, 1, 1]) / 7)
    marks = {line.get_label(): np.ravel(line.get_xdata())[0] for line in ax.lines}
    assert np.isclose(marks["ESS of this batch"], 49 / 15) and np.isclose(marks["ESS, predicted"], 2.0)
    assert ax.get_title("left") == "2 of 4 samples carry half of the weight (ESS 3.3)"
    # One response with all of the weight, far out of the range of floats.
    assert "1 of 3 samples" in lessons.weights([5000.0, 0.0, -5000.0]).axes[0].get_title("left")


@pytest.mark.parametrize(("rate", "word"), [(0.33, "dies out"), (0.36, "grows")])
def test_descent_is_measured_on_its_prediction(rate: float, word: str) -> None:
    ax = lessons.descent(4, rate, length=40).axes[0]
    points, line = (next(each for each in ax.lines if (each.get_marker() == "o") is mark) for mark in (True, False))
    assert np.allclose(points.get_ydata(), line.get_ydata(), atol=1e-12) and word in ax.get_title("left")
    assert np.abs(points.get_ydata() - np.abs(lessons.delayed_path(3, rate, 39))).max() > 0.1


def test_sliders_redraw_and_show_errors_in_words() -> None:
    pytest.importorskip("ipywidgets")
    drawn: list[Any] = []
    box = lessons.panel(lessons.descent, drawn.append, staleness=(4, [0, 1, -1]), learning_rate=(0.33, [0.1]))
    tau, rate = box.children
    assert (tau.value, rate.value) == (4, 0.33) and [label for label, _ in tau.options] == ["-1", "0", "1", "4"]
    tau.value = 1
    rate.value = 0.1
    tau.value = -1
    assert [figure.axes[0].get_title("left").split(":")[0] for figure in drawn[:2]] == ["Staleness 1"] * 2
    assert "at learning rate 0.1 " in drawn[1].axes[0].get_title("left")
    assert len(drawn) == 3 and drawn[2].startswith("staleness = -1")


def test_without_a_kernel_or_widgets_the_picture_stands_still() -> None:
    assert lessons.sliders(lessons.weights, log_ratios=([0.0, 1.0], [])).axes
    code = "import lessons; import sys; print('IPython' in sys.modules, 'ipywidgets' in sys.modules)"
    beside = Path(lessons.__file__).parent
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=beside)
    assert done.stdout.split() == ["False", "False"]


def test_in_a_notebook_the_picture_is_shown_once_and_then_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The display of a kernel, counted: sliders first, then one picture that updates replace."""
    ipython = pytest.importorskip("IPython")
    pytest.importorskip("ipywidgets")
    from IPython import display

    shown: list[Any] = []

    class Handle:
        update = staticmethod(lambda value: shown.append(("again", type(value).__name__)))

    def show(value: Any, display_id: bool = False) -> Handle:
        shown.append((value, display_id))
        return Handle()

    monkeypatch.setattr(ipython, "get_ipython", lambda: builtins.object())
    monkeypatch.setattr(display, "display", show)
    assert lessons.sliders(PICTURE, learning_rate=(0.1, [0.2, -0.3])) is None
    (box, _), (figure, kept) = shown
    assert kept and figure.axes
    slider = box.children[0]
    slider.value = 0.2
    slider.value = -0.3
    assert shown[2:] == [("again", "Picture"), ("again", "Pretty")]
