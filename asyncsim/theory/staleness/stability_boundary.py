r"""Delayed gradient descent is stable up to learning rate a_c(staleness) / largest curvature.

x_{t+1} = x_t - step H x_{t-tau} (+ noise): mean and variance are stable iff 0 < step * curvature < a_c for each
curvature. a_c(tau) = 2 sin(pi / (2 (2 tau + 1))). Derivation: a root of z^{tau+1} - z^tau + a leaves the disc at z =
e^{i phi}. z^tau (1 - z) = a is real and positive first at phi = pi / (2 tau + 1), where |1 - z| = 2 sin(phi / 2).
Domain: linear gradient, plain gradient descent, constant staleness in updates. Second route: root finding on the
spectral radius. Source: Levin and May, Theor. Popul. Biol. 9 (1976); arXiv 1910.05124.
"""

from __future__ import annotations

import numpy as np

from asyncsim.theory._declared import Declared, Staleness, Vector
from asyncsim.theory._delay import critical
from asyncsim.theory._recursion import marginal_step
from asyncsim.theory._stated import stated


class _Setting(Declared):
    staleness = Staleness(typical=(0, 24), example=4)
    curvatures = Vector(0.0, typical=(0.1, 9.0), sizes=(1, 3), example=(1.0, 0.5, 3.0), doc="curvatures of the modes")


def _predict(s: _Setting) -> dict[str, float]:
    return {"step": critical(s.staleness) / float(s.curvatures.max())}


def _cross_check(s: _Setting) -> dict[str, float]:
    return {"step": min(marginal_step(np.array([[-h]]), s.staleness) for h in np.unique(s.curvatures))}


claim = stated(
    id="staleness/stability-boundary",
    statement="gradient descent at staleness `tau` is stable iff `step * curvature < 2 sin(pi/(2(2 tau+1)))`",
    kind="threshold",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="Levin and May 1976 (Theor. Popul. Biol. 9); arXiv 1910.05124",
    formula_defects={
        "staleness one too large": lambda s: {"step": critical(s.staleness + 1) / float(s.curvatures.max())},
        "sufficient condition 1/(L(1+tau)) as boundary": lambda s: {
            "step": 1.0 / (float(s.curvatures.max()) * (1 + s.staleness))
        },
    },
)
