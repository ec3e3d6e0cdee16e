r"""Partial projection raises the stability limit only in part, and skipping leaves out updates with strong signals.

if a share `alpha` of the parallel part is removed, descent is stable up to learning rate `a_c(staleness) / ((1 - alpha)
* curvature)`; skipping such updates leaves out most of them if the squared signal exceeds `n^2 c / (1 - c)`

Projection that removes the share `strength` of the part along the raw gradient before leaves, far from the minimum, the
gain 1 - strength. So the largest `step` at which |x| does not grow is a_c(staleness) / ((1 - strength) curvature).
Where signs change a gradient passes whole; that moves the boundary by 0.9 percent at most for strength <= 0.5 and
staleness of 6 or more (an iterated map), and by up to 43 percent at staleness 1. Skipping above the cosine `high` is
`skipped`, the share of updates at a stale gradient of mean `signal` (length) in one coordinate and noise 1 in it and in
`others` more. It nears 1 where signal^2 exceeds others high / (1 - high).

Derivation: the component of g' along a direction at angle t to the mean is normal of mean signal cos t; the rest of
|g'|^2 is noncentral chi-square. A cosine above high is a component above high/sqrt(1 - high^2) times the rest's root.
The density of t is that of the angle of a shifted normal vector. Domain: independent noise; for the boundary, the limit
of large staleness. Second route: the spectral radius of the delayed recursion of gain 1 - strength; the share from both
angles to the mean and the one between the directions across it.
"""

import math

import numpy as np
from scipy.special import betainc, ndtr
from scipy.stats import ncx2

from asyncsim.claims._claim import Claim, Count, Estimate, Plant, Point, Positive, Real, Staleness, lab, sim, units_for
from asyncsim.claims._delay import critical
from asyncsim.claims._recursion import marginal_step

_NODES, _UPDATES = 240, 240
_SPREAD = 0.6
"""Relative standard deviation of a replicate's share times root of updates, where most are skipped (measured)."""
_EIGHT = {"staleness": 8, "curvature": 1.0, "strength": 0.3, "others": 24, "signal": 4.5, "high": 0.3}


class PartialAndSkipControl(Claim):
    kind, status, source = "threshold", "asymptotic", "derived; family of arXiv 2603.01501"

    staleness = Staleness(1, 64, typical=(1, 24), example=8)
    curvature = Positive(typical=(0.1, 5.0), example=2.0, unit="gradient per parameter", doc="curvature of the mode")
    strength = Real(0.0, 0.95, typical=(0.0, 0.9), example=0.4, doc="share of the parallel part that is removed")
    others = Count(8, 5000, typical=(24, 200), example=30, doc="coordinates with noise only")
    signal = Real(0.0, 200.0, typical=(0.0, 15.0), example=4.0, doc="mean gradient / noise of a coordinate")
    high = Real(0.02, 0.9, typical=(0.1, 0.8), example=0.3, doc="cosine above which an update is skipped")

    def _angles(s) -> tuple[np.ndarray, np.ndarray]:
        """Angles of a gradient to the mean with probabilities: sin^(others-1), lengths integrated out."""
        d, middle = s.others + 1, math.atan2(math.sqrt(s.others), s.signal)
        size = math.hypot(s.signal, math.sqrt(d))
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        ends = (max(0.0, middle - 14.0 / size), min(math.pi, middle + 14.0 / size))
        t = ends[0] + (ends[1] - ends[0]) * (nodes + 1.0) / 2.0
        low = max(0.0, size - 12.0)
        length = low + (size + 12.0 - low) * (nodes + 1.0) / 2.0
        distance = length[:, None] ** 2 + s.signal**2 - 2.0 * s.signal * length[:, None] * np.cos(t)
        log = (d - 1) * np.log(length)[:, None] + (d - 2) * np.log(np.sin(t)) - distance / 2.0
        mass = weights @ np.exp(log - log.max()) * weights
        return t, mass / mass.sum()

    def predict(s) -> dict[str, float]:
        """Integrate over one gradient's direction, and over the other's component along it and chi-square rest."""
        t, mass = s._angles()
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        across = (s.signal * np.sin(t))[:, None]
        size = np.sqrt(across**2 + s.others)
        low = np.maximum(0.0, size - 12.0)
        rest = low + (size + 12.0 - low) * (nodes + 1.0) / 2.0
        density = 2.0 * rest * ncx2.pdf(rest**2, s.others, np.maximum(across**2, 1e-300))
        above = ndtr((s.signal * np.cos(t))[:, None] - s.high / math.sqrt(1.0 - s.high**2) * rest)
        skipped = float(mass @ ((density * above * (size + 12.0 - low) / 2.0) @ weights))
        return {"step": critical(s.staleness) / (1.0 - s.strength) / s.curvature, "skipped": skipped}

    def check(s) -> dict[str, float]:
        """Integrate over two gradients' angles to the mean; the cosine of transverse parts is Beta distributed."""
        t, mass = s._angles()
        needed = (s.high - np.cos(t)[:, None] * np.cos(t)) / (np.sin(t)[:, None] * np.sin(t))
        half = (s.others - 1) / 2.0
        above = betainc(half, half, (1.0 - np.clip(needed, -1.0, 1.0)) / 2.0)
        step = marginal_step(np.array([[-(1.0 - s.strength) * s.curvature]]), s.staleness)
        return {"step": step, "skipped": float(mass @ above @ mass)}

    wrong = {"boundary of full projection": lambda s: {"step": 2.0 / s.curvature}}

    points = (
        _EIGHT,
        {**_EIGHT, "staleness": 6, "curvature": 2.0, "strength": 0.25, "others": 40, "signal": 10.0, "high": 0.6},
    )
    more = ({**_EIGHT, "staleness": 16, "strength": 0.4, "signal": 6.0, "high": 0.5},)

    def reach(self, point: Point) -> str | None:
        most = min(0.5, point["staleness"] / 15)
        if point["staleness"] < 6 or point["staleness"] > 24 or point["strength"] > most:
            return f"staleness in [6, 24] and strength <= {most:.3g}; beyond, runs are too long"
        threshold = math.sqrt(point["others"] * point["high"] / (1.0 - point["high"]))
        if point["signal"] < threshold or point["others"] > 400:
            return f"signal at least {threshold:.3g}, others at most 400; skipping is too rare, or vectors too long"
        return None

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        tau, strength = point["staleness"], point["strength"]

        def build(steps: tuple[float, ...], count: int) -> lab.Spec:
            links = (lab.align(low=0.0, high=1.0, strength=strength), sim.updates.sgd(steps))
            return plant(lab.quadratics.far_away(point["curvature"], 1.0, 8, 1e6, links, tau, count, len(steps)))

        # The boundary is near pi/2 over staleness + 1/2.
        middle = 1.5 / ((tau + 0.5) * point["curvature"] * (1.0 - strength))
        low, high = lab.quadratics.largest_step(build, 0.5 * middle, 2.0 * middle, tau, seed)
        found = math.sqrt(low * high)
        # Full gradients at changes of sign move the boundary by less than this times (strength/staleness)^2 (iterated).
        moved = 1.5 * (strength / tau) ** 2
        # At learning rate 0; the first update has none before it.
        replicates = max(16, units_for(_SPREAD / math.sqrt(_UPDATES), effect, 4))
        links = (lab.align(low=point["high"], high=point["high"]), sim.updates.sgd(0.0))
        distance = point["signal"] / math.sqrt(point["others"])
        spec = lab.quadratics.far_away(1.0, 1.0, point["others"], distance, links, 0, _UPDATES + 1, replicates)
        skipped = lab.share_of(np.asarray(lab.run(spec, seed, plant)["align_skipped"])[1:])
        return {"step": Estimate(found, tolerance=moved * found + high - low, samples=64), "skipped": skipped}

    defects = {
        "strength forgotten": lambda: lab.quadratics.changed(lab.Align, strength=1.0),
        "off-by-one version": lambda: lab.off_by_one_version,
        "skipped only at a higher cosine": lambda: lab.quadratics.changed(lab.Align, high=1.0),
    }
