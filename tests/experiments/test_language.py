"""The experiments on language models: what they measure, that it can fail, what their rows hold and figures show."""

import math

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base import rng
from asyncsim.step.batch import Draws
from experiments import language_ess, language_learning
from paper_figures import language_ess as ess_figure
from paper_figures import language_learning as learning_figure
from tests.experiments._lab import rows_of

ess = rows_of("language_ess")
learning = rows_of("language_learning")


def characters(rows):
    """Whole answers of the series that the claim is made for."""
    own = ess_figure.series(rows, *ess_figure.CHARACTERS)
    return own[own.tokens == own.tokens.max()]


def meets(low, high, value, share=0.1):
    """Whether an interval reaches a value to within a share of it."""
    return low <= (1 + share) * value and high >= (1 - share) * value


@pytest.mark.parametrize("drift", [0.0, 0.3, 1.0])
def test_growth_is_the_sum_of_all_covariances(drift):
    for staleness in (1, 2, 5):
        covariance = np.full((staleness, staleness), drift) + (1.0 - drift) * np.eye(staleness)
        assert language_ess.growth(drift, staleness) == pytest.approx(covariance.sum(), rel=1e-12)


def test_drift_is_read_off_increments_of_known_covariance():
    products = np.full((5, 4, 4), 0.3) + 0.7 * np.eye(4)
    drift, error = language_ess.drift_of({"increments": products * np.arange(1, 6)[:, None, None]})
    assert drift == pytest.approx(0.3, rel=1e-12) and error == pytest.approx(0.0, abs=1e-12)
    assert math.isnan(language_ess.drift_of({})[0])


def tiny_trace(staleness, window):
    """A random model driven by coins; the first batch of full staleness is that of update `staleness`."""
    setting = {**language_ess.QUICK[0], "step": 0.5}
    gathered = [*language_ess.prefix(4), language_ess.Increments(window)]
    spec = sim.Spec(
        language_ess.task(setting, "odd"),
        sim.schedules.fixed(staleness, groups_per_batch=4),
        sim.methods.reinforce(),
        sim.chain(sim.updates.sgd(setting["step"])),
        policy=sim.policies.causal_lm("char", recipe=language_ess.TINY),
        updates=window + 1,
        replicates=2,
        diagnostics=gathered,
    )
    return sim.run(spec, seed=3, progress=False)


def test_increments_of_a_window_add_up_to_the_log_ratio_of_that_staleness():
    # Both are exact up to float32 rounding of log-probs, 1e-7 against changes of 1e-2.
    trace = tiny_trace(staleness=4, window=4)
    total = trace.accumulated["increments"].sum((0, 1))
    np.testing.assert_allclose(total, trace["variance_whole_4"][4], rtol=1e-3)
    wrong = tiny_trace(staleness=3, window=4)
    assert (np.abs(wrong.accumulated["increments"].sum((0, 1)) / wrong["variance_whole_4"][4] - 1.0) > 1e-2).all()


def test_a_coin_does_not_read_the_answer():
    # 4096 tosses: further than 0.05 from one half with probability 2e-10, were the keys not fixed.
    task = language_ess.task(language_ess.QUICK[0], "even").fit(sim.policies.causal_lm(recipe=language_ess.TINY))
    ids = np.arange(4096).reshape(1, 64, 64)
    draws = Draws(rng.Stream(1, "rollout"), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), ids)
    state = task.begin(torch.zeros(1, 64, 64, dtype=torch.int64), draws).unsqueeze(3)
    mask = torch.ones(1, 64, 64, 4, dtype=torch.float64)
    first, second = (task.earn(state, torch.full((1, 64, 64, 4), token), mask, draws) for token in (0, 5))
    assert torch.equal(first, second) and abs(first.mean() - 0.5) < 0.05
    assert set(first.unique().tolist()) == {0.0, 1.0}
    sums = language_ess.task({**language_ess.QUICK[0], "judge": "answer"}, "even")
    assert not isinstance(sums, language_ess.Tossed) and sums.texts == task.texts


@pytest.mark.parametrize("module", [language_ess, language_learning])
def test_what_is_held_out_is_never_asked_in_training(module):
    for setting in module.SETTINGS:
        if module is language_ess:
            asked, held = (set(module.task(setting, part).texts) for part in ("even", "odd"))
        else:
            groups = (setting["groups"], setting["held"])
            asked, held = (
                set(module.spec(setting, part, g, 1)["task"].texts)
                for part, g in zip(("even", "odd"), groups, strict=True)
            )
        assert asked and held and not asked & held


def test_a_trained_policy_is_what_is_asked_at_the_end(monkeypatch):
    """The weights handed to the last look are those of the trace, and they differ from the first."""
    given = []
    real = language_learning.held_out
    monkeypatch.setattr(language_learning, "held_out", lambda s, initial: given.append(initial) or real(s, initial))
    language_learning.run(language_learning.QUICK[0])
    assert given[0] is None and np.shape(given[1])[0] == 1


@pytest.mark.committed
def test_stale_answers_lose_what_one_update_predicts(ess):
    """Within the law's domain the interval of every level but one at most meets the prediction within 10 percent and
    excludes that nothing is lost; a law that goes with the square of staleness would be met nowhere."""
    own = characters(ess)
    inside = own[own.inside]
    assert own.staleness.nunique() >= 4 and len(inside) >= 2
    met = [meets(row.low, row.high, row.predicted_ess) for row in inside.itertuples()]
    assert sum(met) >= max(2, len(met) - 1) and (inside.high < 1.0).all()
    ballistic = np.exp(-inside.predicted_variance * inside.staleness)
    assert not any(meets(low, high, wrong) for low, high, wrong in zip(inside.low, inside.high, ballistic, strict=True))


@pytest.mark.committed
def test_variances_of_tokens_add_up_along_an_answer(ess):
    """Variance never falls along an answer by more than a hundredth; prediction and measurement do so alike."""
    own = ess_figure.series(ess, *ess_figure.CHARACTERS)
    for _, one in own[own.staleness <= 16].groupby("staleness"):
        one = one.sort_values("tokens")
        assert (one.variance.diff().dropna() > -0.01 * one.variance.max()).all()
        assert (one.predicted_variance.diff().dropna() >= 0).all()


@pytest.mark.committed
def test_numerics_and_staleness_are_told_apart(ess):
    rounded = ess[(ess.sampler != "float32") & (ess.part == "even")]
    same = ess[ess.sampler == "float32"]
    assert (rounded.ess_mismatch < 1.0).all() and (same.ess_mismatch == 1.0).all()
    np.testing.assert_allclose(same.ess, same.ess_staleness, rtol=1e-6)
    assert {"bfloat16", "int8"} <= set(rounded[rounded.model == "char"].sampler)
    assert set(ess.model) == {"char"}, "a model of which one level is known tests nothing"


def rise(rows, model, staleness, quantity, ends):
    own = rows[(rows.model == model) & (rows.staleness == staleness) & (rows.quantity == quantity)]
    mean = own.groupby("update").exact_match.mean().sort_index()
    return float(mean.iloc[-ends:].mean() - mean.iloc[:ends].mean())


@pytest.mark.committed
def test_exact_match_rises(learning):
    assert rise(learning, "char", 0, "trained", 1) >= 0.3
    assert rise(learning, "smollm2", 0, "trained", 2) >= 0.2
    for model, staleness in (("char", 0), ("char", 8), ("smollm2", 0)):
        assert rise(learning, model, staleness, "held out", 1) > 0.05
    flat = learning.assign(exact_match=learning.exact_match.mean())
    assert rise(flat, "char", 0, "trained", 1) < 0.3


@pytest.mark.committed
def test_staleness_slows_learning(learning):
    assert rise(learning, "char", 8, "trained", 1) < rise(learning, "char", 0, "trained", 1)


@pytest.mark.committed
def test_figures_draw_the_rows_on_dashed_predictions(ess, learning):
    (ax,) = ess_figure.draw(ess).axes
    np.testing.assert_allclose(ax.containers[0][0].get_ydata().astype(float), characters(ess).ess, rtol=1e-12)
    assert any(line.is_dashed() for line in ax.lines) and ax.get_xlabel()
    (ax,) = learning_figure.draw(learning).axes
    own = learning[(learning.model == "char") & (learning.staleness == 0) & (learning.quantity == "trained")]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), own.groupby("update").exact_match.mean(), rtol=1e-12)


@pytest.mark.committed
def test_nothing_is_claimed_where_the_judge_answers_back(ess):
    """With right answers for a reward the law is drawn, marked as outside its domain, and indeed off."""
    own = ess_figure.series(ess, "char", "answer", "float32")
    own = own[(own.tokens == own.tokens.max()) & (own.staleness > 1)]
    assert len(own) >= 2 and not own.inside.any()
    assert (own.variance > 1.5 * own.predicted_variance).all()


@pytest.mark.committed
def test_numbers_of_the_gallery_are_those_of_the_rows(ess, learning):
    told = ess_figure.numbers(ess)
    inside = characters(ess)
    inside = inside[inside.inside]
    assert told["levels"] == f"{len(inside)}"
    assert int(told["met"]) == sum(meets(row.low, row.high, row.predicted_ess) for row in inside.itertuples())
    told = learning_figure.numbers(learning)
    for staleness, name in ((0, "char"), (8, "char_stale")):
        own = learning[(learning.model == "char") & (learning.staleness == staleness)]
        mean = own[own.quantity == "held out"].groupby("update").exact_match.mean().sort_index()
        assert told[f"{name}_held_first"].startswith(f"{mean.iloc[0]:.3f} ±")
        assert told[f"{name}_held_last"].startswith(f"{mean.iloc[-1]:.3f} ±")
