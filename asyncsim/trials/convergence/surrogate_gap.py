"""What token ratios on stale data ascend, from the loop's own score weights on every outcome, beside the return."""

from __future__ import annotations

import dataclasses

import numpy as np
from torch import Tensor

from asyncsim import advantages, methods
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.learning.spec import Spec
from asyncsim.learning.step import Step
from asyncsim.trials._plants import with_method
from asyncsim.trials._runs import metrics_of
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial
from asyncsim.trials.convergence import _mdp


def _weighed(step: Step) -> Tensor:
    """E_mu sum_t r_t A_t: the sum of all score weights, `[R]`."""
    return step.cotangents["log_prob"].sum((1, 2, 3))


_OBJECTIVE = Metric("objective", _weighed)


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    task = _mdp.listed(point)
    method = methods.full_is("token", advantages.returns_to_go())
    spec = _mdp.spec_of(task, plant, method=method, diagnostics=[_OBJECTIVE])
    places = np.array([point["behavior_logits"], point["current_logits"]]).reshape(2, -1)
    before, after = metrics_of(spec, places, places[[0, 0]])[0]
    returns = _mdp.exact(spec, places)[0]
    gap = abs((returns[1] - returns[0]) - (after - before))
    found = _mdp.exactly(float(gap), 4.0 * _mdp.left_out(task))
    return {"gap": found, "coarse": found}


def _undiscounted(spec: Spec) -> Spec:
    """A discount in the advantage alone, which leaves later states their whole weight."""
    discount = spec.task.discount  # type: ignore[attr-defined]
    task = dataclasses.replace(spec.task, discount=1.0)  # type: ignore[type-var]
    return spec.replace(task=task, method=spec.method.replace(advantage=advantages.returns_to_go(discount)))


_SPLIT = _mdp.point(
    (((0.0, 1.0, 0.0), (0.0, 0.0, 1.0)), ((0.0, 1.0, 0.0),) * 2, ((0.0, 0.0, 1.0),) * 2),
    ((0.0, 0.0), (1.0, -1.0), (-1.0, 1.0)),
    0.2,
    behavior_logits=((1.1, 0.0), (0.0, 0.0), (0.0, 0.0)),
    current_logits=((-1.1, 0.0), (0.02, 0.0), (0.02, 0.0)),
)
_LEAVE = float(np.log(1e-5))
_SLIP = _mdp.point(
    (((1.0, 0.0), (1.0, 0.0), (0.0, 1.0)), ((0.0, 1.0),) * 3),
    ((1.0, -1.0, 1.0), (1.0, -1.0, 0.0)),
    0.15,
    behavior_logits=((0.0, 0.0, _LEAVE), (0.0, 0.0, _LEAVE)),
    current_logits=tuple(tuple(np.log(row).tolist()) for row in ((0.5, 0.2, 0.3), (0.2, 0.8, 1e-5))),
)

trial = Trial(
    points=(_SPLIT, _SLIP),
    more=({**_SLIP, "discount": 0.1}, {**_SPLIT, "rewards": ((0.5, 0.0), (1.0, -1.0), (-1.0, 1.0))}),
    measure=_measure,
    defects={
        "dropped ratio": Defect(with_method(weight=methods.reinforce().weight), _SLIP),
        "discount in the advantage alone": Defect(_undiscounted, _SPLIT),
    },
    effect=0.01,
    reach=_mdp.why_random,
    through="oracle",
)
