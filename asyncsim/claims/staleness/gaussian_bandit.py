r"""Stale REINFORCE on the Gaussian bandit is a delayed linear recursion; its noise grows with the distance.

stale REINFORCE on a Gaussian bandit has `E e^2 = width^2 (5/2 - 2/N) kappa/(1 - 2 kappa)`, `kappa = Q/(N - 1)`, without
approximation

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

import numpy as np

from asyncsim.claims._claim import Claim, Estimate, Plant, Point, lab, replaced, sim, units_for
from asyncsim.claims._delay import GaussianBandit, covariance_share, excess, mean_square, second_moments

_POINT = {"staleness": 1, "samples": 12, "curvature": 2.0, "width": 0.5, "step": 0.175}


class GaussianBanditClaim(GaussianBandit, Claim):
    kind, source, through = "distribution", "derived", "loop"

    def quantities(s, second: float, energy: float, moved: float) -> dict[str, float]:
        return {"second_moment": second, "energy": energy} | ({"moved": moved / s.width**2} if s.staleness else {})

    def predict(s, growth: float = 2.0) -> dict[str, float]:
        """Predict the moments; `growth` replaces the factor 2 of 2 e^2."""
        a, tau = s.step * s.curvature, s.staleness
        second, kept = mean_square(s, growth=growth), covariance_share(a, tau, tau)
        energy = s.curvature**2 * second * (1.0 + 1.0 / excess(a, tau))
        return s.quantities(second, energy, 2.0 * second * (1.0 - kept))

    def check(s) -> dict[str, float]:
        law, energy = second_moments(s)
        return s.quantities(float(law[0, 0]), energy, float(law[0, 0] + law[-1, -1] - 2.0 * law[0, -1]))

    wrong = {"noise that does not grow with the distance": lambda s: s.predict(growth=0.0)}

    points = (_POINT,)
    more = ({**_POINT, "staleness": 3, "step": 0.075},)
    reach = staticmethod(lambda point: lab.bandit_settles(point))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        # Standard deviation of one replicate's mean, relative, at the points (measured); longer delays decay slower.
        spread = 0.33 if point["staleness"] < 2 else 0.41
        replicates, skipped = units_for(spread, effect, 4), lab.bandit_warm_up(point)
        metrics, tau = ["exact_gradient_norm", "gradient_norm"], point["staleness"]
        trace = lab.run(lab.gaussian_bandit(point, skipped + 100, replicates, [*metrics, lab.PLACE]), seed, plant)
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
