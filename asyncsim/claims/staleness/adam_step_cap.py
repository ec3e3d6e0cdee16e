r"""Adam's maximum step per coordinate has a limit, and gradients that grow geometrically reach this limit.

Adam's largest step at update `t` is `lr * sqrt(sum_k a_k^2/b_k)`, with `a` and `b` the weights in its two moments;
gradients `(beta2/beta1)^t` reach its limit `lr * (1 - beta1)/sqrt((1 - beta2) (1 - beta1^2/beta2))`

m/sqrt(v) is a linear form of the gradients over the root of a quadratic one. By Cauchy-Schwarz its largest value is
sqrt(sum_k a_k^2/b_k), a_k and b_k the weights of the gradient k updates back in m and v, and g_k ~ a_k/b_k reaches it.
With bias correction at update t, a = (1 - beta1) beta1^k/(1 - beta1^t), b alike. As t grows that is (1 - beta1)/sqrt((1
- beta2)(1 - beta1^2/beta2)), 7.27 for the default. The often quoted (1 - beta1)/sqrt(1 - beta2), 3.16, is one large
gradient after zeros and no bound. Domain: eps = 0, beta1^2 < beta2, gradients that grow less than e^300. Second route:
the algorithm run on that sequence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from asyncsim.claims._claim import Claim, Estimate, Integer, Plant, Point, Real, lab, named, sim

_point = named("beta1", "beta2", "updates")


@dataclass(frozen=True)
class _Fed:
    """Instrument that replaces the run's gradients by a script, one row per replicate."""

    script: tuple[tuple[float, ...], ...]

    def init(self, parameters: lab.Tensor) -> lab.State:
        """Return the initial state: the position in the script."""
        return {"read": lab.torch.zeros((parameters.shape[0], 1), dtype=parameters.dtype)}

    def apply(self, record: lab.Record, state: lab.State) -> tuple[lab.Record, lab.State]:
        """Replace the direction by the next scripted gradient."""
        rows = lab.torch.tensor(self.script, dtype=record.direction.dtype)
        record.direction = rows.gather(1, state["read"].long())
        return record, {"read": state["read"] + 1.0}


class AdamStepCap(Claim):
    kind, source, through = "identity", "derived; the value often quoted: arXiv 1412.6980, section 2.1", "loop"

    beta1 = Real(0.01, 0.99, typical=(0.5, 0.95), example=0.9, doc="decay rate of the first moment")
    beta2 = Real(0.01, 0.9999, typical=(0.95, 0.9999), example=0.99, doc="decay rate of the second moment")
    updates = Integer(1, 2000, typical=(1, 300), example=200, unit="updates", doc="update whose step is asked for")

    def joint(self) -> None:
        self.require(self.beta1**2 < 0.999 * self.beta2, "beta1", "below sqrt(0.999 beta2)", "lower it")
        grown = self.updates * abs(math.log(self.beta2 / self.beta1))
        self.require(grown < 300.0, "updates", "such that gradients grow by less than e^300", "lower it")

    def memory(s, ratio: float) -> float:
        """Square root of sum_k<t ratio^k times (1 - beta1)^2/(1 - beta2)."""
        terms = (1.0 - ratio**s.updates) / (1.0 - ratio)
        return (1.0 - s.beta1) * math.sqrt(terms / (1.0 - s.beta2))

    def correction(s) -> float:
        return math.sqrt(1.0 - s.beta2**s.updates) / (1.0 - s.beta1**s.updates)

    def predict(s) -> dict[str, float]:
        return {"largest_step": s.memory(s.beta1**2 / s.beta2) * s.correction()}

    def check(s) -> dict[str, float]:
        first = second = step = 0.0
        for k in range(s.updates - 1, -1, -1):
            gradient = (s.beta1 / s.beta2) ** k
            first = s.beta1 * first + (1.0 - s.beta1) * gradient
            second = s.beta2 * second + (1.0 - s.beta2) * gradient**2
            step = first / math.sqrt(second)
        return {"largest_step": step * s.correction()}

    wrong = {
        "quoted (1 - beta1) / sqrt(1 - beta2)": lambda s: {"largest_step": (1 - s.beta1) / math.sqrt(1 - s.beta2)},
        "one large gradient after zeros": lambda s: {"largest_step": s.memory(0.0) * s.correction()},
    }

    points = (_point(0.9, 0.99, 200),)
    more = (_point(0.9, 0.999, 400), _point(0.5, 0.95, 60))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        beta1, beta2, count = point["beta1"], point["beta2"], point["updates"]
        back = np.arange(count - 1, -1, -1.0)
        # Growth as it should be largest, at other rates, and with noise.
        draws = np.random.default_rng(seed)
        powers = np.concatenate([[1.0], draws.uniform(-0.5, 1.1, 63)])[:, None]
        noise = 1.0 + np.concatenate([[0.0], draws.uniform(0.0, 1.0, 63)])[:, None] * draws.normal(size=count)
        script = (beta1 / beta2) ** (powers * back) * noise
        links = _Fed(tuple(map(tuple, script))), lab.adam(1.0, beta1, beta2, eps=0.0)
        settings = {"updates": count, "replicates": len(script), "sampling": "enumerate", "diagnostics": [lab.PLACE]}
        spec = lab.descent(sim.tasks.quadratic(noise=0.0), lab.fixed(0), *links, **settings)
        trace = lab.run(spec, seed, plant)
        largest = float(np.abs(trace.parameters[:, 0] - trace["place"][-1]).max())
        return {"largest_step": Estimate(largest, tolerance=1e-6 * largest)}

    defects = {
        "second moment as short as the first": lambda: lab.relinked(
            lambda fed, adam: (fed, lab.adam(1.0, 0.9, 0.9, eps=0.0))
        )
    }
