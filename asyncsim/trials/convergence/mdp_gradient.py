"""Return and gradient of a discounted process, from the product's recursion and from a REINFORCE update of the loop."""

from __future__ import annotations

import dataclasses

import numpy as np

from asyncsim import advantages
from asyncsim.learning import running
from asyncsim.learning.spec import Spec
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, Wrapped
from asyncsim.trials.convergence import _mdp


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    logits = np.array(point["logits"])
    through_loop = _mdp.why_random(point) is None
    task = _mdp.listed(point) if through_loop else _mdp.task_of(point)
    spec = _mdp.spec_of(task, plant, initial=logits.ravel())
    value, gradient = (found[0] for found in _mdp.exact(spec, logits[None]))
    if through_loop:
        gradient = running.run(spec, seed=seed, progress=False).parameters[0] - logits.ravel()
    tolerance = _mdp.left_out(task)
    components = {f"gradient[{k}]": _mdp.exactly(x, tolerance) for k, x in enumerate(gradient)}
    return {"value": _mdp.exactly(value, tolerance), **components}


def _discounted_by_advantage(spec: Spec) -> Spec:
    """The discount in the advantage alone: later states weigh as much as the first."""
    task = dataclasses.replace(spec.task, discount=1.0)  # type: ignore[type-var]
    discount = spec.task.discount  # type: ignore[attr-defined]
    return spec.replace(task=task, method=spec.method.replace(advantage=advantages.returns_to_go(discount)))


class _Share(Wrapped):
    """States weighed by their share of discounted visits."""

    def exact(self, *arguments: object) -> tuple[object, object]:
        """The wrapped task's, its gradient without the factor 1/(1 - gamma)."""
        value, gradient = self._inner.exact(*arguments)
        return value, (1.0 - self._inner.discount) * gradient


def _transposed(spec: Spec) -> Spec:
    """Transitions read from the state that is led to."""
    table = np.array(spec.task.transition).transpose(2, 1, 0)  # type: ignore[attr-defined]
    nested = tuple(tuple(tuple(row) for row in state) for state in table.tolist())
    return spec.replace(task=dataclasses.replace(spec.task, transition=nested))  # type: ignore[type-var]


_RING = _mdp.point(
    (((0.0, 1.0), (1.0, 0.0)), ((0.0, 1.0), (1.0, 0.0))),
    ((0.2, 1.0), (0.0, 0.5)),
    0.25,
    logits=((0.3, -0.2), (0.7, 0.1)),
)
_MIXED = _mdp.point(
    (((0.5, 0.3, 0.2), (0.1, 0.1, 0.8)), ((0.2, 0.5, 0.3), (0.6, 0.2, 0.2)), ((0.3, 0.3, 0.4), (0.1, 0.8, 0.1))),
    ((0.0, 1.0), (0.4, -0.3), (2.0, 0.1)),
    0.9,
    logits=((0.5, -0.5), (0.0, 1.0), (-0.3, 0.2)),
)
_ENDING = {
    **_MIXED,
    "transition": (_MIXED["transition"][0], ((0.2, 0.3, 0.3), (0.0, 0.0, 0.0)), _MIXED["transition"][2]),
}

trial = Trial(
    points=(_RING, _MIXED, _ENDING),
    more=({**_MIXED, "discount": 0.99}, {**_RING, "discount": 0.4}),
    measure=_measure,
    defects={
        "discount in the advantage alone": Defect(_discounted_by_advantage, _RING),
        "normalized occupancy": Defect(lambda spec: spec.replace(task=_Share(spec.task)), _MIXED),
        "transition transposed": Defect(_transposed, _MIXED),
    },
    effect=0.02,
    through="loop, oracle",
)
