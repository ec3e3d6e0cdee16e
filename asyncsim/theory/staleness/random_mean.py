r"""With a staleness drawn anew for every update the mean obeys the averaged recursion, and so does its boundary.

E x_{t+1} = E x_t - a sum_d p_d E x_{t-d}: the draw is independent of the past. It decays iff a is below the first
positive (1 - z) / sum p_d z^-d on the unit circle. For equal chances of 0..S that is 2 (S + 1) sin^2(pi/(2 (S + 1))):
about pi times the boundary of staleness S, and pi/2 times that of its mean. Domain: linear gradient, the mean alone;
the mean square diverges earlier (`staleness/random-mean-square`). Second route: the mean over every sequence of draws,
and root finding on the radius of the averaged companion matrix. Source: derived.
"""

from __future__ import annotations

import math

import numpy as np

from asyncsim.theory import _random
from asyncsim.theory._declared import Count, Real
from asyncsim.theory._delay import critical
from asyncsim.theory._recursion import first_crossing
from asyncsim.theory._stated import stated
from asyncsim.theory.staleness._draws import RandomDelays, check_paths, enumerated, mean_path


class _Setting(RandomDelays):
    share = Real(0.0, 2.0, typical=(0.01, 1.0), example=0.7, doc="step * curvature of the run")
    updates = Count(1, 12, typical=(1, 6), example=6, unit="updates", doc="updates of the run")

    def joint(self) -> None:
        """All sequences of draws can be listed."""
        super().joint()
        check_paths(self.law, self.updates)


def _quantities(s: _Setting, law: np.ndarray, boundary: float) -> dict[str, float]:
    return {"step": boundary / s.curvature, "mean": mean_path(law, s.share, s.updates)}


def _cross_check(s: _Setting) -> dict[str, float]:
    def excess(a: float) -> float:
        return float(np.abs(np.linalg.eigvals(_random.averaged(s.law, a))).max()) - 1.0

    last, mass = enumerated(s.law, s.share, s.updates)
    return {"step": first_crossing(excess, 0.2 / len(s.law), 6.0) / s.curvature, "mean": float(mass @ last)}


def _constant(s: _Setting, tau: int) -> dict[str, float]:
    return _quantities(s, np.eye(tau + 1)[-1], critical(tau))


def _uniform(s: _Setting) -> dict[str, float]:
    n = len(s.law)
    return _quantities(s, np.full(n, 1.0 / n), 2.0 * n * math.sin(math.pi / (2.0 * n)) ** 2)


claim = stated(
    id="staleness/random-mean",
    statement="with a staleness drawn for every update the mean of descent obeys `z - 1 + a sum_d p_d z^-d = 0`: equal "
    "chances up to `S` allow about `pi` times the learning rate of constant staleness `S`",
    kind="threshold",
    status="exact",
    point=_Setting,
    predict=lambda s: _quantities(s, s.law, _random.mean_boundary(s.law)),
    cross_check=_cross_check,
    reference="derived: the draw is independent of the past",
    formula_defects={
        "one draw for the whole run": lambda s: _constant(s, len(s.law) - 1),
        "mean staleness taken as constant": lambda s: _constant(s, round(float(s.law @ np.arange(len(s.law))))),
        "law taken as uniform": _uniform,
    },
)
