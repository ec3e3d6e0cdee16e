"""Points with a KL-regularized softmax bandit: its optimum, the curvature there, and Jacobians of mean fields."""

from collections.abc import Callable

import numpy as np

from asyncsim.base import checks
from asyncsim.base.declared import Positive, Vector
from asyncsim.claims._bandit import Arms, complex_gradient, fisher, softmax

Field = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Mean direction from current and behavior logits."""


class SoftBandit(Arms):
    """Base of points with arms and a penalty kl KL(pi || reference); the optimum is pi* ~ reference e^{r/kl}."""

    rewards = Vector(typical=(0.0, 1.0), sizes=(2, 4), example=(0.0, 0.5, 1.0), doc="rewards of the arms")
    reference_logits = Vector(typical=(-1.0, 1.0), example=(0.0, 0.3, -0.2), doc="logits of the reference policy")
    kl = Positive(typical=(0.2, 3.0), example=0.15, unit="reward per nat", doc="weight of the penalty")

    def joint(self) -> None:
        """The second route loses the optimum to rounding once all but one arm have vanished."""
        super().joint()
        # pi*, `[A]`, and kl times the largest eigenvalue of the Fisher matrix there.
        self.optimum = softmax(self.reference_logits + self.rewards / self.kl)
        second = float(np.sort(self.optimum)[-2])
        checks.require(second > 1e-9, "kl", self.kl, "large enough that two arms keep more than 1e-9", "raise kl")
        self.curvature = self.kl * float(np.linalg.eigvalsh(fisher(self.optimum))[-1])

    def soft_rewards(self, pi: np.ndarray) -> np.ndarray:
        """r - kl log(pi/reference), `[A]`."""
        rewards: np.ndarray = self.rewards - self.kl * (np.log(pi) - np.log(softmax(self.reference_logits)))
        return rewards

    def ascended(self) -> np.ndarray:
        """Logits of the optimum by natural-gradient ascent."""
        theta = self.reference_logits.copy()
        for _ in range(200):
            gain = self.rewards - self.kl * (theta - self.reference_logits)
            theta = theta + 0.3 / self.kl * (gain - gain.mean())
        return theta

    def jacobians(self, field: Field) -> tuple[np.ndarray, np.ndarray]:
        """Those in current and in behavior logits at the optimum, by complex steps, `[A-1, A-1]` each.

        Logits matter up to a constant: the direction (1, .., 1) has no dynamics and is projected out.
        """
        theta = self.ascended()
        basis = np.linalg.qr(np.column_stack([np.ones(theta.size), np.eye(theta.size)[:, 1:]]))[0][:, 1:]
        current = complex_gradient(lambda x: field(x, theta.astype(complex)), theta)
        stale = complex_gradient(lambda x: field(theta.astype(complex), x), theta)
        return basis.T @ current @ basis, basis.T @ stale @ basis


def centered(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """weights o (values - weights . values): mean of (value - mean value) times the score, both under `weights`."""
    # From the value of the likeliest: where it has nearly all weight, its difference to the mean would cancel.
    above = values - values[np.argmax(weights.real)]
    field: np.ndarray = weights * (above - weights @ above)
    return field
