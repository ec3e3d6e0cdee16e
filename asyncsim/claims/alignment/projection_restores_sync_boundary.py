r"""Removing the component along the previous raw gradient restores the synchronous limit, far from the optimum.

if gradients lose their part along the one before, stale modes far from the optimum are stable up to `2 / curvature`

x' = x - step (curvature x_{t-tau} + xi), beside `others` coordinates that carry noise alone, energy n^2 = others
noise^2. Projection applies whenever the cosine to the previous raw gradient is positive. For curvature |x| >> n, a =
step curvature: `step` = 2 / curvature is the largest at which |x| does not grow. The first tau + 1 updates take |x| by
the `factor` |1 - a|, and for a > 1 every further tau + 1 do. For a < 1 x never changes sign, and from there on x^2 has
a `fall` of 2 a n^2 / curvature^2 per update. Against the previous `applied` direction instead, `step` is that of half
the staleness, a_c(floor(tau / 2)) / curvature, about twice the uncontrolled one.

Derivation: while signs agree, the remaining gradient along x is curvature x (|xi'|^2 - xi xi') / |g'|^2, of mean n^2 /
(curvature x). A gradient passes whole where x changed sign tau updates ago, once every tau + 1 updates. It is then
curvature x, as in a synchronous step. A projected direction that was applied is noise, so the gradient after it passes
whole and the next one is projected. So x moves at every second update, and tau updates are floor(tau / 2) moves. Where
x changes sign two in a row pass; the map with that has the same boundary to nine digits. Domain: full projection,
threshold 0, one mode, |x| large; it bounds, it does not converge. Second route: the map of the limit is iterated and
its neutral step found by root finding, that of two updates by its spectral radius. The mean of the remaining gradient
is integrated over the chi-square law of |xi'|^2.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import chi2

import asyncsim as sim
from asyncsim.base.knobs import Number
from asyncsim.claims import lab
from asyncsim.claims._claim import Choice, Claim, Count, Estimate, Plant, Point, Positive, Staleness, units_for, within
from asyncsim.claims._delay import critical
from asyncsim.claims._random import companions

_FALLING = 1000
_SPREAD = 2.0
"""Standard deviation of one replicate's fall over its mean, times root of updates and other coordinates (measured)."""
_OVER = {"staleness": 4, "curvature": 1.0, "noise": 1.0, "others": 20, "step": 1.6, "reference": "raw"}
_UNDER = {**_OVER, "step": 0.7}
_APPLIED = {**_OVER, "reference": "applied"}


def _multiplied(a: float, tau: int) -> float:
    """Growth per tau + 1 updates of the noiseless map, from a constant history after a gradient of opposite sign."""
    path, previous = [1.0] * (tau + 1), -1.0
    flips = 6 if a > 1.0 else 1
    for _ in range(flips * (tau + 1)):
        stale = path[-1 - tau]
        path.append(path[-1] - (a * stale if stale * previous < 0.0 else 0.0))
        previous = stale
    return float(abs(path[-1]) ** (1.0 / flips))


def _spec(point: Point, step: Number, distance: float, *size: int) -> lab.Spec:
    """Spec of a run far from the optimum; `size` holds updates, replicates and the recording interval."""
    links = (lab.align(low=0.0, high=1.0, reference=point["reference"]), sim.updates.sgd(step))
    mode = point["curvature"], point["noise"], point["others"], distance
    return lab.quadratics.far_away(*mode, links, point["staleness"], *size)


class ProjectionRestoresSyncBoundary(Claim):
    kind, source = "threshold", "derived; family of arXiv 2603.01501"
    effect = 0.05

    staleness = Staleness(1, typical=(1, 24), example=4, remedy="count updates; without staleness nothing is restored")
    curvature = Positive(typical=(0.1, 5.0), example=2.0, unit="gradient per parameter", doc="curvature of the mode")
    noise = Positive(typical=(0.1, 3.0), example=0.5, unit="gradient", doc="noise of one gradient in each coordinate")
    others = Count(1, typical=(1, 100), example=7, doc="coordinates with noise only")
    step = Positive(typical=(0.01, 2.0), example=0.3, unit="parameter per gradient", doc="learning rate")
    reference = Choice("raw", "applied", example="raw", doc="previous direction: raw or as applied")

    def joint(self) -> None:
        self.share = self.step * self.curvature
        self.require(abs(self.share - 1.0) > 1e-3, "step", "not 1 / curvature", "there one update ends at the minimum")

    def _quantities(s, step: float, factor: float, fall: float) -> dict[str, float]:
        if s.reference == "applied":
            return {"step": step}
        return {"step": step, "factor": factor} | ({} if s.share > 1.0 else {"fall": fall})

    def predict(s) -> dict[str, float]:
        a, energy = s.share, s.others * s.noise**2
        limit = 2.0 if s.reference == "raw" else critical(s.staleness // 2)
        return s._quantities(limit / s.curvature, abs(1.0 - a), 2.0 * a * energy / s.curvature**2)

    def check(s) -> dict[str, float]:
        tau = s.staleness
        if s.reference == "raw":
            neutral = brentq(lambda a: math.log(_multiplied(a, tau)), 1.25, 3.5, xtol=1e-14, rtol=1e-14)
        else:
            # Of two updates one moves.
            def excess(a: float) -> float:
                both = companions(np.ones(tau + 1), 0.0)[0] @ companions(np.ones(tau + 1), a)[tau]
                return float(np.abs(np.linalg.eigvals(both)).max()) - 1.0

            neutral = brentq(excess, 0.5 / (tau + 1), 4.0, xtol=1e-15, rtol=1e-14)
        # Fall of x^2 per update at curvature |x| = 1e7 n: the remaining gradient, integrated over |xi'|^2.
        signal, law = 1e14 * s.others, chi2(s.others)
        top = float(law.isf(1e-16))
        share = quad(lambda q: law.pdf(q) * signal * q / (signal + q), 0.0, top, epsabs=0.0, epsrel=1e-13, limit=400)[0]
        fall = 2.0 * s.share * share * s.noise**2 / s.curvature**2
        return s._quantities(neutral / s.curvature, _multiplied(s.share, tau), fall)

    wrong = {"boundary without control": lambda s: {"step": critical(s.staleness) / s.curvature}}

    points = (_OVER, _UNDER, {**_OVER, "staleness": 1, "curvature": 2.0, "step": 1.1}, _APPLIED)
    more = (
        {**_APPLIED, "staleness": 7, "curvature": 0.5},
        {**_UNDER, "staleness": 8, "others": 5, "noise": 0.5},
        {**_OVER, "staleness": 16, "step": 1.9},
    )

    reach = staticmethod(within(staleness=32))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        def build(steps: tuple[float, ...], count: int) -> lab.Spec:
            return plant(_spec(point, steps, 1e6, count, len(steps)))

        tau, curvature, step = point["staleness"], point["curvature"], point["step"]
        raw, a = point["reference"] == "raw", step * curvature
        # Against the applied direction what must be found lies above 1 / (tau + 1): pi/2 over tau + 1 for large tau.
        least, most = (1.2, 3.2) if raw else (0.8 / (tau + 1), 6.0 / (tau + 1))
        low, high = lab.quadratics.largest_step(build, least / curvature, most / curvature, tau, seed)
        middle = math.sqrt(low * high)
        found = {"step": Estimate(middle, tolerance=max(0.005 * middle, high - low), samples=64)}
        if raw:
            # Per tau + 1 updates, over as many of them as leave the mode far above the noise.
            flips = 1 if a < 1.0 else max(1, min(6, int(math.log(1e2) / max(1e-9, -math.log(min(1.0, abs(1.0 - a)))))))
            trace = lab.run(_spec(point, step, 1e6, flips * (tau + 1), 8), seed, plant)
            factor = lab.between(np.abs(trace.parameters[:, 0] / trace["along"][0]) ** (1.0 / flips))
            found["factor"] = factor._replace(tolerance=1e-3 * factor.value)
        if raw and a < 1.0:
            # From where no stale gradient is older than the flip.
            begin = 2 * (tau + 1)
            count = begin * (1 + math.ceil(_FALLING / begin))
            replicates = max(8, units_for(_SPREAD / math.sqrt(point["others"] * _FALLING), 0.8 * effect, 8))
            trace = lab.run(_spec(point, step, 300.0 / (1.0 - a), count, replicates, begin), seed, plant)
            fall = lab.between((trace["along"][1] ** 2 - trace.parameters[:, 0] ** 2) / (count - begin))
            found["fall"] = fall._replace(tolerance=1e-3 * abs(fall.value))
        return found

    defects = {
        "reference applied instead of raw": lambda: lab.quadratics.changed(lab.Align, reference="applied"),
        "off-by-one version": lambda: lab.off_by_one_version,
    }
