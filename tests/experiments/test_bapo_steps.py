"""BAPO over updates: sums by ratio and probability, rates that are named, counts of places, figures of quick rows."""

from types import SimpleNamespace

import pytest

from experiments import bapo_steps
from paper_figures import _bapo_steps as steps
from paper_figures import _pipeline
from tests.experiments._lab import rows_of

rows = rows_of("bapo_steps", quick=True)
SMALL = {"part": "tokens", "task": "tokens", "epochs": 1, "arm": "clip", "updates": 12, "every": 1, "rates": [0.4]}
FIGURES = ("bapo_steps", "bapo_places", "bapo_bounds", "bapo_tokens")


def recorded(staleness):
    setting = {**SMALL, "staleness": staleness, "knob": bapo_steps.PEAKED, "replicates": 2, "seed": 1}
    return {(row["quantity"], row["number"]): row["value"] for row in bapo_steps.run(setting)}


def test_sums_are_of_all_tokens_and_a_clip_blocks_on_old_data_alone():
    """Old data are the planted difference: on fresh ones all ratios are 1, and nothing is closed."""
    fresh, old = recorded(0), recorded(4)
    for found in (fresh, old):
        assert sum(value for (name, _), value in found.items() if name == "share") == pytest.approx(1.0)
    assert fresh["share", 0.0] == pytest.approx(1.0) and old["share", 0.0] < 0.9
    for side in ("positive", "negative"):
        assert [value for (name, _), value in fresh.items() if name == f"closed {side}"] == [0.0] * 3
        assert max(value for (name, _), value in old.items() if name == f"closed {side}") > 0.05
    assert (fresh["plain up", -1.0], fresh["plain down", -1.0]) == (0.0, 0.0)


def test_equal_lengths_meet_the_target_of_four_tenths_without_a_move_and_a_half_moves_the_bounds():
    found = {}
    for arm in ("bapo", "half"):
        setting = {"part": "grid", "task": "tokens", "staleness": 8, "epochs": 1, "arm": arm, "rates": [0.8]}
        made = bapo_steps.run({**setting, "updates": 24, "every": 1, "replicates": 2, "seed": 1})
        found[arm] = max(row["value"] for row in made if row["quantity"] == "high")
    assert found["half"] > found["bapo"] + 0.2


def test_words_need_more_than_the_interval_and_more_than_what_decides_nothing():
    row = lambda value, reach: SimpleNamespace(value=value, low=value - reach, high=value + reach)  # noqa: E731
    assert steps.word(row(0.5, 0.01), row(0.4, 0.01)) == "wins"
    assert steps.word(row(0.4, 0.01), row(0.5, 0.01)) == "losses"
    assert steps.word(row(0.5, 0.1), row(0.4, 0.1)) == "ties" == steps.word(row(0.415, 0.0), row(0.4, 0.0))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FIGURES)
def test_quick_rows_are_drawn_and_counted(rows, name):
    assert _pipeline.picture(name, [rows]) is not None
    assert all(isinstance(text, str) for text in _pipeline.numbers(name, [rows], False).values())
