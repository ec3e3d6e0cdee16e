"""Largest second moments of ratios: of policies a radius apart by enumeration, after stale updates by the loop."""

from __future__ import annotations

import numpy as np

from asyncsim import methods, schedules, tasks, updates
from asyncsim.base import rng
from asyncsim.learning.spec import Spec
from asyncsim.trials._plants import Tempered, momentum_inserted, with_policy
from asyncsim.trials._runs import metrics_of, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial
from asyncsim.trials.ratio._pairs import bandit, drawn
from asyncsim.updates._link import chain

_REPLICATES, _DRAWN = 2048, 200
_LIKELY = 20.0
"""Replicates that are expected to take the worst path; all miss it with a chance of e^-20."""


def _behavior(radius: float) -> np.ndarray:
    """Logits of the arm that rises and of the other, at which the second moment is largest."""
    return np.array([-radius, radius])


def _searched(point: Point, seed: int, plant: Plant) -> float:
    """Largest E W^2 of sequences: the worst pair, and drawn pairs with drawn changes of three logits."""
    radius, tokens = point["radius"], point["horizon"]
    worst = _behavior(radius)[None]
    behavior, _ = (each[:_DRAWN] for each in drawn(3, seed, "logit-radius"))
    shift = radius * (2.0 * rng.Stream(seed, "shift").uniform([[k] for k in range(_DRAWN)], range(3)) - 1.0)
    pairs = ((worst + radius * np.array([[1.0, -1.0]]), worst), (behavior + shift, behavior))
    found = [metrics_of(plant(bandit(pair[0].shape[1], ["chi_square"], tokens)), *pair)[0].max() for pair in pairs]
    return 1.0 + float(max(found))


def _moved(point: Point, count: int, seed: int, plant: Plant) -> tuple[np.ndarray, np.ndarray]:
    """Logits of every replicate after so many updates on data of the frozen first policy, and that policy's."""
    behavior = _behavior(_move(point) * point["staleness"])
    spec = Spec(
        tasks.softmax_bandit(2, (point["spread"], 0.0), rewards="fixed"),
        schedules.frozen(),
        methods.reinforce(),
        chain(updates.sgd(point["step"])),
        samples_per_group=point["samples"],
        updates=count,
        replicates=_REPLICATES,
        initial=behavior,
        diagnostics="none",
    )
    return run(spec, seed, plant).parameters, behavior[None]


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    after_one, behavior = _moved(point, 1, seed, plant)
    after_all, _ = _moved(point, point["staleness"], seed + 1, plant)
    stale = metrics_of(plant(bandit(2, ["chi_square"])), after_all, behavior)[0].max()
    read = {
        "second_moment": _searched(point, seed, plant),
        "move": float(np.abs(after_one - behavior).max()),
        "stale_second_moment": 1.0 + float(stale),
    }
    return {name: Estimate(x, tolerance=1e-9 * x, samples=_REPLICATES) for name, x in read.items()}


def _move(point: Point) -> float:
    """What half of a group of one arm moves its logit by."""
    half, N = point["samples"] // 2, point["samples"]
    return float(point["step"] * point["spread"] * half * (N - half) / (N * (N - 1)))


def _reach(point: Point) -> str | None:
    if 3 ** point["horizon"] > 1000:
        return "horizon at most 6; shorten it, longer sequences are too many to list"
    N, half = point["samples"], point["samples"] // 2
    share = 1.0 / (1.0 + np.exp(2.0 * _move(point) * point["staleness"]))
    splits = {half, N - half}
    each = sum(np.prod([(N - k + i) / i for i in range(1, k + 1)]) * share**k * (1 - share) ** (N - k) for k in splits)
    if _REPLICATES * each ** point["staleness"] < _LIKELY:
        return "a path that one in a hundred replicates takes; lower samples or staleness"
    return None


_POINT = {"radius": 0.7, "horizon": 1, "samples": 2, "spread": 1.0, "step": 0.6, "staleness": 3}

trial = Trial(
    points=(_POINT, {"radius": 0.3, "horizon": 4, "samples": 4, "spread": 2.0, "step": 0.3, "staleness": 2}),
    more=({**_POINT, "radius": 2.0, "horizon": 2, "samples": 5, "staleness": 1},),
    measure=_measure,
    defects={
        "momentum inserted": Defect(momentum_inserted, _POINT),
        "scored at another temperature": Defect(with_policy(Tempered), _POINT),
    },
    effect=0.02,
    reach=_reach,
    through="oracle, loop",
)
