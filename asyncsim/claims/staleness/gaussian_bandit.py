r"""Stale REINFORCE on the Gaussian bandit is a delayed linear recursion; its noise grows with the distance.

stale REINFORCE on a Gaussian bandit has `E e^2 = width^2 (5/2 - 2/N) kappa/(1 - 2 kappa)`, `kappa = Q/(N - 1)`, without
approximation

Actions a ~ N(theta, width^2), reward -h (a - c)^2/2, groups of N with the leave-one-out baseline, no ratio, data tau
updates old, e = theta_{t - tau} - c. Advantages add up to 0, so the trainer's own mean drops out, and
    E g = -h e,  Var g = h^2 (2 e^2 + (5/2 - 2/N) width^2)/(N - 1),
with no approximation. With Q of `alignment/lag1-closed-form` and kappa = Q/(N - 1) the stationary mean square is
    E e^2 = width^2 (5/2 - 2/N) kappa/(1 - 2 kappa)    ("second_moment"),
finite iff Q < (N - 1)/2, the autocovariance has the shape of the linear model, and E g^2 = h^2 E e^2 (1 + 1/Q)
("energy"). Derivation: g is a U-statistic with kernel (r_a - r_b)(a - b)/(2 width^2); noise is white given the past.
Domain: below both boundaries. Second route: Hoeffding's variance by Gauss-Hermite quadrature, and the linear system of
all second moments of tau + 1 neighbors.
"""

from asyncsim.claims._claim import Claim, Estimate, Plant, Point, lab, replaced, sim, units_for
from asyncsim.claims._delay import GaussianBandit, excess, mean_square, second_moments

_POINT = {"staleness": 1, "samples": 12, "curvature": 2.0, "width": 0.5, "step": 0.175}


class GaussianBanditClaim(GaussianBandit, Claim):
    kind, source, through = "distribution", "derived", "loop"

    def predict(s, growth: float = 2.0) -> dict[str, float]:
        """Predict the moments; `growth` replaces the factor 2 of 2 e^2."""
        second, share = mean_square(s, growth=growth), excess(s.step * s.curvature, s.staleness)
        return {"second_moment": second, "energy": s.curvature**2 * second * (1.0 + 1.0 / share)}

    def check(s) -> dict[str, float]:
        law, energy = second_moments(s)
        return {"second_moment": float(law[0, 0]), "energy": energy}

    wrong = {"noise that does not grow with the distance": lambda s: s.predict(growth=0.0)}

    points = (_POINT,)
    more = ({**_POINT, "staleness": 3, "step": 0.075},)
    reach = staticmethod(lambda point: lab.bandit_settles(point))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        # Standard deviation of one replicate's mean, relative, at the points (measured); longer delays decay slower.
        spread = 0.33 if point["staleness"] < 2 else 0.41
        replicates, skipped = units_for(spread, effect, 4), lab.bandit_warm_up(point)
        metrics = ["exact_gradient_norm", "gradient_norm"]
        trace = lab.run(lab.gaussian_bandit(point, skipped + 100, replicates, metrics), seed, plant)
        exact, norm = (trace[name][skipped:] for name in metrics)
        read = {"second_moment": (exact / point["curvature"]) ** 2, "energy": norm**2}
        return {name: lab.between(x.mean(axis=0)) for name, x in read.items()}

    defects = {
        "off-by-one version": lambda: lab.off_by_one_version,
        "own reward in the baseline": lambda: lab.with_method(advantage=sim.advantages.group_mean()),
        "two samples fewer in a group": lambda: replaced(samples_per_group=10),
    }
