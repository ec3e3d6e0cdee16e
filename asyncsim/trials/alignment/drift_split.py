"""Population gradients on stale data without a ratio, under a fixed baseline and the batch's mean, by the oracle."""

from __future__ import annotations

from asyncsim import advantages, methods
from asyncsim.learning import oracle
from asyncsim.methods._weights import Ratio
from asyncsim.trials._plants import Tempered, with_method, with_policy
from asyncsim.trials._sequences import components, places, planted, sequence_point
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    baselines = {"total": advantages.offset(point["baseline"]), "signal": advantages.mean()}
    specs = {name: planted(point, methods.reinforce(baseline), plant) for name, baseline in baselines.items()}
    found = {name: oracle.limit(spec.task, spec.method, *places(point), spec.policy) for name, spec in specs.items()}
    found["drift"] = found["total"] - found["signal"]
    return {key: each for name, vector in found.items() for key, each in components(name, vector).items()}


_IID = sequence_point("iid", 5, 1, success=None, baseline=0.1)
_MARKOV = sequence_point("markov", 4, 4, success=0.5, baseline=-0.3)

trial = Trial(
    points=(_IID, sequence_point("position", 3, 3, success=1.0, baseline=-0.5), _MARKOV),
    more=(sequence_point("markov", 7, 4, success=0.7, baseline=0.05),),
    measure=_measure,
    defects={
        "baseline forgotten": Defect(with_method(advantage=advantages.none()), _MARKOV),
        "ratio applied": Defect(with_method(weight=Ratio("sequence", None)), _MARKOV),
        "scored at another temperature": Defect(with_policy(Tempered), _IID),
    },
    effect=0.02,
    through="oracle",
)
