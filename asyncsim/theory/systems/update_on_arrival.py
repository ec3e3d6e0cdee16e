r"""Mean staleness under update on arrival is workers - 1, whatever the service times.

E[s] = N - 1. Derivation: a gradient's staleness counts the updates by others while it was in flight. At every update
exactly the N - 1 other gradients are in flight. Summing over updates instead of gradients gives (N - 1) per update.
Domain: every worker restarts at once with the newest parameters, steady state, finite mean service time; law and rates
never enter. Second route: a path repeated forever, its lags counted. Source: derived (mean-staleness identity with N -
1 outstanding).
"""

from __future__ import annotations

import numpy as np

from asyncsim.theory._arrivals import Workers, cyclic_mean_lag, order, service
from asyncsim.theory._stated import stated


class _Setting(Workers):
    law = service(typical=("constant:1", "exponential:1", "pareto:1:1.5"), example="exponential:1")


def _predict(s: _Setting) -> dict[str, float]:
    return {"mean": float(s.workers - 1)}


def _cross_check(s: _Setting) -> dict[str, float]:
    # One more delivery by each worker closes the cycle on an order in which nobody is missing.
    path = np.concatenate([order(s.workers, 100 * s.workers, s.rates), np.arange(s.workers)])
    return {"mean": cyclic_mean_lag(path)}


claim = stated(
    id="systems/update-on-arrival",
    statement="mean staleness of `N` workers that update on arrival is `N-1`, whatever the service times and the rates",
    kind="expectation",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: mean-staleness identity with N-1 outstanding gradients",
    formula_defects={
        "a worker's own update counted as staleness": lambda s: {"mean": float(s.workers)},
        "mean over the rotation, (N-1)/2": lambda s: {"mean": (s.workers - 1) / 2.0},
    },
)
