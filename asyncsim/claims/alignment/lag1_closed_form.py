r"""Variance amplification and autocorrelation of gradients in the delayed linear model.

gradient energy, and autocorrelation up to the staleness, have closed forms in `step * curvature`

E g^2 / sigma^2 = 1 + Q and, for 1 <= k <= tau, corr_k = Q gamma_k / (gamma_0 (1 + Q)). Q = tan(omega/2) tan(pi/4 +
Theta/2) and gamma_k/gamma_0 = (cos k omega + sin(Theta - k omega)) / (1 + sin Theta). Here omega = 2 arcsin(a/2), Theta
= (tau + 1/2) omega, a = step * curvature, `step` the learning rate. At tau = 0, corr_1 = -a/2. Derivation: for lags up
to tau + 1 the autocovariance solves gamma_{k+1} - gamma_k = -a gamma_{tau-k}, whose solutions are symmetric about
Theta. Domain: one mode, white noise, stationary, a below the boundary. Second route: Lyapunov equation of dimension tau
+ 1.
"""

from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Positive, Staleness, lab
from asyncsim.claims._delay import covariance_share, excess, stable_share
from asyncsim.claims._recursion import autocovariance

_UPDATES = 800
_AT_FOUR = {"staleness": 4, "curvature": 1.0, "noise": 1.0, "step": 0.27}


class Lag1ClosedForm(Claim):
    kind, source = "identity", "derived; continuous limit Kuechler and Mensch 1992 (Stochastics 40)"

    staleness = Staleness(typical=(0, 12), example=4)
    curvature = Positive(typical=(0.1, 5.0), example=2.0, unit="gradient per parameter", doc="curvature of the mode")
    noise = Positive(typical=(0.1, 3.0), example=0.5, unit="gradient", doc="noise of one gradient")
    step = Positive(example=0.12, unit="parameter per gradient", doc="learning rate")

    def joint(self) -> None:
        self.share = stable_share(self.step, self.curvature, self.staleness)
        self.lags = range(1, max(self.staleness, 1) + 1)

    def _quantities(s, amplification: float, signal: float) -> dict[str, float]:
        """Amplification and correlations; `signal` is the fraction of the gradient's energy that is not noise."""
        if s.staleness == 0:
            return {"amplification": amplification, "corr[1]": -s.share / 2.0}
        shares = {f"corr[{k}]": signal * covariance_share(s.share, s.staleness, k) for k in s.lags}
        return {"amplification": amplification} | shares

    def predict(s) -> dict[str, float]:
        q = excess(s.share, s.staleness)
        return s._quantities(1.0 + q, q / (1.0 + q))

    def check(s) -> dict[str, float]:
        power, covariances = autocovariance(s.curvature, s.step, s.noise, s.staleness, s.lags)
        values = {f"corr[{k}]": value / power for k, value in zip(s.lags, covariances, strict=True)}
        return {"amplification": power / s.noise**2} | values

    wrong = {"noise dropped from the denominator": lambda s: s._quantities(excess(s.share, s.staleness), 1.0)}

    points = ({"staleness": 1, "curvature": 1.0, "noise": 1.0, "step": 0.7}, _AT_FOUR)
    more = (
        {"staleness": 0, "curvature": 2.0, "noise": 0.5, "step": 0.5},
        {"staleness": 8, "curvature": 1.0, "noise": 1.0, "step": 0.15},
    )

    reach = staticmethod(lambda p: lab.quadratics.linear_reach((p["curvature"],), p["staleness"], p["step"]))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        tau = point["staleness"]
        # Largest relative standard deviation of one replicate's quantity at the points above (measured).
        spread = 0.25 * (1.8 if tau > 4 else 1.0)
        sums = lab.quadratics.products(point, (point["curvature"],), _UPDATES, spread, effect, 8, seed, plant)
        lags = {f"corr[{k}]": lab.ratio(sums[k], sums[0]) for k in range(1, max(1, tau) + 1)}
        return {"amplification": lab.between(sums[0] / point["noise"] ** 2)} | lags

    defects = {"off-by-one version": lambda: (lab.off_by_one_version, _AT_FOUR)}
