"""The stale Gaussian bandit: its point, and its stationary second moments by two routes."""

import numpy as np

from asyncsim.base.declared import Count, Declared, Positive, Staleness
from asyncsim.claims._delay import excess, stable_share


class GaussianBandit(Declared):
    """A stationary stale bandit."""

    staleness = Staleness(0, 24, typical=(0, 8), example=4)
    samples = Count(2, typical=(4, 40), example=8, doc="samples of a group")
    curvature = Positive(typical=(0.1, 5.0), example=2.0, unit="reward per squared action", doc="curvature h")
    width = Positive(typical=(0.1, 3.0), example=0.5, unit="action", doc="standard deviation of the policy")
    step = Positive(example=0.08, unit="action per gradient", doc="learning rate")

    def joint(self) -> None:
        stable_share(self.step, self.curvature, self.staleness)
        # At the boundary itself rounding decides whether a mean square of 1e15 is there.
        stable = 2.0 * (excess(self.step * self.curvature, self.staleness) / (self.samples - 1)) < 0.9999
        self.require(stable, "step", "such that Q < 0.9999 (N - 1)/2", "lower the step, or raise samples")


def mean_square(s: GaussianBandit, count: float | None = None, growth: float = 2.0) -> float:
    """E e^2; `count` in place of N - 1, `growth` in place of the 2 of 2 e^2."""
    share = excess(s.step * s.curvature, s.staleness) / (s.samples - 1 if count is None else count)
    return s.width**2 * (2.5 - 2.0 / s.samples) * share / (1.0 - growth * share)


def _variance(s: GaussianBandit, error: float) -> float:
    """Var g at a distance e, by Hoeffding's decomposition."""
    node, weight = np.polynomial.hermite_e.hermegauss(8)
    weight = weight / weight.sum()
    action = error + s.width * node
    reward = -0.5 * s.curvature * action**2
    kernel = np.subtract.outer(reward, reward) * np.subtract.outer(action, action) / (2.0 * s.width**2)
    mean = weight @ kernel @ weight
    one, both = weight @ (kernel @ weight - mean) ** 2, weight @ (kernel - mean) ** 2 @ weight
    N = s.samples
    return float((4.0 * (N - 2) * one + 2.0 * both) / (N * (N - 1)))


def second_moments(s: GaussianBandit) -> tuple[np.ndarray, float]:
    """E e_i e_j of tau + 1 neighbors, the newest first `[tau + 1, tau + 1]`, and E g^2, from their linear system."""
    size, tau = s.staleness + 1, s.staleness
    constant = _variance(s, 0.0)
    growth = (_variance(s, s.width) - constant) / s.width**2
    companion = np.eye(size, k=-1)
    companion[0, 0] += 1.0
    companion[0, tau] -= s.step * s.curvature
    # vec of E v v^T with v = (e_t, ..., e_{t - tau}); the noise enters the first cell and grows with the last one.
    system = np.eye(size**2) - np.kron(companion, companion)
    system[0, -1] -= s.step**2 * growth
    noise = np.zeros(size**2)
    noise[0] = s.step**2 * constant
    law = np.linalg.solve(system, noise).reshape(size, size)
    return law, float((s.curvature**2 + growth) * law[0, 0] + constant)
