r"""Stale REINFORCE on the Gaussian bandit is a delayed linear recursion; its noise grows with the distance.

stale REINFORCE on a Gaussian bandit has `E e^2 = width^2 * (5/2 - 2/N) kappa/(1 - 2 kappa)`, with `kappa = Q/(N - 1)`

Actions a ~ N(theta, width^2), reward -h (a - c)^2/2, groups of N with the leave-one-out baseline, no ratio, data tau
updates old, e = theta_{t - tau} - c. Advantages add up to 0, so the trainer's own mean drops out, and
    E g = -h e,  Var g = h^2 (2 e^2 + (5/2 - 2/N) width^2)/(N - 1),
with no approximation. With Q of `alignment/lag1-closed-form` and kappa = Q/(N - 1) the stationary mean square is
    E e^2 = width^2 (5/2 - 2/N) kappa/(1 - 2 kappa)    ("second_moment"),
finite iff Q < (N - 1)/2, the autocovariance has the shape of the linear model, and E g^2 = h^2 E e^2 (1 + 1/Q)
("energy"). In tau updates the mean moves by the variance v = 2 (gamma_0 - gamma_tau)/width^2 ("moved", in squared
widths), twice the mean KL. Where that move is normal, in the limit of large groups, the mean of the ESS per sample
e^{-move^2/width^2} of `ratio/gaussian-shift` is (1 + 2 v)^{-1/2}. Derivation: g is a U-statistic with kernel (r_a -
r_b)(a - b)/(2 width^2); noise is white given the past. Domain: below both boundaries. Second route: Hoeffding's
variance by Gauss-Hermite quadrature, and the linear system of all second moments of tau + 1 neighbors.
"""

import math

import numpy as np

from asyncsim.claims._claim import (
    Claim,
    Count,
    Estimate,
    Plant,
    Point,
    Positive,
    Staleness,
    lab,
    replaced,
    sim,
    units_for,
)
from asyncsim.claims._delay import covariance_share, excess, stable_share

_POINT = {"staleness": 1, "samples": 12, "curvature": 2.0, "width": 0.5, "step": 0.175}
_WARM_UP = 2000
"""Updates of a warm-up, at most."""


class GaussianBandit(Claim):
    kind, source, through = "distribution", "derived", "loop"

    staleness = Staleness(0, 24, typical=(0, 8), example=4)
    samples = Count(2, typical=(4, 40), example=8, doc="samples of a group")
    curvature = Positive(typical=(0.1, 5.0), example=2.0, unit="reward per squared action", doc="curvature h")
    width = Positive(typical=(0.1, 3.0), example=0.5, unit="action", doc="standard deviation of the policy")
    step = Positive(example=0.08, unit="action per gradient", doc="learning rate")

    def joint(self) -> None:
        self.excess = excess(stable_share(self.step, self.curvature, self.staleness), self.staleness)
        # At the boundary itself rounding decides whether a mean square of 1e15 is there.
        stable = 2.0 * (self.excess / (self.samples - 1)) < 0.9999
        self.require(stable, "step", "such that Q < 0.9999 (N - 1)/2", "lower the step, or raise samples")

    def _variance(s, error: float) -> float:
        """Variance of the gradient at distance e from the optimum, by Hoeffding's decomposition."""
        node, weight = np.polynomial.hermite_e.hermegauss(8)
        weight = weight / weight.sum()
        action = error + s.width * node
        reward = -0.5 * s.curvature * action**2
        kernel = np.subtract.outer(reward, reward) * np.subtract.outer(action, action) / (2.0 * s.width**2)
        mean = weight @ kernel @ weight
        one, both = weight @ (kernel @ weight - mean) ** 2, weight @ (kernel - mean) ** 2 @ weight
        N = s.samples
        return float((4.0 * (N - 2) * one + 2.0 * both) / (N * (N - 1)))

    def quantities(s, second: float, energy: float, moved: float) -> dict[str, float]:
        return {"second_moment": second, "energy": energy} | ({"moved": moved / s.width**2} if s.staleness else {})

    def predict(s, growth: float = 2.0) -> dict[str, float]:
        """Predict the moments; `growth` replaces the factor 2 of 2 e^2."""
        share = s.excess / (s.samples - 1)
        second = s.width**2 * (2.5 - 2.0 / s.samples) * share / (1.0 - growth * share)
        kept = covariance_share(s.step * s.curvature, s.staleness, s.staleness)
        energy = s.curvature**2 * second * (1.0 + 1.0 / s.excess)
        return s.quantities(second, energy, 2.0 * second * (1.0 - kept))

    def check(s) -> dict[str, float]:
        """Solve for E e_i e_j of the last tau + 1 errors, newest first `[tau + 1, tau + 1]`, and for E g^2."""
        size, tau = s.staleness + 1, s.staleness
        constant = s._variance(0.0)
        growth = (s._variance(s.width) - constant) / s.width**2
        companion = np.eye(size, k=-1)
        companion[0, 0] += 1.0
        companion[0, tau] -= s.step * s.curvature
        # vec of E v v^T with v = (e_t, ..., e_{t - tau}); the noise enters the first cell and grows with the last one.
        system = np.eye(size**2) - np.kron(companion, companion)
        system[0, -1] -= s.step**2 * growth
        noise = np.zeros(size**2)
        noise[0] = s.step**2 * constant
        law = np.linalg.solve(system, noise).reshape(size, size)
        energy = float((s.curvature**2 + growth) * law[0, 0] + constant)
        return s.quantities(float(law[0, 0]), energy, float(law[0, 0] + law[-1, -1] - 2.0 * law[0, -1]))

    wrong = {"noise that does not grow with the distance": lambda s: s.predict(growth=0.0)}

    points = (_POINT,)
    more = ({**_POINT, "staleness": 3, "step": 0.075},)

    def reach(self, point: Point) -> str | None:
        a, tau = point["step"] * point["curvature"], point["staleness"]
        most, least = (1.0 if tau == 0 else 1.6) / (2 * tau + 1), 4.5 / _WARM_UP
        if not least <= a <= most or point["samples"] < 6:
            return f"step * curvature from {least:.3g} to {most:.3g} and 6 samples; slower to settle, or heavier tails"
        return None

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        # Standard deviation of one replicate's mean, relative, at the points (measured); longer delays decay slower.
        spread = 0.33 if point["staleness"] < 2 else 0.41
        metrics, tau = ["exact_gradient_norm", "gradient_norm"], point["staleness"]
        # At least nine relaxation times of the mean square.
        skipped = max(15 * (tau + 1), math.ceil(4.5 / (point["step"] * point["curvature"])))
        size = {"samples_per_group": point["samples"], "replicates": units_for(spread, effect, 4)}
        size |= {"sampling": "monte_carlo", "diagnostics": [*metrics, lab.PLACE]}
        task, method = sim.tasks.gaussian_bandit(point["curvature"], width=point["width"]), sim.methods.reinforce()
        spec = lab.ascent(task, lab.fixed(tau), method, point["step"], skipped + 100, **size)
        trace = lab.run(spec, seed, plant)
        exact, norm = (trace[name][skipped:] for name in metrics)
        read = {"second_moment": (exact / point["curvature"]) ** 2, "energy": norm**2}
        if tau:
            place = np.asarray(trace["place"][skipped:])
            read["moved"] = ((place[tau:] - place[:-tau]) / point["width"]) ** 2
        return {name: lab.between(x.mean(axis=0)) for name, x in read.items()}

    defects = {
        "off-by-one version": lambda: lab.off_by_one_version,
        "own reward in the baseline": lambda: lab.with_method(advantage=sim.advantages.group_mean()),
        "two samples fewer in a group": lambda: replaced(samples_per_group=10),
    }
