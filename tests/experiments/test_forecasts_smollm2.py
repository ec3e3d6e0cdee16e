"""Forecasts of SmolLM2: logs that begin later, why a drift changes, and the counts on the page."""

import math
import re

import numpy as np
import pytest

from experiments import forecasts_smollm2 as experiment
from tests.experiments._lab import ROOT, rows_of

rows = rows_of("forecasts_smollm2")
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
