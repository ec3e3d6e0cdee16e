"""Parity of old data with fresh ones on planted returns, and the windows that returns are read in."""

import numpy as np
import pandas as pd

from experiments import roll_parity
from paper_figures import roll_parity as parity


def row(arm, ratio, value, reach=0.004):
    place = {"task": "arms", "ratio": ratio, "arm": arm, "rate": 0.2, "update": 32}
    return {**place, "value": value, "low": value - reach, "high": value + reach, "samples": 8}


def test_parity_is_judged_by_whole_intervals():
    values = dict.fromkeys(parity.ARMS, 0.6) | {"PPO": 0.4, "TOPR": 0.625}
    rows = pd.DataFrame(
        [row("PPO", 0, 0.6), *(row(arm, ratio, value) for ratio in roll_parity.RATIOS for arm, value in values.items())]
    )
    found = parity.differences(rows, True, True).set_index(["arm", "ratio"]).word
    assert (found["PPO", 8], found["TOPR", 8], found["TIS", 8]) == ("worse", "better", "equal")
    # Planted: by means alone a difference within its own error would count.
    wide = pd.concat([rows.assign(low=rows.low - 0.05, high=rows.high + 0.05)])
    assert set(parity.differences(wide, True, True).word) == {"undecided", "worse"}


def test_an_unsolved_window_is_the_last_one_below_most_of_the_largest_return():
    curve = zip((8, 16, 24, 32), (0.1, 0.5, 0.75, 1.0), strict=True)
    rows = pd.DataFrame([{**row("PPO", 0, value), "update": update} for update, value in curve])
    assert parity.middle(rows, "arms") == 24
    # Planted: what is solved at once has only its first window.
    assert parity.middle(rows.assign(value=1.0), "arms") == 8


def test_windows_are_means_of_their_updates():
    setting = {**roll_parity.QUICK[0], "ends": (4, 8), "rates": [0.2]}
    first, last = (row["value"] for row in roll_parity.run(setting))
    spec = roll_parity.spec("arms", 0, "PPO", np.full(4, 0.2), 8)
    returns = roll_parity.sim.run(spec, seed=0, progress=False)["policy_return"].mean(1)
    np.testing.assert_allclose([first, last], [returns[:4].mean(), returns[4:].mean()])
    assert abs(last - returns.mean()) > 1e-6
