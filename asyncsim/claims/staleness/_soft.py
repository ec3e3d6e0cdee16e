"""Points with a KL-regularized softmax bandit: its optimum, the curvature there, and Jacobians of mean fields."""

import numpy as np

from asyncsim.claims._bandit import Arms, complex_gradient, fisher, softmax
from asyncsim.claims._claim import Claim, Positive, Staleness, Vector
from asyncsim.claims._recursion import marginal_step_mixed


class SoftBandit(Arms, Claim):
    """Base of claims on a bandit with penalty kl KL(pi || reference); the optimum is pi* ~ reference e^{r/kl}.

    Second route of all: root finding on the spectral radius that Jacobians of the mean `field` there give.
    """

    kind = "threshold"
    rewards = Vector(typical=(0.0, 1.0), sizes=(2, 4), example=(0.0, 0.5, 1.0), doc="rewards of the arms")
    reference_logits = Vector(typical=(-1.0, 1.0), example=(0.0, 0.3, -0.2), doc="logits of the reference policy")
    kl = Positive(typical=(0.2, 3.0), example=0.15, unit="reward per nat", doc="weight of the penalty")
    staleness = Staleness(0, 64, typical=(0, 16), example=4)

    def joint(self) -> None:
        """Refuse kl so small that the independent check loses the optimum to rounding."""
        # pi*, `[A]`, and kl times the largest eigenvalue of the Fisher matrix there.
        self.optimum = softmax(self.reference_logits + self.rewards / self.kl)
        second = float(np.sort(self.optimum)[-2])
        self.require(second > 1e-9, "kl", "large enough that two arms keep more than 1e-9", "raise kl")
        self.curvature = self.kl * float(np.linalg.eigvalsh(fisher(self.optimum))[-1])

    def soft_rewards(self, pi: np.ndarray) -> np.ndarray:
        """Regularized rewards r - kl log(pi/reference), `[A]`."""
        return self.rewards - self.kl * (np.log(pi) - np.log(softmax(self.reference_logits)))

    def field(self, theta: np.ndarray, behavior: np.ndarray) -> np.ndarray:
        """Mean update direction as a function of current and behavior logits."""
        raise NotImplementedError

    def jacobians(s) -> tuple[np.ndarray, np.ndarray]:
        """Jacobians of the field at the optimum in current and behavior logits, by complex steps, `[A-1, A-1]` each."""
        theta = s.reference_logits.copy()
        # The optimum by natural-gradient ascent.
        for _ in range(200):
            gain = s.rewards - s.kl * (theta - s.reference_logits)
            theta = theta + 0.3 / s.kl * (gain - gain.mean())
        # Logits matter up to a constant: the direction (1, .., 1) has no dynamics and is projected out.
        basis = np.linalg.qr(np.column_stack([np.ones(theta.size), np.eye(theta.size)[:, 1:]]))[0][:, 1:]
        current = complex_gradient(lambda x: s.field(x, theta.astype(complex)), theta)
        stale = complex_gradient(lambda x: s.field(theta.astype(complex), x), theta)
        return basis.T @ current @ basis, basis.T @ stale @ basis

    def check(s) -> dict[str, float]:
        return {"step": marginal_step_mixed(*s.jacobians(), s.staleness)}


def centered(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Weighted centering, weights o (values - weights . values): the mean of (value - mean value) times the score."""
    # From the value of the likeliest: where it has nearly all weight, its difference to the mean would cancel.
    above = values - values[np.argmax(weights.real)]
    return weights * (above - weights @ above)
