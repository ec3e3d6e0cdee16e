r"""Publishes every tau seconds, starts at any phase: in-flight staleness is D = floor((L + phi)/tau).

With x = L/tau and phi uniform on a period, independent of L: P(D = 0) = E (1 - x)^+, P(D = k) = E (1 - |x - k|)^+, P(D
>= k) = E clip(x - k + 1, 0, 1), E D = E[L]/tau. Derivation: given L, D is floor(x), or one more with probability
frac(x). Domain: a clock that generation cannot stop (a trainer that never waits, `_clocked`). Starts are not tied to
publishes, as tickets would tie them; lengths have a density. It holds for all completions: those that survive a full
buffer, or an age cut, have another phase. First route: moments of L between multiples of tau in closed form. Second
route: quadrature over phase of the survival, P(D >= k) = int_0^1 P(L > (k - phi) tau) dphi, and of the density for the
mean. Source: derived.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import quad

from asyncsim.base import laws
from asyncsim.claims import _engines, _lengths, lab
from asyncsim.claims._claim import Claim, indexed
from asyncsim.claims._clocked import Clocked
from asyncsim.claims._trial import Defect, Estimate, Plant, Point

_MOST = 64


def _quantities(mean: float, tails: list[float]) -> dict[str, float]:
    """Mean, cells and what is left, from P(D >= k) for k = 0 .. cells."""
    return {"mean": mean} | indexed("p", -np.diff(tails)) | {"tail": float(tails[-1])}


def _tail(s: InFlight, k: int) -> float:
    """E clip(x - k + 1, 0, 1) by the moments of L below (k - 1) tau and k tau."""
    low, high = (k - 1) * s.period, k * s.period
    inside, weight = (
        _lengths.moment_below(s.length, power, high) - _lengths.moment_below(s.length, power, low) for power in (1, 0)
    )
    return inside / s.period - (k - 1) * weight + float(s.length.survival(high))


def _phase_zero(s: InFlight) -> dict[str, float]:
    """Starts taken to coincide with publishes: D = floor(x)."""
    tails = [float(s.length.survival(k * s.period)) for k in range(s.cells + 1)]
    return _quantities(s.predict()["mean"] - 0.5, tails)


def _rounded_up(s: InFlight) -> dict[str, float]:
    """Every sample taken to end in a version later than it started: D = floor(x) + 1."""
    tails = [1.0] + [float(s.length.survival((k - 1) * s.period)) for k in range(1, s.cells + 1)]
    return _quantities(s.predict()["mean"] + 0.5, tails)


def _length_biased(s: InFlight) -> dict[str, float]:
    """All samples replaced by those in generation at a publish."""
    law, mean = s.length, s.length.mean()
    tails = [1.0]
    for k in range(1, s.cells + 1):
        low, high = (k - 1) * s.period, k * s.period
        first, second = (_lengths.moment_below(law, p, high) - _lengths.moment_below(law, p, low) for p in (1, 2))
        tails.append((second / s.period - (k - 1) * first - _lengths.moment_below(law, 1, high)) / mean + 1.0)
    return _quantities(s.predict()["mean"], tails)


_COMPLETIONS = 6000
"""Samples of one realization."""
_SPREAD = 0.045
"""Largest standard deviation of one realization's quantity at the points below, by its scale (measured)."""


def _point(length: str, period: float, places: int, cells: int = 6) -> Point:
    return {"length": length, "period": period, "places": places, "groups_per_batch": 8, "cells": cells}


_LOGNORMAL = _point("lognormal:1.0:0.8", 0.4, 64)


class InFlight(Clocked, Claim):
    """with publishes every `tau` seconds and any start phase, in-flight staleness is `floor((L + phi)/tau)`"""

    kind, source = "distribution", "derived: uniform phase"
    relative_to, through, effect = "norm", "kernel", 0.05

    cells = _engines.cells(_MOST, typical=(1, 8), example=6)

    def predict(s) -> dict[str, float]:
        mean = _lengths.moment_below(s.length, 1, math.inf) / s.period
        return _quantities(mean, [1.0] + [_tail(s, k) for k in range(1, s.cells + 1)])

    def check(s) -> dict[str, float]:
        # Where the survival has its kink, and near 0 on the scale of the law, the phase is cut.
        cuts = [c / s.period for c in (s.length.parameters[0], 1e-2 * s.length.mean())]

        def by_phase(k: int) -> float:
            points = [k - c for c in cuts if 0.0 < k - c < 1.0]

            def survival(phase: float) -> float:
                return float(s.length.survival((k - phase) * s.period))

            return float(quad(survival, 0.0, 1.0, points=points or None, epsabs=1e-14, epsrel=1e-12, limit=400)[0])

        mean = _lengths.expectation(s.length, lambda x: x / s.period)
        return _quantities(mean, [1.0] + [by_phase(k) for k in range(1, s.cells + 1)])

    wrong = {
        "starts taken to coincide with publishes": _phase_zero,
        "rounded up": _rounded_up,
        "the distribution of those in generation at a publish": _length_biased,
    }

    points = (_LOGNORMAL, _point("exponential:1.0", 1.0, 32, 3))
    more = (_point("gamma:1.0:4.0", 0.25, 64),)

    @staticmethod
    def reach(point: Point) -> str | None:
        law = laws.as_law("length", point["length"])
        if law.kind == "pareto" and law.parameters[1] <= 2.0:
            return "a Pareto index above 2; take a lighter tail, whose mean a run measures"
        return lab.clocked.crowded(point)

    @staticmethod
    def measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        cells = point["cells"]
        realizations = lab.windows.realizations_for(_SPREAD, effect, 0.0, 32)
        window = _COMPLETIONS * laws.as_law("length", point["length"]).mean() / point["places"]
        heads = [lab.clocked.completions(point, window, m, seed, plant).head for m in range(realizations)]
        estimates = {"mean": lab.clocked.per_sample(heads)}
        estimates |= {f"p[{k}]": lab.clocked.per_sample([h == k for h in heads]) for k in range(cells)}
        return estimates | {"tail": lab.clocked.per_sample([h >= cells for h in heads])}

    @staticmethod
    def defects() -> dict[str, Defect]:
        return {
            "ends stamped a version early": Defect(lab.kernel_defects.end_stamped_early, _LOGNORMAL),
            "the trainer waits for installs": Defect(lab.clocked.slow_installs, _LOGNORMAL),
            "starts tied to installs": Defect(
                lambda system: system.replace(
                    tickets=len(system.rates), release="publish", capacity=None, overflow="block"
                ),
                _LOGNORMAL,
            ),
        }
