"""Five effective sample sizes of sequences that a token ends, by enumeration through the product's metrics."""

from __future__ import annotations

from asyncsim import diagnostics, methods, tasks
from asyncsim.trials._plants import ShortProduct, with_policy
from asyncsim.trials._runs import metrics_of, population
from asyncsim.trials._sequences import ROUNDING, places, sequence_point
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced

_NAMES = ("sequence", "clamped", "pooled", "within", "frames")


def _metrics(clamped: diagnostics.Metric, within: object = "ess_within") -> list[object]:
    return ["ess", clamped, "ess_token", within, "ess_frames"]


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    task = tasks.token_bandit(point["actions"], point["horizon"], point["dependence"], ends=True)
    clamped = diagnostics.ess_token_clamped(point["clamp"], level="sequence")
    spec = plant(population(task, methods.full_is()).replace(diagnostics=_metrics(clamped)))
    found = metrics_of(spec, *places(point))
    return {name: Estimate(v.item(), tolerance=ROUNDING) for name, v in zip(_NAMES, found, strict=True)}


_EVEN = sequence_point("iid", 8, 1, clamp=2.0)
_UNEVEN = sequence_point("position", 4, 4, clamp=1.5)
_PER_TOKEN = diagnostics.ess_token_clamped(1.5)

trial = Trial(
    points=(_EVEN, _UNEVEN),
    more=(sequence_point("position", 3, 3, clamp=4.0),),
    measure=_measure,
    defects={
        "clamped ratios of tokens": Defect(replaced(diagnostics=_metrics(_PER_TOKEN)), _UNEVEN),
        "positions for what is inside a sample": Defect(
            replaced(diagnostics=_metrics(diagnostics.ess_token_clamped(1.5, level="sequence"), "ess_frames")), _UNEVEN
        ),
        "last token left out": Defect(with_policy(ShortProduct), _UNEVEN),
        "no token ends the sequence": Defect(
            lambda spec: spec.replace(task=tasks.token_bandit(3, 4, "position")), _UNEVEN
        ),
    },
    effect=0.02,
    through="oracle",
)
