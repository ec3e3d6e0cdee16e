"""Several passes through batches of a greedy engine, whose samples are all alike, under clipped objectives."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim import advantages, methods, policies, schedules, tasks, updates
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.learning.spec import Spec
from asyncsim.methods._weights import Ratio
from asyncsim.trials._plants import engine_replaced, with_method
from asyncsim.trials._runs import run
from asyncsim.trials._sequences import components, exactly
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced
from asyncsim.updates._link import chain

_CHANCE = Metric("chance", lambda step: step.token_mean(step.current["log_prob"]), ("log_prob",))
_OPEN = Metric("open", lambda step: 1.0 - step.token_mean((step.cotangents["log_prob"] == 0.0).double()), ("log_prob",))


def _method(point: Point) -> Any:
    clip, plain = point["clip"], advantages.none()
    if point["anchor"] == "decoupled":
        return methods.decoupled_ppo(clip, clip, advantage=plain)
    return methods.ppo_clip(clip, clip, anchor=point["anchor"], advantage=plain)


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    logits, parts = point["initial_logits"], point["minibatches"]
    arms, size = len(logits), parts * point["micro_batches"]
    spec = Spec(
        tasks.softmax_bandit(arms, (point["advantage"],) * arms, rewards="fixed"),
        schedules.fixed(0, groups_per_batch=size, batches_per_publish=point["batches"]),
        _method(point),
        chain(updates.sgd(point["step"])),
        policy=policies.tabular(1, arms, logits=[logits], top_k=1),
        samples_per_group=size,
        updates=point["batches"] * point["epochs"] * parts,
        epochs=point["epochs"],
        minibatches=parts,
        cut=point["cut"],
        micro_batches=point["micro_batches"],
        replicates=2,
        diagnostics=[_CHANCE, _OPEN],
    )
    trace = run(spec, seed, plant)
    final = trace.parameters[1]
    last = final[int(np.argmax(final))] - np.logaddexp.reduce(final)
    found = {"open": exactly(float(trace["open"][:, 1].mean()))}
    return found | components("log_prob", np.append(trace["chance"][:, 1], last)) | components("logit", final)


def _point(anchor: str, **changes: Any) -> dict[str, Any]:
    start = {"initial_logits": (0.8, 0.1, -0.5), "advantage": 0.9, "anchor": anchor, "clip": 0.15, "step": 0.3}
    counts = {"batches": 2, "epochs": 3, "minibatches": 2, "cut": "samples", "micro_batches": 2}
    return {**start, **counts, **changes}


_DECOUPLED, _PROXIMAL = _point("decoupled"), _point("proximal", cut="parts", minibatches=3)
_FALLING = _point("behavior", advantage=-0.6, clip=0.3, cut="groups", initial_logits=(1.6, 0.0, -0.5))
_WHOLE = _point("decoupled", minibatches=1, epochs=5)


def _anchored(anchor: str) -> Plant:
    return lambda spec: spec.replace(method=methods.ppo_clip(0.15, 0.15, anchor, advantages.none()))


trial = Trial(
    points=(_DECOUPLED, _PROXIMAL, _FALLING, _WHOLE),
    more=(_point("proximal", cut="tokens", micro_batches=1), _point("decoupled", batches=5, epochs=2)),
    measure=_measure,
    defects={
        "ratio to behavior": Defect(_anchored("behavior"), _PROXIMAL),
        "no correction of the start": Defect(_anchored("proximal"), _DECOUPLED),
        "no clip": Defect(with_method(weight=Ratio("token")), _FALLING),
        "one epoch": Defect(replaced(epochs=1), _DECOUPLED),
        "no minibatches": Defect(replaced(minibatches=1), _DECOUPLED),
        "a sampler that is not greedy": Defect(engine_replaced(top_k=0), _DECOUPLED),
    },
    effect=0.02,
    through="loop",
)
