"""Mean gradient of the minibatches of one batch, whose groups are alike inside and differ in reward, in the loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim import advantages, methods, policies, schedules, tasks, updates
from asyncsim.base.uncertainty import between
from asyncsim.learning.spec import Spec
from asyncsim.trials._plants import engine_replaced, with_method
from asyncsim.trials._runs import run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, units_for
from asyncsim.updates._link import chain

_STEP, _EPOCHS, _SPREAD = 1e-7, 4, 0.5
"""A step so small that nothing moves, and the standard deviation of a replicate relative to the gradient's norm."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    logits, parts = np.array(point["logits"]), point["minibatches"]
    groups, arms = logits.shape
    random = point["cut"] == "groups" and point["advantages_from"] == "minibatch" and parts > 1
    spec = Spec(
        tasks.softmax_bandit(arms, np.repeat(np.array(point["rewards"])[:, None], arms, 1), rewards="fixed"),
        schedules.fixed(0, groups_per_batch=groups),
        methods.reinforce(advantages.mean()),
        chain(updates.sgd(_STEP)),
        policy=policies.tabular(groups, arms, logits=logits, top_k=1),
        samples_per_group=parts,
        updates=_EPOCHS * parts,
        epochs=_EPOCHS,
        minibatches=parts,
        cut=point["cut"],
        advantages_from=point["advantages_from"],
        replicates=units_for(_SPREAD, effect, logits.size) if random else 2,
        diagnostics="none",
    )
    moved = (run(spec, seed, plant).parameters - logits.ravel()) / (_STEP * _EPOCHS * parts)
    tolerance = 1e-4 * float(np.linalg.norm(moved.mean(axis=0)))
    return {f"gradient[{k}]": between(x)._replace(tolerance=tolerance) for k, x in enumerate(moved.T)}


def _point(cut: str, made: str, minibatches: int = 2) -> dict[str, Any]:
    logits = ((1.0, 0.2), (0.1, 0.9), (0.7, -0.2), (-0.3, 0.4))
    settings = {"minibatches": minibatches, "cut": cut, "advantages_from": made}
    return {"rewards": (1.0, 0.2, -0.5, 0.6), "logits": logits, **settings}


_GROUPS, _FLAT = _point("groups", "minibatch"), _point("samples", "batch", 4)

trial = Trial(
    points=(_GROUPS, _FLAT, _point("parts", "minibatch"), _point("groups", "batch", 4)),
    more=(_point("tokens", "batch"), _point("groups", "minibatch", 1)),
    measure=_measure,
    defects={
        "advantages of the batch": Defect(replaced(advantages_from="batch"), _GROUPS),
        "baseline of each group": Defect(with_method(advantage=advantages.group_mean()), _FLAT),
        "no baseline": Defect(with_method(advantage=advantages.none()), _FLAT),
        "a sampler that is not greedy": Defect(engine_replaced(top_k=0), _FLAT),
        "one epoch too few": Defect(replaced(epochs=3, updates=12), _FLAT),
    },
    effect=0.02,
    through="loop",
)
