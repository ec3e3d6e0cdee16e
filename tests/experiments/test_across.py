"""Figures across papers: falls, alarms at equal false alarms, beside what would not pass."""

from __future__ import annotations

import numpy as np

from asyncsim.predicting import courses
from experiments import alarms


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
    assert courses.healthy(found).tolist() == [True, False, False, False]
    # Planted: only what is low in the end counts, so that a run that came back never fell.
    assert courses.course(returns, 0.0, 1.0).collapsed.tolist() == [-1, 125, -1, -1]


def series(early: int) -> tuple[dict[str, np.ndarray], courses.Matched]:
    """Forty healthy runs at constant levels 0 to 39, and ten whose score is 100 from `early` updates before 100 on."""
    values = np.tile(np.arange(50.0), (120, 1))
    values[:, 40:] = np.where(np.arange(120) >= 100 - early, 100.0, -1.0)[:, None]
    cases, others = np.arange(40, 50), np.arange(40)
    pairs = courses.Matched(cases, np.full(10, 100), others, np.full((courses.DRAWS, 40), 100))
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
