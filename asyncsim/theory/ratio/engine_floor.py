r"""Noise of the sampler's engine lowers the ESS of fresh data, at every version alike: a noise floor.

Tokens of one softmax row: behavior weights pi_0, current policy pi, chi^2 between them, kappa = E e^x E e^-x - 1 for a
draw x of the noise (kappa = e^{s^2} - 1 for the normal law). In the "logits" the sampler is mu ~ pi_0 e^x and records
that. Then E w = 1 and E w^2 = (1 + chi^2) (1 + kappa) - kappa |pi|^2, from sum_a (pi_a/pi_0a)^2 pi_0a e^{-x_a}
sum_b pi_0b e^{x_b}, whose terms a = b have no noise. So fresh data have ESS_0/N = (1 + kappa (1 - |pi_0|^2))^-T. In the
"reports" noise is independent of what is drawn: E W = E e^{-X} E W_stale, and ESS = ESS_0 ESS_stale with ESS_0/N = (E
e^{-X})^2 / E e^{-2X}. There X is the noise of a sequence, a sum of T draws or T times one draw.

The rules ESS_0/N = exp(-T s^2 (1 - |pi_0|^2)) and ESS/ESS_0 = ESS_stale for noise in logits are of first order. The
first is high by T s^4 q (1 - q)/2, q = 1 - |pi_0|^2, the second low by T s^2 (|pi|^2/(1 + chi^2) - |pi_0|^2), relative.
Domain: independent tokens of one row, N -> infinity; noise in logits drawn for each token; E W^2 below 1e12. Second
route: Gauss quadrature over the noise of every action. Source: derived.
"""

from __future__ import annotations

import math

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._bandit import PolicyPair, softmax
from asyncsim.theory._declared import Choice, Integer, Real, Vector
from asyncsim.theory._stated import stated

_NODES = {"logits": 14, "reports": 60}


class _Setting(PolicyPair):
    behavior_logits = Vector(
        typical=(-2.0, 2.0), sizes=(2, 3), example=(1.5, 0.0, -0.5), doc="logits of the behavior policy"
    )
    current_logits = Vector(typical=(-2.0, 2.0), example=(0.5, 0.2, 0.0), doc="logits of the current policy")
    horizon = Integer(1, 4096, typical=(1, 6), example=2, unit="tokens", doc="length of a sequence")
    noise = Real(
        0, 1.5, open_low=True, typical=(0.01, 0.8), example=0.8, unit="nats", doc="standard deviation of noise"
    )
    noise_law = Choice("normal", "uniform", example="normal", doc="distribution of the noise, with exponential moments")
    noise_in = Choice("logits", "reports", example="logits", doc="whether sampling is off or only what is recorded")
    noise_per = Choice("token", "sequence", example="token", doc="how long one draw lasts")

    def joint(self) -> None:
        """Few arms for the second route; noise of logits by token; moments that are doubles."""
        super().joint()
        arms, remedy = len(self.behavior_logits), "the second route integrates over the noise of each"
        checks.require(arms <= 4, "behavior_logits", self.behavior_logits.tolist(), "at most 4 numbers", remedy)
        drawn = self.noise_in == "reports" or self.noise_per == "token"
        checks.require(drawn, "noise_per", self.noise_per, "'token' for noise in logits", "ask for noise in reports")
        lasting = self.horizon if self.noise_per == "sequence" else 1
        bound = f"at most {3.0 / lasting:g} where it lasts for {lasting} tokens"
        checks.require(self.noise * lasting <= 3.0, "noise", self.noise, bound, "lower it")
        size = self.horizon * math.log(_second(self)[0])
        far = f"such that E W^2 = exp({size:.3g}) is below 1e12"
        checks.require(size < math.log(1e12), "horizon", self.horizon, far, "shorten the sequences")

    @property
    def policies(self) -> tuple[np.ndarray, np.ndarray]:
        """Behavior and current probabilities."""
        return softmax(self.behavior_logits), softmax(self.current_logits)


def _moment(s: _Setting, power: float) -> float:
    """E exp(power x) of one draw."""
    scale = s.noise * power
    if s.noise_law == "normal":
        return math.exp(0.5 * scale**2)
    return math.sinh(math.sqrt(3.0) * scale) / (math.sqrt(3.0) * scale)


def _chi_square(s: _Setting) -> float:
    mu, pi = s.policies
    return float((pi**2 / mu).sum()) - 1.0


def _second(s: _Setting) -> tuple[float, float]:
    """E w^2 of a token whose noise is in the logits, stale and fresh."""
    mu, pi = s.policies
    kappa = _moment(s, 1.0) * _moment(s, -1.0) - 1.0
    return (1.0 + _chi_square(s)) * (1.0 + kappa) - kappa * float(pi @ pi), 1.0 + kappa * (1.0 - float(mu @ mu))


def _quantities(mean: float, fresh: float, stale: float) -> dict[str, float]:
    return {"mean_weight": mean, "ess_0": fresh, "floor": fresh, "ess": stale, "share": stale / fresh}


def _predict(s: _Setting) -> dict[str, float]:
    T = s.horizon
    if s.noise_in == "logits":
        stale, fresh = _second(s)
        return _quantities(1.0, fresh**-T, stale**-T)
    each, times = (T, 1) if s.noise_per == "sequence" else (1, T)
    fresh = (_moment(s, -each) ** 2 / _moment(s, -2.0 * each)) ** times
    return _quantities(_moment(s, -each) ** times, fresh, fresh * (1.0 + _chi_square(s)) ** -T)


def _rule(s: _Setting) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss quadrature for one draw of the noise."""
    n = _NODES[s.noise_in]
    if s.noise_law == "normal":
        nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    else:
        nodes, weights = np.polynomial.legendre.leggauss(n)
        nodes = math.sqrt(3.0) * nodes
    return s.noise * nodes, weights / weights.sum()


def _moments_of_logits(s: _Setting, current: np.ndarray) -> tuple[float, float]:
    """E w and E w^2 of a token: every action of the noisy sampler at every node."""
    nodes, weights = _rule(s)
    arms = len(current)
    noise = np.stack([x.ravel() for x in np.meshgrid(*[nodes] * arms, indexing="ij")], axis=1)
    mass = np.prod([x.ravel() for x in np.meshgrid(*[weights] * arms, indexing="ij")], axis=0)
    sampler = softmax(s.behavior_logits + noise)
    ratio = current / sampler
    return float(mass @ (sampler * ratio).sum(1)), float(mass @ (sampler * ratio**2).sum(1))


def _moments_of_reports(s: _Setting, current: np.ndarray) -> tuple[float, float]:
    """E W and E W^2 of a sequence whose drawn actions are reported with noise."""
    (nodes, weights), mu = _rule(s), s.policies[0]
    powers = []
    for power in (1, 2):
        token = float(mu @ (current / mu) ** power)
        if s.noise_per == "sequence":
            powers.append(token**s.horizon * float(weights @ np.exp(-power * s.horizon * nodes)))
        else:
            powers.append((token * float(weights @ np.exp(-power * nodes))) ** s.horizon)
    return powers[0], powers[1]


def _cross_check(s: _Setting) -> dict[str, float]:
    sizes = []
    for current in s.policies:
        if s.noise_in == "logits":
            first, second = (x**s.horizon for x in _moments_of_logits(s, current))
        else:
            first, second = _moments_of_reports(s, current)
        sizes.append((first, first**2 / second))
    return _quantities(sizes[1][0], sizes[0][1], sizes[1][1])


def _exponential(s: _Setting, share: float) -> dict[str, float]:
    """exp(-T share s^2), with staleness multiplied on."""
    fresh = math.exp(-s.horizon * share * s.noise**2)
    return _quantities(1.0, fresh, fresh * (1.0 + _chi_square(s)) ** -s.horizon)


def _multiplied(s: _Setting) -> dict[str, float]:
    right = _predict(s)
    return _quantities(right["mean_weight"], right["ess_0"], right["ess_0"] * (1.0 + _chi_square(s)) ** -s.horizon)


claim = stated(
    id="ratio/engine-floor",
    statement="noise of the sampler's logits leaves fresh data `ESS/N = (1 + kappa (1 - |mu|^2))^-T`",
    kind="expectation",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived",
    formula_defects={
        "fresh data taken to have ESS = N": lambda s: _quantities(1.0, 1.0, (1.0 + _chi_square(s)) ** -s.horizon),
        "normalizer ignored": lambda s: _exponential(s, 1.0),
        "first order in the noise's variance": lambda s: _exponential(s, 1.0 - float(s.policies[0] @ s.policies[0])),
        "noise and staleness multiplied": _multiplied,
    },
)
