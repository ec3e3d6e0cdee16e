"""REINFORCE with a group baseline on a stale one-context bandit: a run through the loop, and exact mean gradients."""

from __future__ import annotations

from asyncsim import advantages, methods, schedules, tasks
from asyncsim.learning import oracle, running
from asyncsim.trials._plants import off_by_one_version, with_method
from asyncsim.trials._runs import ascent
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_ROUNDING = 1e-10


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    arms = len(point["rewards"])
    task = tasks.softmax_bandit(arms, point["rewards"], rewards="fixed", logits=point["initial_logits"])
    method = methods.reinforce(advantages.leave_one_out())
    spec = plant(ascent(task, schedules.fixed(point["staleness"]), method, point["step"], point["updates"]))
    logits = running.run(spec, seed=seed, progress=False).parameters[0]
    places = (point["current_logits"], point["behavior_logits"])
    group = spec.method.replace(advantage=advantages.group_mean())
    plain = spec.method.replace(advantage=advantages.none())
    mean = oracle.moments(task, group, *places, samples=point["samples"]).mean
    none = oracle.moments(task, plain, *places, samples=point["samples"]).mean
    vectors = {"logit": logits, "group_mean": mean, "none": none}
    cells = {f"{name}[{k}]": float(x) for name, vector in vectors.items() for k, x in enumerate(vector)}
    return {cell: Estimate(value, tolerance=_ROUNDING) for cell, value in cells.items()}


_POINT = {
    "rewards": (0.0, 0.5, 1.0),
    "initial_logits": (0.2, 0.0, -0.2),
    "staleness": 4,
    "step": 1.5,
    "updates": 40,
    "behavior_logits": (0.3, -0.2, 0.5),
    "current_logits": (1.5, -0.9, 0.1),
    "samples": 3,
}

trial = Trial(
    points=(_POINT,),
    more=({**_POINT, "staleness": 9, "samples": 5, "step": 0.7},),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _POINT),
        "scores at the behavior version": Defect(with_method(at="behavior"), _POINT),
    },
    effect=0.02,
    through="loop, oracle",
    elsewhere=({"staleness": 0, "samples": 2},),
)
