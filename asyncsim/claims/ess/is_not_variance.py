r"""N/ESS is not the factor by which importance weights raise the variance of a gradient.

`N/ESS = E w^2` is not the factor of the variance, `E_mu w^2 A^2 |s|^2 - |grad J|^2` divided by its value on policy

One sample with full ratio has g = w A s, s = e_a - pi the score and A = r - b. Its total variance under behavior over
that under the current policy is
    (E_mu w^2 A^2 |s|^2 - |grad J|^2) / (E_pi A^2 |s|^2 - |grad J|^2),
without baseline ("inflation", b = 0) and with the exact one ("inflation_centered", b = J), beside N/ESS = E_mu w^2
("inverse_ess"). Weights count where reward and score are: with mu = (1/2, 1/2) and pi = (0.9, 0.1) N/ESS is 1.64, the
factor 9 or 1/9 as the likely or the other arm pays, and 0.09 with the exact baseline. Both estimators have mean grad J,
so N samples in place of one change nothing. Derivation: E w f under mu is E f under pi. Domain: softmax policies, fixed
rewards, a variance on policy that is not 0. Second route: half the mean squared distance of two draws.
"""

import numpy as np

from asyncsim.claims._bandit import Arms, arm_rewards, score_norm_squared, softmax
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Vector, lab, sim

_SMALLEST = 1e-3
"""Least total variance on policy: a smaller one is lost to cancellation."""
_THREE = {"rewards": (0.2, 0.5, 1.0), "behavior_logits": (0.3, -0.2, 0.5), "current_logits": (1.5, -0.9, 0.1)}


def _arms(probability: float) -> tuple[float, float]:
    """Logits of two arms, the first with the given probability."""
    return float(np.log(probability)), float(np.log1p(-probability))


_LIKELY = {"rewards": (1.0, 0.0), "behavior_logits": _arms(0.5), "current_logits": _arms(0.9)}


class IsNotVariance(Arms, Claim):
    kind, source = "identity", "derived; Kong 1992 for the approximation"
    through = "oracle"

    rewards = arm_rewards(0.2, 0.5, 1.0, low=-1.0, most=2.0, doc="fixed rewards of the arms")
    behavior_logits = Vector(typical=(-2.0, 2.0), example=(0.3, -0.2, 0.5), doc="logits of the behavior policy")
    current_logits = Vector(typical=(-2.0, 2.0), example=(1.5, -0.9, 0.1), doc="logits of the current policy")

    def joint(self) -> None:
        self.mu, self.pi = softmax(self.behavior_logits), softmax(self.current_logits)
        self.value, self.second = float(self.pi @ self.rewards), float((self.pi**2 / self.mu).sum())
        least = min(self._variance(self.pi, baseline) for baseline in (0.0, self.value))
        bound = f"such that the gradient on policy has a variance of {_SMALLEST:g} or more"
        self.require(least >= _SMALLEST, "rewards", bound, "spread them, or flatten the policy")

    def _variance(s, sampler: np.ndarray, baseline: float) -> float:
        """Total variance of w A s under a sampler, w = pi/sampler."""
        gradient = s.pi * (s.rewards - s.value)
        square = (s.pi**2 / sampler) @ ((s.rewards - baseline) ** 2 * score_norm_squared(s.pi))
        return float(square - gradient @ gradient)

    def _quantities(s, inverse: float, variance: object) -> dict[str, float]:
        raw, centered = (variance(s.mu, b) / variance(s.pi, b) for b in (0.0, s.value))  # type: ignore[operator]
        return {"inverse_ess": inverse, "inflation": raw, "inflation_centered": centered}

    def predict(s) -> dict[str, float]:
        return s._quantities(s.second, s._variance)

    def check(s) -> dict[str, float]:
        score = np.eye(s.pi.size) - s.pi

        def spread(vectors: np.ndarray, mass: np.ndarray) -> float:
            distance = ((vectors[:, None] - vectors[None]) ** 2).sum(-1)
            return float(mass @ distance @ mass) / 2.0

        weight = s.pi / s.mu
        return s._quantities(
            1.0 + spread(weight[:, None], s.mu),
            lambda sampler, b: spread((s.pi / sampler * (s.rewards - b))[:, None] * score, sampler),
        )

    wrong = {"N/ESS for the factor of variances": lambda s: {"inflation": s.second, "inflation_centered": s.second}}

    points = (_LIKELY, {**_LIKELY, "rewards": (0.0, 1.0)}, _THREE)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        rewards, (current, behavior) = point["rewards"], lab.places(point)
        task = sim.tasks.softmax_bandit(len(rewards), rewards, rewards="fixed")
        method = sim.methods.full_is(advantage=sim.advantages.none())
        spec = plant(lab.population(task, method).replace(diagnostics=["ess"]))
        value = float(sim.oracle.exact(task, current)[0])

        def inflation(baseline: float) -> float:
            method = spec.method.replace(advantage=sim.advantages.offset(baseline))
            stale, fresh = (sim.oracle.moments(task, method, current, x, samples=1) for x in (behavior, current))
            return stale.variance / fresh.variance

        inverse = 1.0 / lab.metrics_of(spec, current, behavior)[0].item()
        values = {"inverse_ess": inverse, "inflation": inflation(0.0), "inflation_centered": inflation(value)}
        return lab.to_share(values, 1e-9)

    defects = {
        "dropped ratio": lambda: (lab.dropped_ratio, _THREE),
        "truncated ratio": lambda: (lab.with_method(weight=lab.Ratio("sequence", 1.1)), _THREE),
    }
