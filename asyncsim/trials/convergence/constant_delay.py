"""Mean squared gradient norm of stale descent on a quadratic, through the loop."""

from __future__ import annotations

from asyncsim import methods, running, schedules, tasks, updates, validation
from asyncsim.records import Estimate, Point
from asyncsim.spec import Spec
from asyncsim.trials._plants import off_by_one_version
from asyncsim.trials._trial import Defect, Plant, Trial
from asyncsim.uncertainty import between
from asyncsim.updates._link import chain

_SPREAD = 0.25
"""Relative standard deviation of one replicate's mean square at the points below (measured)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    # Where the measurement is at 0.97 of the bound, a bound lower by the effect is exceeded by 0.02 at least.
    replicates = validation.sample_size(_SPREAD, 0.4 * effect, 1.0, 1e-3, 0.05, comparisons=4, kind="bound")
    spec = Spec(
        tasks.quadratic((point["curvature"],), noise=point["noise"], start=point["start"]),
        schedules.fixed(point["staleness"]),
        methods.gradient(),
        chain(updates.sgd(point["step"])),
        samples_per_group=1,
        updates=point["updates"],
        replicates=replicates,
        diagnostics=["exact_gradient_norm"],
    )
    trace = running.run(plant(spec), seed=seed, progress=False)
    return {"bound": between((trace["exact_gradient_norm"] ** 2).mean(axis=0))}


_TIGHT = {"curvature": 1.0, "staleness": 0, "step": 1.0, "noise": 1.0, "start": 1.0, "updates": 400}
_FROM_AFAR = {**_TIGHT, "start": 5.0, "updates": 4}
"""Here the initial gap decides."""

trial = Trial(
    claim="convergence/constant-delay",
    points=(_TIGHT, _FROM_AFAR, {**_TIGHT, "staleness": 4, "step": 0.2}, {**_TIGHT, "staleness": 16, "step": 1.0 / 17}),
    more=({**_TIGHT, "curvature": 2.0, "step": 0.5, "updates": 1000},),
    measure=_measure,
    defects={"off-by-one version": Defect(off_by_one_version, _TIGHT)},
    effect=0.05,
    through="loop",
)
