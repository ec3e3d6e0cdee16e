r"""Projection in front of Adam is partly undone by the second moment, the more so the more energy the signal carries.

Gradients m + xi, m spread evenly over d coordinates, rho = m_i^2 / sigma^2 there. A share alpha (`strength`) of the
component along a reference is removed from every gradient. Let C be the mean squared cosine of reference and m, and k =
2 alpha - alpha^2. The mean step along m, relative to Adam's without projection, is
    behind = 1 - alpha C,    inflation = sqrt((d rho + d) / (d rho (1 - k C) + d - k)),    before = behind inflation.
A known reference, m itself, has C = 1: before = 1 at d = 1 (inflation 1/(1 - alpha)), and 1 - alpha where noise
dominates. The previous raw gradient has C = E[X/(X+Y)], X noncentral chi^2_1(d rho), Y chi^2_(d-1). Derivation: P = I -
alpha h h^T takes E g to P m and E g g^T to P (m m^T + sigma^2 I) P. Both are averaged over the unit reference h of the
update before. By symmetry every coordinate has the same share of the trace. Domain: constant mean, white Gaussian
noise, eps 0, beta2 -> 1; behind Adam beta1 = 0, since momentum aligns steps by itself. Second route: C by an integral,
the moments from explicit matrices. Source: derived; arXiv 2604.22407 for 1/(1 - alpha).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import quad
from scipy.stats import poisson

from asyncsim.base import checks
from asyncsim.theory._declared import Choice, Declared, Integer, Real
from asyncsim.theory._stated import stated


class _Setting(Declared):
    dimension = Integer(1, 512, typical=(2, 40), example=3, doc="coordinates of the mean gradient")
    signal = Real(
        0.0, 1e3, open_low=True, typical=(0.01, 100.0), example=0.7, doc="mean's energy over the noise's, by coordinate"
    )
    strength = Real(
        0.0, 1.0, open_low=True, typical=(0.05, 0.95), example=0.8, doc="share of the component that is taken away"
    )
    reference = Choice("known", "previous", example="previous", doc="along what the gradient is projected")

    def joint(self) -> None:
        """A known direction that is removed whole leaves nothing; a previous gradient needs two coordinates."""
        known = self.reference == "known"
        below = not known or self.strength < 1.0
        checks.require(below, "strength", self.strength, "below 1 for a known reference", "leave a part of it")
        checks.integer(
            "dimension", self.dimension, 1 if known else 2, "count the coordinates of the mean gradient", 512
        )

    @property
    def energy(self) -> float:
        """Of the mean gradient, in units of one coordinate's noise."""
        return self.dimension * self.signal


def _overlap(s: _Setting) -> float:
    """C: the noncentral beta law is a Poisson mixture of beta laws."""
    if s.reference == "known":
        return 1.0
    middle = s.energy / 2.0
    reach = 12.0 * math.sqrt(middle) + 60.0
    j = np.arange(max(0, int(middle - reach)), int(middle + reach))
    weight = poisson.pmf(j, middle)
    return float(weight @ ((0.5 + j) / (0.5 * s.dimension + j)) / weight.sum())


def _quantities(s: _Setting, behind: float, moment: float) -> dict[str, float]:
    """`moment` is the second moment after projection over that before, of one coordinate."""
    inflation = 1.0 / math.sqrt(moment)
    return {"before": behind * inflation, "behind": behind, "inflation": inflation}


def _projected(s: _Setting, overlap: float, noise_removal: float) -> dict[str, float]:
    """`lost` is the share of the noise's energy along the reference that projection removes."""
    removal = 2.0 * s.strength - s.strength**2
    energy = s.energy * (1.0 - removal * overlap) + s.dimension - noise_removal
    return _quantities(s, 1.0 - s.strength * overlap, energy / (s.energy + s.dimension))


def _predict(s: _Setting) -> dict[str, float]:
    return _projected(s, _overlap(s), 2.0 * s.strength - s.strength**2)


def _integrated(s: _Setting) -> float:
    """C as the integral over t of E X exp(-t (X + Y)), in z = log(1 + 2 t)."""
    if s.reference == "known":
        return 1.0
    scale = 2.0 / (s.dimension + s.energy)

    def integrand(y: float) -> float:
        z = scale * y
        fall = 0.5 * s.dimension * z - 0.5 * s.energy * math.expm1(-z)
        return 0.5 * scale * (1.0 + s.energy * math.exp(-z)) * math.exp(-fall)

    pieces = ((0.0, 6.0), (6.0, 30.0), (30.0, np.inf))
    return float(sum(quad(integrand, *piece, epsabs=1e-15, epsrel=1e-13, limit=200)[0] for piece in pieces))


def _cross_check(s: _Setting) -> dict[str, float]:
    size = max(s.dimension, 2)
    mean = np.where(np.arange(size) < s.dimension, math.sqrt(s.signal), 0.0)
    along = mean / np.linalg.norm(mean)
    across = np.zeros(size)
    across[0], across[1] = along[1], -along[0]
    across /= np.linalg.norm(across)
    overlap = _integrated(s)
    # Every moment is linear in the squared cosine, so one reference at its mean gives them all.
    reference = math.sqrt(overlap) * along + math.sqrt(max(0.0, 1.0 - overlap)) * across
    matrix = np.eye(size) - s.strength * np.outer(reference, reference)
    moment = matrix @ (np.outer(mean, mean) + np.eye(size)) @ matrix
    coordinates = slice(0, s.dimension)
    share = float(np.trace(moment[coordinates, coordinates])) / (s.dimension * (s.signal + 1.0))
    return _quantities(s, float(along @ matrix @ along), share)


def _signal_law(s: _Setting) -> dict[str, float]:
    behind = 1.0 - s.strength * _overlap(s)
    return _quantities(s, behind, (1.0 - s.strength) ** 2 if s.strength < 1.0 else behind**2)


def _other_reference(s: _Setting) -> dict[str, float]:
    overlap = 1.0 if s.reference == "previous" else s.signal / (1.0 + s.signal)
    return _projected(s, overlap, 2.0 * s.strength - s.strength**2)


claim = stated(
    id="alignment/adam-inflation",
    statement="projection in front of Adam shrinks the step along the old direction less than it shrinks the gradient",
    kind="expectation",
    status="conditional",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived; arXiv 2604.22407 for the signal-dominated case",
    formula_defects={
        "1/(1 - strength) at any signal": _signal_law,
        "second moment of the unprojected gradient": lambda s: _quantities(s, 1.0 - s.strength * _overlap(s), 1.0),
        "noise of the reference ignored or invented": _other_reference,
        "noise along the reference kept": lambda s: _projected(s, _overlap(s), 0.0),
    },
)
