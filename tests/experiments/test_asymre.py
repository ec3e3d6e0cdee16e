"""AsymRE: committed limits against the projection, beside rules that would not pass; words against intervals."""

import numpy as np
import pytest

from experiments import asymre
from paper_figures import asymre as figure
from tests.experiments._lab import rows_of

pytestmark = pytest.mark.committed

rows = rows_of("asymre")


def test_a_few_updates_already_follow_the_flow_to_the_projection():
    """From the projection on, nothing moves; planted: rewards clipped at the baseline and rescaled."""
    shift = -0.5
    mu, gap = asymre.softmax(asymre.LOGITS), asymre.MEANS
    kept = np.maximum(mu * (gap - (mu * gap).sum(-1, keepdims=True) - shift), 0.0)
    kept /= kept.sum(-1, keepdims=True)
    found = asymre.ended(asymre.LOGITS, (shift,), 200)[0]
    far = [np.abs(found - guess).sum(-1).max() / 2 for guess in (figure.expected(shift), kept)]
    assert far[0] < 0.01 < far[1]


def test_limits_are_the_projection_below_the_mean(rows):
    for shift, policy in figure.limits(rows).items():
        far = np.abs(policy - figure.expected(shift)).sum(-1) / 2
        assert shift >= 0 or far.max() < 0.02
        assert shift <= 0 or (policy.max(-1) > 0.99).all()


def test_every_limit_below_the_mean_improves_and_the_next_one_improves_on_it(rows):
    behavior = figure.reward(asymre.softmax(asymre.LOGITS))
    for shift, policy in figure.limits(rows).items():
        assert shift >= 0 or (figure.reward(policy) > behavior).all()
    again = rows[(rows.part == "again") & (rows["shift"] < 0)].sort_values("round")
    assert all((one.value.diff().dropna() > -1e-3).all() for _, one in again.groupby("shift"))
