r"""A rule of k exceedances in a row wakes far more runs than steps: its rate over T steps, exactly.

Each step exceeds the level with probability p, independently; the alarm sounds when k in a row do. The state is the
number of exceedances in a row, 0 to k, k absorbing; P(alarm within T) is its mass after T steps from 0. For k = 1 it is
1 - (1 - p)^T. Domain: independent steps. Second route: the first run of k ends at t with chance f_t; before it stands
one step that did not exceed, so f_k = p^k and f_t = (1 - p) p^k (1 - F_{t-k-1}), F the sum of f. Source: textbook.
"""

from __future__ import annotations

import dataclasses

import numpy as np

import asyncsim as sim
from asyncsim.base.declared import Count, Real
from asyncsim.base.records import Estimate, Point
from asyncsim.base.uncertainty import proportion
from asyncsim.claims import lab
from asyncsim.claims._claim import Claim
from asyncsim.claims._trial import Defect, Plant, units_for, within


def _averaged(signal: lab.Signal) -> lab.Signal:
    """The mean of the window exceeds the level, not each of its numbers."""
    return dataclasses.replace(signal, over="mean")


def _longer(signal: lab.Signal) -> lab.Signal:
    """One exceedance more."""
    return dataclasses.replace(signal, window=signal.window + 1)


_SINGLE, _PAIR = {"rate": 0.04, "row": 1, "steps": 40}, {"rate": 0.25, "row": 2, "steps": 32}


class FalseAlarm(Claim):
    """`k` exceedances in a row wake a run of `T` steps with the chance of a Markov chain, for one `1 - (1 - p)^T`"""

    kind, source = "expectation", "textbook"
    through = "predict"

    rate = Real(
        0.0, 0.99, open_low=True, typical=(0.01, 0.6), example=0.2, doc="chance that one step exceeds the level"
    )
    row = Count(1, 64, typical=(1, 5), example=2, unit="steps", doc="exceedances in a row that an alarm takes")
    steps = Count(1, 100_000, typical=(5, 80), example=30, unit="steps", doc="steps of a run that is watched")

    def predict(s) -> dict[str, float]:
        chain = np.zeros((s.row + 1, s.row + 1))
        chain[:-1, 0] = 1.0 - s.rate
        chain[np.arange(s.row), np.arange(1, s.row + 1)] = s.rate
        chain[-1, -1] = 1.0
        return {"woken": float(np.linalg.matrix_power(chain, s.steps)[0, -1])}

    def check(s) -> dict[str, float]:
        total = np.zeros(s.steps + 1)
        for t in range(s.row, s.steps + 1):
            first = s.rate**s.row
            if t > s.row:
                first *= (1.0 - s.rate) * (1.0 - total[t - s.row - 1])
            total[t] = total[t - 1] + first
        return {"woken": float(total[-1])}

    wrong = {
        "rate of a step quoted as that of a run": lambda s: {"woken": s.rate**s.row},
        "windows taken as independent": lambda s: {"woken": 1.0 - (1.0 - s.rate**s.row) ** (s.steps - s.row + 1)},
        "exceedances that need not stand in a row": lambda s: s.but(row=1).predict(),
    }

    points = (_SINGLE, _PAIR)
    more = ({"rate": 0.4, "row": 3, "steps": 40},)

    reach = staticmethod(within(steps=512))

    @staticmethod
    def measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        # Of a share near 3/4 one run has the standard deviation 0.6 of it.
        runs = units_for(0.65, effect, len(FalseAlarm.points))
        values = lab.noise.noise(seed, point["steps"], runs)
        signal = plant(sim.predicting.Signal("noise", over="smallest", window=point["row"]))
        ends = np.full(runs, point["steps"])
        worst = sim.predicting.scores.worst(signal({"noise": values}), np.arange(runs), ends, None)
        return {"woken": proportion(int((worst > 1.0 - point["rate"]).sum()), runs)}

    @staticmethod
    def defects() -> dict[str, Defect]:
        return {
            "mean of the window in place of its smallest": Defect(_averaged, _PAIR),
            "one exceedance more": Defect(_longer, _SINGLE),
        }
