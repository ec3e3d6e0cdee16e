"""Ratios to a sampler that is cut by top-p or top-k, by enumeration through the product's engine and metrics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from asyncsim import diagnostics, methods, tasks
from asyncsim.learning import oracle
from asyncsim.learning.batch import Batch
from asyncsim.learning.versions import View
from asyncsim.policies._policy import Forward
from asyncsim.trials._plants import Uncut, Unscored, engine_replaced, with_policy
from asyncsim.trials._runs import population
from asyncsim.trials._sequences import BEHAVIOR, exactly, places, sequence_point
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, Wrapped


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    task = tasks.token_bandit(point["actions"], point["horizon"], point["dependence"])
    policy = task.policy(top_p=point["top_p"], top_k=point["top_k"])
    spec = plant(population(task, methods.full_is()).replace(policy=policy))
    step = oracle.population_step(task, spec.method, *places(point), spec.policy)

    metrics: dict[str, Any] = {
        "mean_weight": diagnostics.mean_weight,
        "second_moment": diagnostics.chi_square,
        "ess": diagnostics.ess,
        "kl_mismatch": diagnostics.kl_mismatch,
        "kl_staleness": diagnostics.kl_staleness,
    }
    found = {name: metric.measure(step).item() + (name == "second_moment") for name, metric in metrics.items()}
    # Equal policies have no divergence, without rounding.
    return {name: exactly(value) if value else Estimate(value) for name, value in found.items()}


class _CutTwice(Wrapped):
    """A trainer that scores with what the engine makes of its weights."""

    def forward(self, view: View, batch: Batch, names: Iterable[str]) -> Forward:
        """Outputs at the cut table."""
        cut: Tensor = self._inner.install({"log_prob": view.weights["log_prob"][0]}, None)["sampled"]
        forward: Forward = self._inner.forward(
            View({**view.weights, "log_prob": cut[None]}, view.slot, view.realization), batch, names
        )
        return forward


def _cut(dependence: str, horizon: int, rows: int, **engine: Any) -> dict[str, Any]:
    """A point with unchanged weights."""
    unchanged = {"current_logits": BEHAVIOR[:rows], "top_p": 1.0, "top_k": 0}
    return sequence_point(dependence, horizon, rows) | unchanged | engine


_COMMON = _cut("position", 3, 3, top_p=0.7)
_STALE = sequence_point("markov", 4, 4, top_p=0.75, top_k=0)

trial = Trial(
    points=(_COMMON, _cut("markov", 5, 4, top_k=2), _STALE),
    more=(_cut("iid", 6, 1, top_p=0.8, top_k=2),),
    measure=_measure,
    defects={
        "kept mass forgotten": Defect(with_policy(Uncut), _COMMON),
        "trainer's log-probs recorded as the sampler's": Defect(with_policy(Unscored), _STALE),
        "trainer cut as well": Defect(with_policy(_CutTwice), _COMMON),
        "action that crosses top_p left out": Defect(engine_replaced(top_p=1.0, top_k=1), _COMMON),
    },
    effect=0.02,
    through="oracle",
)
