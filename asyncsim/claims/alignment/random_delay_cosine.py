r"""Staleness drawn anew for every update is hidden in the correlations: they follow the averaged recursion.

if staleness is drawn anew for every update, gradients correlate as in the recursion averaged over staleness

corr_k = (2 gamma_k - gamma_{k-1} - gamma_{k+1}) / (2 (gamma_0 - gamma_1)) because x_{t+1} - x_t = -step g_t, with gamma
of `_random`. The distribution of delays enters the correlations through the averaged recursion alone. E g^2 / sigma^2 =
2 V (phi_0 - phi_1) / (step sigma)^2 diverges at the mean-square boundary. Domain: one mode, white noise, one delay per
update, stationary, below that boundary. Second route: Kronecker solution of P = sum p_d A_d P A_d^T + noise, E g_t
g_{t+k} = curvature p . A^{k-1} (curvature sum p_d A_d P_d - step sigma^2 e_0), A = sum p_d A_d; the last term gives
corr_1 its -a sigma^2 p_0.
"""

import numpy as np

from asyncsim.claims import _random, lab
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Positive, sim, units_for

_LONGEST, _LEFT_OUT = 40, 80
"""Staleness at most, and updates left out at the start for each probability."""
_UPDATES = 600
_COPIES = 8
"""Equal coordinates under one realization of delays: cheaper than as many realizations."""
_UNEVEN = {"law": (0.3, 0.0, 0.3, 0.4), "curvature": 2.0, "noise": 0.5, "step": 0.2}


class RandomDelayCosine(Claim):
    kind, source = "identity", "derived: the draw of the staleness is white noise to the averaged recursion"
    relative_to = "norm"

    law = _random.staleness_law("", 0.4, 0.0, 0.2, 0.4)
    curvature = Positive(typical=(0.1, 5.0), example=2.0, unit="gradient per parameter", doc="curvature of the mode")
    noise = Positive(typical=(0.1, 3.0), example=0.5, unit="gradient", doc="noise of one gradient")
    step = Positive(example=0.2, unit="parameter per gradient", doc="learning rate")

    def joint(self) -> None:
        """Require probabilities that add up to 1, and a learning rate below the mean-square boundary."""
        _random.check_law(self.law, _LONGEST)
        self.share = _random.stable(self.step, self.curvature, self.law)

    def check(s) -> dict[str, float]:
        size, matrices = len(s.law), _random.companions(s.law, s.share)
        transition = sum(p * np.kron(m, m) for p, m in zip(s.law, matrices, strict=True))
        noise_input = np.zeros(size * size)
        noise_input[0] = (s.step * s.noise) ** 2
        law = np.linalg.solve(np.eye(size * size) - transition, noise_input).reshape(size, size)
        power = s.curvature**2 * law[0, 0] + s.noise**2
        covariance = s.curvature * sum(p * m @ law[:, d] for d, (p, m) in enumerate(zip(s.law, matrices, strict=True)))
        covariance[0] -= s.step * s.noise**2
        average, values = _random.averaged(s.law, s.share), {"amplification": float(power / s.noise**2)}
        for k in range(1, size + 1):
            values[f"corr[{k}]"] = float(s.curvature * s.law @ covariance / power)
            covariance = average @ covariance
        return values

    def predict(s, slack: float | None = None) -> dict[str, float]:
        """Predict from the averaged recursion; slack 1 omits the noise of the random delay."""
        law, a = s.law, s.share
        phi = _random.unit_covariances(law, a, len(law) + 1)
        power = 2.0 * (phi[0] - phi[1])
        lags = range(1, len(law) + 1)
        corr = {f"corr[{k}]": float((2.0 * phi[k] - phi[k - 1] - phi[k + 1]) / power) for k in lags}
        return {"amplification": float(power / (_random.slack(law, a) if slack is None else slack)), **corr}

    wrong = {"noise of the drawn staleness dropped": lambda s: s.predict(slack=1.0)}

    points = ({"law": (0.2, 0.2, 0.2, 0.2, 0.2), "curvature": 1.0, "noise": 1.0, "step": 0.3}, _UNEVEN)
    more = (
        {"law": (1.0,), "curvature": 1.0, "noise": 1.0, "step": 0.7},
        {"law": (0.1,) * 10, "curvature": 1.0, "noise": 1.0, "step": 0.15},
    )

    def reach(self, point: Point) -> str | None:
        """Refuse learning rates so near the mean-square boundary that the fourth moment is infinite."""
        share = point["step"] * point["curvature"]
        if share > 2.0 / (len(point["law"]) + 1):
            return f"step * curvature at most {2.0 / (len(point['law']) + 1):.3g}; lower it, tails are heavier beyond"
        left_out = _LEFT_OUT * len(point["law"])
        if share * left_out < 10.0:
            return f"step * curvature at least {10.0 / left_out:.3g}; raise it, runs settle too slowly below"
        return None

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        largest, after = len(point["law"]) - 1, _LEFT_OUT * len(point["law"])
        # Largest standard deviation of one replicate's quantity at the points above, relative to the norm (measured).
        size = {"updates": _UPDATES + after, "replicates": units_for(0.11, effect, 12)}
        metric = sim.diagnostics.autocorrelogram(lags=largest + 1, after=after)
        system, curvatures = sim.schedules.random(point["law"]), (point["curvature"],) * _COPIES
        spec = lab.quadratics.descending(point, curvatures, system, diagnostics=[metric], **size)
        trace = lab.run(spec, seed, plant)
        products, unit = trace.accumulated["autocorrelogram"], trace.realization
        energy = lab.between(products[0] / (_COPIES * point["noise"] ** 2), unit, random=True)
        corr = {k: lab.ratio(products[k], products[0], unit, random=True) for k in range(1, largest + 2)}
        return {"amplification": energy} | {f"corr[{k}]": each for k, each in corr.items()}

    defects = {"off-by-one version": lambda: lab.off_by_one_version}
