r"""A gradient of which only a share is stale: the largest stable step by that share.

x_{t+1} = x_t - step H ((1 - m) x_t + m x_{t-tau}): stable iff step * curvature < a_m(tau) for each curvature. A root of
z^{tau+1} - (1 - a (1 - m)) z^tau + a m leaves the disc at -1 or at e^{i phi}, m cos((tau + 1/2) phi) = -(1 - m)
cos(phi/2), where a = sin phi / (m sin tau phi); a_m is the smallest such a. So 0 <= m <= 1/2 leaves at least 2 for
every tau, m < 0 at least 2/(1 - 2 m). a_1 is that of constant staleness, and m > 1 is worse. Domain: linear gradient,
both parts with the same eigenvectors, m between -2 and 3. Second route: spectral radius of the block companion matrix.
Source: Kuruklis, J. Math. Anal. Appl. 188 (1994) for the scalar equation; boundary derived.
"""

from __future__ import annotations

import numpy as np

from asyncsim.theory._declared import Declared, Real, Staleness, Vector
from asyncsim.theory._delay import critical, mixed_critical
from asyncsim.theory._recursion import marginal_step_mixed
from asyncsim.theory._stated import stated


class _Setting(Declared):
    staleness = Staleness(0, 64, typical=(0, 24), example=3)
    share = Real(-2.0, 3.0, typical=(-2.0, 3.0), example=0.75, doc="stale share of the gradient")
    curvatures = Vector(0.0, typical=(0.1, 9.0), sizes=(1, 3), example=(1.0, 0.5, 3.0), doc="curvatures of the modes")

    @property
    def curvature(self) -> float:
        return float(self.curvatures.max())


def _step(s: _Setting, tau: int, share: float) -> dict[str, float]:
    return {"step": mixed_critical(tau, share) / s.curvature}


def _cross_check(s: _Setting) -> dict[str, float]:
    each = np.unique(s.curvatures)[:, None, None]
    return {"step": min(marginal_step_mixed(-(1.0 - s.share) * h, -s.share * h, s.staleness) for h in each)}


claim = stated(
    id="staleness/two-point-field",
    statement="with the stale share `m` of the gradient, descent is stable iff `step < a_m(tau) / curvature`: at most "
    "half a stale gradient has no staleness limit below that of fresh gradients",
    kind="threshold",
    status="exact",
    point=_Setting,
    predict=lambda s: _step(s, s.staleness, s.share),
    cross_check=_cross_check,
    reference="Kuruklis 1994 (J. Math. Anal. Appl. 188), scalar equation; boundary derived",
    formula_defects={
        "current part taken at the stale point": lambda s: {"step": critical(s.staleness) / s.curvature},
        "stale part counted alone": lambda s: {"step": critical(s.staleness) / s.share / s.curvature},
        "staleness averaged over both parts": lambda s: _step(s, round(s.share * s.staleness), 1.0),
        "shares exchanged": lambda s: _step(s, s.staleness, 1.0 - s.share),
    },
)
