"""Paths of a stale bandit's population under every link of an update chain, through the loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim import advantages, methods, tasks, updates
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.learning.spec import Spec
from asyncsim.schedules._imposed import Imposed
from asyncsim.trials._plants import off_by_one_version
from asyncsim.trials._runs import ascent, run
from asyncsim.trials._sequences import components
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial
from asyncsim.updates._link import Chain, Link, Record, State, Stateless, chain


@dataclass(frozen=True)
class _Lost(Stateless):
    """An instrument: one coordinate of the gradient of an update is not a number."""

    at: int

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        """Lose it."""
        if record.step.update == self.at:
            record.direction = record.direction.clone()
            record.direction[:, -1] = torch.nan
        return record, state


def _links(point: Point) -> tuple[Link, ...]:
    """The links behind the one that skips; what scales steps stands behind the learning rate."""
    sgd, strength = updates.sgd(point["step"]), point["strength"]
    beta1, beta2, eps = point["beta1"], point["beta2"], point["eps"]
    made: dict[str, tuple[Link, ...]] = {
        "scale": (sgd, updates.scale(strength)),
        "momentum": (updates.momentum(beta1), sgd),
        "adam": (updates.adam(point["step"], beta1, beta2, eps),),
        "gono": (updates.gono(point["step"], strength, beta1, beta2, eps=eps),),
        "clip_norm": (updates.clip_norm(strength), sgd),
        "staleness_step": (sgd, updates.staleness_step()),
        "lr_by_lag": (sgd, updates.lr_by_lag()),
        # A reference is a share of the samples, whatever the strength of other links.
        "ess_sqrt": (sgd, updates.ess_step("sqrt", reference=min(strength, 1.0))),
        "ess_linear": (sgd, updates.ess_step("linear", reference=min(strength, 1.0))),
    }
    return made[point["link"]]


def _logit(k: int) -> Metric:
    def read(step: Any) -> Tensor:
        place: Tensor = step.parameters[:, k]
        return place

    return Metric(f"logit{k}", read)


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    arms = range(len(point["rewards"]))
    task = tasks.softmax_bandit(len(arms), point["rewards"], rewards="fixed", logits=point["initial_logits"])
    lags = np.array([[point["versions"]], [point["versions"] - point["newer"]]])
    system = Imposed(
        "two ages",
        {},
        lambda request: np.maximum(request.train_version[:, None, None] - lags, 0),
        groups_per_batch=2,
        batches_per_publish=point["batches"],
    )
    method = methods.reinforce(advantages.group_mean())
    spec = ascent(task, system, method, 1.0, point["updates"], diagnostics=[_logit(k) for k in arms])
    spec = spec.replace(epochs=point["epochs"])
    links = (_Lost(point["lost"]), updates.skip_nonfinite(), *_links(point))
    trace = run(spec.replace(update=chain(*links)), seed, plant)
    path = np.append(np.stack([trace[f"logit{k}"][:, 0] for k in arms], 1), trace.parameters, axis=0)
    lengths = np.linalg.norm(np.diff(path, axis=0), axis=1)
    return components("length", lengths) | components("logit", path[-1])


def _links_changed(change: Any) -> Plant:
    """A plant: other links behind the instrument that loses a gradient."""
    return lambda spec: spec.replace(update=Chain((spec.update.links[0], *change(spec.update.links[1:]))))


@dataclass(frozen=True)
class _EachClipped(Stateless):
    """Every coordinate limited by itself."""

    limit: float

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        """Clamp."""
        record.direction = record.direction.clamp(-self.limit, self.limit)
        return record, state


def _uncorrected(spec: Spec) -> Spec:
    """Moments that are not corrected for their start at 0, at the last update."""
    adam: Any = spec.update.links[-1]
    count = spec.updates - 1
    factor = (1.0 - adam.beta1**count) / (1.0 - adam.beta2**count) ** 0.5
    return spec.replace(update=Chain((*spec.update.links, updates.scale(factor))))


def _point(link: str, **changes: Any) -> dict[str, Any]:
    arms = {"rewards": (0.1, 0.9, 0.4), "initial_logits": (0.5, -0.3, 0.1)}
    own = {"link": link, "step": 0.6, "strength": 0.5, "beta1": 0.8, "beta2": 0.9, "eps": 0.02}
    return {**arms, **own, "versions": 2, "batches": 2, "newer": 1, "epochs": 2, "updates": 16, "lost": 3, **changes}


_SLOW = {"clip_norm": {"strength": 0.15, "step": 3.0}, "ess_sqrt": {"strength": 0.95, "step": 3.0}}
_AT = {
    name: _point(name, **_SLOW.get(name, {}))
    for name in ("adam", "gono", "momentum", "clip_norm", "staleness_step", "lr_by_lag", "ess_sqrt")
}
_LINEAR = _point("ess_linear", **_SLOW["ess_sqrt"])

trial = Trial(
    points=(*_AT.values(), _LINEAR, _point("scale")),
    more=(_point("adam", versions=0, newer=0, batches=1), _point("gono", strength=0.2, beta1=0.3)),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _AT["momentum"]),
        "a lost update not skipped": Defect(_links_changed(lambda links: links[1:]), _AT["momentum"]),
        "moments not corrected": Defect(_uncorrected, _AT["adam"]),
        "eps without effect": Defect(
            lambda spec: spec.replace(update=Chain((*spec.update.links[:-1], updates.adam(0.6, 0.8, 0.9)))), _AT["adam"]
        ),
        "momentum that does not follow the cosine": Defect(
            _links_changed(lambda links: (links[0], updates.adam(0.6, 0.8, 0.9, 0.02))), _AT["gono"]
        ),
        "factor 1 - beta on the gradient": Defect(
            _links_changed(lambda links: (*links, updates.scale(0.2))), _AT["momentum"]
        ),
        "every coordinate clipped by itself": Defect(
            _links_changed(lambda links: (links[0], _EachClipped(0.15), links[2])), _AT["clip_norm"]
        ),
        "clipped behind the learning rate": Defect(
            _links_changed(lambda links: (links[0], links[2], links[1])), _AT["clip_norm"]
        ),
        "staleness of the batch for the largest so far": Defect(
            _links_changed(lambda links: (*links[:-1], updates.staleness_step())), _AT["lr_by_lag"]
        ),
        "largest staleness so far for the batch's": Defect(
            _links_changed(lambda links: (*links[:-1], updates.lr_by_lag())), _AT["staleness_step"]
        ),
        "ESS for its root": Defect(
            _links_changed(lambda links: (*links[:-1], updates.ess_step("linear", 0.95))), _AT["ess_sqrt"]
        ),
        "no reference of the ESS": Defect(
            _links_changed(lambda links: (*links[:-1], updates.ess_step("linear"))), _LINEAR
        ),
    },
    effect=0.02,
    through="loop",
)
