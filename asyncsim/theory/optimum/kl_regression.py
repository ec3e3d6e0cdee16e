r"""Regression on the policy that drew the data, solved fully, tilts it by e^{r/beta}; a lag of solves only slows it.

The residual r - V - beta log(pi/mu), V = beta log E_mu e^{r/beta}, vanishes for every sample at pi ~ mu e^{r/beta}. So
n solves, each on data of the solve before, give start e^{n r/beta}. Where data lag by tau more solves, theta_k =
theta_{max(k-1-tau, 0)} + r/beta: n is replaced by ceil(n/(tau+1)), and nothing becomes unstable. From N samples the
plug-in V = beta log mean e^{r/beta} is low on average, by about beta Var(e^{r/beta}) / (2 N (E e^{r/beta})^2). Domain:
one softmax of full support, exact solves, rewards without noise. Second route: probabilities solve by solve; the mean
logarithm as the integral of (e^{-u E x} - (E e^{-u x/N})^N)/u over u > 0. Source: arXiv 2602.19362 (form); derived.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.integrate import quad
from scipy.special import gammaln

from asyncsim.base import checks
from asyncsim.theory._bandit import Arms, compositions, softmax
from asyncsim.theory._declared import Integer, Positive, Vector
from asyncsim.theory._stated import indexed, stated


class _Setting(Arms):
    start_logits = Vector(typical=(-1.0, 1.0), sizes=(2, 4), example=(0.6, 0.0, -0.3), doc="logits at the start")
    rewards = Vector(typical=(0.0, 1.0), example=(0.0, 0.5, 1.0), unit="reward", doc="rewards of the arms")
    beta = Positive(typical=(0.5, 2.0), example=0.5, unit="reward per nat", doc="price of a nat")
    solves = Integer(1, 64, typical=(1, 5), example=5, doc="regressions solved one after the other")
    lag = Integer(0, 64, typical=(0, 3), example=1, unit="solves", doc="solves that the data are behind")
    samples = Integer(2, 8, typical=(2, 5), example=3, doc="samples of a group, from which V is estimated")

    def joint(self) -> None:
        """Rewards that differ by no more than the exponentials bear."""
        super().joint()
        span = float(np.ptp(self.rewards)) / self.beta
        checks.require(1e-3 < span < 50.0, "beta", self.beta, "such that rewards span 0.001 to 50 beta", "change it")
        self.start = softmax(self.start_logits)
        # Shifted rewards shift V alike.
        self.grown = np.exp((self.rewards - self.rewards.max()) / self.beta)


def _stated(s: _Setting, tilts: float, bias: float) -> dict[str, float]:
    return {**indexed("pi", softmax(s.start_logits + tilts * s.rewards / s.beta)), "value_bias": bias}


def _bias(s: _Setting) -> float:
    """Mean over all groups of N samples, less the population's value."""
    counts = compositions(s.samples, s.rewards.size)
    log_mass = gammaln(s.samples + 1) - gammaln(counts + 1).sum(axis=1) + counts @ np.log(s.start)
    return s.beta * float(np.exp(log_mass) @ np.log(counts @ s.grown / s.samples / (s.start @ s.grown)))


def _leading(s: _Setting) -> float:
    mean = s.start @ s.grown
    return -s.beta * float(s.start @ (s.grown - mean) ** 2) / (2.0 * s.samples * float(mean) ** 2)


def _tilts(s: _Setting) -> int:
    return math.ceil(s.solves / (s.lag + 1))


def _predict(s: _Setting) -> dict[str, float]:
    return _stated(s, _tilts(s), _bias(s))


def _cross_check(s: _Setting) -> dict[str, float]:
    policies = [s.start]
    for _ in range(s.solves):
        tilted = policies[max(len(policies) - 1 - s.lag, 0)] * s.grown
        policies.append(tilted / tilted.sum())
    relative = s.grown / (s.start @ s.grown)

    def density(z: float) -> float:
        u = math.exp(z)
        return math.exp(-u) - float(s.start @ np.exp(-u * relative / s.samples)) ** s.samples

    # u = e^z, as far as the term that falls more slowly matters.
    edges = np.linspace(-25.0, math.log(40.0 / float(relative.min())), 40)
    total = math.fsum(quad(density, a, b, epsabs=1e-15, epsrel=1e-12)[0] for a, b in itertools.pairwise(edges))
    return {**indexed("pi", policies[-1]), "value_bias": s.beta * total}


claim = stated(
    id="optimum/kl-regression",
    statement="`n` regressions on lagged data, each solved, give `start e^(k r/beta)`, `k = ceil(n / (lag + 1))`; the "
    "value from `N` samples is low by about `beta Var(e^(r/beta)) / (2N (E e^(r/beta))^2)`",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="arXiv 2602.19362 (form); derived",
    formula_defects={
        "lag ignored": lambda s: _stated(s, s.solves, _bias(s)),
        "one tilt however many solves": lambda s: _stated(s, 1, _bias(s)),
        "solves rounded down": lambda s: _stated(s, s.solves // (s.lag + 1), _bias(s)),
        "tilt by beta r": lambda s: _stated(s, _tilts(s) * s.beta**2, _bias(s)),
        "leading term of the bias": lambda s: _stated(s, _tilts(s), _leading(s)),
        "unbiased value": lambda s: _stated(s, _tilts(s), 0.0),
    },
    relative_to="norm",
)
