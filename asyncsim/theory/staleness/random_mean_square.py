r"""With a staleness drawn anew for every gradient the mean square diverges at a smaller step than the mean.

x_{t+1} = x_t - (a/B) sum_b x_{t-d_b}, B independent draws. On the averaged recursion the draws act as noise of energy
a^2/B (gamma_0 - sum p_d p_e gamma_{|d-e|}). At the boundary it keeps itself up: a^2/B (phi_0 - sum p_d p_e phi_{|d-e|})
= 1, phi the covariances under unit noise. For equal chances of 0 and 1: a = B (sqrt(1 + 4/B) - 1), so 1.236 at B = 1,
where the mean allows 2. Domain: linear gradient, B draws an update of one law. Second route: E x_T^2 over every
sequence of draws, and root finding on the radius of (1/B) sum p_d A_d x A_d + (1 - 1/B) A x A, A = sum p_d A_d. Source:
derived.
"""

from __future__ import annotations

import numpy as np

from asyncsim.theory import _random
from asyncsim.theory._declared import Count, Real
from asyncsim.theory._recursion import first_crossing
from asyncsim.theory._stated import stated
from asyncsim.theory.staleness._draws import RandomDelays, check_paths, enumerated, mean_path


class _Setting(RandomDelays):
    groups = Count(1, 16, typical=(1, 2), example=2, doc="independent draws of an update")
    share = Real(0.0, 2.0, typical=(0.01, 1.0), example=0.7, doc="step * curvature of the run")
    updates = Count(1, 8, typical=(1, 4), example=4, unit="updates", doc="updates of the run")

    def joint(self) -> None:
        """All sequences of draws can be listed."""
        super().joint()
        check_paths(self.law, self.updates, self.groups)


def _second(s: _Setting, groups: int) -> float:
    """E x_T^2 by the recursion of moments."""
    law, size = np.ones((len(s.law), len(s.law))), len(s.law)
    matrices, average = _random.companions(s.law, s.share), _random.averaged(s.law, s.share)
    for _ in range(s.updates):
        drawn = sum((p * m @ law @ m.T for p, m in zip(s.law, matrices, strict=True)), np.zeros((size, size)))
        law = drawn / groups + (1.0 - 1.0 / groups) * average @ law @ average.T
    return float(law[0, 0])


def _quantities(s: _Setting, boundary: float, second: float) -> dict[str, float]:
    return {"step": boundary / s.curvature, "second_moment": second}


def _with(s: _Setting, groups: int) -> dict[str, float]:
    return _quantities(s, _random.mean_square_boundary(s.law, groups), _second(s, groups))


def _cross_check(s: _Setting) -> dict[str, float]:
    def excess(a: float) -> float:
        matrices, average = _random.companions(s.law, a), _random.averaged(s.law, a)
        drawn = sum(p * np.kron(m, m) for p, m in zip(s.law, matrices, strict=True))
        total = drawn / s.groups + (1.0 - 1.0 / s.groups) * np.kron(average, average)
        return float(np.abs(np.linalg.eigvals(total)).max()) - 1.0

    last, mass = enumerated(s.law, s.share, s.updates, s.groups)
    return _quantities(s, first_crossing(excess, 0.2 / len(s.law), 6.0), float(mass @ last**2))


claim = stated(
    id="staleness/random-mean-square",
    statement="with `B` stalenesses drawn for every update the mean square of descent stays bounded iff "
    "`a^2/B (phi_0 - sum p_d p_e phi_|d-e|) < 1`: for 0 or 1 at equal chances `a < B (sqrt(1 + 4/B) - 1)`",
    kind="threshold",
    status="exact",
    point=_Setting,
    predict=lambda s: _with(s, s.groups),
    cross_check=_cross_check,
    reference="derived: the draws are white noise to the averaged recursion",
    formula_defects={
        "one draw shared by the batch": lambda s: _with(s, 1 if s.groups > 1 else 2),
        "boundary of the mean": lambda s: _quantities(
            s, _random.mean_boundary(s.law), mean_path(s.law, s.share, s.updates) ** 2
        ),
    },
)
