r"""On average, the ESS of N Pareto weights of index alpha in (1, 2) grows as N^{alpha - 1}, not as N.

Pareto weights have `E[1/ESS] = N ∫ t E[w^2 e^(-t w)] (E e^(-t w))^(N-1) dt`, falling as `N^(1 - alpha)`, not `1/N`

With phi = E e^{-t w} and independent weights,
    E[1/ESS] = E[sum w^2 / (sum w)^2] = N int_0^inf t E[w^2 e^{-t w}] phi^{N-1} dt    ("inverse[N]"),
which tends to alpha Gamma(2 - alpha) Gamma(alpha) ((alpha - 1)/alpha)^alpha N^{1 - alpha}, slowly: at alpha = 1.5 and N
= 16 it is 1.2 times that. "ess[N]" is E[ESS]/N = int (N m_2 psi^{N-1} + N (N - 1) m_1^2 psi^{N-2}) dt with psi = E
e^{-t w^2}, m_j = E w^j e^{-t w^2}. The median of 1/ESS falls like N^{-2 (1 - 1/alpha)}: one exponent does not serve
both. E w^2 is infinite, so that 1/(1 + chi^2) = 0 for ever larger batches. Derivation: 1/s^2 = int t e^{-t s} dt.
Domain: exact Pareto weights, of index 1/(1 - temperature) as in the plane of `ratio/gaussian-scale`, whose least value
cancels. Second route: both transforms by quadrature over the weights, along a ray of the complex plane.
"""

import cmath
import math

import numpy as np
from scipy.special import gamma, gammaincc

from asyncsim.base.declared import Counts
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Real, lab, units_for, up_to
from asyncsim.claims._lengths import panels

_BATCHES, _MOST = 32, 16_000_000
_SMALL = {"temperature": 0.4, "samples": (4, 6)}


def _exponential_integrals(first: float, count: int, t: np.ndarray) -> list[np.ndarray]:
    """E_p(t) = int_1^inf x^{-p} e^{-t x} dx for p = first in (0, 1), first + 1, ..."""
    values = [t ** (first - 1.0) * gammaincc(1.0 - first, t) * gamma(1.0 - first)]
    for k in range(count - 1):
        values.append((np.exp(-t) - t * values[-1]) / (first + k))
    return values


def _nodes(samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes t and weights of an integral over t > 0; for N weights of at least 1 the rest beyond 45/N is negligible."""
    log_t, weight = panels(np.linspace(-55.0, math.log(45.0), 101), 12)
    log_t = log_t - math.log(samples)
    return np.exp(log_t), weight * np.exp(log_t)


class HeavySums(Claim):
    kind, source = "expectation", "derived; Feller, An Introduction to Probability Theory II"

    temperature = Real(0.02, 0.48, typical=(0.1, 0.45), example=0.4, doc="1 - 1/alpha, alpha the index of the tail")
    samples = Counts(2, 1 << 12, typical=(2, 200), example=(8, 32), doc="samples of a batch")

    @property
    def index(self) -> float:
        return 1.0 / (1.0 - self.temperature)

    def predict(s) -> dict[str, float]:
        alpha, half, inverse, ess = s.index, s.index / 2.0, {}, {}
        for N in s.samples:
            t, weight = _nodes(N)
            second, _, phi = _exponential_integrals(alpha - 1.0, 3, t)
            inverse[f"inverse[{N}]"] = float(weight @ (N * t * alpha * second * (alpha * phi) ** (N - 1)))
            second, phi = _exponential_integrals(half, 2, t)
            _, first = _exponential_integrals(half - 0.5, 2, t)
            psi = half * phi
            squares = half * second * psi ** (N - 1) + (N - 1) * (half * first) ** 2 * psi ** (N - 2)
            ess[f"ess[{N}]"] = float(weight @ squares)
        return inverse | ess

    def check(s) -> dict[str, float]:
        # Angle of the ray, in radians.
        alpha, ray, cells = s.index, cmath.exp(1j * 0.5), {}
        x, mass = panels(np.linspace(0.0, 1.0, 25), 12)
        for power, name in ((1.0, "inverse"), (2.0, "ess")):
            for N in s.samples:
                t, weight = (ray * each for each in _nodes(N))
                # Where e^{-t w^power} has decayed depends on t; without decay the density itself has.
                far = np.minimum((np.log(40.0 / np.abs(t)) / power).clip(0.1), 60.0)[:, None]
                u = far * x
                density = alpha * np.exp(-alpha * u - t[:, None] * np.exp(power * u)) * far
                # E w^j e^{-t w^power}.
                phi, first, second = ((density * np.exp(j * u)) @ mass for j in range(3))
                if name == "inverse":
                    integrand = N * t * second * phi ** (N - 1)
                else:
                    integrand = second * phi ** (N - 1) + (N - 1) * first**2 * phi ** (N - 2)
                cells[f"{name}[{N}]"] = float((weight @ integrand).real)
        return cells

    wrong = {
        "one over the mean ESS": lambda s: {f"inverse[{N}]": 1.0 / (N * s.predict()[f"ess[{N}]"]) for N in s.samples}
    }

    points = ({"temperature": 0.4, "samples": (4, 16)},)
    more = ({"temperature": 0.2, "samples": (4, 32)},)

    _few = "at most 2000 samples in all batches, not {}; take smaller ones"
    reach = staticmethod(up_to(2000, lambda point: sum(point["samples"]), _few))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        read, most = {}, _MOST // (_BATCHES * sum(point["samples"]))
        for number, samples in enumerate(point["samples"]):
            # The relative deviation of 1/ESS of a batch grows with the logarithm of its size (measured).
            wanted = units_for(0.3 * math.log(samples) / math.sqrt(_BATCHES), effect, 4)
            size = samples, _BATCHES, max(16, min(wanted, most))
            spec = lab.weights.cooled(point["temperature"], 2, ["ess"], size)
            share = lab.run(spec, seed + 1000 * number, plant)["ess"][1:]
            read[f"inverse[{samples}]"] = lab.between((1.0 / (samples * share)).mean(axis=0))
            read[f"ess[{samples}]"] = lab.between(share.mean(axis=0))
        return read

    defects = {
        "clamped weights": lambda: (lab.weights.with_ess(lab.weights.clamped), _SMALL),
        "sampler 5 percent colder than it says": lambda: (lab.weights.colder(0.95), _SMALL),
    }
