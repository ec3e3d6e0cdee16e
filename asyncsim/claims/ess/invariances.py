r"""Multiplying all weights by one factor does not change the ESS, so the ESS cannot detect such a factor.

the ESS does not detect a common factor of all ratios: `ESS(e^c w) = ESS(w)`, while `ln mean w` grows by `c`

ESS/N = (sum w)^2 / (N sum w^2) is the same for w and e^c w, and so is the largest share max w / sum w; log mean w grows
by c. It lies in [1/N, 1]: 1 for equal weights, however small, and 1/N where one sample has all the weight. A number eps
added to the denominator breaks this: equal weights c then read 1/(1 + eps/(N c^2)). Derivation: numerator and
denominator are both of degree 2. Domain: log weights and c within 800 nats, where e^{log w} is no double. Second route:
arithmetic of 60 decimal digits on the weights themselves.
"""

import math
from decimal import Decimal, localcontext

import numpy as np
from scipy.special import expit, logsumexp

from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Real, Vector, lab, sim

_MOST, _EPSILON, _ROUNDING = 800.0, 1e-8, 1e-10
_SMALL = {"log_weights": (0.3, -1.2, 0.8, 0.1), "factor": -9.0}
_FAR = {"log_weights": (1.0, 0.0, -2.0, 0.5, 0.2), "factor": 800.0}


class Invariances(Claim):
    kind, source = "identity", "elementary"
    through = "ratios"

    log_weights = Vector(
        typical=(-3.0, 3.0), sizes=(2, 6), example=(0.3, -1.2, 0.8, 0.1), unit="nats", doc="log weights of the samples"
    )
    factor = Real(-_MOST, _MOST, typical=(-_MOST, _MOST), example=-12.0, unit="nats", doc="log of the common factor")

    def joint(self) -> None:
        inside = bool((np.abs(self.log_weights) <= _MOST).all())
        self.require(inside, "log_weights", f"within {_MOST:g} nats of 0", "move them")

    def _quantities(s, ess: float, share: float, shifted: tuple[float, float, float]) -> dict[str, float]:
        sizes = {"ess": ess, "ess_shifted": shifted[0], "ess_equal": 1.0}
        return sizes | {"largest_share": share, "largest_share_shifted": shifted[1], "growth_of_mean": shifted[2]}

    def _padded(s) -> dict[str, float]:
        right, log_w = s.predict(), s.log_weights
        pad = {"ess": logsumexp(2.0 * log_w), "ess_shifted": logsumexp(2.0 * (log_w + s.factor))}
        pad["ess_equal"] = math.log(log_w.size) + 2.0 * s.factor
        return {name: right[name] * float(expit(least - math.log(_EPSILON))) for name, least in pad.items()}

    def predict(s) -> dict[str, float]:
        log_w = s.log_weights
        total = logsumexp(log_w)
        ess = math.exp(2.0 * total - logsumexp(2.0 * log_w)) / log_w.size
        share = math.exp(log_w.max() - total)
        return s._quantities(ess, share, (ess, share, s.factor))

    def check(s) -> dict[str, float]:
        with localcontext() as context:
            context.prec = 60

            def read(shift: float) -> tuple[float, float, Decimal]:
                weights = [(Decimal(float(x)) + Decimal(shift)).exp() for x in s.log_weights]
                total, count = sum(weights, Decimal(0)), len(weights)
                square = sum((w * w for w in weights), Decimal(0))
                return float(total**2 / (count * square)), float(max(weights) / total), (total / count).ln()

            ess, share, mean = read(0.0)
            ess_shifted, share_shifted, mean_shifted = read(s.factor)
            return s._quantities(ess, share, (ess_shifted, share_shifted, float(mean_shifted - mean)))

    wrong = {"a small number in the denominator": _padded}

    points = (_SMALL, _FAR, {"log_weights": (-800.0, 800.0, 0.0), "factor": -500.0})

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        names = {"ess": "ess", "log_mean": "log_mean_weight", "share": "max_weight_share"}
        statistics = plant({name: getattr(sim.ratios, each) for name, each in names.items()})
        log_weight = lab.torch.tensor([point["log_weights"]], dtype=lab.torch.float64)
        factor = lab.torch.full_like(log_weight, point["factor"])
        rows = lab.torch.cat([log_weight, log_weight + point["factor"], factor])
        mass = lab.torch.full_like(rows, 1.0 / rows.shape[1])
        ess, mean, share = (statistic(rows, mass).tolist() for statistic in statistics.values())
        values = dict(zip(("ess", "ess_shifted", "ess_equal"), ess, strict=True))
        values |= dict(zip(("largest_share", "largest_share_shifted"), share[:2], strict=True))
        values["growth_of_mean"] = mean[1] - mean[0]
        return {name: Estimate(value, tolerance=_ROUNDING * max(1e-3, abs(value))) for name, value in values.items()}

    defects = {
        "a small number in the denominator": lambda: (
            lambda found: found | {"ess": lambda x, _: x.exp().sum(1) ** 2 / ((2 * x).exp().sum(1) + 1e-8) / x.shape[1]}
        )
    }
