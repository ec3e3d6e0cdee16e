r"""N/ESS is not the factor by which importance weights raise the variance of a gradient.

One sample with full ratio has g = w A s, s = e_a - pi the score and A = r - b. Its total variance under behavior over
that under the current policy is
    (E_mu w^2 A^2 |s|^2 - |grad J|^2) / (E_pi A^2 |s|^2 - |grad J|^2),
without baseline ("inflation", b = 0) and with the exact one ("inflation_centered", b = J), beside N/ESS = E_mu w^2
("inverse_ess"). Weights count where reward and score are: with mu = (1/2, 1/2) and pi = (0.9, 0.1) N/ESS is 1.64, the
factor 9 or 1/9 as the likely or the other arm pays, and 0.09 with the exact baseline. Both estimators have mean grad J,
so N samples in place of one change nothing. Derivation: E w f under mu is E f under pi. Domain: softmax policies,
fixed rewards, a variance on policy that is not 0. Second route: half the mean squared distance of two draws. Source:
derived; Kong 1992 has it as an approximation.
"""

from __future__ import annotations

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._bandit import Arms, score_norm_squared, softmax
from asyncsim.theory._declared import Vector
from asyncsim.theory._stated import stated

_SMALLEST = 1e-3
"""Least total variance on policy: a smaller one is lost to cancellation."""


class _Setting(Arms):
    rewards = Vector(
        typical=(-1.0, 2.0), sizes=(2, 4), example=(0.2, 0.5, 1.0), unit="reward", doc="fixed rewards of the arms"
    )
    behavior_logits = Vector(typical=(-2.0, 2.0), example=(0.3, -0.2, 0.5), doc="logits of the behavior policy")
    current_logits = Vector(typical=(-2.0, 2.0), example=(1.5, -0.9, 0.1), doc="logits of the current policy")

    def joint(self) -> None:
        """Without variance on policy there is no factor."""
        super().joint()
        self.mu, self.pi = softmax(self.behavior_logits), softmax(self.current_logits)
        least = min(_variance(self, self.pi, baseline) for baseline in (0.0, self.value))
        bound = f"such that the gradient on policy has a variance of {_SMALLEST:g} or more"
        checks.require(
            least >= _SMALLEST, "rewards", self.rewards.tolist(), bound, "spread them, or flatten the policy"
        )

    @property
    def value(self) -> float:
        """J of the current policy."""
        return float(self.pi @ self.rewards)


def _variance(s: _Setting, sampler: np.ndarray, baseline: float) -> float:
    """Total variance of w A s under a sampler, w = pi/sampler."""
    gradient = s.pi * (s.rewards - s.value)
    square = (s.pi**2 / sampler) @ ((s.rewards - baseline) ** 2 * score_norm_squared(s.pi))
    return float(square - gradient @ gradient)


def _quantities(s: _Setting, inverse: float, variance: object) -> dict[str, float]:
    raw, centered = (variance(s.mu, b) / variance(s.pi, b) for b in (0.0, s.value))  # type: ignore[operator]
    return {"inverse_ess": inverse, "inflation": raw, "inflation_centered": centered}


def _second_moment(s: _Setting) -> float:
    return float((s.pi**2 / s.mu).sum())


def _predict(s: _Setting) -> dict[str, float]:
    return _quantities(s, _second_moment(s), lambda sampler, b: _variance(s, sampler, b))


def _cross_check(s: _Setting) -> dict[str, float]:
    score = np.eye(s.pi.size) - s.pi

    def spread(vectors: np.ndarray, mass: np.ndarray) -> float:
        distance = ((vectors[:, None] - vectors[None]) ** 2).sum(-1)
        return float(mass @ distance @ mass) / 2.0

    weight = s.pi / s.mu
    return _quantities(
        s,
        1.0 + spread(weight[:, None], s.mu),
        lambda sampler, b: spread((s.pi / sampler * (s.rewards - b))[:, None] * score, sampler),
    )


def _kong(s: _Setting) -> dict[str, float]:
    inverse = _second_moment(s)
    return {"inverse_ess": inverse, "inflation": inverse, "inflation_centered": inverse}


claim = stated(
    id="ess/is-not-variance",
    statement="`N/ESS = E w^2` is not the inflation `E_mu w^2 A^2 |s|^2 - |grad J|^2` over the same on policy",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived; Kong 1992 for the approximation",
    formula_defects={
        "N/ESS for the factor of variances": _kong,
        "square of the mean forgotten": lambda s: _quantities(
            s,
            _second_moment(s),
            lambda sampler, b: float((s.pi**2 / sampler) @ ((s.rewards - b) ** 2 * score_norm_squared(s.pi))),
        ),
        "length of the score forgotten": lambda s: _quantities(
            s, _second_moment(s), lambda sampler, b: float((s.pi**2 / sampler) @ (s.rewards - b) ** 2)
        ),
    },
)
