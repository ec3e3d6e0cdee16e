"""Effective sample size under noise of the engine, fresh and stale, sampled through the loop.

A first batch is scored at the weights that drew it, a second one behind the displacement. "floor" is the part of the
second one's ratios that is the engine's (`ess_mismatch`), and "share" its ESS over that part.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from scipy.special import softmax

from asyncsim import tasks
from asyncsim.base.uncertainty import between, ratio
from asyncsim.learning.spec import Spec
from asyncsim.policies._engine import Engine
from asyncsim.trials._chains import MOST, bias_of_ess, moments_beyond, spread_of_ess
from asyncsim.trials._plants import NoiseAnew, NoiseTwice, Unscored, engine_replaced, with_policy
from asyncsim.trials._runs import displaced, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, units_for

_SAMPLES = 8192
_COMPARISONS = 20


def _engine(point: Point) -> Engine:
    return Engine(**{name: point[name] for name in ("noise", "noise_law", "noise_in", "noise_per")})


def _moment(point: Point, power: float, fresh: bool = False) -> float:
    """E W^power by quadrature over the noise of logits: for sample sizes and allowances."""
    behavior, current = np.array(point["behavior_logits"]), np.array(point["current_logits"])
    pi, engine, T = softmax(behavior if fresh else current), _engine(point), point["horizon"]
    if engine.noise_in == "reports":
        lasting = T if engine.noise_per == "sequence" else 1
        of_noise = float(engine.report_moment(power * lasting)) ** (T // lasting)
        return float((pi**power * softmax(behavior) ** (1.0 - power)).sum()) ** T * of_noise
    normal = engine.noise_law == "normal"
    nodes, weights = np.polynomial.hermite_e.hermegauss(10) if normal else np.polynomial.legendre.leggauss(10)
    nodes = nodes * engine.noise * (1.0 if normal else math.sqrt(3.0))
    noise, mass = (np.stack(np.meshgrid(*[x] * len(pi)), -1).reshape(-1, len(pi)) for x in (nodes, weights))
    chance = mass.prod(1) / mass.prod(1).sum()
    sampler = softmax(behavior + noise, axis=1)
    return float(chance @ (pi**power * sampler ** (1.0 - power)).sum(1)) ** T


def _reach(point: Point) -> str | None:
    return next(filter(None, (moments_beyond(each, _SAMPLES) for each in _moments(point))), None)


def _moments(point: Point) -> tuple[partial[float], partial[float]]:
    """Moments of fresh and of stale weights."""
    return partial(_moment, point, fresh=True), partial(_moment, point)


def _spec(point: Point, replicates: int) -> Spec:
    task = tasks.token_bandit(len(point["behavior_logits"]), point["horizon"])
    places = np.array(point["behavior_logits"]), np.array(point["current_logits"])
    spec = displaced(task, places, ["ess", "ess_mismatch", "mean_weight"], (_SAMPLES, 1, replicates))
    return spec.replace(policy=task.policy(**vars(_engine(point))))


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    allowances = [2.0 * bias_of_ess(moment, _SAMPLES) for moment in _moments(point)]
    # A verdict counts a tolerance twice.
    room = max(effect - 2.0 * sum(allowances), 0.5 * effect)
    spread = max(map(spread_of_ess, _moments(point))) / math.sqrt(_SAMPLES)
    replicates = max(16, min(units_for(spread, room, _COMPARISONS), MOST // _SAMPLES))
    trace = run(_spec(point, replicates), seed, plant)

    def ess(batches: np.ndarray, allowance: float) -> Estimate:
        found = between(batches)
        return found._replace(tolerance=allowance * found.value)

    share = ratio(trace["ess"][1], trace["ess_mismatch"][1])
    return {
        "mean_weight": between(trace["mean_weight"][1]),
        "ess_0": ess(trace["ess"][0], allowances[0]),
        "floor": ess(trace["ess_mismatch"][1], allowances[0]),
        "ess": ess(trace["ess"][1], allowances[1]),
        "share": share._replace(tolerance=sum(allowances) * share.value),
    }


_LONG = {
    "behavior_logits": (0.8, 0.0, -0.6),
    "current_logits": (0.9, 0.1, -0.7),
    "horizon": 6,
    "noise": 0.2,
    "noise_law": "normal",
    "noise_in": "logits",
    "noise_per": "token",
}
_STRONG = {
    **_LONG,
    "behavior_logits": (0.8, 0.0),
    "current_logits": (1.3, 0.0),
    "horizon": 1,
    "noise": 0.8,
    "noise_law": "uniform",
}
_REPORTS = {**_LONG, "horizon": 6, "noise": 0.2, "noise_in": "reports"}
_LASTING = {**_REPORTS, "noise": 0.05, "noise_law": "uniform", "noise_per": "sequence"}

trial = Trial(
    points=(_LONG, _STRONG, _REPORTS),
    more=(_LASTING,),
    measure=_measure,
    defects={
        "noise drawn anew for the record": Defect(with_policy(NoiseAnew), _STRONG),
        "one draw for a whole sequence": Defect(engine_replaced(noise_per="sequence"), _REPORTS),
        "noise counted twice": Defect(with_policy(NoiseTwice), _REPORTS),
        "trainer's log-probs recorded as the sampler's": Defect(with_policy(Unscored), _LONG),
        "noise 4 percent too large": Defect(engine_replaced(noise=1.04 * 0.8), _STRONG),
    },
    effect=0.02,
    reach=_reach,
    through="loop",
)
