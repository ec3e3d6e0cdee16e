r"""Stale REINFORCE on the Gaussian bandit is a delayed linear recursion whose noise grows with the distance.

Actions a ~ N(theta, width^2), reward -h (a - c)^2/2, groups of N with the leave-one-out baseline, no ratio, data tau
updates old, e = theta_{t - tau} - c. Advantages add up to 0, so the trainer's own mean drops out, and
    E g = -h e,  Var g = h^2 (2 e^2 + (5/2 - 2/N) width^2)/(N - 1),
with no approximation. With Q of `alignment/lag1-closed-form` and kappa = Q/(N - 1) the stationary mean square is
    E e^2 = width^2 (5/2 - 2/N) kappa/(1 - 2 kappa)    ("second_moment"),
finite iff Q < (N - 1)/2, the autocovariance has the shape of the linear model, and E g^2 = h^2 E e^2 (1 + 1/Q)
("energy").
Derivation: g is a U-statistic with kernel (r_a - r_b)(a - b)/(2 width^2); noise is white given the past. Domain: below
both boundaries. Second route: Hoeffding's variance by Gauss-Hermite quadrature, and the linear system of all second
moments of tau + 1 neighbors. Source: derived.
"""

from __future__ import annotations

from asyncsim.theory._delay import excess
from asyncsim.theory._gaussian_bandit import GaussianBandit, mean_square, second_moments
from asyncsim.theory._stated import stated


def _from(s: GaussianBandit, second: float) -> dict[str, float]:
    share = excess(s.step * s.curvature, s.staleness)
    return {"second_moment": second, "energy": s.curvature**2 * second * (1.0 + 1.0 / share)}


def _cross_check(s: GaussianBandit) -> dict[str, float]:
    law, energy = second_moments(s)
    return {"second_moment": float(law[0, 0]), "energy": energy}


claim = stated(
    id="staleness/gaussian-bandit",
    statement="stale REINFORCE on a Gaussian bandit has `E e^2 = width^2 (5/2 - 2/N) kappa/(1 - 2 kappa)`, `kappa = "
    "Q/(N - 1)`, without approximation",
    kind="distribution",
    status="exact",
    point=GaussianBandit,
    predict=lambda s: _from(s, mean_square(s)),
    cross_check=_cross_check,
    reference="derived",
    formula_defects={
        "N in place of N - 1": lambda s: _from(s, mean_square(s, s.samples)),
        "noise that does not grow with the distance": lambda s: _from(s, mean_square(s, growth=0.0)),
        "one update staler": lambda s: _from(s, mean_square(s.but(staleness=s.staleness + 1))),
    },
)
