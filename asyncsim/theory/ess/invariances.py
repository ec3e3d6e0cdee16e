r"""The effective sample size does not change when all weights are multiplied by one number, so it cannot see that.

ESS/N = (sum w)^2 / (N sum w^2) is the same for w and e^c w, and so is the largest share max w / sum w; log mean w grows
by c. It lies in [1/N, 1]: 1 for equal weights, however small, and 1/N where one sample has all the weight. A number eps
added to the denominator breaks this: equal weights c then read 1/(1 + eps/(N c^2)). Derivation: numerator and
denominator are both of degree 2. Domain: log weights and c within 800 nats, where e^{log w} is no double. Second route:
arithmetic of 60 decimal digits on the weights themselves. Source: elementary.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
from scipy.special import expit, logsumexp

from asyncsim.base import checks
from asyncsim.theory._declared import Declared, Real, Vector
from asyncsim.theory._stated import stated

_MOST = 800.0
_EPSILON = 1e-8


class _Setting(Declared):
    log_weights = Vector(
        typical=(-3.0, 3.0), sizes=(2, 6), example=(0.3, -1.2, 0.8, 0.1), unit="nats", doc="log weights of the samples"
    )
    factor = Real(-_MOST, _MOST, typical=(-_MOST, _MOST), example=-12.0, unit="nats", doc="log of the common factor")

    def joint(self) -> None:
        """Log weights no larger than the factor may be."""
        inside = bool((np.abs(self.log_weights) <= _MOST).all())
        checks.require(inside, "log_weights", self.log_weights.tolist(), f"within {_MOST:g} nats of 0", "move them")


def _quantities(ess: float, share: float, mean: float, shifted: tuple[float, float, float]) -> dict[str, float]:
    return {
        "ess": ess,
        "ess_shifted": shifted[0],
        "ess_equal": 1.0,
        "largest_share": share,
        "largest_share_shifted": shifted[1],
        "growth_of_mean": shifted[2] - mean,
    }


def _predict(s: _Setting) -> dict[str, float]:
    log_w = s.log_weights
    total = logsumexp(log_w)
    ess = math.exp(2.0 * total - logsumexp(2.0 * log_w)) / log_w.size
    share = math.exp(log_w.max() - total)
    return _quantities(ess, share, 0.0, (ess, share, s.factor))


def _cross_check(s: _Setting) -> dict[str, float]:
    with localcontext() as context:
        context.prec = 60

        def read(shift: float) -> tuple[float, float, Decimal]:
            weights = [(Decimal(float(x)) + Decimal(shift)).exp() for x in s.log_weights]
            total, count = sum(weights, Decimal(0)), len(weights)
            square = sum((w * w for w in weights), Decimal(0))
            return float(total**2 / (count * square)), float(max(weights) / total), (total / count).ln()

        ess, share, mean = read(0.0)
        ess_shifted, share_shifted, mean_shifted = read(s.factor)
        return _quantities(ess, share, 0.0, (ess_shifted, share_shifted, float(mean_shifted - mean)))


def _padded(s: _Setting) -> dict[str, float]:
    right, log_w = _predict(s), s.log_weights
    pad = {"ess": logsumexp(2.0 * log_w), "ess_shifted": logsumexp(2.0 * (log_w + s.factor))}
    pad["ess_equal"] = math.log(log_w.size) + 2.0 * s.factor
    return right | {name: right[name] * float(expit(least - math.log(_EPSILON))) for name, least in pad.items()}


claim = stated(
    id="ess/invariances",
    statement="`ESS(e^c w) = ESS(w)`: a common drift of all ratios is invisible to it, and adds `c` to `ln mean w`",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="elementary",
    formula_defects={
        "a small number in the denominator": _padded,
        "mean that forgets the factor": lambda s: _predict(s) | {"growth_of_mean": 0.0},
        "share of the heaviest in place of the squares": lambda s: (
            _predict(s) | {"ess": 1.0 / (s.log_weights.size * _predict(s)["largest_share"])}
        ),
    },
)
