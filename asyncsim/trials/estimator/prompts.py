"""Path and returns of a bandit with several prompts, populations of every group, through the loop."""

from __future__ import annotations

import dataclasses
from typing import Any

from asyncsim import advantages, methods, schedules, tasks, updates
from asyncsim.learning.spec import Spec
from asyncsim.trials._plants import off_by_one_version, with_method
from asyncsim.trials._runs import ascent, run
from asyncsim.trials._sequences import components, exactly
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial
from asyncsim.updates._link import Chain

_SAMPLES = 5
"""Of a group; of the numbers of samples only every fifth names a group, and 5 g mod X is not g mod X."""


def _advantage(point: Point) -> Any:
    return {
        "group_mean": advantages.group_mean(),
        "group_std": advantages.group_std(eps=0.0),
        "mean": advantages.mean(),
        "running_mean": advantages.running_mean(point["decay"]),
        "window_std": advantages.window_std(point["window"]),
        "remax": advantages.remax(),
    }[point["baseline"]]


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    rewards, logits = point["rewards"], point["initial_logits"]
    task = tasks.softmax_bandit(len(rewards[0]), rewards, rewards="fixed", logits=logits)
    system = schedules.fixed(point["staleness"], groups_per_batch=point["groups"])
    method = methods.reinforce(_advantage(point))
    metrics = ["batch_return", "exact_return"]
    spec = ascent(task, system, method, point["step"], point["updates"], diagnostics=metrics)
    trace = run(spec.replace(samples_per_group=_SAMPLES, micro_batches=point["micro_batches"]), seed, plant)
    found = {"return": exactly(trace["exact_return"][-1, 0])}
    return found | components("batch_return", trace["batch_return"][:, 0]) | components("logit", trace.parameters[0])


def _turned(spec: Spec) -> Spec:
    """Every prompt is paid as the next one should be."""
    task: Any = spec.task
    return spec.replace(task=dataclasses.replace(task, means=task.means[1:] + task.means[:1]))


def _summed(spec: Spec) -> Spec:
    """Groups are summed."""
    return spec.replace(update=Chain((*spec.update.links, updates.scale(float(spec.groups)))))


_POINT = {
    "rewards": ((0.9, 0.1, 0.3), (0.3, 0.6, 0.2), (0.0, 0.4, 1.0)),
    "initial_logits": ((0.4, -0.2, 0.0), (-0.5, 0.3, 0.6), (0.1, 0.2, -0.4)),
    "groups": 2,
    "micro_batches": 2,
    "baseline": "group_mean",
    "decay": 0.6,
    "window": 2,
    "staleness": 2,
    "step": 0.8,
    "updates": 7,
}
_STD, _MEAN = {**_POINT, "baseline": "group_std", "groups": 5, "micro_batches": 3}, {**_POINT, "baseline": "mean"}

_NAMES = ("running_mean", "window_std", "remax")
_RUNNING, _WINDOW, _GREEDY = ({**_POINT, "baseline": name} for name in _NAMES)

trial = Trial(
    points=(_POINT, _STD, _MEAN, _RUNNING, _WINDOW, _GREEDY),
    more=({**_POINT, "groups": 3, "staleness": 0}, {**_MEAN, "groups": 5, "updates": 12}),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _POINT),
        "baseline across prompts": Defect(with_method(advantage=advantages.mean()), _POINT),
        "baseline within prompts": Defect(with_method(advantage=advantages.group_mean()), _MEAN),
        "not divided by the deviation": Defect(with_method(advantage=advantages.group_mean()), _STD),
        "scores at the behavior version": Defect(with_method(at="behavior"), _MEAN),
        "mean of the batch for earlier ones": Defect(with_method(advantage=advantages.mean()), _RUNNING),
        "all batches alike": Defect(with_method(advantage=advantages.running_mean(1.0)), _RUNNING),
        "a window of one batch": Defect(with_method(advantage=advantages.window_std(1)), _WINDOW),
        "groups summed": Defect(_summed, _POINT),
        "prompts paid as their neighbors": Defect(_turned, _POINT),
    },
    effect=0.02,
    through="loop",
)
