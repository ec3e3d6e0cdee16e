"""Distance and gradient energy of the stationary stale Gaussian bandit, through the loop."""

from __future__ import annotations

from asyncsim import advantages
from asyncsim.base.uncertainty import between
from asyncsim.trials._plants import off_by_one_version, with_method
from asyncsim.trials._runs import run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, units_for
from asyncsim.trials.staleness._gaussian import bandit, settled, warm_up

_UPDATES = 100


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    # Standard deviation of one replicate's mean, relative, at the points below (measured); longer delays decay slower.
    spread = 0.33 if point["staleness"] < 2 else 0.41
    replicates, skipped = units_for(spread, effect, 4), warm_up(point)
    metrics = ["exact_gradient_norm", "gradient_norm"]
    trace = run(bandit(point, skipped + _UPDATES, replicates, metrics), seed, plant)
    exact, norm = (trace[name][skipped:] for name in metrics)
    read = {"second_moment": (exact / point["curvature"]) ** 2, "energy": norm**2}
    return {name: between(x.mean(axis=0)) for name, x in read.items()}


_POINT = {"staleness": 1, "samples": 12, "curvature": 2.0, "width": 0.5, "step": 0.175}

trial = Trial(
    points=(_POINT,),
    more=({**_POINT, "staleness": 3, "step": 0.075},),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _POINT),
        "own reward in the baseline": Defect(with_method(advantage=advantages.group_mean()), _POINT),
        "two samples fewer in a group": Defect(replaced(samples_per_group=10), _POINT),
    },
    effect=0.02,
    reach=settled,
    through="loop",
)
