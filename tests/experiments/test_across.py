"""Figures across papers: falls, alarms at equal false alarms, beside what would not pass."""

import numpy as np
import pytest
import torch
from scipy import stats

from asyncsim import claims
from asyncsim.diagnosing import alarms as measures
from experiments import alarms
from experiments import ess_five as sizes
from experiments import phase_diagram as phase


def test_a_fall_is_the_first_one_whether_or_not_a_run_comes_back():
    steps = np.arange(200)
    up = np.where(steps < 50, 0.0, 1.0)
    curves = {
        "stays": up,
        "falls at 120": np.where(steps < 120, up, 0.1),
        "comes back": np.where((steps >= 120) & (steps < 160), 0.1, up),
        "never learns": 0.3 * up,
    }
    returns = np.stack(list(curves.values()), axis=1)
    found = alarms.fallen(returns, 0.0, 1.0)
    assert found.collapsed.tolist() == [-1, 125, 125, -1]
    assert measures.healthy(found).tolist() == [True, False, False, False]
    # Planted: only what is low in the end counts, so that a run that came back never fell.
    assert measures.course(returns, 0.0, 1.0).collapsed.tolist() == [-1, 125, -1, -1]


def series(early: int) -> tuple[dict[str, np.ndarray], measures.Matched]:
    """Forty healthy runs at constant levels 0 to 39, and ten whose score is 100 from `early` updates before 100 on."""
    values = np.tile(np.arange(50.0), (120, 1))
    values[:, 40:] = np.where(np.arange(120) >= 100 - early, 100.0, -1.0)[:, None]
    cases, others = np.arange(40, 50), np.arange(40)
    pairs = measures.Matched(cases, np.full(10, 100), others, np.full((measures.DRAWS, 40), 100))
    return {"ESS": values}, pairs


def test_alarms_are_counted_at_equal_false_alarms_of_other_runs():
    values, pairs = series(12)
    found = alarms.read(values, pairs, np.arange(10), np.arange(40))
    assert [found["announced", "ESS", lead] for lead in alarms.LEADS] == [1.0, 1.0, 1.0, 0.0, 0.0]
    # The least level that at most a twentieth of 0, 2, ..., 38 exceed is 38, which of 1, 3, ..., 39 only 39 does.
    assert np.isclose(found["false", "ESS", alarms.WATCH], (1 / 20 + 0.0) / 2)
    # Planted: a level set by updates in which healthy runs are low would wake all of them.
    low = {"ESS": np.where(np.arange(120)[:, None] < 75, -2.0, values["ESS"])}
    level = np.quantile(low["ESS"][:75, :40], 0.95)
    assert (low["ESS"][70:100, :40].max(0) > level).all()


def test_halves_stay_apart_when_runs_are_drawn_again():
    drawn = alarms.halved(np.random.default_rng(0), 21)
    assert (drawn[::2] % 2 == 0).all() and (drawn[1::2] % 2 == 1).all()
    # Planted: runs drawn at large, some of which set the level that they are judged by.
    plain = np.random.default_rng(0).integers(21, size=21)
    assert set(plain[::2]) & set(plain[1::2])


@pytest.mark.parametrize("task", phase.TASKS)
def test_the_curvature_is_that_of_the_objective_at_its_optimum(task):
    """Against derivatives of the objective; planted: the curvature where runs begin, which is larger."""

    def negative(logits):
        return -phase.objective(torch.softmax(logits, -1), phase.GAPS[task])

    def largest(logits):
        return float(torch.linalg.eigvalsh(torch.autograd.functional.hessian(negative, logits))[-1])

    best = torch.tensor([phase.SHARPNESS, 0.0], dtype=torch.float64)
    assert torch.autograd.functional.jacobian(negative, best).abs().max() < 1e-12
    assert np.isclose(phase.curvature(task), largest(best))
    assert np.isclose(phase.levels(task)[0], -float(negative(best)))
    assert np.isclose(phase.levels(task)[1], -float(negative(torch.tensor([60.0, 0.0], dtype=torch.float64))))
    assert largest(torch.zeros(2, dtype=torch.float64)) > 1.2 * phase.curvature(task)


def test_a_boundary_is_where_shares_stay_above_one_half():
    rates = np.array([1.0, 2.0, 4.0, 8.0])
    found = phase.crossing(rates, np.array([0.0, 0.75, 0.25, 0.75]))
    assert (found["low"], found["high"]) == (4.0, 8.0) and np.isclose(found["value"], 4.0 * 2.0**0.5)
    # Planted: the first crossing, behind which runs are stable again. Beyond the grid there is none.
    assert found["low"] > 1.0
    assert phase.crossing(rates, np.zeros(4)) == {} == phase.crossing(rates, np.ones(4))


def test_the_worth_of_stale_samples_is_the_inverse_of_the_exact_inflation():
    """Of one token by the claim on it; planted: 1/E W^2, which counts weights and no rewards."""
    rewards, mu, pi = np.array([1.0, 0.0, 0.0]), np.array([0.3, -0.2, 0.5]), np.array([1.5, -0.9, 0.1])
    point = {"actions": 3, "horizon": 1, "dependence": "iid", "success": 1.0, "samples": 1}
    point |= {
        "behavior_logits": (tuple(mu),),
        "current_logits": (tuple(pi),),
        "offset": np.exp(pi)[0] / np.exp(pi).sum(),
    }
    exact = claims.claim("estimator/is-variance").predict(point)
    logs = [(logits - np.log(np.exp(logits).sum()))[None] for logits in (mu, pi)]
    found = sizes.truth(*logs, np.arange(3)[:, None], rewards)
    assert np.isclose(found, 1.0 / exact["inflation"])
    assert abs(found * exact["inverse_ess"] - 1.0) > 0.1


def test_fresh_samples_are_worth_one_and_independent_tokens_are_enumerated():
    tokens, reward = sizes.sequences("sparse")
    log = np.log(np.tile([0.7, 0.3], (sizes.TOKENS, 1)))
    assert np.isclose(sizes.truth(log, log, tokens, reward), 1.0)
    assert np.isclose(np.exp(log[np.arange(sizes.TOKENS), tokens].sum(1)).sum(), 1.0)
    # Six of eight right, by the binomial law.
    assert np.isclose(np.exp(log[np.arange(sizes.TOKENS), tokens].sum(1)) @ reward, stats.binom.sf(5, 8, 0.7))


def test_sizes_of_known_weights():
    log = np.log([[[1.0, 3.0], [3.0, 1.0]], [[1.0, 1.0], [4.0, 4.0]]])
    found = sizes.sizes(log)
    np.testing.assert_allclose(found["sequence"], [1.0, 17.0**2 / (2.0 * 257.0)])
    np.testing.assert_allclose(found["truncated"], [1.0, 9.0**2 / (2.0 * 65.0)])
    np.testing.assert_allclose(found["token"], [8.0**2 / (4.0 * 20.0), 10.0**2 / (4.0 * 34.0)])
    # Planted: the size of tokens cannot see their product, which is even in the first batch.
    assert found["token"][0] < found["sequence"][0]
