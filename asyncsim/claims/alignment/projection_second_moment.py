r"""Under projection, an unstable mode ends in a cycle whose size depends on the noise of the other coordinates.

under projection, an unstable mode moves by `x_(t+1) = x_t - step * s (1 - alpha p^2/(p^2 + n^2))`, with stale gradients
`s` and `p`, and noise of energy `n^2` in the other coordinates

x' = x - step g with g read `staleness` updates ago, in a mode of the curvature lambda; `others` coordinates carry noise
alone, of energy n^2 = others noise^2. Each gradient loses `strength` times its part along the raw gradient before it.
For many others the inner product of both is s p, s = lambda x_{t-tau} and p = lambda x_{t-tau-1}, and the square of the
one before p^2 + n^2. So x_{t+1} = x_t - step s (1 - strength p^2 / (p^2 + n^2)), without noise, and `second_moment` is
the mean of x^2 over its cycle, in units of parameter^2. Derivation: the cycle is x_t = X(omega t), X with odd harmonics
only; the map at 8 points per harmonic gives the coefficients and omega. A cosine below 0, at which nothing is
projected, occurs only where p is small; its effect is of the third order in omega (iterated: 0.04 percent at staleness
5). Limit of many others, staleness of 4 or more. Second route: the map itself, iterated, and averaged with a smooth
window, which converges faster than any power. The sinusoid of a describing function with p = s is 7 to 13 percent too
large: projection compares with a gradient that is one update older, which advances the cycle.
"""

import math

import numpy as np
from scipy.optimize import approx_fprime, brentq, root

from asyncsim.claims._claim import Claim, Count, Estimate, Plant, Point, Positive, Real, Staleness, lab, sim, units_for
from asyncsim.claims._delay import critical

_HARMONICS = 16
_ITERATED, _LEFT_OUT = 80_000, 10_000
_CYCLES, _WARM_UP = 12, 10
"""Cycles of about 4 staleness + 2 updates, measured and left out."""
_OTHERS = 200
_FULL = {"staleness": 8, "curvature": 1.0, "noise": 1.0, "others": 800, "strength": 1.0, "step": 0.46}
_PARTIAL = {**_FULL, "curvature": 2.0, "noise": 0.5, "strength": 0.7, "step": 0.138}


class ProjectionSecondMoment(Claim):
    kind, status, source = "expectation", "asymptotic", "derived; family of arXiv 2603.01501"

    staleness = Staleness(4, 64, typical=(6, 12), example=8)
    curvature = Positive(typical=(0.1, 5.0), example=2.0, unit="gradient per parameter", doc="curvature of the mode")
    noise = Positive(typical=(0.1, 3.0), example=0.5, unit="gradient", doc="noise of one gradient in each coordinate")
    others = Count(2, typical=(100, 1000), example=30, doc="coordinates with noise only")
    strength = Real(
        0.0, 1.0, open_low=True, typical=(0.6, 1.0), example=0.9, doc="share of the parallel part that is removed"
    )
    step = Positive(example=0.17, unit="parameter per gradient", doc="learning rate")

    def joint(self) -> None:
        """Require a learning rate from 1.1 times the boundary, where a cycle forms, to the weaker gain's boundary."""
        # The learning rate in units of the boundary without control.
        self.share = self.step * self.curvature
        self.excess = self.share / critical(self.staleness)
        low, high = 1.1, 3.0 if self.strength > 0.75 else min(3.0, 0.75 / (1.0 - self.strength))
        bound = f"{low} to {high:.3g} times the boundary without control"
        self.require(low <= self.excess <= high, "step", bound, "choose such a learning rate, and strength above 0.35")

    def _scaled(s, square: float) -> dict[str, float]:
        """Convert a second moment from units of n / lambda to units of the point."""
        return {"second_moment": square * s.others * s.noise**2 / s.curvature**2}

    def _described(s) -> float:
        """E x^2 of a sinusoid whose mean gain, at equal consecutive gradients, is that of the boundary."""

        def gain(size: float) -> float:
            lost = 1.0 - 2.0 / size**2 * (1.0 - 1.0 / math.sqrt(1.0 + size**2))
            return 1.0 - s.strength * lost - 1.0 / s.excess

        return float(brentq(gain, 1e-3, 1e6)) ** 2 / 2.0

    def predict(s) -> dict[str, float]:
        orders = np.arange(1, 2 * _HARMONICS, 2)
        angles = 2.0 * np.pi * np.arange(8 * _HARMONICS) / (8 * _HARMONICS)
        waves = np.exp(1j * np.outer(angles, orders))

        def coefficients(unknown: np.ndarray) -> np.ndarray:
            # The first is real: it fixes where the cycle begins.
            imaginary = np.concatenate([[0.0], unknown[_HARMONICS + 1 :]])
            return np.concatenate([unknown[:1], unknown[2 : _HARMONICS + 1]]) + 1j * imaginary

        def unbalanced(unknown: np.ndarray) -> np.ndarray:
            c = coefficients(unknown)

            def at(age: int) -> np.ndarray:
                return 2.0 * np.real(waves @ (c * np.exp(-1j * orders * age * unknown[1])))

            stale, before = at(s.staleness), at(s.staleness + 1)
            move = stale * (1.0 - s.strength * before**2 / (1.0 + before**2))
            rest = waves.conj().T @ ((at(-1) - at(0)) / s.share + move) / len(angles)
            return np.concatenate([rest.real, rest.imag])

        guess = np.zeros(2 * _HARMONICS)
        guess[:2] = 0.48 * math.sqrt(2.0 * s._described()), math.pi / (2 * s.staleness + 1)
        found = root(unbalanced, guess, tol=1e-10).x
        # Newton steps, for the last digits.
        for _ in range(3):
            found = found - np.linalg.solve(approx_fprime(found, unbalanced, 1e-7), unbalanced(found))
        return s._scaled(float(2.0 * (np.abs(coefficients(found)) ** 2).sum()))

    def check(s) -> dict[str, float]:
        tau = s.staleness
        path = [math.sqrt(2.0 * s._described()) * math.cos(math.pi / (2 * tau + 1) * k) for k in range(tau + 2)]
        for _ in range(_LEFT_OUT + _ITERATED):
            square = path[-2 - tau] ** 2
            path.append(path[-1] - s.share * path[-1 - tau] * (1.0 - s.strength * square / (1.0 + square)))
        at = (np.arange(_ITERATED) + 0.5) / _ITERATED
        window = np.exp(-1.0 / (at * (1.0 - at)))
        return s._scaled(float(window @ np.array(path[-_ITERATED:]) ** 2 / window.sum()))

    wrong = {"sinusoid, and the same gradient twice": lambda s: s._scaled(s._described())}

    points = (_FULL, _PARTIAL)
    more = ({**_FULL, "staleness": 16, "step": 0.14}, {**_FULL, "staleness": 5, "step": 0.45})

    def reach(self, p: Point) -> str | None:
        bound = f"others >= {_OTHERS} and staleness <= 40; fewer leave a bias, more staleness takes longer runs"
        return None if p["others"] >= _OTHERS and p["staleness"] <= 40 else bound

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        # Relative error of finitely many coordinates, times their number (measured: 0.1 +- 0.1 percent of 800).
        bias = 1.2 / point["others"]
        # Relative standard deviation of one replicate's mean square (measured).
        replicates = max(8, units_for(0.0145, effect - 2.0 * bias, 4))
        cycle = 4 * point["staleness"] + 2
        links = (lab.align(low=0.0, high=1.0, strength=point["strength"]), sim.updates.sgd(point["step"]))
        spec = lab.quadratics.far_away(
            point["curvature"], point["noise"], point["others"], 0.8, links, point["staleness"],
            (_CYCLES + _WARM_UP) * cycle, replicates,
        )  # fmt: skip
        path = np.asarray(lab.run(spec, seed, plant)["along"])[_WARM_UP * cycle :]
        # The period is not exactly that of the boundary: a plain mean would depend on where the last cycle is cut.
        at = (np.arange(len(path)) + 0.5) / len(path)
        window = np.exp(-1.0 / (at * (1.0 - at)))
        square = lab.between(window @ path**2 / window.sum())
        return {"second_moment": square._replace(tolerance=bias * square.value)}

    defects = {
        "off-by-one version": lambda: (lab.off_by_one_version, _PARTIAL),
        "strength forgotten": lambda: (lab.quadratics.changed(lab.Align, strength=1.0), _PARTIAL),
    }
