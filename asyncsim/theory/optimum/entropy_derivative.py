r"""What a small step does to the entropy is a covariance of log pi with the move of the logits, not with advantages.

Logits that move by step y change the entropy of one softmax by dH = -step Cov_pi(log pi, y) to first order: dpi = step
pi (y - pi . y) and dH = -sum dpi log pi. REINFORCE with the mean as baseline on data of mu moves by y = mu (r - mu .
r). Only the natural gradient moves by y = A = r - pi . r. The form with A is often quoted for both, and can even have
the other sign. Regression on fresh data solved fully, pi' ~ pi e^{r/beta}, is that natural step of length 1/beta.
Domain: one softmax, every sample counted. Second route: complex-step derivative of the entropy along the gradient of
E_mu[(r - mu . r) log pi], and along pi e^{step r}. Source: derived; quoted form arXiv 2510.18927.
"""

from __future__ import annotations

import numpy as np

from asyncsim.theory._bandit import PolicyPair, complex_gradient, softmax
from asyncsim.theory._declared import Vector
from asyncsim.theory._stated import stated


class _Setting(PolicyPair):
    rewards = Vector(typical=(0.0, 1.0), example=(0.2, 1.0, 0.5), unit="reward", doc="rewards of the arms")

    def joint(self) -> None:
        super().joint()
        self.mu, self.pi = (softmax(logits) for logits in self.logits)


def _change(p: np.ndarray, y: np.ndarray) -> float:
    """-Cov_p(log p, y)."""
    return -float(p @ (np.log(p) * (y - p @ y)))


def _moved(p: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """p (r - p . r)."""
    moved: np.ndarray = p * (rewards - p @ rewards)
    return moved


def _stated(s: _Setting, plain: float) -> dict[str, float]:
    return {"policy_gradient": plain, "natural_gradient": _change(s.pi, s.rewards)}


def _predict(s: _Setting) -> dict[str, float]:
    return _stated(s, _change(s.pi, _moved(s.mu, s.rewards)))


def _cross_check(s: _Setting) -> dict[str, float]:
    def entropy_at(logits: np.ndarray) -> np.ndarray:
        p = softmax(logits)
        entropy: np.ndarray = -(p * np.log(p)).sum()
        return entropy

    def objective(logits: np.ndarray) -> np.ndarray:
        value: np.ndarray = (s.mu * (s.rewards - s.mu @ s.rewards) * np.log(softmax(logits))).sum()
        return value

    def along(y: np.ndarray) -> float:
        return float(complex_gradient(lambda step: entropy_at(s.current_logits + step * y), np.zeros(1))[0])

    return {
        "policy_gradient": along(complex_gradient(objective, s.current_logits)),
        "natural_gradient": along(s.rewards),
    }


claim = stated(
    id="optimum/entropy-derivative",
    statement="a step changes the entropy by `-step Cov_pi(log pi, y)`, `y` the move of the logits: `mu (r - "
    "mu.r)` for "
    "REINFORCE on data of `mu`, and the advantages `r - pi.r` for the natural gradient only",
    kind="expectation",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived; quoted form arXiv 2510.18927",
    formula_defects={
        "natural form for the policy gradient": lambda s: _stated(s, _change(s.pi, s.rewards)),
        "covariance under behavior": lambda s: _stated(s, _change(s.mu, _moved(s.mu, s.rewards))),
        "staleness of the data forgotten": lambda s: _stated(s, _change(s.pi, _moved(s.pi, s.rewards))),
        "plain form for the natural gradient": lambda s: {
            **_predict(s),
            "natural_gradient": _change(s.pi, _moved(s.pi, s.rewards)),
        },
        "sign": lambda s: {name: -value for name, value in _predict(s).items()},
    },
)
