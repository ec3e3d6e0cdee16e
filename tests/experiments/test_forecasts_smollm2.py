"""Forecasts of SmolLM2: logs that begin later, why a drift changes, and the counts on the page."""

import math
import re

import numpy as np
import pandas as pd
import pytest

from asyncsim.forecasting.forecasting import resolved
from experiments import forecasts_smollm2 as experiment
from tests.experiments._lab import ROOT, rows_of

rows, others = rows_of("forecasts_smollm2"), rows_of("forecasts")
PAGE = ROOT / "docs" / "forecast-accuracy.md"


def test_a_log_that_begins_later_is_the_later_part_of_the_same_run():
    setting = {**experiment.QUICK[0], "updates": 24}
    early = experiment.trained({**setting, "begin": 0}, {}, 0)
    late = experiment.trained({**setting, "begin": 6, "updates": 18}, {}, 0)
    log, part = early["logs"](0, 24), late["logs"](0, 18)
    assert all(np.array_equal(part[name], each[6:]) for name, each in log.items())
    assert part["step"][0] == 7 and late["means"](0, 2) == early["means"](0, 8)


def test_adam_starts_with_the_learning_rate_and_then_averages():
    """Of independent gradients the step has sqrt((1 - 0.9) / (1 + 0.9)) of the first; those here repeat a little."""
    text = experiment.course({**experiment.QUICK[0], "updates": 40, "changes": []}, width=2)
    steps = [float(line.split("|")[2]) for line in text.splitlines()[2:]]
    assert steps[0] > 0.9 and np.mean(steps[-8:]) == pytest.approx(math.sqrt(0.1 / 1.9), rel=0.25)


@pytest.mark.committed
def test_the_page_counts_the_bands_of_the_rows(rows):
    text = PAGE.read_text(encoding="utf-8")
    begins = {setting["seed"]: setting.get("begin", 0) for setting in rows.attrs["settings"]}
    shown = rows[rows.number.isin(["k3", "ess"])]
    for name, later in (("from its first update", False), ("from update 61", True)):
        own = shown[(shown.run.map(begins) > 0) == later]
        known = own[own.inside.notna()]
        counts = [known[known["where"] == where].inside for where in ("rest", "one", "two")]
        cells = [f"{int(each.sum())} of {len(each)}" for each in counts]
        cells.append(f"{len(own) - len(known)} of {len(own)}")
        (line,) = re.findall(rf"^\| SmolLM2 on short texts, {name} \| (.*) \|$", text, re.M)
        assert line.split(" | ") == cells


@pytest.mark.committed
def test_no_verdict_on_a_clip_share_changes_as_bands_cover_what_a_log_cannot_show(rows, others):
    """Rows from before are judged anew: wider bands keep what holds, and what misses lies far above that.

    Of SmolLM2's 40 logged and 80 later updates with 128 tokens each, where nothing was outside.
    """
    every = pd.concat([rows, others])
    shares = every[(every.number == "outside") & every.inside.notna()]
    missed = shares[~shares.inside.astype(bool)]
    assert len(missed) and (missed.low > 0.005).all() and (missed.measured < missed.low).all()
    own = shares[shares.source == "smollm2"]
    assert len(own) and (own.measured == 0.0).all()
    assert 100 * resolved(0.0, own.high.max(), 40 * 128, 80 * 128)[1] == pytest.approx(0.0888, abs=1e-4)
