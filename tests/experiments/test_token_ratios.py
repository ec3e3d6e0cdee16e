"""Token against sequence ratios, and asynchronous beside synchronous training: specs, rows and what is said of them."""

from dataclasses import replace

import numpy as np
import pytest

import asyncsim as sim
from experiments import league, token_ratios
from paper_figures import token_ratios as figure
from tests.experiments._lab import rows_of

rows = rows_of("token_ratios")


@pytest.mark.parametrize("pair", token_ratios.PAIRS)
def test_on_fresh_data_both_kinds_of_ratio_are_the_same_and_on_old_data_they_are_not(pair):
    """Weights and masks differ in the ratio alone; GSPO and PPO, as published, in advantages and denominators too."""
    found = {}
    for law in ("fresh", "constant 8"):
        place = {"task": "graded", "law": law, "updates": 12}
        runs = [
            sim.run(replace(token_ratios.spec(place, arm), replicates=2), seed=0, progress=False)["batch_return"]
            for arm in token_ratios.PAIRS[pair].values()
        ]
        found[law] = float(np.abs(runs[0] - runs[1]).max())
    assert (found["fresh"] == 0.0) == (pair != "clip")
    assert found["constant 8"] > 0.0


@pytest.mark.parametrize("ratio", token_ratios.RATIOS)
def test_asynchronous_samples_are_as_stale_as_the_ratio_says(ratio):
    place = {"task": "bandit", "updates": 200}
    spec = token_ratios.spec(place, "PPO", ratio)
    found = spec.system.summaries(200, 2, league.SAMPLES, 0)
    assert all(one["staleness"]["max"] == ratio for one in found)
    fresh = token_ratios.spec(place, "PPO", 0)
    assert fresh.system.summaries(200, 2, league.SAMPLES, 0)[0]["staleness"]["max"] == 0


@pytest.mark.committed
def test_what_the_entries_say_is_what_the_rows_hold(rows):
    told = figure.numbers(rows)
    assert sum(int(told[word]) for word in ("worse", "equal", "better", "undecided")) == int(told["judged"]) == 24
    pairs = rows[(rows.part == "pair") & (rows.arm == "sequence")]
    assert int(told["worse"]) == int((pairs.high < 0).sum() - (pairs.word.eq("equal") & (pairs.high < 0)).sum())
    assert told["par_equal"] == told["par"] == "36"
