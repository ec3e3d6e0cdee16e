"""Rows of the experiments on networks: what they claim, that the check can fail, and that figures show them."""

import numpy as np
import pytest
from scipy import stats

from experiments import _store, cartpole_parity, cartpole_staleness
from paper_figures import cartpole
from tests.experiments._lab import rows_of

pytestmark = pytest.mark.committed

LEVEL = 0.90


def areas(rows, side):
    """Area under the learning curve of each seed: the mean return over the windows."""
    return rows[rows.side == side].groupby("seed").episode_return.mean().to_numpy()


def difference(ours, theirs):
    """Interval of 90 percent of the difference in area, relative to the others' mean."""
    interval = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(LEVEL)
    return interval.low / theirs.mean(), interval.high / theirs.mean()


parity = rows_of("cartpole_parity")
staleness = rows_of("cartpole_staleness")


@pytest.mark.parametrize("name", ["cartpole_parity", "cartpole_minibatches"])
def test_ppo_learns_as_its_peer_and_another_curve_would_not_pass(name):
    """Areas spread by 15 percent over seeds, the interval is 4.4 percent wide on each side: of sides that differ by 15
    percent one in 10^5 passes, of equal ones one in 60 fails. On minibatches they spread by 7 percent."""
    rows = _store.read(name)
    ours, theirs = areas(rows, "asyncsim"), areas(rows, "stable-baselines3")
    assert len(ours) == len(theirs) == 64 and theirs.mean() > 250
    low, high = difference(ours, theirs)
    assert -0.1 < low < high < 0.1
    for factor in (0.85, 1.15):
        low, high = difference(factor * ours, theirs)
        assert low < -0.1 or high > 0.1


@pytest.mark.long
def test_a_fresh_run_of_ours_lies_where_the_committed_one_does(parity):
    """Another seed, 64 replicates: inside +-10 percent of the peer as well; rounding makes each machine's run its own,
    and one in 60 fails."""
    rows = cartpole_parity.run({**cartpole_parity.SETTINGS[0], "seed": 1})
    ours = np.array([np.mean(curve) for curve in _curves(rows).values()])
    low, high = difference(ours, areas(parity, "stable-baselines3"))
    assert -0.1 < low < high < 0.1


@pytest.mark.long
def test_another_learning_rate_is_seen(parity, monkeypatch):
    """With a tenth of the rate the area falls out of the band."""
    monkeypatch.setattr(cartpole_parity, "RATE", 1e-4)
    rows = cartpole_parity.run({**cartpole_parity.SETTINGS[0], "seeds": 8})
    ours = np.array([np.mean(curve) for curve in _curves(rows).values()])
    low, _ = difference(ours, areas(parity, "stable-baselines3"))
    assert low < -0.1


def _curves(rows):
    found = {}
    for row in rows:
        found.setdefault(row["seed"], []).append(row["episode_return"])
    return found


def test_a_curve_carries_the_last_known_return_over_windows_without_an_end():
    window = cartpole_parity.WINDOW
    total, count = np.zeros(3 * window), np.zeros(3 * window)
    total[[1, 2]], count[[1, 2]] = (30.0, 90.0), (1, 2)
    total[-1], count[-1] = 200.0, 1
    assert cartpole_parity.curve(total, count) == [40.0, 40.0, 200.0]


def final(rows, staleness, correction):
    """Mean final return by learning rate."""
    own = rows[(rows.staleness == staleness) & (rows.correction == correction)]
    return own.groupby("rate").final_return.mean()


def test_staleness_ruins_ppo_that_cannot_see_it_and_a_correction_saves_it(staleness):
    worst = max(cartpole_staleness.STALENESS)
    # The largest rates show it without doubt; at the smallest, blind PPO has hardly begun to learn.
    assert final(staleness, worst, "none").max() < 300
    assert final(staleness, worst, "behavior").max() > 400
    assert final(staleness, 0, "none").max() > 400


def test_without_staleness_both_anchors_are_one(staleness):
    """Behavior and proximal log-probs are then the same but for rounding, which parts runs in time: paired differences
    are within 4 standard errors (false fail 1e-4), and many are 0. At the largest staleness they are not (planted)."""
    differences = {}
    for level in (0, max(cartpole_staleness.STALENESS)):
        pairs = [staleness[(staleness.staleness == level) & (staleness.correction == c)] for c in ("none", "behavior")]
        one, other = (each.sort_values(["rate", "seed"]).final_return.to_numpy() for each in pairs)
        differences[level] = one - other
    fresh, stale = differences.values()
    assert abs(fresh.mean()) < 4 * fresh.std() / len(fresh) ** 0.5 and (fresh == 0.0).mean() > 0.25
    assert abs(stale.mean()) > 10 * stale.std() / len(stale) ** 0.5
    assert len(fresh) == len(cartpole_staleness.RATES) * cartpole_staleness.SETTINGS[0]["seeds"]


def test_ess_falls_with_horizon_and_staleness_on_pendulum():
    rows = _store.read("pendulum_tails")
    table = rows.groupby(["staleness", "horizon"]).ess.mean().unstack()
    assert (np.diff(table.to_numpy(), axis=1) < 0).all() and (np.diff(table.to_numpy()[:, -1]) < 0).all()


def test_a_figure_has_labels_and_intervals(staleness):
    for ax in cartpole.draw(staleness).axes:
        assert ax.get_xlabel() and (ax.get_ylabel() or ax.get_shared_y_axes().get_siblings(ax))
        assert ax.containers or ax.collections


def test_numbers_of_the_gallery_are_those_of_the_rows(staleness):
    told, edges = cartpole.numbers(staleness), 0
    for line, level in zip(told["table"].splitlines()[2:], cartpole_staleness.STALENESS, strict=True):
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        best = [final(staleness, level, correction).max() for correction in cartpole_staleness.ANCHORS]
        assert cells[0] == str(level)
        assert [cell.removesuffix(" (edge)").partition(" ±")[0] for cell in cells[1:]] == [
            f"{value:.0f}" for value in best
        ]
        edges += line.count("(edge)")
    # The entry speaks of one.
    assert edges == 1
