r"""Variance amplification and autocorrelation of gradients in the delayed linear model.

gradient energy and autocorrelations have closed forms in `a = step * curvature`: gradients one staleness apart
correlate at `+a/2`, those one update farther apart at `-a/2`

E g^2 / sigma^2 = 1 + Q and, for 1 <= k <= tau, corr_k = Q gamma_k / (gamma_0 (1 + Q)). Q = tan(omega/2) tan(pi/4 +
Theta/2) and gamma_k/gamma_0 = (cos k omega + sin(Theta - k omega)) / (1 + sin Theta). Here omega = 2 arcsin(a/2), Theta
= (tau + 1/2) omega, a = step * curvature, `step` the learning rate. Derivation: for lags up to tau + 1 the
autocovariance solves gamma_{k+1} - gamma_k = -a gamma_{tau-k}, whose solutions are symmetric about Theta.

So corr_tau = a/2 and corr_{tau+1} = -a/2: the sign change reveals tau. Of several modes (`others`) products add up; as
ratios of averages both lags have the energy-weighted a = step tr(HG)/tr G, G = E g g^T diagonal with entries 1 + Q for
equal noise in every coordinate. That is also the stationarity of E|x|^2, 2 E<x_t, g_t> = step E|g|^2: g_{t+tau} = H x_t
+ noise of a later time, while g_{t+tau+1} is taken at x_{t+1} = x_t - step g_t. Domain: white noise, stationary, a of
all modes below the boundary. Second route: Lyapunov equation of dimension tau + 1 for each mode.
"""

import numpy as np

from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Positive, Staleness, Vector, lab
from asyncsim.claims._delay import covariance_share, excess, stable_share
from asyncsim.claims._recursion import autocovariance

_UPDATES = 800
_AT_FOUR = {"staleness": 4, "curvature": 1.0, "noise": 1.0, "step": 0.27}
_MODES = {**_AT_FOUR, "others": (0.5,), "step": 0.28}


def _curvatures(point: Point) -> tuple[float, ...]:
    return (point["curvature"], *(point.get("others") or ()))


class Lag1ClosedForm(Claim):
    kind, source = "identity", "derived; continuous limit Kuechler and Mensch 1992 (Stochastics 40)"

    staleness = Staleness(typical=(0, 12), example=4)
    curvature = Positive(typical=(0.1, 5.0), example=2.0, unit="gradient per parameter", doc="curvature of the mode")
    noise = Positive(typical=(0.1, 3.0), example=0.5, unit="gradient", doc="noise of one gradient, equal in every mode")
    step = Positive(example=0.12, unit="parameter per gradient", doc="learning rate")
    others = Vector(
        0.0, optional=True, typical=(0.1, 5.0), sizes=(1, 2), example=(0.5,), unit="gradient per parameter",
        doc="curvatures of further modes (default: none)",
    )  # fmt: skip

    def joint(self) -> None:
        self.modes = np.append(self.curvature, [] if self.others is None else self.others)
        self.shares = [stable_share(self.step, float(h), self.staleness) for h in self.modes]
        self.excess = np.array([excess(a, self.staleness) for a in self.shares])
        self.lags = range(1, self.staleness + 2)

    def _quantities(s, energy: np.ndarray) -> dict[str, float]:
        """Quantities from the energy of each mode's gradient in units of the noise, of which Q is signal."""
        signal, values = s.excess / energy.sum(), {"amplification": float(energy.mean())}
        for k in s.lags[:-1]:
            kept = np.array([covariance_share(a, s.staleness, k) for a in s.shares])
            values[f"corr[{k}]"] = float(signal @ kept)
        return values | {
            f"corr[{s.staleness + 1}]": -s.step * float(s.modes @ (1.0 + s.excess) / (1.0 + s.excess).sum()) / 2.0
        }

    def predict(s) -> dict[str, float]:
        return s._quantities(1.0 + s.excess)

    def check(s) -> dict[str, float]:
        modes = [autocovariance(h, s.step, s.noise, s.staleness, s.lags) for h in s.modes]
        power = sum(mode[0] for mode in modes)
        values = {f"corr[{lag}]": sum(mode[1][k] for mode in modes) / power for k, lag in enumerate(s.lags)}
        return {"amplification": power / len(modes) / s.noise**2} | values

    def by_mean_curvature(s) -> dict[str, float]:
        """Correlations at the last two lags, predicted from the plain mean of the curvatures."""
        half = s.step * float(s.modes.mean()) / 2.0
        return {f"corr[{lag}]": half if lag == s.staleness else -half for lag in s.lags[-2:] if lag >= s.staleness}

    wrong = {
        "noise dropped from the denominator": lambda s: s._quantities(s.excess),
        "plain instead of energy-weighted mean curvature": by_mean_curvature,
    }

    points = (
        *({"staleness": 1, "curvature": 1.0, "noise": 1.0, "step": 0.7}, _AT_FOUR),
        *({**_MODES, "staleness": 0, "step": 0.6}, _MODES),
    )
    more = (
        {"staleness": 0, "curvature": 2.0, "noise": 0.5, "step": 0.5},
        {"staleness": 8, "curvature": 1.0, "noise": 1.0, "step": 0.15},
    )

    reach = staticmethod(lambda p: lab.quadratics.linear_reach(_curvatures(p), p["staleness"], p["step"]))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        tau, modes = point["staleness"], _curvatures(point)
        # Largest relative standard deviation of one replicate's quantity at the points above (measured).
        spread = 0.25 * (1.8 if tau > 4 else 1.0)
        sums = lab.quadratics.products(point, modes, _UPDATES, spread, effect, 8, seed, plant)
        lags = {f"corr[{k}]": lab.ratio(sums[k], sums[0]) for k in range(1, tau + 2)}
        return {"amplification": lab.between(sums[0] / (len(modes) * point["noise"] ** 2))} | lags

    defects = {
        "off-by-one version": lambda: (lab.off_by_one_version, _AT_FOUR),
        "momentum inserted": lambda: (lab.momentum_inserted, _MODES),
    }
