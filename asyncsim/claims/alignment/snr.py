r"""With a steady mean gradient, the cosine of consecutive gradients measures signal to noise, at any staleness.

if the mean gradient is steady, the cosine of consecutive gradients depends on signal and noise, not on staleness

E<g, g'> / E|g|^2 = m^2 / (m^2 + d sigma^2 / B) for a mean of length m and B samples of noise sigma in each of d
coordinates. The mean cosine is r^2 with r = kappa Gamma((d+1)/2) / (sqrt(2) Gamma(d/2 + 1)) 1F1(1/2; d/2 + 1;
-kappa^2/2), kappa = m sqrt(B) / sigma. For large d it nears the ratio of averages. Derivation: independent batches
factor, E<g, g'> = |E g|^2 and E cos = |E g/|g||^2; the latter is the mean of a projected normal vector. Domain:
isotropic normal noise, d >= 2. Second route: pairs of samples counted; the Laplace transform of |g|.
"""

import math

import numpy as np
from scipy.integrate import quad
from scipy.special import gammaln, hyp1f1

from asyncsim.claims._claim import Claim, Count, Estimate, Integer, Plant, Point, Positive, lab, replaced, units_for

_UPDATES, _MOST = 102, 3e8
_WEAK = {"dimension": 3, "signal": 0.8, "noise": 2.0, "samples": 4}


def _spread(point: Point) -> float:
    """Relative standard deviation of one replicate."""
    d, signal, noise, samples = (point[name] for name in ("dimension", "signal", "noise", "samples"))
    # One product of neighbors against its mean: noise against signal, and noise against noise over the dimension.
    power = d * noise**2 / samples / signal**2
    return 1.45 * math.sqrt((2.0 * power + power**2) / d / _UPDATES)


class Snr(Claim):
    kind, source = "expectation", "elementary: independent batches factor"

    dimension = Integer(
        2, 100_000, typical=(2, 200), example=3, doc="coordinates", remedy="in one dimension a cosine is a sign"
    )
    signal = Positive(typical=(0.05, 5.0), example=0.8, unit="gradient", doc="norm of the mean gradient")
    noise = Positive(typical=(0.1, 3.0), example=2.0, unit="gradient", doc="noise of one sample in each coordinate")
    samples = Count(1, typical=(1, 16), example=4, doc="samples of a batch")

    def predict(s) -> dict[str, float]:
        d, kappa = s.dimension, s.signal * math.sqrt(s.samples) / s.noise
        factor = kappa / math.sqrt(2.0) * math.exp(gammaln((d + 1) / 2.0) - gammaln(d / 2.0 + 1.0))
        direction = factor * float(hyp1f1(0.5, d / 2.0 + 1.0, -(kappa**2) / 2.0))
        return {"corr[1]": s.signal**2 / (s.signal**2 + d * s.noise**2 / s.samples), "cosine": direction**2}

    def check(s) -> dict[str, float]:
        d, b, m = s.dimension, s.samples, s.signal
        # Of B^2 pairs of samples B are a sample with itself.
        energy = (b * (m**2 + d * s.noise**2) + b * (b - 1) * m**2) / b**2
        kappa = m * math.sqrt(b) / s.noise
        # 1/|g| is an integral over e^{-x^2 |g|^2}, under which coordinates are independent; y = x / scale.
        scale = 1.0 / math.sqrt(d + kappa**2)

        def density(y: float) -> float:
            grown = 1.0 + 2.0 * (scale * y) ** 2
            return kappa * grown ** (-d / 2.0 - 1.0) * math.exp(-((kappa * scale * y) ** 2) / grown)

        direction = 2.0 * scale / math.sqrt(math.pi) * quad(density, 0.0, math.inf, epsabs=0.0, epsrel=1e-12)[0]
        return {"corr[1]": m**2 / energy, "cosine": direction**2}

    wrong = {"ratio of averages read as mean cosine": lambda s: {"cosine": s.predict()["corr[1]"]}}

    points = (_WEAK, {"dimension": 20, "signal": 2.0, "noise": 1.0, "samples": 2})
    more = ({"dimension": 100, "signal": 5.0, "noise": 1.0, "samples": 1},)

    def reach(self, point: Point) -> str | None:
        units = (_spread(point) / Snr.effect * 6.0) ** 2
        numbers = units * _UPDATES * point["dimension"] * point["samples"]
        return None if numbers <= _MOST else f"at most {_MOST:.0e} drawn numbers, not {numbers:.1e}; raise the signal"

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        d, signal, noise, samples = (point[name] for name in ("dimension", "signal", "noise", "samples"))
        replicates = units_for(_spread(point), effect, 4)
        trace = lab.quadratics.run_standing(d, signal, noise, samples, _UPDATES, replicates, seed, plant)
        products, cosine = trace.accumulated["autocorrelogram"], np.asarray(trace["gradient_cosine"][1:]).T
        return {"corr[1]": lab.ratio(products[1], products[0]), "cosine": lab.between(cosine)}

    defects = {
        "batch of one sample": lambda: replaced(samples_per_group=1),
        "batch used twice": lambda: lab.quadratics.batch_used_twice,
    }
