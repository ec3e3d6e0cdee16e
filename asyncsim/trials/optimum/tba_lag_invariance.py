"""Where trajectory balance ends on sampled data that lag, and its largest stable learning rate, through the loop."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from asyncsim import methods, schedules, tasks
from asyncsim.base import checks
from asyncsim.learning import running
from asyncsim.learning.step import Step
from asyncsim.trials._plants import with_method
from asyncsim.trials._runs import ascent, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced
from asyncsim.trials.optimum._frozen import arms, policy, settled

_UPDATES, _LENGTH, _SAMPLES = 200, 60, 8
_TOLERANCE, _RESOLUTION, _NUDGE, _FLOOR = 1e-4, 0.004, 1e-5, 1e-12
_Tba: Any = type(methods.tba().weight)
_RATES = np.geomspace(1.9, 60.0, 1200)
"""No two neighbors differ by more than the resolution; no limit is below 2, since lambda_max(F) <= 1/2."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    rewards, start = point["rewards"], np.array(point["behavior_logits"])
    task = tasks.softmax_bandit(len(rewards), rewards, rewards="fixed", reference=point["reference_logits"])
    method, lagged = methods.tba(point["beta"]), schedules.fixed(point["staleness"])
    # The product itself computes the optimum; a step of 1 shrinks deviations for every behavior.
    plain = ascent(task, schedules.frozen(), method, 1.0, _UPDATES, initial=start)
    sampled = plain.replace(system=lagged, sampling="monte_carlo", samples_per_group=_SAMPLES)
    optimum = settled(lambda n: running.run(plain.replace(updates=n), progress=False).parameters[0], _UPDATES, 1e-6)
    end = settled(lambda n: policy(run(sampled.replace(updates=n), seed, plant).parameters[0]), _UPDATES, 1e-5)

    def limit(system: Any, initial: np.ndarray) -> Estimate:
        options = {"initial": initial, "replicates": _RATES.size, "diagnostics": ["gradient_norm"]}
        trace = run(ascent(task, system, method, tuple(_RATES), _LENGTH, **options), seed, plant)
        # The fastest mode changes its sign in every update. One that grew until an arm vanished stands still far away.
        size, away = trace["gradient_norm"], np.linalg.norm(trace.parameters - optimum, axis=1)
        shrunk = (size[-1] < size[-3]) | (size[-1] < _FLOOR)
        stable = shrunk & (away < 10.0 * np.linalg.norm(initial - optimum))
        both = bool(stable[0]) and not bool(stable[-1])
        bound = f"between {_RATES[0]:g} and {_RATES[-1]:g}"
        checks.require(both, "largest stable step", "outside the grid", bound, "make no arm much rarer than the others")
        low, high = _RATES[np.argmin(stable) - 1], _RATES[np.argmin(stable)]
        return Estimate(float(np.sqrt(low * high)), tolerance=_RESOLUTION * float(high))

    nudge = np.linspace(-_NUDGE, _NUDGE, len(rewards))
    steps = {"lagged_step": limit(lagged, optimum + nudge), "frozen_step": limit(schedules.frozen(), start)}
    return {**arms("pi", end, _TOLERANCE), **steps}


class _Weighted(_Tba):
    """Residuals weighted by the sequence ratio."""

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """The method's weight times the ratio."""
        return super().score_weight(step, advantage) * step.sequence(step.log_ratio).exp()


class _OwnNormalizer(_Tba):
    """log Z from the mean reward alone: the group's mean log ratio to the reference is not part of it."""

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """2 (A / beta - D)."""
        gap = (step.current["log_prob"] - step.current["reference"]).sum(-1, keepdim=True)
        return 2.0 * (advantage / self.beta - gap)


_BETA = 0.5
_POINT = {
    "rewards": (0.0, 0.5, 1.0),
    "reference_logits": (0.5, 0.0, -0.3),
    "behavior_logits": (1.6, -0.9, 0.2),
    "beta": _BETA,
    "staleness": 5,
}

trial = Trial(
    points=(_POINT,),
    more=(
        {**_POINT, "staleness": 0, "beta": 1.0},
        {**_POINT, "staleness": 24},
        {**_POINT, "rewards": (1.0, 0.2, 0.0), "staleness": 8},
    ),
    measure=_measure,
    defects={
        "ratio inserted": Defect(with_method(weight=_Weighted(_BETA)), _POINT),
        "log Z from rewards alone": Defect(with_method(weight=_OwnNormalizer(_BETA)), _POINT),
        "frozen data refreshed": Defect(replaced(system=schedules.fixed(0)), _POINT),
    },
    effect=0.02,
    through="loop",
)
