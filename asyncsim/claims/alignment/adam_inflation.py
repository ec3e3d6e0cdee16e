r"""If gradients are projected before Adam, its second moment partly undoes the projection, most for strong signals.

projecting gradients before Adam shrinks the step along the old direction by less than it shrinks the gradient there

Gradients m + xi, m spread evenly over d coordinates, rho = m_i^2 / sigma^2 there. A share alpha (`strength`) of the
component along a reference is removed from every gradient. Let C be the mean squared cosine of reference and m, and k =
2 alpha - alpha^2. The mean step along m, relative to Adam's without projection, is
    behind = 1 - alpha C,    inflation = sqrt((d rho + d) / (d rho (1 - k C) + d - k)),    before = behind * inflation.
A known reference, m itself, has C = 1: before = 1 at d = 1 (inflation 1/(1 - alpha)), and 1 - alpha where noise
dominates. The previous raw gradient has C = E[X/(X+Y)], X noncentral chi^2_1(d rho), Y chi^2_(d-1). Derivation: P = I -
alpha h h^T takes E g to P m and E g g^T to P (m m^T + sigma^2 I) P. Both are averaged over the unit reference h of the
update before. By symmetry every coordinate has the same share of the trace. Domain: constant mean, white Gaussian
noise, eps 0, beta2 -> 1; behind Adam beta1 = 0, since momentum aligns steps by itself. Second route: C by an integral,
the moments from explicit matrices. Source: derived; arXiv 2604.22407 for 1/(1 - alpha).
"""

import math

import numpy as np
from scipy.integrate import quad
from scipy.stats import poisson

from asyncsim.claims._claim import Choice, Claim, Estimate, Integer, Plant, Point, Real, checks, lab, units_for

_UPDATES, _AFTER = 400, 200
"""Measured updates, and those left out: until then Adam's second moment rests on too few gradients."""
_BIAS = 3e-3
"""Relative error from the second moment's own fluctuation, and from the first gradient, which has none before it."""
_WEAK = {"dimension": 8, "signal": 0.5, "strength": 0.8, "reference": "previous"}
_KNOWN = {"dimension": 4, "signal": 2.0, "strength": 0.5, "reference": "known"}


def _bias(point: Point) -> float:
    """Relative bias when the first gradient has much more energy than the projected ones."""
    rest = (1.0 - point["strength"]) ** 2 * point["signal"] + 0.5
    return _BIAS + max(0.0, point["signal"] - 2.0) / rest / (2.0 * _UPDATES)


class AdamInflation(Claim):
    kind, status, source = "expectation", "conditional", "derived; arXiv 2604.22407 for the signal-dominated case"

    dimension = Integer(1, 512, typical=(2, 40), example=3, doc="coordinates of the mean gradient")
    signal = Real(0.0, 1e3, open_low=True, typical=(0.01, 100.0), example=0.7, doc="energy of mean / energy of noise")
    strength = Real(0.0, 1.0, open_low=True, typical=(0.05, 0.95), example=0.8, doc="share of the component removed")
    reference = Choice("known", "previous", example="previous", doc="direction along which the gradient is projected")

    def joint(self) -> None:
        """Require strength below 1 with a known reference, and two coordinates with the previous gradient."""
        below, least = (self.strength < 1.0, 1) if self.reference == "known" else (True, 2)
        self.require(below, "strength", "below 1 for a known reference", "leave a part of it")
        checks.integer("dimension", self.dimension, least, "count the coordinates of the mean gradient", 512)

        # Of the mean gradient, in units of one coordinate's noise.
        self.energy = self.dimension * self.signal

    def _overlap(s) -> float:
        """Mean overlap C, with the noncentral beta distribution as a Poisson mixture of beta distributions."""
        if s.reference == "known":
            return 1.0
        middle = s.energy / 2.0
        reach = 12.0 * math.sqrt(middle) + 60.0
        j = np.arange(max(0, int(middle - reach)), int(middle + reach))
        weight = poisson.pmf(j, middle)
        return float(weight @ ((0.5 + j) / (0.5 * s.dimension + j)) / weight.sum())

    def _quantities(s, behind: float, moment: float) -> dict[str, float]:
        """Quantities from `moment`, the ratio of one coordinate's second moments after and before projection."""
        inflation = 1.0 / math.sqrt(moment)
        return {"before": behind * inflation, "behind": behind, "inflation": inflation}

    def predict(s) -> dict[str, float]:
        removal, overlap = 2.0 * s.strength - s.strength**2, s._overlap()
        energy = s.energy * (1.0 - removal * overlap) + s.dimension - removal
        return s._quantities(1.0 - s.strength * overlap, energy / (s.energy + s.dimension))

    def check(s) -> dict[str, float]:
        overlap, scale = 1.0, 2.0 / (s.dimension + s.energy)
        if s.reference == "previous":
            # C is the integral over t of E X exp(-t (X + Y)), in z = log(1 + 2 t).
            def integrand(y: float) -> float:
                z = scale * y
                fall = 0.5 * s.dimension * z - 0.5 * s.energy * math.expm1(-z)
                return 0.5 * scale * (1.0 + s.energy * math.exp(-z)) * math.exp(-fall)

            pieces = ((0.0, 6.0), (6.0, 30.0), (30.0, np.inf))
            overlap = sum(quad(integrand, *piece, epsabs=1e-15, epsrel=1e-13, limit=200)[0] for piece in pieces)
        size = max(s.dimension, 2)
        mean = np.where(np.arange(size) < s.dimension, math.sqrt(s.signal), 0.0)
        along = mean / np.linalg.norm(mean)
        across = np.linalg.qr(np.column_stack([along, np.eye(size)[0]]))[0][:, 1]
        # Every moment is linear in the squared cosine, so one reference at its mean gives them all.
        reference = math.sqrt(overlap) * along + math.sqrt(max(0.0, 1.0 - overlap)) * across
        matrix = np.eye(size) - s.strength * np.outer(reference, reference)
        moment = matrix @ (np.outer(mean, mean) + np.eye(size)) @ matrix
        coordinates = slice(0, s.dimension)
        share = float(np.trace(moment[coordinates, coordinates])) / (s.dimension * (s.signal + 1.0))
        return s._quantities(float(along @ matrix @ along), share)

    wrong = {
        "1/(1 - strength) at any signal": lambda s: s._quantities(
            1.0 - s.strength * s._overlap(), (1.0 - min(s.strength, 0.99)) ** 2
        )
    }

    points = (_WEAK, _KNOWN)
    more = (
        {**_KNOWN, "dimension": 1, "signal": 1.0},
        {**_WEAK, "dimension": 32, "strength": 1.0},
        {**_WEAK, "dimension": 16, "signal": 1.0},
    )

    def reach(self, p: Point) -> str | None:
        bound = "dimension * signal >= 0.5, and a first gradient that weighs little; lower signal or strength"
        return None if p["dimension"] * p["signal"] >= 0.5 and _bias(p) <= 0.05 else bound

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        # Deviation of one replicate's ratio times root of updates and of the mean's energy (measured).
        spread = 0.6 / math.sqrt(_UPDATES * point["dimension"] * point["signal"])
        remainder = max(0.2, 1.0 - point["strength"] * min(1.0, point["signal"]))
        bias = _bias(point)
        net_effect = max(effect - 2.0 * bias, 0.25 * effect)
        replicates = max(8, units_for(spread / remainder, net_effect, 12))
        inner, idle = lab.adam(1e-8, 0.0, 0.9999, 0.0), int(point["reference"] == "known")
        control = lab.quadratics.projection(point["reference"], point["strength"], point["dimension"])
        signal = np.full(replicates, point["signal"])
        none, before, behind = (
            lab.quadratics.constant_mean(point["dimension"], idle, signal, links, _UPDATES, _AFTER, seed, plant)
            for links in ((inner,), (control, inner), (inner, control))
        )
        pairs = {"before": (before, none), "behind": (behind, none), "inflation": (before, behind)}
        ratios = {name: lab.ratio(*pair) for name, pair in pairs.items()}
        return {name: each._replace(tolerance=bias * abs(each.value)) for name, each in ratios.items()}

    defects = {
        "reference applied instead of raw": lambda: lab.quadratics.changed(lab.Align, reference="applied"),
        "momentum in Adam": lambda: lab.quadratics.changed(lab.Adam, beta1=0.9),
    }
