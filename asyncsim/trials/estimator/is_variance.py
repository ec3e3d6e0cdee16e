"""Exact total variance of importance-sampled gradients, beside that of fresh data, by the oracle."""

from __future__ import annotations

from asyncsim import advantages, methods, tasks
from asyncsim.learning import oracle
from asyncsim.trials._plants import ShortProduct, dropped_ratio, with_policy
from asyncsim.trials._runs import population
from asyncsim.trials._sequences import cut_off, exactly, places, sequence_point, token_level
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_BATCHES = 200_000


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    settings = point["actions"], point["horizon"], point["dependence"]
    task = tasks.token_bandit(*settings, success=point.get("success"))
    spec = plant(population(task, methods.full_is(advantage=advantages.offset(point["offset"]))))
    current, behavior = places(point)
    allowance = 10.0 * cut_off(task, point, 2.0)
    stale, fresh = (
        oracle.moments(task, spec.method, current, then, samples=point["samples"], policy=spec.policy).variance
        for then in (behavior, current)
    )
    found = {"variance": exactly(stale), "inflation": exactly(stale / fresh)}
    return {name: each._replace(tolerance=each.tolerance + allowance * each.value) for name, each in found.items()}


def _reach(point: Point) -> str | None:
    few = point["actions"] ** (point["horizon"] * point["samples"]) <= _BATCHES
    return None if few else f"samples such that actions**(horizon samples) <= {_BATCHES}; take fewer"


_MARKOV = sequence_point("markov", 3, 4, success=0.5, offset=0.3, samples=1)
_TWO_ARMS = {
    "actions": 2, "horizon": 1, "dependence": "iid", "success": 1.0, "offset": 0.0, "samples": 3,
    "behavior_logits": ((0.0, 0.0),), "current_logits": ((1.0986, -1.0986),),
}  # fmt: skip

trial = Trial(
    points=(sequence_point("position", 3, 3, success=None, offset=0.6, samples=1), _MARKOV, _TWO_ARMS),
    more=(sequence_point("iid", 6, 1, success=0.5, offset=0.0, samples=1),),
    measure=_measure,
    defects={
        "dropped ratio": Defect(dropped_ratio, _MARKOV),
        "token ratio in place of the sequence's": Defect(token_level(), _MARKOV),
        "last token left out": Defect(with_policy(ShortProduct), _MARKOV),
    },
    effect=0.02,
    reach=_reach,
    through="oracle",
)
