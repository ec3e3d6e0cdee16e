r"""The largest step of Adam per coordinate grows with its memory: gradients that grow geometrically reach it.

m/sqrt(v) is a linear form of the gradients over the root of a quadratic one. By Cauchy-Schwarz its largest value is
sqrt(sum_k a_k^2/b_k), a_k and b_k the weights of the gradient k updates back in m and v, and g_k ~ a_k/b_k reaches it.
With bias correction at update t, a = (1 - beta1) beta1^k/(1 - beta1^t), b alike. As t grows that is (1 - beta1)/sqrt((1
- beta2)(1 - beta1^2/beta2)), 7.27 for the default. The often quoted (1 - beta1)/sqrt(1 - beta2), 3.16, is one large
gradient after zeros and no bound. Domain: eps = 0, beta1^2 < beta2, gradients that grow less than e^300. Second route:
the algorithm run on that sequence. Source: derived; the quoted value is in arXiv 1412.6980, section 2.1.
"""

from __future__ import annotations

import math

from asyncsim.base import checks
from asyncsim.theory._declared import Declared, Integer, Real
from asyncsim.theory._stated import stated


class _Setting(Declared):
    beta1 = Real(0.01, 0.99, typical=(0.5, 0.95), example=0.9, doc="share that the first moment keeps")
    beta2 = Real(0.01, 0.9999, typical=(0.95, 0.9999), example=0.99, doc="share that the second moment keeps")
    updates = Integer(1, 2000, typical=(1, 300), example=200, unit="updates", doc="update whose step is asked for")

    def joint(self) -> None:
        """A bounded step, and gradients whose squares are numbers."""
        checks.require(self.beta1**2 < 0.999 * self.beta2, "beta1", self.beta1, "below sqrt(0.999 beta2)", "lower it")
        grown = self.updates * abs(math.log(self.beta2 / self.beta1))
        checks.require(
            grown < 300.0, "updates", self.updates, "such that gradients grow by less than e^300", "lower it"
        )


def _memory(s: _Setting, ratio: float) -> float:
    """Root of sum_k<t ratio^k times (1 - beta1)^2/(1 - beta2)."""
    terms = (1.0 - ratio**s.updates) / (1.0 - ratio)
    return (1.0 - s.beta1) * math.sqrt(terms / (1.0 - s.beta2))


def _correction(s: _Setting) -> float:
    return math.sqrt(1.0 - s.beta2**s.updates) / (1.0 - s.beta1**s.updates)


def _predict(s: _Setting) -> dict[str, float]:
    return {"largest_step": _memory(s, s.beta1**2 / s.beta2) * _correction(s)}


def _cross_check(s: _Setting) -> dict[str, float]:
    first = second = step = 0.0
    for k in range(s.updates - 1, -1, -1):
        gradient = (s.beta1 / s.beta2) ** k
        first = s.beta1 * first + (1.0 - s.beta1) * gradient
        second = s.beta2 * second + (1.0 - s.beta2) * gradient**2
        step = first / math.sqrt(second)
    return {"largest_step": step * _correction(s)}


claim = stated(
    id="staleness/adam-step-cap",
    statement="Adam's largest step at update `t` is `lr sqrt(sum_k a_k^2/b_k)`, `a` and `b` the weights in its two "
    "moments; late, `lr (1-beta1)/sqrt((1-beta2)(1-beta1^2/beta2))`, reached by gradients `(beta2/beta1)^t`",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived; the value often quoted: arXiv 1412.6980, section 2.1",
    formula_defects={
        "quoted (1 - beta1) / sqrt(1 - beta2)": lambda s: {"largest_step": (1 - s.beta1) / math.sqrt(1 - s.beta2)},
        "one large gradient after zeros": lambda s: {"largest_step": _memory(s, 0.0) * _correction(s)},
        "step of 1": lambda s: {"largest_step": 1.0},
        "momentum's square divided by no beta2": lambda s: {"largest_step": _memory(s, s.beta1**2) * _correction(s)},
    },
)
