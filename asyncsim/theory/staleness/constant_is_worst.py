r"""Among laws of staleness with a given mean, the constant one is found to have the smallest stable step.

The mean under independent draws decays up to a_p, the first positive (1 - z) / sum p_d z^-d on the unit circle; no law
is known with a_p < 2 sin(pi / (2 (2 E d + 1))). Stated for 1/step, of which this is an upper bound. It is attained by a
constant staleness; for means between integers no law reaches it. Domain: mean of descent, one draw an update. Status
open: 6,000 random laws up to staleness 21 have no counterexample, and there is no proof in discrete time. Second
route: the phase of the characteristic equation of a delay that is no integer. Source: numerical search.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

from asyncsim.theory._stated import stated
from asyncsim.theory.staleness._draws import RandomDelays


class _Setting(RandomDelays):
    @property
    def mean(self) -> float:
        return float(self.law @ np.arange(len(self.law)))


def _bound(s: _Setting, mean: float) -> dict[str, float]:
    return {"inverse_step": s.curvature / (2.0 * math.sin(math.pi / (2.0 * (2.0 * mean + 1.0))))}


def _cross_check(s: _Setting) -> dict[str, float]:
    def phase(phi: float) -> float:
        """Of z^mean (1 - z) / i, which is real, hence of phase pi/2 less, at the first crossing."""
        return float(s.mean * phi + np.angle(1j * (1.0 - np.exp(1j * phi))) - math.pi / 2.0)

    phi = math.pi if s.mean == 0.0 else float(brentq(phase, 1e-9, math.pi, xtol=1e-16, rtol=1e-15))
    return {"inverse_step": s.curvature / float(abs(1.0 - np.exp(1j * phi)))}


claim = stated(
    id="staleness/constant-is-worst",
    statement="among laws of staleness drawn for every update with a given mean, a constant one allows the smallest "
    "step: `step * curvature >= 2 sin(pi/(2 (2 E d + 1)))`",
    kind="bound",
    status="open",
    point=_Setting,
    predict=lambda s: _bound(s, s.mean),
    cross_check=_cross_check,
    reference="numerical search; no proof in discrete time",
    formula_defects={
        "half the largest staleness in place of the mean": lambda s: _bound(s, (len(s.law) - 1) / 2.0),
        "staleness rounded down": lambda s: _bound(s, math.floor(0.9 * s.mean)),
    },
    terms={"constant staleness": lambda s, factor: {"inverse_step": factor * _bound(s, s.mean)["inverse_step"]}},
)
