r"""Moments of the ratio of Markov tokens follow a vector recursion, at any length.

moments `E W^p` of Markov tokens follow a vector recursion; a large batch has `ESS/N = 1/E W^2`

E_mu W^p = u_0(start), u_t(s) = sum_a pi(a|s)^p mu(a|s)^{1-p} u_{t+1}(a), u_T = 1; a large batch has ESS/N = 1/E W^2.
Derivation: condition on one token after another. Domain: softmax policies of full support with row 0 at the start and
row 1 + a after token a. At most 4096 tokens, E W^2 below 1e12. Second route: the coefficient of z^{T-1} in v (1 - z
M)^{-1} 1, by Cauchy's formula on a circle.
"""

import math
from functools import partial

import numpy as np
from scipy.special import log_softmax

from asyncsim.claims._bandit import SequencePair
from asyncsim.claims._claim import BEHAVIOR, Claim, Estimate, Integer, Plant, Point, checks, lab, sim

_NEAR = ((0.4, -0.3, 0.4), (0.1, 0.6, -0.5), (-0.4, 0.1, 0.2), (0.7, 0.2, 0.0))
_POINT = {"actions": 3, "horizon": 24, "behavior_logits": BEHAVIOR, "current_logits": _NEAR}


def _moment(point: Point, power: float) -> float:
    """E W^power by powers of the matrix of token moments, for sample sizes and tolerances."""
    mu, pi = (np.exp(np.asarray(point[f"{name}_logits"], dtype=np.float64)) for name in ("behavior", "current"))
    mu, pi = mu / mu.sum(1, keepdims=True), pi / pi.sum(1, keepdims=True)
    weights = pi**power * mu ** (1.0 - power)
    with np.errstate(over="ignore"):
        return float((weights[0] @ np.linalg.matrix_power(weights[1:], point["horizon"] - 1)).sum())


class MarkovMoments(Claim):
    kind, source = "expectation", "derived"

    actions = Integer(2, 64, typical=(2, 3), example=3, doc="number of actions")
    horizon = Integer(1, 4096, typical=(1, 4), example=3, unit="tokens", doc="length of a sequence")
    behavior_logits, current_logits = SequencePair.behavior_logits, SequencePair.current_logits

    def joint(self) -> None:
        """Refuse policies so far apart that no batch shows the moments of their ratio."""
        shape = [self.actions + 1, self.actions]
        remedy = "give a row for the start and one per previous token"
        self.behavior, self.current = (
            log_softmax(checks.finite_array(name, getattr(self, name).tolist(), shape, remedy), axis=1)
            for name in ("behavior_logits", "current_logits")
        )
        second = self._log_moment(2.0)
        bound = f"such that E W^2 = exp({second:.3g}) is below 1e12"
        self.require(second < math.log(1e12), "current_logits", bound, "move them closer")

    def _log_moment(s, power: float) -> float:
        """log E_mu W^power by backward recursion, rescaled at every token."""
        weights = np.exp(power * s.current + (1.0 - power) * s.behavior)
        values, scale = np.ones(len(weights)), 0.0
        for _ in range(s.horizon):
            backup = weights @ values[1:]
            scale += math.log(backup[0])
            values = backup / backup[0]
        return scale

    def _quantities(s, log_second: float, log_half: float) -> dict[str, float]:
        return {"ess": math.exp(-log_second), "second_moment": math.exp(log_second), "affinity": math.exp(log_half)}

    def predict(s, tilt: float = 0.0) -> dict[str, float]:
        return s._quantities(s._log_moment(2.0 + tilt), s._log_moment(0.5 + tilt))

    def check(s) -> dict[str, float]:
        T, size, found = s.horizon, 8 * s.horizon, []
        mu, pi = np.exp(s.behavior), np.exp(s.current)
        for weights in (pi**2 / mu, np.sqrt(pi * mu)):
            # Aliasing falls with the circle's radius and rounding grows; both are small at this one.
            start, step = weights[0], weights[1:]
            radius = 10.0 ** (-16.0 / size) / np.abs(np.linalg.eigvals(step)).max()
            circle, one = np.exp(2j * np.pi * np.arange(size) / size), np.ones(len(step))
            values = np.array([start @ np.linalg.solve(np.eye(len(step)) - radius * z * step, one) for z in circle])
            found.append(math.log((values * circle ** (1 - T)).mean().real) - (T - 1) * math.log(radius))
        return s._quantities(*found)

    wrong = {"moments taken under the current policy": lambda s: s.predict(1.0)}

    points = (_POINT,)
    more = ({**_POINT, "horizon": 32},)

    reach = staticmethod(lambda point: lab.moments_beyond(partial(_moment, point)))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        moment = partial(_moment, point)
        task = sim.tasks.token_bandit(point["actions"], point["horizon"], "markov")
        size = lab.SAMPLES, lab.BATCHES, lab.replicates_for(lab.spread_of_square(moment), effect, 6)
        spec = lab.displaced(task, lab.places(point)[::-1], ["ess", "chi_square", lab.AFFINITY], size)
        trace = lab.run(spec, seed, plant)
        # A batch's ESS is biased: twice the leading term, from moments of the weights.
        bias, ess = 2.0 * lab.bias_of_ess(moment, lab.SAMPLES), lab.mean_of(trace, "ess")
        found = {"ess": ess._replace(tolerance=bias * ess.value), "second_moment": lab.second_moment_of(trace)}
        # The affinity of equal policies has rounding error alone.
        return found | {"affinity": lab.mean_of(trace, "affinity", 1e-10)}

    defects = {"last token left out": lambda: lab.with_policy(lab.ShortProduct)}
