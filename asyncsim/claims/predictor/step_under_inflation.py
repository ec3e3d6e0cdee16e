r"""If the variance of gradients grows by 1/rho, the power of rho that should scale the step depends on the goal.

if variance grows by `1/rho`, multiplying the step by `rho` under descent, or by `sqrt(rho)` under Adam, keeps the noise
floor; the fastest descent needs `signal^2/(signal^2 + v/rho)`

Batches shrink from N samples to N rho, v = noise^2/N grows to v/rho. "one_step": the step of the largest expected
descent is signal^2/(curvature (signal^2 + v)), its exponent the slope of its log over log rho: 0 without noise, 1 where
noise dominates. "floor_sgd", "floor_adam": with E x^2 ~ step^alpha rho^-beta a step times rho^(beta/alpha) keeps the
floor. Descent has E x^2 = (v/curvature^2) b/(2 - b), b = step * curvature: exponent 1 for small steps. Adam without a
first moment divides by the rms of gradients, E g^2 = 2 v/(2 - b), so that b = step * curvature/sqrt(2 v/(2 - b)):
exponent 1/2. Slopes are those between `step` and 4 `step`, and between N and N rho. Domain: quadratic, white noise,
fresh gradients; v of Adam known, beta_2 near 1. Second route: root finding, and moments carried to their fixed point.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq

from asyncsim.claims._claim import Claim, Count, Estimate, Plant, Point, Positive, Real, lab, sim, units_for

_WIDER = 4.0
"""Factor on the step between which slopes are taken."""
_LENGTH, _SETTLED = 200, 80
_SLOWEST, _LONGEST = 0.07, 40
"""Share of the distance that an update of a floor takes in a run that settles, and how many times longer one may be."""
_POINT = {"noise": 2.0, "samples": 1, "fewer": 4, "signal": 1.0, "step": 0.2}


def _floor(v: float, b: float) -> float:
    return v * b / (2.0 - b)


def _carried(v: float, b: float) -> float:
    """Stationary E x^2 = (1 - b)^2 E x^2 + b^2 v, summed as a series by doubling."""
    total, factor = b**2 * v, (1.0 - b) ** 2
    for _ in range(40):
        total, factor = total * (1.0 + factor), factor**2
    return total


def _losses(task: Any, link: Any, seed: int, plant: Plant, **settings: Any) -> Any:
    """Loss at every update on fresh data, `[U, R]`."""
    spec = lab.descent(task, lab.fixed(0), link, diagnostics=["exact_return"], **settings)
    return -lab.run(spec, seed, plant)["exact_return"]


def _measured_step(point: Point, replicates: int, seed: int, plant: Plant) -> Estimate:
    """Exponent of the best learning rate in the batch size, from losses after one update at rates 0, 1/4 and 1/2."""
    logs, errors = [], 0.0
    for k, samples in enumerate((point["samples"] * point["fewer"], point["samples"])):
        settings = {"samples_per_group": samples, "updates": 2, "replicates": replicates}
        task = sim.tasks.quadratic((1.0,) * 16, noise=point["noise"], start=point["signal"])
        losses = [_losses(task, sim.updates.sgd(step), seed + k, plant, **settings)[1] for step in (0.0, 0.25, 0.5)]
        # The loss is a parabola in the step: its vertex is -slope/(2 bend).
        bend = (losses[2] - 2.0 * losses[1] + losses[0]) / 0.125
        slope = (4.0 * losses[1] - losses[2] - 3.0 * losses[0]) / 0.5
        best = lab.ratio(-slope, 2.0 * bend)
        logs.append(math.log(best.value))
        errors = math.hypot(errors, best.error / best.value)
    scale = math.log(point["fewer"])
    return Estimate((logs[0] - logs[1]) / scale, errors / scale, replicates - 1.0, samples=replicates)


def _measured_floor(point: Point, link: Any, replicates: int, seed: int, plant: Plant) -> Estimate:
    """beta/alpha, from the loss floors at one learning rate, at a larger one, and at a smaller batch."""
    small, step, longer = point["samples"], point["step"], math.ceil(_longer(point))
    whole = small * point["fewer"]
    settings = ((whole, step), (whole, _WIDER * step), (small, step))
    logs, errors = [], []
    for k, (samples, rate) in enumerate(settings):
        replicated = {"updates": _LENGTH * longer, "replicates": max(24, replicates // longer)}
        task = sim.tasks.quadratic((1.0,) * 64, noise=point["noise"])
        losses = _losses(task, link(rate), seed + k, plant, samples_per_group=samples, **replicated)
        floor = lab.between(losses[_SETTLED * longer :].mean(axis=0))
        logs.append(math.log(floor.value))
        errors.append(floor.error / floor.value)
    beta, alpha = (logs[2] - logs[0]) / math.log(point["fewer"]), (logs[1] - logs[0]) / math.log(_WIDER)
    over_rho, over_step = 1.0 / (beta * math.log(point["fewer"])), 1.0 / (alpha * math.log(_WIDER))
    shares = np.array([over_step - over_rho, -over_step, over_rho]) * np.array(errors)
    value = beta / alpha
    return Estimate(value, value * float(np.linalg.norm(shares)), replicates - 1.0, 0.002 * value, replicates)


def _gradient_scaled(spec: Any) -> Any:
    """Plant that divides gradients by their noise: SGD then behaves like Adam, and Adam is unchanged."""
    noise = spec.task.noise / math.sqrt(spec.samples)
    return spec.replace(update=lab.Links((sim.updates.scale(1.0 / noise), *spec.update.links)))


def _longer(point: Point) -> float:
    """Factor by which runs must be longer than at the point below."""
    share = point["step"] * min(1.0, math.sqrt(point["samples"]) / point["noise"])
    return max(1.0, _SLOWEST / share)


class StepUnderInflation(Claim):
    kind, status, source = "exponent", "asymptotic", "derived; square root arXiv 2602.17616"
    through, effect = "loop", 0.05

    noise = Positive(typical=(0.5, 3.0), example=2.0, unit="gradient", doc="noise of one sample's gradient")
    samples = Count(1, 4096, typical=(1, 8), example=1, doc="samples of the smaller batch")
    fewer = Count(2, 64, typical=(2, 8), example=4, doc="factor by which batches shrink, 1/rho")
    signal = Positive(typical=(0.5, 3.0), example=1.0, unit="gradient", doc="gradient at the start")
    step = Real(1e-4, 0.4, typical=(0.01, 0.3), example=0.1, unit="parameter per gradient", doc="learning rate")

    def joint(self) -> None:
        bound = f"at least {4.0 * self.step:g} * sqrt(samples * fewer), four times the noise that a step makes up for"
        enough = self.noise >= 4.0 * self.step * math.sqrt(self.samples * self.fewer)
        self.require(enough, "noise", bound, "lower the step")
        # v of whole batches and of shrunken ones.
        small = self.noise**2 / self.samples
        self.variances = small / self.fewer, small

    def _exponent(s, floor: Callable[[float, float], float]) -> float:
        """beta/alpha of a floor that is a function of variance and learning rate."""
        whole, small = s.variances
        base, wider, inflated = floor(whole, s.step), floor(whole, _WIDER * s.step), floor(small, s.step)
        return math.log(inflated / base) / math.log(s.fewer) / (math.log(wider / base) / math.log(_WIDER))

    def predict(s) -> dict[str, float]:
        def adam(v: float, step: float) -> float:
            # b = step/sqrt(2 v/(2 - b)) is a quadratic in b.
            share = step**2 / (2.0 * v)
            return _floor(v, (-share + math.sqrt(share**2 + 8.0 * share)) / 2.0)

        whole, small = (1.0 / (s.signal**2 + v) for v in s.variances)
        one = math.log(whole / small) / math.log(s.fewer)
        return {"one_step": one, "floor_sgd": s._exponent(_floor), "floor_adam": s._exponent(adam)}

    def check(s) -> dict[str, float]:
        def adam(v: float, step: float) -> float:
            def off(b: float) -> float:
                return b * math.sqrt(v + _carried(v, b)) - step

            return _carried(v, float(brentq(off, 1e-9, 1.9, xtol=1e-15, rtol=1e-14)))

        # The steps at which the slope of the expected loss vanishes.
        whole, small = (
            float(brentq(lambda step, v=v: step * (s.signal**2 + v) - s.signal**2, 0.0, 2.0, xtol=1e-15, rtol=1e-14))
            for v in s.variances
        )
        one = math.log(whole / small) / math.log(s.fewer)
        return {"one_step": one, "floor_sgd": s._exponent(_carried), "floor_adam": s._exponent(adam)}

    wrong = {
        "square root for all aims": lambda s: dict.fromkeys(s.predict(), 0.5),
        "Adam taken as descent": lambda s: {"floor_adam": s._exponent(_floor)},
    }

    points = (_POINT,)
    more = ({**_POINT, "samples": 2, "noise": 3.0, "signal": 2.0},)

    def reach(self, point: Point) -> str | None:
        slow = f"runs at most {_LONGEST} times as long as its own, not {_longer(point):.3g}; take a larger step"
        return slow if _longer(point) > _LONGEST else None

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        # Of one replicate's exponent of Adam's floor, relative (measured: 0.083 at the first point). That of 24
        # replicates' best step is as large; that of descent's floor 0.028, for which a sixth is enough.
        replicates = units_for(0.1, effect, 3 * len(self.points))
        return {
            "one_step": _measured_step(point, 28 * replicates, seed, plant),
            "floor_sgd": _measured_floor(point, sim.updates.sgd, max(24, replicates // 6), seed + 1, plant),
            "floor_adam": _measured_floor(point, lambda step: lab.adam(step, beta1=0.0), replicates, seed + 11, plant),
        }

    defects = {"gradient scaled in place of the step": lambda: _gradient_scaled}
