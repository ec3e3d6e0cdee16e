"""Arms of alignment control around Adam and plain descent, side by side along the replicate axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim import advantages, methods, tasks, updates
from asyncsim.claims.lab import quadratics as _projection
from asyncsim.running import running
from asyncsim.running.spec import Spec
from asyncsim.schedules.imposed import fixed
from asyncsim.updates._link import chain

ADAM: dict[str, Any] = {
    "none": ({}, {}, 0.9),
    "before": ({"strength": 1.0}, {}, 0.9),
    "behind": ({}, {"strength": 1.0}, 0.9),
    "none without momentum": ({}, {}, 0.0),
    "before without momentum": ({"strength": 1.0}, {}, 0.0),
    "behind without momentum": ({}, {"strength": 1.0}, 0.0),
    "before, default": ({"low": 0.05, "high": 0.3, "strength": 1.0}, {}, 0.9),
    "behind, default": ({}, {"low": 0.05, "high": 0.3, "strength": 1.0}, 0.9),
}
"""Settings of the control in front of Adam and of that behind it, and Adam's beta1."""
OFF = {"low": 0.0, "high": 1.0, "strength": 0.0}
"""A control that removes nothing; with strength 1 the full projection of whatever is aligned."""
DESCENT = ("none", "half", "applied", "raw")
CURVATURE, OTHERS, FAR = 1.0, 20, 1e6
DIMENSION, SAMPLES, START = 16, 16, 1.0


def around_adam(arms: list[str], each: int, lr: np.ndarray) -> Any:
    """The chain of `each` replicates of every arm, in order; `lr` of every replicate."""
    settings = [[{**OFF, **ADAM[arm][side]} for arm in arms] for side in (0, 1)]
    sides: list[dict[str, Any]] = [
        {name: np.repeat([one[name] for one in listed], each) for name in OFF} for listed in settings
    ]
    beta1 = np.repeat([ADAM[arm][2] for arm in arms], each)
    return chain(updates.align(**sides[0]), updates.adam(lr, beta1=beta1), updates.align(**sides[1]))


def shrinkage(setting: dict[str, Any]) -> dict[str, np.ndarray]:
    """How far the mean's coordinates went under Adam with the projection where an arm has it, `[signals, R]`."""
    signals = np.asarray(setting["signals"])
    control = _projection.projection(setting["reference"], setting["strength"], setting["dimension"])
    still, moving = (updates.adam(1e-8, beta1, setting["beta2"], 0.0) for beta1 in (0.0, 0.9))
    arms = {
        "none": (still,),
        "before": (control, moving),
        "behind without momentum": (still, control),
        "behind": (moving, control),
    }
    return {
        arm: _projection.constant_mean(
            setting["dimension"], int(setting["reference"] == "known"), np.repeat(signals, setting["replicates"]),
            links, setting["updates"], setting["after"], setting["seed"], lambda spec: spec,
        ).reshape(len(signals), -1)
        for arm, links in arms.items()
    }  # fmt: skip


def descent(arm: str, steps: np.ndarray, staleness: int, updates_: int) -> Spec:
    """Plain descent from far away under one arm, a step for each replicate."""
    strength = {"none": 0.0, "half": 0.5}.get(arm, 1.0)
    control = updates.align(low=0.0, high=1.0, strength=strength, reference="applied" if arm == "applied" else "raw")
    links = (control, updates.sgd(steps))
    return _projection.far_away(CURVATURE, 1.0, OTHERS, FAR, links, staleness, updates_, len(steps))


def boundary(arm: str, staleness: int, low: float, high: float, setting: dict[str, Any]) -> tuple[float, float]:
    """Bracket of the step from which on most replicates grow; two grids, several replicates a step."""
    length = setting["periods"] * (4 * staleness + 2)
    for _ in range(2):
        steps = np.geomspace(low, high, setting["steps"])
        spec = descent(arm, np.repeat(steps, setting["replicates"]), staleness, length)
        path = running.run(spec, seed=setting["seed"], progress=False)["along"]
        growing = _projection.grown(path, staleness).reshape(len(steps), -1).mean(axis=1) > 0.5
        first = int(np.argmax(growing))
        if first == 0:
            return float("nan"), float("nan")
        low, high = float(steps[first - 1]), float(steps[first])
    return low, high


def amplitude(setting: dict[str, Any]) -> dict[str, np.ndarray]:
    """Root mean square of the mode over the second half of a run, in units of the step, `[R]` for each arm."""
    arms, each = setting["arms"], setting["replicates"]
    curvature = setting["stiffness"] / setting["step"]
    # Started at three steps from the minimum, where its gradient drowns the noise.
    distance = 3.0 * setting["stiffness"] / OTHERS**0.5
    lr = np.full(len(arms) * each, setting["step"])
    links = around_adam(arms, each, lr).links
    length = setting["updates"]
    spec = _projection.far_away(curvature, 1.0, OTHERS, distance, links, setting["staleness"], length, len(lr))
    path = running.run(spec, seed=setting["seed"], progress=False)["along"][length // 2 :]
    size = np.sqrt((path**2).mean(axis=0)) / setting["step"]
    return dict(zip(arms, size.reshape(len(arms), each), strict=True))


def learning(setting: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Regret over the last tenth of the updates as a share of the initial one, and the share of updates that the
    control behind Adam skipped, each `[arms, steps, R]`."""
    arms, steps, each = setting["arms"], np.asarray(setting["learning_rates"]), setting["replicates"]
    lr = np.tile(np.repeat(steps, each), len(arms))
    task = tasks.gaussian_bandit(dimension=DIMENSION, start=START)
    spec = Spec(
        task,
        fixed(setting["staleness"]),
        methods.reinforce(advantage=advantages.leave_one_out()),
        around_adam(arms, len(steps) * each, lr),
        samples_per_group=SAMPLES,
        updates=setting["updates"],
        replicates=len(lr),
        diagnostics=["exact_return"],
        every=max(1, setting["updates"] // 40),
    )
    trace = running.run(spec, seed=setting["seed"], progress=False)
    # Of a normal policy of width 1 at the target.
    best, first = -0.5 * DIMENSION, trace["exact_return"][0]
    with np.errstate(over="ignore", invalid="ignore"):
        final = (best - trace["exact_return"][-4:].mean(axis=0)) / (best - first)
    # The second control of the chain reports last.
    skipped = trace["align_skipped"].mean(axis=0)
    shape = (len(arms), len(steps), each)
    return final.reshape(shape), skipped.reshape(shape)
