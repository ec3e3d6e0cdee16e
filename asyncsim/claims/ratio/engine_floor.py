r"""Noise of the sampler's engine lowers the ESS even of fresh data, equally at every version: a noise floor.

if the sampler's logits have noise, even fresh data have only `ESS/N = (1 + kappa (1 - |mu|^2))^-T`

Tokens of one softmax row: behavior weights pi_0, current policy pi, chi^2 between them, kappa = E e^x E e^-x - 1 for a
draw x of the noise (kappa = e^{s^2} - 1 for the normal law). In the "logits" the sampler is mu ~ pi_0 e^x and records
that. Then E w = 1, at any staleness, so that a batch's mean has the variance (N/ESS - 1)/N, and E w^2 = (1 + chi^2) (1
+ kappa) - kappa |pi|^2, from sum_a (pi_a/pi_0a)^2 pi_0a e^{-x_a} sum_b pi_0b e^{x_b}, whose terms a = b have no noise.
So fresh data have ESS_0/N = (1 + kappa (1 - |pi_0|^2))^-T. In the "reports" noise is independent of what is drawn: E W
= E e^{-X} E W_stale, and ESS = ESS_0 ESS_stale with ESS_0/N = (E e^{-X})^2 / E e^{-2X}. There X is the noise of a
sequence, a sum of T draws or T times one draw.

The rules ESS_0/N = exp(-T s^2 (1 - |pi_0|^2)) and ESS/ESS_0 = ESS_stale for noise in logits are of first order. The
first is high by T s^4 q (1 - q)/2, q = 1 - |pi_0|^2, the second low by T s^2 (|pi|^2/(1 + chi^2) - |pi_0|^2), relative.
Domain: independent tokens of one row, N -> infinity; noise in logits drawn for each token; E W^2 below 1e12. Second
route: Gauss quadrature over the noise of every action.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from scipy.special import softmax as _softmax

from asyncsim.claims._bandit import PolicyPair, arm_logits, softmax
from asyncsim.claims._claim import Choice, Claim, Estimate, Integer, Plant, Point, Real, lab, sim, units_for

_SAMPLES = 8192
_LONG = {
    "behavior_logits": (0.8, 0.0, -0.6), "current_logits": (0.9, 0.1, -0.7), "horizon": 6, "noise": 0.2,
    "noise_law": "normal", "noise_in": "logits", "noise_per": "token",
}  # fmt: skip
_TWO = {"behavior_logits": (0.8, 0.0), "current_logits": (1.3, 0.0), "horizon": 1}
_STRONG = {**_LONG, **_TWO, "noise": 0.8, "noise_law": "uniform"}
_REPORTS = {**_LONG, "noise_in": "reports"}


def _engine(point: Point) -> lab.Engine:
    return lab.Engine(**{name: point[name] for name in ("noise", "noise_law", "noise_in", "noise_per")})


def _measured_moment(point: Point, power: float, fresh: bool = False) -> float:
    """E W^power by quadrature over the noise of the logits, for sample sizes and tolerances."""
    behavior, current = np.array(point["behavior_logits"]), np.array(point["current_logits"])
    pi, engine, T = _softmax(behavior if fresh else current), _engine(point), point["horizon"]
    if engine.noise_in == "reports":
        lasting = T if engine.noise_per == "sequence" else 1
        of_noise = float(engine.report_moment(power * lasting)) ** (T // lasting)
        return float((pi**power * _softmax(behavior) ** (1.0 - power)).sum()) ** T * of_noise
    normal = engine.noise_law == "normal"
    nodes, weights = np.polynomial.hermite_e.hermegauss(10) if normal else np.polynomial.legendre.leggauss(10)
    nodes = nodes * engine.noise * (1.0 if normal else math.sqrt(3.0))
    noise, mass = (np.stack(np.meshgrid(*[x] * len(pi)), -1).reshape(-1, len(pi)) for x in (nodes, weights))
    chance = mass.prod(1) / mass.prod(1).sum()
    sampler = _softmax(behavior + noise, axis=1)
    return float(chance @ (pi**power * sampler ** (1.0 - power)).sum(1)) ** T


def _moments(point: Point) -> tuple[partial[float], partial[float]]:
    """Functions that give the moments of fresh and of stale weights."""
    return partial(_measured_moment, point, fresh=True), partial(_measured_moment, point)


class EngineFloor(PolicyPair, Claim):
    kind, source = "expectation", "derived"

    behavior_logits = arm_logits("behavior", 1.5, 0.0, -0.5, sizes=(2, 3))
    current_logits = arm_logits("current", 0.5, 0.2, 0.0)
    horizon = Integer(1, 4096, typical=(1, 6), example=2, unit="tokens", doc="length of a sequence")
    noise = Real(0, 1.5, open_low=True, typical=(0.01, 0.8), example=0.8, unit="nats", doc="noise, standard deviation")
    noise_law = Choice("normal", "uniform", example="normal", doc="distribution of the noise, with exponential moments")
    noise_in = Choice("logits", "reports", example="logits", doc="where the noise is: sampling or records")
    noise_per = Choice("token", "sequence", example="token", doc="how long one draw lasts")

    def joint(self) -> None:
        arms, remedy = len(self.behavior_logits), "the second route integrates over the noise of each"
        self.require(arms <= 4, "behavior_logits", "at most 4 numbers", remedy)
        drawn = self.noise_in == "reports" or self.noise_per == "token"
        self.require(drawn, "noise_per", "'token' for noise in logits", "ask for noise in reports")
        lasting = self.horizon if self.noise_per == "sequence" else 1
        bound = f"at most {3.0 / lasting:g} where it lasts for {lasting} tokens"
        self.require(self.noise * lasting <= 3.0, "noise", bound, "lower it")
        size = self.horizon * math.log(self._second()[0])
        far = f"such that E W^2 = exp({size:.3g}) is below 1e12"
        self.require(size < math.log(1e12), "horizon", far, "shorten the sequences")

    def _quantities(s, mean: float, fresh: float, stale: float) -> dict[str, float]:
        return {"mean_weight": mean, "ess_0": fresh, "floor": fresh, "ess": stale, "share": stale / fresh}

    def _moment(s, power: float) -> float:
        """E exp(power x) for one noise draw x."""
        scale = s.noise * power
        if s.noise_law == "normal":
            return math.exp(0.5 * scale**2)
        return math.sinh(math.sqrt(3.0) * scale) / (math.sqrt(3.0) * scale)

    def _chi_square(s) -> float:
        return float((s.pi**2 / s.mu).sum()) - 1.0

    def _second(s) -> tuple[float, float]:
        """E w^2 of a token with noise in the logits, for stale and for fresh weights."""
        kappa = s._moment(1.0) * s._moment(-1.0) - 1.0
        fresh = 1.0 + kappa * (1.0 - float(s.mu @ s.mu))
        return (1.0 + s._chi_square()) * (1.0 + kappa) - kappa * float(s.pi @ s.pi), fresh

    def _staled(s, fresh: float, mean: float = 1.0) -> dict[str, float]:
        """Quantities with the ESS of fresh data multiplied by the loss due to staleness."""
        return s._quantities(mean, fresh, fresh * (1.0 + s._chi_square()) ** -s.horizon)

    def predict(s) -> dict[str, float]:
        T = s.horizon
        if s.noise_in == "logits":
            stale, fresh = s._second()
            return s._quantities(1.0, fresh**-T, stale**-T)
        each, times = (T, 1) if s.noise_per == "sequence" else (1, T)
        fresh = (s._moment(-each) ** 2 / s._moment(-2.0 * each)) ** times
        return s._staled(fresh, s._moment(-each) ** times)

    def check(s) -> dict[str, float]:
        # Gauss quadrature for one draw of the noise.
        normal, n, T, arms = s.noise_law == "normal", {"logits": 14, "reports": 60}[s.noise_in], s.horizon, len(s.mu)
        nodes, weights = np.polynomial.hermite_e.hermegauss(n) if normal else np.polynomial.legendre.leggauss(n)
        nodes, weights = s.noise * (nodes if normal else math.sqrt(3.0) * nodes), weights / weights.sum()
        each, times = (T, 1) if s.noise_per == "sequence" else (1, T)
        sizes = []
        for current in (s.mu, s.pi):
            if s.noise_in == "logits":
                # Every action of the noisy sampler at every node.
                noise = np.stack([x.ravel() for x in np.meshgrid(*[nodes] * arms, indexing="ij")], axis=1)
                mass = np.prod([x.ravel() for x in np.meshgrid(*[weights] * arms, indexing="ij")], axis=0)
                sampler = softmax(s.behavior_logits + noise)
                ratio = current / sampler
                moments = [float(mass @ (sampler * ratio**power).sum(1)) ** T for power in (1, 2)]
            else:
                tokens = [float(s.mu @ (current / s.mu) ** power) ** T for power in (1, 2)]
                noises = [float(weights @ np.exp(-power * each * nodes)) ** times for power in (1, 2)]
                moments = [tokens[0] * noises[0], tokens[1] * noises[1]]
            sizes.append((moments[0], moments[0] ** 2 / moments[1]))
        return s._quantities(sizes[1][0], sizes[0][1], sizes[1][1])

    wrong = {
        "first order in the noise's variance": lambda s: s._staled(
            math.exp(-s.horizon * (1.0 - float(s.mu @ s.mu)) * s.noise**2)
        )
    }

    points = (_LONG, _STRONG, _REPORTS)
    more = ({**_REPORTS, "noise": 0.05, "noise_law": "uniform", "noise_per": "sequence"},)

    def reach(self, point: Point) -> str | None:
        return next(filter(None, (lab.moments_beyond(each, _SAMPLES) for each in _moments(point))), None)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        allowances = [2.0 * lab.bias_of_ess(moment, _SAMPLES) for moment in _moments(point)]
        # A verdict counts a tolerance twice.
        room = max(effect - 2.0 * sum(allowances), 0.5 * effect)
        spread = max(map(lab.spread_of_ess, _moments(point))) / math.sqrt(_SAMPLES)
        replicates = max(16, min(units_for(spread, room, 20), lab.MOST // _SAMPLES))
        task = sim.tasks.token_bandit(len(point["behavior_logits"]), point["horizon"])
        metrics, size = ["ess", "ess_mismatch", "mean_weight"], (_SAMPLES, 1, replicates)
        spec = lab.displaced(task, lab.places(point)[::-1], metrics, size)
        trace = lab.run(spec.replace(policy=task.policy(**vars(_engine(point)))), seed, plant)

        found = {
            "mean_weight": (lab.between(trace["mean_weight"][1]), 0.0),
            "ess_0": (lab.between(trace["ess"][0]), allowances[0]),
            "floor": (lab.between(trace["ess_mismatch"][1]), allowances[0]),
            "ess": (lab.between(trace["ess"][1]), allowances[1]),
            "share": (lab.ratio(trace["ess"][1], trace["ess_mismatch"][1]), sum(allowances)),
        }
        return {name: each._replace(tolerance=share * each.value) for name, (each, share) in found.items()}

    defects = {
        "one draw for a whole sequence": lambda: (lab.engine_replaced(noise_per="sequence"), _REPORTS),
        "trainer's log-probs recorded as the sampler's": lambda: lab.with_policy(lab.Unscored),
        "noise 4 percent too large": lambda: (lab.engine_replaced(noise=1.04 * 0.8), _STRONG),
    }
