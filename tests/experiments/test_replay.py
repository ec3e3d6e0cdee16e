"""Replay rebuilt: how often samples are used, what small steps make of it, and committed rows."""

import numpy as np
import pytest

from experiments import _store, replay
from paper_figures import replay as figure


@pytest.mark.parametrize(("ratio", "buffer"), [(1, 4), (4, 4), (8, 1)])
def test_uses_of_a_sample_are_as_many_and_as_uneven_as_predicted(ratio, buffer):
    """Planted: every sample used equally often, which lacks the variance y (1 - 1/n)."""
    made = replay.system(ratio, buffer).schedule(4000, 1, 1, 1, 0)
    _, uses = np.unique(made.trajectory[0, 200:-200, :, 0], return_counts=True)
    new = 4000 - 400
    # Groups that were never drawn count too.
    squares = (uses.astype(float) ** 2).sum() / (new * replay.GROUPS / ratio)
    assert abs(squares / ratio / replay.noise(ratio, buffer) - 1.0) < 0.04
    assert (abs(squares / ratio / ratio - 1.0) > 0.08) == (buffer > 1)


def test_fresh_data_are_used_once_without_delay_and_asynchronous_ones_a_step_late():
    for ratio, late in ((0, 0), (1, 1)):
        made = replay.system(ratio, min(ratio, 1)).schedule(64, 2, 1, 1, 0)
        assert len(np.unique(made.trajectory)) == made.trajectory.size
        assert (made.staleness()[:, 8:] == late).all()


def test_updates_until_the_target_count_all_where_it_is_never_reached():
    """Planted: a replicate that is above the target at the end only, or not at all."""
    curve = np.array([[0.1, 0.1, 0.9], [0.2, 0.3, 0.1], [0.8, 0.4, 0.1]])
    assert replay.needed(curve).tolist() == [2.0, 3.0, 0.0]


def test_where_steps_are_small_no_price_pays():
    """Planted: the noise of a batch whose samples are all new, at which every price pays for more than one use."""
    for ratio in replay.RATIOS:
        compute = figure.cost(ratio, figure.PRICES) / figure.cost(0, figure.PRICES)
        assert all((replay.noise(ratio, buffer) * compute >= 1.0 - 1e-12).all() for buffer in replay.BUFFERS)
        assert (compute < 1.0).all() == (ratio > 1)


@pytest.mark.committed
def test_every_cell_was_run_and_found_its_rate_inside_the_grid():
    rows = _store.read("replay")
    own = rows[rows.quantity == "updates"]
    assert len(own) == len(replay.SETTINGS) and (own.note != "edge").all()
    assert (own.rate >= replay.RATES[1]).all() and (own.low <= own.high).all()
