r"""A rule of k exceedances in a row wakes far more runs than steps: its rate over T steps, exactly.

Each step exceeds the level with probability p, independently; the alarm sounds when k in a row do. The state is the
number of exceedances in a row, 0 to k, k absorbing; P(alarm within T) is its mass after T steps from 0. For k = 1 it is
1 - (1 - p)^T. Domain: independent steps. Second route: the first run of k ends at t with chance f_t; before it stands
one step that did not exceed, so f_k = p^k and f_t = (1 - p) p^k (1 - F_{t-k-1}), F the sum of f. Source: textbook.
"""

from __future__ import annotations

import numpy as np

from asyncsim.theory._declared import Count, Declared, Real
from asyncsim.theory._stated import stated


class _Setting(Declared):
    rate = Real(
        0.0, 0.99, open_low=True, typical=(0.01, 0.6), example=0.2, doc="chance that one step exceeds the level"
    )
    row = Count(1, 64, typical=(1, 5), example=2, unit="steps", doc="exceedances in a row that an alarm takes")
    steps = Count(1, 100_000, typical=(5, 80), example=30, unit="steps", doc="steps of a run that is watched")


def _predict(s: _Setting) -> dict[str, float]:
    chain = np.zeros((s.row + 1, s.row + 1))
    chain[:-1, 0] = 1.0 - s.rate
    chain[np.arange(s.row), np.arange(1, s.row + 1)] = s.rate
    chain[-1, -1] = 1.0
    return {"woken": float(np.linalg.matrix_power(chain, s.steps)[0, -1])}


def _cross_check(s: _Setting) -> dict[str, float]:
    total = np.zeros(s.steps + 1)
    for t in range(s.row, s.steps + 1):
        first = s.rate**s.row
        if t > s.row:
            first *= (1.0 - s.rate) * (1.0 - total[t - s.row - 1])
        total[t] = total[t - 1] + first
    return {"woken": float(total[-1])}


claim = stated(
    id="predictor/false-alarm",
    statement="`k` exceedances in a row wake a run of `T` steps with the chance of a Markov chain, for one "
    "`1 - (1 - p)^T`",
    kind="expectation",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="textbook",
    formula_defects={
        "rate of a step quoted as that of a run": lambda s: {"woken": s.rate**s.row},
        "windows taken as independent": lambda s: {"woken": 1.0 - (1.0 - s.rate**s.row) ** (s.steps - s.row + 1)},
        "exceedances that need not stand in a row": lambda s: _predict(s.but(row=1)),
    },
)
