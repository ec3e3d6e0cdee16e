r"""With a publish every tau seconds, in-flight staleness is D = floor((L + phi)/tau), for starts at any phase phi.

with a publish every `tau` seconds and a random phase, staleness in flight is `floor((L + phi)/tau)`

With x = L/tau and phi uniform on a period, independent of L: P(D = 0) = E (1 - x)^+, P(D = k) = E (1 - |x - k|)^+, P(D
>= k) = E clip(x - k + 1, 0, 1), E D = E[L]/tau. Derivation: given L, D is floor(x), or one more with probability
frac(x). Domain: a clock that generation cannot stop (a trainer that never waits, `Clocked`). Starts are not tied to
publishes, as permits would tie them; lengths have a density. It holds for all completions: those that survive a full
buffer, or an age cut, have another phase. First route: moments of L between multiples of tau. Second route: quadrature
over phase of the survival, P(D >= k) = int_0^1 P(L > (k - phi) tau) dphi, and of the density for the mean.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.integrate import quad

from asyncsim.base import laws
from asyncsim.claims import _engines, _lengths, _openloop, lab
from asyncsim.claims._claim import Estimate, Plant, Point, indexed, named, replaced

_point = named("length", "period", "places", "cells", groups_per_batch=8, cells=6)


class InFlight(_openloop.Clocked):
    kind, source, relative_to, effect = "distribution", "derived: uniform phase", "norm", 0.05

    cells = _engines.cells(64, typical=(1, 8), example=6)

    def beyond(self, k: int) -> float:
        """Probability P(L > k tau) that a sample is in generation for more than k publish periods."""
        return float(self.length.survival(k * self.period))

    def quantities(s, mean: float, tail: Callable[[int], float]) -> dict[str, float]:
        """Mean staleness, its probabilities and the remaining tail, from P(D >= k) for k = 1 .. cells."""
        tails = [1.0] + [tail(k) for k in range(1, s.cells + 1)]
        return {"mean": mean} | indexed("p", -np.diff(tails)) | {"tail": float(tails[-1])}

    def moment(s, power: int, k: int) -> float:
        """Truncated moment E[L^power; (k - 1) tau < L <= k tau] of the generation time L."""
        high, low = (s.length.moment_below(power, j * s.period) for j in (k, k - 1))
        return high - low

    def predict(s) -> dict[str, float]:
        mean = s.length.moment_below(1, math.inf) / s.period
        return s.quantities(mean, lambda k: s.moment(1, k) / s.period - (k - 1) * s.moment(0, k) + s.beyond(k))

    def check(s) -> dict[str, float]:
        # Where the survival has its kink, and near 0 on the scale of the law, the phase is cut.
        cuts = [c / s.period for c in (s.length.parameters[0], 1e-2 * s.length.mean())]

        def by_phase(k: int) -> float:
            def survival(phase: float) -> float:
                return float(s.length.survival((k - phase) * s.period))

            points = [k - c for c in cuts if 0.0 < k - c < 1.0]
            return float(quad(survival, 0.0, 1.0, points=points or None, epsabs=1e-14, epsrel=1e-12, limit=400)[0])

        return s.quantities(_lengths.expectation(s.length, lambda x: x / s.period), by_phase)

    wrong = {"starts taken to coincide with publishes": lambda s: s.quantities(s.predict()["mean"] - 0.5, s.beyond)}

    points = (_point("lognormal:1.0:0.8", 0.4, 64), _point("exponential:1.0", 1.0, 32, 3))
    more = (_point("gamma:1.0:4.0", 0.25, 64),)

    def reach(self, point: Point) -> str | None:
        law = laws.as_law("length", point["length"])
        if law.kind == "pareto" and law.parameters[1] <= 2.0:
            return "a Pareto index above 2; take a lighter tail, whose mean a run measures"
        return lab.crowded(point)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        cells = point["cells"]
        realizations = lab.realizations_for(0.045, effect, 0.0, 32)
        window = 6000 * laws.as_law("length", point["length"]).mean() / point["places"]
        heads = [lab.completions(point, window, m, seed, plant)[0] for m in range(realizations)]
        estimates = {"mean": lab.per_sample(heads)}
        estimates |= {f"p[{k}]": lab.per_sample([h == k for h in heads]) for k in range(cells)}
        return estimates | {"tail": lab.per_sample([h >= cells for h in heads])}

    defects = {
        "ends stamped a version early": lambda: lab.kernel_defects.end_stamped_early,
        "the trainer waits for installs": lambda: lab.slow_installs,
        "starts tied to installs": lambda: replaced(tickets=64, capacity=None, overflow="block"),
    }
