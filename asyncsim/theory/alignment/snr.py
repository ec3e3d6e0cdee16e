r"""With a steady mean gradient, alignment of consecutive gradients is signal to noise, at any staleness.

E<g, g'> / E|g|^2 = m^2 / (m^2 + d sigma^2 / B) for a mean of length m and B samples of noise sigma in each of d
coordinates. The mean cosine is r^2 with r = kappa Gamma((d+1)/2) / (sqrt(2) Gamma(d/2 + 1)) 1F1(1/2; d/2 + 1;
-kappa^2/2), kappa = m sqrt(B) / sigma. For large d it nears the ratio of averages. Derivation: independent batches
factor, E<g, g'> = |E g|^2 and E cos = |E g/|g||^2; the latter is the mean of a projected normal vector. Domain:
independent batches of isotropic normal noise, d >= 2. Second route: pairs of samples counted; E g/|g| by quadrature
over length and angle. Source: elementary.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln, hyp1f1

from asyncsim.theory._declared import Count, Declared, Integer, Positive
from asyncsim.theory._stated import stated


class _Setting(Declared):
    dimension = Integer(
        2, 100_000, typical=(2, 200), example=3, doc="coordinates", remedy="in one dimension a cosine is a sign"
    )
    signal = Positive(typical=(0.05, 5.0), example=0.8, unit="gradient", doc="length of the mean gradient")
    noise = Positive(typical=(0.1, 3.0), example=2.0, unit="gradient", doc="noise of one sample in each coordinate")
    samples = Count(1, typical=(1, 16), example=4, doc="samples of a batch")


def _ratio(s: _Setting, spread: float) -> float:
    """`spread` is the total variance of a batch's gradient."""
    return s.signal**2 / (s.signal**2 + spread)


def _predict(s: _Setting) -> dict[str, float]:
    d, kappa = s.dimension, s.signal * math.sqrt(s.samples) / s.noise
    factor = kappa / math.sqrt(2.0) * math.exp(gammaln((d + 1) / 2.0) - gammaln(d / 2.0 + 1.0))
    direction = factor * float(hyp1f1(0.5, d / 2.0 + 1.0, -(kappa**2) / 2.0))
    return {"corr[1]": _ratio(s, d * s.noise**2 / s.samples), "cosine": direction**2}


def _cross_check(s: _Setting) -> dict[str, float]:
    d, b, m = s.dimension, s.samples, s.signal
    # Of B^2 pairs of samples B are a sample with itself.
    energy = (b * (m**2 + d * s.noise**2) + b * (b - 1) * m**2) / b**2
    kappa = m * math.sqrt(b) / s.noise
    return {"corr[1]": m**2 / energy, "cosine": _projected(d, kappa) ** 2}


def _projected(d: int, kappa: float) -> float:
    """E cos(angle to the mean) of kappa e + N(0, I): density length^{d-1} sin^{d-2}(angle) exp(-distance^2/2)."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    size, tilt = math.hypot(kappa, math.sqrt(d)), math.atan2(math.sqrt(d - 1.0), kappa)
    length, angle = _window(nodes, size, 12.0, math.inf), _window(nodes, tilt, 24.0 / size, math.pi)
    distance = length[:, None] ** 2 + kappa**2 - 2.0 * kappa * length[:, None] * np.cos(angle)
    log = (d - 1) * np.log(length)[:, None] + (d - 2) * np.log(np.sin(angle)) - distance / 2.0
    mass = np.exp(log - log.max()) * weights[:, None] * weights
    return float((mass * np.cos(angle)).sum() / mass.sum())


def _window(nodes: np.ndarray, middle: float, reach: float, top: float) -> np.ndarray:
    """Nodes of (-1, 1) moved to the part of (0, top) within `reach` of the middle."""
    low, high = max(0.0, middle - reach), min(top, middle + reach)
    window: np.ndarray = low + (high - low) * (nodes + 1.0) / 2.0
    return window


def _cosine_is_ratio(s: _Setting) -> dict[str, float]:
    prediction = _predict(s)
    return {"corr[1]": prediction["corr[1]"], "cosine": prediction["corr[1]"]}


claim = stated(
    id="alignment/snr",
    statement="with a steady mean gradient consecutive gradients align by signal to noise, whatever the staleness",
    kind="expectation",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="elementary: independent batches factor",
    formula_defects={
        "batch size forgotten": lambda s: _predict(s.but(samples=1)),
        "ratio of averages read as mean cosine": _cosine_is_ratio,
        "noise of one coordinate instead of all": lambda s: (
            _predict(s) | {"corr[1]": _ratio(s, s.noise**2 / s.samples)}
        ),
    },
)
