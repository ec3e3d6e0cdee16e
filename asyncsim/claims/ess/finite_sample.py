r"""A finite batch shows too high an ESS: E[ESS]/N >= 1/(1 + chi^2), with an exact integral for the mean.

the mean ESS of `N` samples exceeds its large-batch value; an integral gives it exactly

With w the weight of one of N independent samples, phi = E e^{-t w^2} and m_j = E w^j e^{-t w^2},
    E[(sum w)^2 / sum w^2] = int_0^inf (N m_2 phi^{N-1} + N (N-1) m_1^2 phi^{N-2}) dt    ("ess", over N).
With G_k = E[e^{-t w}; w <= w_k], w_1 <= w_2 <= ... the values of w,
    E[max w / sum w] = int_0^inf sum_k w_k (G_k^N - G_{k-1}^N) dt    ("largest_share").
Derivation: 1/b = int e^{-t b} dt, and samples are independent under it; A^2/B is convex, so the reading is high.
Domain: sequences of T independent tokens of one softmax, at most 20,000 count vectors, log weights at most 120 apart.
Second route: every composition of the batch with its multinomial probability, where there are at most 200,000. Else it
takes the same transforms along a ray of the complex plane.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax, logsumexp

from asyncsim.claims._bandit import PolicyPair, counted
from asyncsim.claims._claim import Claim, Estimate, Integer, Plant, Point, lab, sim, units_for, up_to

_ATOMS, _COMPOSITIONS, _SPREAD = 20_000, 200_000, 120.0
_BLOCK = 1 << 20
"""Numbers that are in memory at one time."""
_OTHER = "max_weight_share"
_BATCHES = 16
_SPREAD_OF_ONE = 0.15
"""Relative standard deviation of one replicate's mean over its batches at the points below (measured: at most 0.13)."""
_MOST = 1 << 13
"""Tokens of a batch, at most."""
_FEW = {"samples": 4, "horizon": 3, "behavior_logits": (0.3, -0.2, 0.5), "current_logits": (1.5, -0.9, 0.1)}
_LONG = {"samples": 16, "horizon": 12, "behavior_logits": (0.2, 0.0, -0.3), "current_logits": (0.8, -0.2, -0.3)}


class _Law(NamedTuple):
    """Distribution of the log weight: ascending values `[K]`, their log probabilities, and the number of samples."""

    log_weight: np.ndarray
    log_mass: np.ndarray
    samples: int


def _nodes(law: _Law, power: float, turn: float) -> tuple[np.ndarray, float]:
    """Quadrature points on the ray t = e^{u + i turn}, equally spaced in u; dt = t du.

    With E w = 1 the integrand is at most N^2 (1 + E w^2) t for squares and N t for the largest: below the first point
    lies less than 1e-14 of the integral. Behind the last point it is at most N^2 phi^{N-2}, which is negligible there.
    """
    moment = math.log1p(float(np.exp(law.log_mass + power * law.log_weight).sum()))
    first = -33.0 - 2.0 * math.log(law.samples) - moment
    # Here even N = 2 is negligible.
    last = math.log(80.0 / math.cos(turn)) - power * float(law.log_weight[0])
    if not turn:
        # Behind this point N^2 phi^{N-2} is below e^-40, as phi falls. The bound takes t w e^{-tw} <= 1/e, so N^2
        # counts for all factors beside the power of phi.
        w, mass, N = np.exp(power * law.log_weight), np.exp(law.log_mass), law.samples
        low = -40.0 - power * float(law.log_weight[-1])
        for _ in range(7):
            middle = (low + last) / 2.0
            phi = float(np.exp(-math.exp(middle) * w) @ mass)
            done = 2.0 * math.log(N) + (N - 2) * math.log(max(phi, 1e-300)) < -40.0
            low, last = (low, middle) if done else (middle, last)
    # The integrand is analytic up to a quarter turn from the real axis: the error is exp(-2 pi (pi/2 - turn)/step).
    step = 2.0 * math.pi * (math.pi / 2.0 - turn) / 34.0
    return np.arange(first, last + step, step), step


def _integrals(law: _Law, turn: float = 0.0) -> dict[str, float]:
    # Values whose chance to occur in the batch is too small change nothing by 1e-14.
    likely = law.log_mass > math.log(1e-14 / len(law.log_mass)) - 2.0 * math.log(law.samples)
    law = _Law(law.log_weight[likely], law.log_mass[likely], law.samples)
    w, mass, N = np.exp(law.log_weight), np.exp(law.log_mass), law.samples
    angle = complex(math.cos(turn), math.sin(turn)) if turn else 1.0
    integrals = {}
    for name, power in (("ess", 2.0), ("largest_share", 1.0)):
        u, step = _nodes(law, power, turn)
        total = 0.0
        for block in np.array_split(u, 1 + len(u) * len(w) // _BLOCK):
            t = angle * np.exp(block)
            decay = np.exp(-t[:, None] * w**power) * mass
            if name == "ess":
                phi, first, second = decay.sum(1), decay @ w, decay @ w**2
                others = _power(phi, N - 2)
                integrand = N * second * others * phi + N * (N - 1) * first**2 * others
            else:
                integrand = np.diff(_power(np.cumsum(decay, axis=1), N), axis=1, prepend=0.0) @ w
            total += (t * integrand).sum().real * step
        integrals[name] = float(total) / (N if name == "ess" else 1)
    return integrals


def of_normal(variance: float, samples: int) -> float:
    """E[ESS]/N for normal log weights, on a grid that covers them and most of the mass of their squared weights."""
    sd = math.sqrt(variance)
    z = np.linspace(-9.0, 9.0 + 2.0 * sd, 2001)
    return _integrals(_Law(sd * z, log_softmax(-z * z / 2.0), samples))["ess"]


def _power(base: np.ndarray, exponent: int) -> np.ndarray:
    """Integer power by repeated squaring, since NumPy's own takes a logarithm of every number."""
    power = np.ones_like(base)
    while exponent:
        if exponent % 2:
            power = power * base
        base, exponent = base * base, exponent // 2
    return power


class FiniteSample(PolicyPair, Claim):
    kind, source = "expectation", "derived; Kong 1992 for the statistic"

    samples = Integer(
        2, 1 << 20, typical=(2, 40), example=4, doc="samples of a batch", remedy="one sample is always worth one"
    )
    horizon = Integer(1, _ATOMS, typical=(1, 8), example=3, unit="tokens", doc="length of a sequence")

    def joint(self) -> None:
        log_mu, log_pi = log_softmax(self.behavior_logits), log_softmax(self.current_logits)
        self.list_counts("horizon", self.horizon)
        spread = self.horizon * float(np.ptp(log_pi - log_mu))
        limit = f"such that log weights ({spread:.3g} apart) are at most {_SPREAD:g} apart"
        self.require(spread <= _SPREAD, "current_logits", limit, "move them closer")
        counts, mass = counted(self.horizon, log_mu)
        weight = counts @ (log_pi - log_mu)
        order = np.argsort(weight, kind="stable")
        self.law = _Law(weight[order], mass[order], self.samples)

    def _ratio_of_means(s) -> dict[str, float]:
        law = s.law
        below = np.cumsum(np.exp(law.log_mass)) ** law.samples
        largest = float(np.diff(below, prepend=0.0) @ np.exp(law.log_weight))
        ess = math.exp(-logsumexp(2.0 * law.log_weight + law.log_mass))
        return {"ess": ess, "largest_share": largest / law.samples}

    def predict(s) -> dict[str, float]:
        return _integrals(s.law)

    def check(s) -> dict[str, float]:
        law = s.law
        # Sequences of equal weight are one cell.
        start = np.flatnonzero(np.diff(law.log_weight, prepend=-np.inf) > 1e-12)
        log_w = law.log_weight[start]
        log_mass = np.logaddexp.reduceat(law.log_mass, start)
        N = law.samples
        if math.comb(N + len(start) - 1, N) > _COMPOSITIONS:
            return _integrals(law, turn=math.pi / 5.0)
        counts, log_chance = counted(N, log_mass)
        with np.errstate(divide="ignore"):
            log_counts = np.log(counts)
        first, second = (logsumexp(log_counts + power * log_w, axis=1) for power in (1.0, 2.0))
        heaviest = log_w[(np.arange(len(start)) * (counts > 0)).max(axis=1)]
        chance = np.exp(log_chance)
        ess = float(chance @ np.exp(2.0 * first - second)) / N
        return {"ess": ess, "largest_share": float(chance @ np.exp(heaviest - first))}

    wrong = {"ratio of means, the value of a large batch": _ratio_of_means}

    points = (_FEW, _LONG)
    more = ({**_LONG, "samples": 64, "horizon": 24},)

    _few = f"a batch of at most {_MOST} tokens, not {{}}; take fewer samples or a shorter horizon"
    reach = staticmethod(up_to(_MOST, lambda point: point["samples"] * point["horizon"], _few))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        replicates = units_for(_SPREAD_OF_ONE, effect, 2 * len(self.points))
        places = lab.places(point)[::-1]
        task = sim.tasks.token_bandit(len(places[0]), point["horizon"])
        size = point["samples"], _BATCHES, replicates
        trace = lab.run(lab.displaced(task, places, ["ess", _OTHER], size), seed, plant)
        return {"ess": lab.mean_of(trace, "ess", 1e-9), "largest_share": lab.mean_of(trace, _OTHER, 1e-9)}

    defects = {"clamped weights": lambda: lab.weights.with_ess(lab.weights.clamped, _OTHER)}
